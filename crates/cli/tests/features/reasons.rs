//! Why a place refuses a policy. A refusal without a reason here fails the test.

/// Why there is no *yes*: it is nowhere for want of work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It cannot be, or has no meaning: the argument.
    Never(&'static str),
    /// There is nothing that it could mean there, and the place decides as without it: why.
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
    "Stripes spread threads over several words. A log has a slot for each unit, so threads do not meet on one word.",
);
const STRIPED_DENIALS: Refusal = Never(
    "A denial is one of the whole limit, and a stripe sees its own alone: it could count neither what was denied nor \
     denials in a row.",
);
const SKETCH_FROM_FIRST: Refusal =
    Never("Keys share the cells of a sketch, and a cell has one beginning of its window.");
const SKETCH_LOG: Refusal = Never(
    "A log keeps times for each key, and a sketch keeps nothing for a key: that is how its memory is fixed for any \
     number of keys.",
);
const SKETCH_DENIALS: Refusal = Never(
    "Keys share the cells of a sketch: what is charged for the denials of one, or refused as its penalty, others would \
     pay for.",
);
const TIERS_OF_LOGS: Refusal = Never(
    "Tiers are several quotas in one memory: a cell that a key of one tier leaves is as large as a key of any other needs. \
     An entry of a log is as large as its limit: one that may serve every tier would be as large as the largest tier's, \
     for each key of the smallest. Without that memory nothing is shared: a KeyedLimiter for each plan is the same, and a \
     key moves by a charge in the new one of what it has spent in the old.",
);
const REDIS_LOG: Refusal = Never(
    "Each unit of a log counts from its very instant, and a node that decides by itself tells the store of it before \
     or after.",
);
const REDIS_DENIALS: Refusal = Never(
    "A node that decides by itself does not know in which order others admit and deny, and to tell the store of every \
     denial takes as many calls as mode exact.",
);

const DIVIDED_QUEUE: Refusal = Never(
    "A turn is one of the whole limit, and cells of a sketch are of many keys: stripes and sketches have no verb that \
     waits.",
);
const LEASED_QUEUE: Refusal =
    NoMeaning("A lease holds units that are there now, and its holder does not wait.");

/// The reason for which this place refuses this policy.
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
        "`Tiers`" if log => TIERS_OF_LOGS,
        _ if place.starts_with("Redis") && log => REDIS_LOG,
        _ if place.starts_with("Redis") && counts_denials => REDIS_DENIALS,
        "stripes" | "sketch" if queue => DIVIDED_QUEUE,
        "lease" if queue => LEASED_QUEUE,
        _ => return None,
    })
}
