//! The kinds of worlds, of requests and of times.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Check,
    Peek,
    UpTo,
    Charge,
    Refund,
    Reserve,
    Cancel,
    Queue,
    Acquire,
    Reset,
    Many,
    All,
    Lease,
    Return,
    SetQuota,
    MoveKey,
    Snapshot,
}

/// All verbs, in the order of their declaration.
pub(crate) const VERBS: [Verb; 17] = [
    Verb::Check,
    Verb::Peek,
    Verb::UpTo,
    Verb::Charge,
    Verb::Refund,
    Verb::Reserve,
    Verb::Cancel,
    Verb::Queue,
    Verb::Acquire,
    Verb::Reset,
    Verb::Many,
    Verb::All,
    Verb::Lease,
    Verb::Return,
    Verb::SetQuota,
    Verb::MoveKey,
    Verb::Snapshot,
];

/// The kind of limiter in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// A limit, a limit that may change, and a table with or without a spill. All are under GCRA and have every verb.
    Gcra,
    /// Like [`Gcra`](Self::Gcra), with tiers in the table, whose quotas change and whose keys move.
    Tiers,
    /// Like [`Gcra`](Self::Gcra), under windows.
    Windows,
    Striped,
    Sketch,
    Log,
    Logs,
    /// A sliding log whose limit is changed while requests run. In the end the first limit is set again, to judge what
    /// is left.
    LiveLog,
}

/// The families of 16 successive seeds. Tables have the most seeds, because most of what can go wrong is in tables.
const SHARES: [Family; 16] = [
    Family::Gcra,
    Family::Gcra,
    Family::Gcra,
    Family::Gcra,
    Family::Gcra,
    Family::LiveLog,
    Family::Tiers,
    Family::Tiers,
    Family::Tiers,
    Family::Windows,
    Family::Windows,
    Family::Sketch,
    Family::Sketch,
    Family::Striped,
    Family::Log,
    Family::Logs,
];

impl Family {
    /// The family of the world that this seed makes.
    pub(crate) fn of(seed: u64) -> Self {
        SHARES[usize::try_from(seed % 16).expect("below 16")]
    }

    /// The first seed of this family that is not below `seed`.
    pub(crate) fn seed_from(self, seed: u64) -> u64 {
        let mut seeds = (0..16).map(|more| seed.wrapping_add(more));
        seeds.find(|&seed| Self::of(seed) == self).expect("every family has its share")
    }
}

/// The situation that the requests of a shop's threads create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// All verbs are used; two of them are called more often than the others.
    Verbs,
    /// A few new keys in a table full of other keys (strangers), some of which are idle.
    Newcomers,
    /// Like [`Newcomers`](Self::Newcomers), but no cell is free until strangers have become idle.
    Crowd,
}

/// The times of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// The callers give the times, which are all equal.
    Still,
    /// The callers give the times, which differ between threads: late, early, backward and far ahead.
    Skewed,
    /// One clock, which the threads advance.
    Clock,
    /// One clock, which the threads turn forward and back.
    Backward,
}

/// One request of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) verb: Verb,
    pub(crate) key: u64,
    pub(crate) cost: u64,
    /// The caller's now. In a world with a clock, the time to which the clock is set or advanced.
    pub(crate) time_ns: u64,
    pub(crate) wait_ns: u64,
}

impl Scene {
    /// The scenes of which a shop's world draws one.
    pub(crate) const SHARES: [Self; 4] = [Self::Verbs, Self::Verbs, Self::Newcomers, Self::Crowd];
}

impl Time {
    /// The kinds of times of which a world draws one.
    pub(crate) const SHARES: [Self; 8] = [
        Self::Still,
        Self::Still,
        Self::Skewed,
        Self::Skewed,
        Self::Skewed,
        Self::Clock,
        Self::Clock,
        Self::Backward,
    ];
}
