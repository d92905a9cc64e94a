//! [`Limit`]: the limiters that a gate can ask.

use std::hash::BuildHasher;
use std::sync::Arc;

use tollgate::{Decision, Entry, KeyedLimiter, Limiter, Permit, Policy};

use crate::key::Key;

/// A limit that a layer can ask: a [`Limiter`] for all requests together, a [`KeyedLimiter`] for each key, or either
/// of them in an `Arc`, to be shared with other code.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{KeyedLimiter, Quota};
/// use tollgate_tower::{Key, Limit};
/// let clients: Arc<KeyedLimiter<Key>> = Arc::new(KeyedLimiter::new(Quota::per_second(10), 1_000)?);
/// let limit: &dyn Limit = &clients;
/// assert!(limit.check(&Key::new(), 1).is_allowed());
/// assert_eq!(clients.entry(&Key::new()).peek(1).remaining(), 9);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub trait Limit: Send + Sync {
    /// The policy that it enforces and headers state.
    fn policy(&self) -> Policy;

    /// Decides a request now, and charges it if it is admitted. See [`Limiter::check`].
    fn check(&self, key: &Key, cost: u64) -> Decision;

    /// The key's limit at hand, for every other verb. See [`Entry`].
    fn entry(&self, key: &Key) -> Entry<'_>;

    /// Gives back what has been charged and not used, and returns how many units. See [`Entry::refund`].
    fn refund(&self, key: &Key, permit: Permit) -> u64 {
        self.entry(key).refund(permit)
    }

    /// Charges even if the cost does not fit, and returns how many units could not be charged. See
    /// [`Entry::charge`].
    #[must_use = "what was not charged is not limited"]
    fn charge(&self, key: &Key, cost: u64) -> u64 {
        self.entry(key).charge(cost)
    }
}

impl Limit for Limiter {
    fn policy(&self) -> Policy {
        self.policy()
    }

    #[inline]
    fn check(&self, _: &Key, cost: u64) -> Decision {
        self.check_n(cost)
    }

    fn entry(&self, _: &Key) -> Entry<'_> {
        self.entry()
    }
}

impl<S: BuildHasher + Send + Sync> Limit for KeyedLimiter<Key, S> {
    fn policy(&self) -> Policy {
        self.policy()
    }

    #[inline]
    fn check(&self, key: &Key, cost: u64) -> Decision {
        self.check_n(key, cost)
    }

    fn entry(&self, key: &Key) -> Entry<'_> {
        self.entry(key)
    }
}

impl<L: Limit + ?Sized> Limit for Arc<L> {
    fn policy(&self) -> Policy {
        (**self).policy()
    }

    #[inline]
    fn check(&self, key: &Key, cost: u64) -> Decision {
        (**self).check(key, cost)
    }

    fn entry(&self, key: &Key) -> Entry<'_> {
        (**self).entry(key)
    }

    fn refund(&self, key: &Key, permit: Permit) -> u64 {
        (**self).refund(key, permit)
    }

    fn charge(&self, key: &Key, cost: u64) -> u64 {
        (**self).charge(key, cost)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::ManualClock;

    use super::*;

    /// One limit in every form that a layer takes.
    fn forms(policy: &str) -> [Box<dyn Limit>; 4] {
        let clock = ManualClock::new();
        let policy: Policy = policy.parse().expect("a policy");
        let one = || Limiter::with_clock(policy, clock.clone());
        let keyed = || {
            let limiter = KeyedLimiter::<Key, _>::with_clock(policy, 100, clock.clone());
            limiter.expect("a limiter")
        };
        [Box::new(one()), Box::new(keyed()), Box::new(Arc::new(one())), Box::new(Arc::new(keyed()))]
    }

    /// How much a key has left.
    fn left(limit: &dyn Limit, key: &Key) -> u64 {
        limit.check(key, 0).remaining()
    }

    #[test]
    fn a_refund_through_any_form_of_a_limit_gives_back_what_was_charged() {
        for limit in forms("10/h") {
            let key = Key::new();
            let permit = limit.check(&key, 6).into_result().expect("10 are left");
            assert_eq!(left(&*limit, &key), 4);
            assert_eq!(limit.refund(&key, permit.portion(2)), 2);
            assert_eq!(left(&*limit, &key), 6);
        }
    }

    #[test]
    fn a_charge_through_any_form_of_a_limit_returns_what_was_not_charged() {
        for limit in forms("fixed-window 10/h") {
            let key = Key::new();
            assert_eq!(limit.charge(&key, 7), 0);
            assert_eq!(left(&*limit, &key), 3);
            assert_eq!(limit.charge(&key, 8), 5);
            assert_eq!(left(&*limit, &key), 0);
        }
    }

    #[test]
    fn a_place_cancelled_through_any_form_of_a_limit_is_given_back_if_it_is_the_last() {
        for limit in forms("gcra 1/s burst 2") {
            let (key, max_wait) = (Key::new(), Duration::from_secs(2));
            let place = || limit.entry(&key).reserve(1, max_wait);
            let places = [0, 0, 1, 2].map(|secs| {
                let place = place().expect("a place");
                assert_eq!(place.wait(), Duration::from_secs(secs));
                place
            });
            assert!(place().is_err(), "the next turn is in three seconds");
            let [_, _, third, last] = places;
            assert!(!limit.entry(&key).cancel(third), "another stands behind it");
            assert!(limit.entry(&key).cancel(last));
            assert_eq!(place().expect("a place").wait(), max_wait);
        }
    }
}
