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

    /// Changes the limit, and nothing of the state.
    fn set_limit(&mut self, limit: &BigUint);

    /// Whether nothing asked at `now` or later can tell this state from a new one.
    fn is_idle(&self, now: &BigUint) -> bool;
}
