//! Kinds of worlds, of requests and of times.

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

/// All verbs, in their order.
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

/// The limiters that a world has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// A limit, one that may change, and a table with a spill or without, under GCRA: every verb.
    Gcra,
    /// The same with tiers in the table, whose quotas change and whose keys move.
    Tiers,
    /// The same under windows.
    Windows,
    Striped,
    Sketch,
    Log,
    Logs,
    /// A sliding log whose count changes to and fro.
    LiveLog,
}

/// The families of 16 seeds: tables have the most that can go wrong, so they have most seeds.
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
    /// The family of a seed's world.
    pub(crate) fn of(seed: u64) -> Self {
        SHARES[usize::try_from(seed % 16).expect("below 16")]
    }

    /// The seed of this family that is nearest from here on.
    pub(crate) fn seed_from(self, seed: u64) -> u64 {
        let mut seeds = (0..16).map(|more| seed.wrapping_add(more));
        seeds.find(|&seed| Self::of(seed) == self).expect("every family has its share")
    }
}

/// What the requests of a shop's threads are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Every verb, two of them more often than the others.
    Verbs,
    /// A few new keys in a table of strangers, some of them idle.
    Newcomers,
    /// The same where no cell is left until strangers have become idle.
    Crowd,
}

/// The times of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Times of the callers, all the same.
    Still,
    /// Times of the callers, each thread's own: late, early, back and far ahead.
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
    /// The caller's now; with a clock, what it is set to or advanced by.
    pub(crate) time_ns: u64,
    pub(crate) wait_ns: u64,
}

impl Scene {
    /// The scenes of four worlds of a shop.
    pub(crate) const SHARES: [Self; 4] = [Self::Verbs, Self::Verbs, Self::Newcomers, Self::Crowd];
}

impl Time {
    /// The times of eight worlds.
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
