//! The minimal interface of an algorithm.

use num_bigint::BigUint;

/// The questions that define an algorithm.
///
/// `admits` is monotonic: as long as the state does not change, a cost that is admitted at one time is admitted at
/// all later times, and so is every smaller cost.
pub(crate) trait Definition {
    /// Whether `cost` units fit at `now`.
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool;

    /// Charges `cost` units, at least one, that were admitted at `now`.
    fn charge(&mut self, now: &BigUint, cost: &BigUint);

    /// Charges `cost` units, at least one, that were denied at `now`, up to the bound that
    /// [`CountDenied`](crate::CountDenied) describes.
    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, wait: Option<&BigUint>);

    /// Gives back the part of `units`, charged at `then`, that is still owed at `now`, and returns the number of units
    /// given back, rounded up. Of windows, only the one that was charged last gives units back. The caller checks by
    /// `place` that this window counted the units.
    fn give_back(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint;

    /// Like `give_back`, for the `units` that were charged last. They may be a place in a queue, whose turn is still to
    /// come.
    fn undo(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint {
        self.give_back(now, then, units)
    }

    /// The window or segment in which a charge at `now` would count. GCRA has a single place.
    fn place(&self, now: &BigUint) -> BigUint;

    /// Deletes every charge. The state does not forget the time: under GCRA nothing is admitted before `now`.
    fn reset(&mut self, now: &BigUint);

    /// Changes only the limit.
    fn set_limit(&mut self, limit: &BigUint);

    /// Whether no request at `now` or later can distinguish this state from a new one.
    fn is_idle(&self, now: &BigUint) -> bool;
}
