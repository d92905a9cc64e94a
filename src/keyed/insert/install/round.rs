//! [`Round`]: how one attempt to give a key its cell went.

use crate::decision::Decision;
use crate::keyed::insert::survey::Seen;

/// How a round went.
pub(super) enum Round {
    Decided(Decision),
    /// The claim is held and verified: no other thread can open this key.
    Verified(Seen),
    /// Another thread was in the way: search and survey again.
    Lost,
    /// A floor has to advance first, of this shard: until now is near.
    Follow(usize),
    /// As far as now allows, so that idle words are free to take.
    Advance(usize),
}
