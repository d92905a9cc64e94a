//! [`Limit`]: the limits that a gate can ask.
//!
//! A gate knows verbs, and this file implements them once for each kind of limiter, so that a gate has all its features
//! with every limiter. The exceptions are stripes and sketches, which have no [`Entry`] with every verb: there a gate
//! does without the missing ones.

use std::hash::BuildHasher;
use std::sync::Arc;

use tollgate::{
    Changing, Claim, Decision, Denial, Entry, KeyedLimiter, Limiter, Policy, SketchLimiter, Stats,
    StripedLimiter,
};

use crate::key::Key;

/// A limit that a layer can ask: a [`Limiter`] or a [`StripedLimiter`] for all requests together, or a [`KeyedLimiter`]
/// or a [`SketchLimiter`] for each key. It may have any policy, [tiers](tollgate::KeyedBuilder::tier), or a quota that changes,
/// and may be in an `Arc`, to be shared with other code.
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
///
/// A limiter with another type of keys does not qualify: extractors make a [`Key`] of every request, whether they find
/// an address or a name.
///
/// ```compile_fail,E0277
/// use std::net::IpAddr;
/// use tollgate::{KeyedLimiter, Quota};
/// use tollgate_tower::{ClientAddress, RateLimitLayer};
/// let clients = KeyedLimiter::<IpAddr>::new(Quota::per_second(10), 1_000)?;
/// let layer = RateLimitLayer::new(clients, ClientAddress::peer());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no limit that a layer can ask",
    label = "not a `Limiter`, a `StripedLimiter`, or a `KeyedLimiter` or `SketchLimiter` of `tollgate_tower::Key`",
    note = "an extractor makes a `tollgate_tower::Key` of each request: write `KeyedLimiter<Key>` in place of a limiter \
            of addresses or names, and leave it to the extractor (`ClientAddress`, `ApiKey`) what the key is made of"
)]
pub trait Limit: Send + Sync {
    /// The policy that it enforces now for keys of a tier, counted from 0; headers state it. `None` if there is no such
    /// tier; gates then ask for no key of that tier.
    fn policy_of(&self, tier: usize) -> Option<Policy>;

    /// Whether its policies may change later. By default they may, and each answer looks up the one in force.
    fn may_change(&self) -> bool {
        true
    }

    /// Decides a request now, under the quota of the key's [tier](Key::tier), and charges it if it is admitted. See
    /// [`Entry::check`].
    fn check(&self, key: &Key, cost: u64) -> Decision;

    /// The answer that [`check`](Limit::check) would give, without charging. See [`Entry::peek`].
    fn peek(&self, key: &Key, cost: u64) -> Decision;

    /// Decides a request now, but calls `or` for a denial that is only for now, and admits the request if that returns
    /// `true`. See [`Entry::check_or`].
    fn check_or(&self, key: &Key, cost: u64, or: &mut dyn FnMut(&Denial) -> bool) -> Decision;

    /// The claim of a request that is decided under several limits. See [`Entry::cost`].
    fn claim<'l>(&'l self, key: &Key, cost: u64) -> Claim<'l>;

    /// Charges even if the cost does not fit, and returns the number of units that could not be charged. See
    /// [`Entry::charge`].
    #[must_use = "what was not charged is not limited"]
    fn charge(&self, key: &Key, cost: u64) -> u64;

    /// Statistics of its table of keys, if it has one. Reads the whole table, so do not call it for each request.
    fn stats(&self) -> Option<Stats> {
        None
    }

    /// The entry of the key, for every other verb. `None` if the limit cannot give back or reserve: its gate queues no
    /// request, and refunds none.
    fn full_entry(&self, key: &Key) -> Option<Entry<'_>>;
}

/// The verbs that the entry of every limiter has.
macro_rules! verbs_of_any_entry {
    (|$limiter:ident, $key:ident| $entry:expr) => {
        #[inline]
        fn peek(&self, $key: &Key, cost: u64) -> Decision {
            let $limiter = self;
            $entry.peek(cost)
        }

        fn check_or(&self, $key: &Key, cost: u64, or: &mut dyn FnMut(&Denial) -> bool) -> Decision {
            let $limiter = self;
            $entry.check_or(cost, |denial, _| or(denial))
        }

        fn claim<'l>(&'l self, $key: &Key, cost: u64) -> Claim<'l> {
            let $limiter = self;
            $entry.cost(cost)
        }

        fn charge(&self, $key: &Key, cost: u64) -> u64 {
            let $limiter = self;
            $entry.charge(cost)
        }
    };
}

