//! The reasons why places refuse policies. A refusal without a reason here fails the test.

/// The reason why a place has no *yes*. No place lacks a policy only because nobody wrote it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The place refuses the policy, for this reason.
    Never(&'static str),
    /// This part of the policy has no meaning there, for this reason; the place decides as if it were left out.
    NoMeaning(&'static str),
}

use Refusal::{Never, NoMeaning};

impl Refusal {
    pub(crate) fn why(self) -> &'static str {
        let (Never(why) | NoMeaning(why)) = self;
        why
    }
}

const STRIPED_LOG: Refusal = Never(
    "Stripes exist because threads meet on one word. A log has a slot for each unit, so its threads do not meet.",
);
const STRIPED_DENIALS: Refusal = Never(
    "A stripe sees its own denials alone. It could count neither all that was denied nor the denials in a row.",
);
const SKETCH_FROM_FIRST: Refusal = Never(
    "The keys of a sketch share its cells, and a cell can hold the beginning of one window only.",
);
const SKETCH_LOG: Refusal = Never(
    "A log keeps the times of each key. A sketch keeps nothing for a single key: that is how its memory stays fixed \
     for any number of keys.",
);
const SKETCH_DENIALS: Refusal = Never(
    "The keys of a sketch share its cells, so other keys would pay for the denials and the penalties of one.",
);
const TIERS_OF_LOGS: Refusal = Never(
    "Tiers share cells of one size, and an entry of a log is as large as its limit: each key of the smallest tier would \
     take the memory of the largest. Use a KeyedLimiter for each plan instead. When a key moves to another plan, charge \
     it there for what it has spent.",
);
const REDIS_LOG: Refusal = Never(
    "A log needs the exact instant of each unit. A node that decides by itself reports its units to the store at other \
     times than it admits them.",
);
const REDIS_DENIALS: Refusal = Never(
    "A node that decides by itself does not know in which order other nodes admit and deny. If it reported every denial \
     to the store, it would make as many calls as in mode exact.",
);

const DIVIDED_QUEUE: Refusal = Never(
    "A queue needs one word for the whole limit. Stripes have several, and the keys of a sketch share theirs, so neither \
     has a verb that waits.",
);
const LEASED_QUEUE: Refusal =
    NoMeaning("A lease takes only units that are available now, so its holder never waits.");

/// Returns the reason for which this place refuses this policy.
pub(crate) fn reason(policy: &str, place: &str) -> Option<Refusal> {
    let says = |word: &str| policy.contains(word);
    let log = says("sliding-log");
    let counts_denials = says("count-denied") || says("penalty");
    let queue = says("queue") || says("wait");
    Some(match place {
        "stripes" if log => STRIPED_LOG,
        "stripes" if counts_denials => STRIPED_DENIALS,
        "sketch" if log => SKETCH_LOG,
        "sketch" if counts_denials => SKETCH_DENIALS,
        "sketch" if says("from-first") => SKETCH_FROM_FIRST,
        "several tiers" if log => TIERS_OF_LOGS,
        _ if place.starts_with("Redis") && log => REDIS_LOG,
        _ if place.starts_with("Redis") && counts_denials => REDIS_DENIALS,
        "stripes" | "sketch" if queue => DIVIDED_QUEUE,
        "lease" if queue => LEASED_QUEUE,
        _ => return None,
    })
}
