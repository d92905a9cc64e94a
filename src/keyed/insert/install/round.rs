//! [`Round`]: the result of one attempt to give a key its cell.

use crate::decision::Decision;
use crate::keyed::insert::survey::Seen;

/// The result of a round.
pub(super) enum Round {
    Decided(Decision),
    /// The claim is held and verified: no other thread can open this key.
    Verified(Seen),
    /// Another thread was in the way. The caller searches and surveys again.
    Lost,
    /// The floor of this shard has to follow first, until now is near to it.
    Follow(usize),
    /// The floor of this shard has to advance first, as far as now allows. Then idle words are free to take, or the
    /// key's start is near to it.
    Advance(usize),
}