impl Limit for Limiter {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.policy())
    }

    #[inline]
    fn check(&self, _: &Key, cost: u64) -> Decision {
        self.check_n(cost)
    }

    verbs_of_any_entry!(|limiter, _key| limiter.entry());

    fn full_entry(&self, _: &Key) -> Option<Entry<'_>> {
        Some(self.entry())
    }
}

impl Limit for StripedLimiter {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.policy())
    }

    #[inline]
    fn check(&self, _: &Key, cost: u64) -> Decision {
        self.check_n(cost)
    }

    verbs_of_any_entry!(|limiter, _key| limiter.entry());

    /// A permit of stripes does not say which of them was charged.
    fn full_entry(&self, _: &Key) -> Option<Entry<'_>> {
        None
    }
}

impl<S: BuildHasher + Send + Sync> Limit for SketchLimiter<Key, S> {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.policy())
    }

    #[inline]
    fn check(&self, key: &Key, cost: u64) -> Decision {
        self.check_n(key, cost)
    }

    verbs_of_any_entry!(|limiter, key| limiter.entry(key));

    /// Keys share cells: units that are given back to one key would be given to others.
    fn full_entry(&self, _: &Key) -> Option<Entry<'_>> {
        None
    }
}

impl<S: BuildHasher + Send + Sync> Limit for KeyedLimiter<Key, S> {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        // The first tier needs no list of all policies.
        if tier == 0 { Some(self.policy()) } else { self.policies().get(tier).copied() }
    }

    #[inline]
    fn check(&self, key: &Key, cost: u64) -> Decision {
        if key.is_first_tier() { self.check_n(key, cost) } else { check_in_tier(self, key, cost) }
    }

    verbs_of_any_entry!(|limiter, key| in_tier(limiter, key));

    fn stats(&self) -> Option<Stats> {
        Some(self.stats())
    }

    fn full_entry(&self, key: &Key) -> Option<Entry<'_>> {
        Some(in_tier(self, key))
    }
}

// A function of its own for tiers other than the first, so that the code of a check is not inlined twice.
#[inline(never)]
fn check_in_tier<S: BuildHasher>(limiter: &KeyedLimiter<Key, S>, key: &Key, cost: u64) -> Decision {
    in_tier(limiter, key).check_n(cost)
}

/// The entry of the key under the quota of its tier. A gate asks only for tiers that exist; for any other caller an
/// unknown tier means the first.
fn in_tier<'l, S: BuildHasher>(limiter: &'l KeyedLimiter<Key, S>, key: &Key) -> Entry<'l> {
    let entry = limiter.entry(key);
    key.tier().and_then(|tier| entry.tier(tier).ok()).unwrap_or(entry)
}

/// Whatever the limit that it points to answers.
macro_rules! as_what_it_points_to {
    () => {
        fn policy_of(&self, tier: usize) -> Option<Policy> {
            (**self).policy_of(tier)
        }

        #[inline]
        fn check(&self, key: &Key, cost: u64) -> Decision {
            (**self).check(key, cost)
        }

        fn peek(&self, key: &Key, cost: u64) -> Decision {
            (**self).peek(key, cost)
        }

        fn check_or(&self, key: &Key, cost: u64, or: &mut dyn FnMut(&Denial) -> bool) -> Decision {
            (**self).check_or(key, cost, or)
        }

        fn claim<'l>(&'l self, key: &Key, cost: u64) -> Claim<'l> {
            (**self).claim(key, cost)
        }

        fn charge(&self, key: &Key, cost: u64) -> u64 {
            (**self).charge(key, cost)
        }

        fn stats(&self) -> Option<Stats> {
            (**self).stats()
        }

        fn full_entry(&self, key: &Key) -> Option<Entry<'_>> {
            (**self).full_entry(key)
        }
    };
}

impl<L: Limit + ?Sized> Limit for Arc<L> {
    fn may_change(&self) -> bool {
        (**self).may_change()
    }

    as_what_it_points_to!();
}

impl<L: Limit> Limit for Changing<L> {
    as_what_it_points_to!();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{KeyedLimiter, ManualClock, SketchSize};

    use super::*;

    fn policy(text: &str) -> Policy {
        text.parse().expect("a policy")
    }

