//! [`Round`]: the result of one attempt to give a key its cell.

use crate::decision::Decision;
use crate::keyed::insert::survey::Seen;

/// The result of one round of an install.
pub(super) enum Round {
    Decided(Decision),
    /// The claim is verified: while it stands, no other thread can open a cell for this key.
    Verified(Seen),
    /// Another thread was in the way. The caller searches and surveys again.
    Lost,
    /// The floor of this shard must first follow the request's time until that time is near to it.
    Follow(usize),
    /// The floor of this shard must first advance as far as the request's time allows. At the later floor, a word is
    /// idle or the key's start is near to the floor.
    Advance(usize),
}
