//! What every algorithm must be able to say about itself, and nothing more.

use num_bigint::BigUint;

/// The three questions that describe an algorithm.
///
/// `admits` never falls back: with the state left alone, a cost admitted at one time is admitted
/// at all later times, and so is every smaller cost.
pub(crate) trait Definition {
    /// Whether `cost` units fit at `now`.
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool;

    /// Takes `cost` units, at least one, that were admitted at `now`.
    fn charge(&mut self, now: &BigUint, cost: &BigUint);

    /// Charges `cost` units, at least one, that were denied at `now`: up to the stop that is described
    /// with [`CountDenied`](crate::CountDenied).
    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, wait: Option<&BigUint>);

    /// Takes back what is still owed at `now` of `units` that were charged at `then`, and says how many units
    /// that is, rounded up. Of a window: what the one charged last has counted.
    fn give_back(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint;

    /// The same of `units` that were charged last, for a place that may still have been in the future.
    fn undo(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint {
        self.give_back(now, then, units)
    }

    /// The window (segment) that a charge at `now` would count in; GCRA has one alone.
    fn place(&self, now: &BigUint) -> BigUint;

    /// Forgets every charge. What the state knows of time stays: of GCRA nothing is admitted before `now`.
    fn reset(&mut self, now: &BigUint);

    /// Changes the limit, and nothing of the state.
    fn set_limit(&mut self, limit: &BigUint);

    /// Whether nothing asked at `now` or later can tell this state from a new one.
    fn is_idle(&self, now: &BigUint) -> bool;
}