    /// One limit in every form whose entry has every verb.
    fn forms(text: &str) -> [Box<dyn Limit>; 4] {
        let clock = ManualClock::new();
        let one = || Limiter::builder(policy(text)).clock(clock.clone()).build();
        let keyed = || {
            let limiter =
                KeyedLimiter::<Key>::builder(policy(text)).clock(clock.clone()).build(100);
            limiter.expect("a limiter")
        };
        [Box::new(one()), Box::new(keyed()), Box::new(Arc::new(one())), Box::new(Arc::new(keyed()))]
    }

    /// One limit in every other form.
    fn shared_forms(text: &str) -> [Box<dyn Limit>; 2] {
        let size = SketchSize::new(4, 100).expect("a size");
        let sketch = SketchLimiter::builder(policy(text)).clock(ManualClock::new()).build(size);
        let striped =
            StripedLimiter::builder(policy(text)).stripes(1).clock(ManualClock::new()).build();
        [Box::new(sketch.expect("a sketch")), Box::new(striped.expect("stripes"))]
    }

    #[test]
    fn every_form_of_a_limit_is_asked_peeked_at_and_borrows() {
        for limit in forms("10/h").into_iter().chain(shared_forms("10/h")) {
            let key = Key::new();
            assert_eq!((limit.policy_of(0), limit.policy_of(1)), (Some(policy("10/h")), None));
            assert_eq!(limit.check(&key, 6).remaining(), 4);
            assert_eq!(
                [limit.peek(&key, 4), limit.peek(&key, 4)].map(|it| it.is_allowed()),
                [true; 2]
            );
            let mut asked = 0;
            let or = |denial: &Denial| {
                asked += denial.cost();
                asked < 10
            };
            let mut lend = or;
            let admitted = [4, 5, 5].map(|cost| limit.check_or(&key, cost, &mut lend).is_allowed());
            assert_eq!(admitted, [true, true, false]);
        }
    }

    #[test]
    fn a_charge_and_a_refund_go_through_any_entry() {
        for limit in forms("fixed-window 10/h") {
            let key = Key::new();
            let entry = limit.full_entry(&key).expect("an entry");
            let permit = limit.check(&key, 6).into_result().expect("10 are left");
            assert_eq!(entry.refund(permit.portion(2)), 2);
            assert_eq!((entry.charge(3), entry.charge(8)), (0, 5));
            assert_eq!(limit.peek(&key, 0).remaining(), 0);
        }
        for limit in shared_forms("fixed-window 10/h") {
            assert!(limit.full_entry(&Key::new()).is_none());
        }
    }

    #[test]
    fn a_place_cancelled_through_any_form_of_a_limit_is_given_back_if_it_is_the_last() {
        for limit in forms("gcra 1/s burst 2") {
            let (key, max_wait) = (Key::new(), Duration::from_secs(2));
            let entry = limit.full_entry(&key).expect("an entry");
            let place = || entry.reserve(1, max_wait);
            let places = [0, 0, 1, 2].map(|secs| {
                let place = place().expect("a place");
                assert_eq!(place.wait(), Duration::from_secs(secs));
                place
            });
            assert!(place().is_err(), "the next turn is in three seconds");
            let [_, _, third, last] = places;
            assert!(!entry.cancel(third), "another stands behind it");
            assert!(entry.cancel(last));
            assert_eq!(place().expect("a place").wait(), max_wait);
        }
    }

    #[test]
    fn a_key_is_counted_apart_in_each_tier_with_every_verb() {
        let tiers = KeyedLimiter::builder(policy("2/h")).tier(policy("5/h"));
        let limit = tiers.clock(ManualClock::new()).build(100).expect("a limiter");
        let limit: &dyn Limit = &limit;
        assert_eq!(
            [0, 1, 2].map(|tier| limit.policy_of(tier)),
            [Some(policy("2/h")), Some(policy("5/h")), None]
        );
        let key = |tier| {
            let mut key = Key::new();
            key.set_tier(tier);
            key
        };
        let [first, second, unknown] = [Some(0), Some(1), None].map(key);
        assert_eq!(limit.check(&second, 1).remaining(), 4);
        assert_eq!(limit.full_entry(&second).expect("an entry").charge(1), 0);
        assert_eq!([&first, &second].map(|key| limit.peek(key, 1).remaining()), [2, 3]);
        assert!(limit.check_or(&second, 4, &mut |_| true).is_allowed());
        // No gate asks for an unknown tier.
        assert_eq!(limit.check(&unknown, 1).remaining(), 1);
    }
}
