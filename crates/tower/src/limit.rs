//! [`GateLimit`]: the limits that a gate can ask.
//!
//! A gate uses the verbs of [`GateLimit`], such as check and charge. This file implements them once for each kind of
//! limiter of this process, so that a gate has all its features with every limiter. The exceptions are stripes and
//! sketches, which have no [`Entry`] with every verb: their gates lack the features that need one. A limit that is kept
//! elsewhere (`redis.rs`) has other verbs for the same features, and its answers come later.

use std::any::Any;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Changing, Claim, Decision, Denial, Entry, KeyedLimiter, Limiter, Policy, SketchLimiter, Stats,
    StripedLimiter,
};
use tollgate_http::keys::Key;

use crate::answer::LimitAnswer;

/// A limit that a layer can ask: a [`Limiter`] or a [`StripedLimiter`] for all requests together, or a [`KeyedLimiter`]
/// or a [`SketchLimiter`] for each key. It may have any policy, [tiers](tollgate::KeyedBuilder::tier), or a quota that
/// changes, and may be in an `Arc`, to be shared with other code.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{KeyedLimiter, Quota};
/// use tollgate_tower::keys::Key;
/// use tollgate_tower::limits::GateLimit;
/// let clients: Arc<KeyedLimiter<Key>> = Arc::new(KeyedLimiter::new(Quota::per_second(10), 1_000)?);
/// let limit: &dyn GateLimit = &clients;
/// let decision = limit.check(&Key::new(), 1).now().expect("a limit of this process answers now");
/// assert!(decision.is_allowed());
/// assert_eq!(clients.entry(&Key::new()).peek(1).remaining(), 9);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// A limit may be kept elsewhere; then its answers come later, and a request waits for them. Such a limit always
/// answers: while its store does not answer, the implementation decides by itself. With the feature `redis`,
/// `tollgate_redis::RedisLimiter` is such a limit; its `Settings::on_error` is the failure policy: admit this node's
/// share of the limit (the default), everything, or nothing. A limit of your own needs [`policy_of`](GateLimit::policy_of)
/// and [`check`](GateLimit::check):
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{Limiter, Policy, Quota};
/// use tollgate_tower::keys::{Everyone, Key};
/// use tollgate_tower::limits::{GateLimit, LimitAnswer};
/// use tollgate_tower::RateLimitLayer;
///
/// /// For this example, elsewhere is here.
/// struct Elsewhere(Arc<Limiter>);
///
/// impl GateLimit for Elsewhere {
///     fn policy_of(&self, tier: usize) -> Option<Policy> {
///         (tier == 0).then(|| self.0.policy())
///     }
///
///     fn check(&self, _: &Key, cost: u64) -> LimitAnswer {
///         let limiter = Arc::clone(&self.0);
///         LimitAnswer::later(async move { limiter.check_n(cost) })
///     }
/// }
///
/// let limit = Elsewhere(Arc::new(Limiter::new(Quota::per_second(10))));
/// let layer = RateLimitLayer::new(limit, Everyone);
/// # let _ = layer;
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
    label = "not a `Limiter`, a `StripedLimiter`, or a `KeyedLimiter` or `SketchLimiter` of `tollgate_tower::keys::Key`",
    note = "an extractor makes a `tollgate_tower::keys::Key` of each request: write `KeyedLimiter<Key>` in place of a limiter \
            of addresses or names, and leave it to the extractor (`ClientAddress`, `ApiKey`) what the key is made of",
    note = "with the feature `redis` of `tollgate-tower`, `tollgate_redis::RedisLimiter` is a limit, too"
)]
#[expect(unused_variables, reason = "the names tell what an implementation is given")]
pub trait GateLimit: Any + Send + Sync {
    /// The policy that the limit enforces now for keys of a tier, counted from 0; headers state this policy. `None` if
    /// there is no such tier; gates then do not ask for keys of that tier.
    fn policy_of(&self, tier: usize) -> Option<Policy>;

    /// Whether the policies may change later. By default they may, and each answer looks up the policy in force.
    fn may_change(&self) -> bool {
        true
    }

    /// Decides a request under the quota of the key's [tier](Key::tier), and charges it if it is admitted. See
    /// [`Entry::check`].
    fn check(&self, key: &Key, cost: u64) -> LimitAnswer;

    /// Charges even if the cost does not fit, and answers with the number of units that could not be charged. See
    /// [`Entry::charge`]. By default nothing is charged.
    fn charge(&self, key: &Key, cost: u64) -> LimitAnswer<u64> {
        LimitAnswer::Now(cost)
    }

    /// Waits for the turn of `cost` units, at most `max_wait`, and then admits them; a request that would wait longer
    /// is denied at once. A future that is dropped while it waits gives its place back if that is the last place. Gates
    /// call this only if there is no [entry with every verb](GateLimit::full_entry), which has a queue of its own. By
    /// default the limit has no queue, and a request is decided as by [`check`](GateLimit::check).
    fn acquire(&self, key: &Key, cost: u64, max_wait: Duration) -> LimitAnswer {
        self.check(key, cost)
    }

    /// The answer that [`check`](GateLimit::check) would give now, without charging. See [`Entry::peek`]. `None`, which is
    /// the default, if the limit cannot tell.
    fn peek(&self, key: &Key, cost: u64) -> Option<Decision> {
        None
    }

    /// Decides a request now. If the limit denies it only for now, `or` is called, and the request is admitted if `or`
    /// returns `true`. See [`Entry::check_or`]. `None`, which is the default, if the limit is kept elsewhere.
    fn check_or(
        &self,
        key: &Key,
        cost: u64,
        or: &mut dyn FnMut(&Denial) -> bool,
    ) -> Option<Decision> {
        None
    }

    /// The claim of a request that is decided under several limits of this process. See [`Entry::cost`]. If the limit
    /// is kept elsewhere, it is `None` for every request, which is the default. A limit that has claims answers every
    /// [`check`](GateLimit::check) now, and has `check_or` and `peek`.
    fn claim<'l>(&'l self, key: &Key, cost: u64) -> Option<Claim<'l>> {
        None
    }

    /// Whether a request under this limit and another can be charged to both or to neither. By default this is so if
    /// both have [claims](GateLimit::claim). A layer refuses two limits for which the answer is `false`.
    fn is_charged_with(&self, other: &dyn GateLimit) -> bool {
        has_claims(self) && has_claims(other)
    }

    /// Decides a request under several limits that are kept elsewhere: all are charged, or none. It is called on the
    /// first limit, and only if that limit [can be charged with](GateLimit::is_charged_with) each of the others. The answer
    /// is the decision that stands for all, with the index of its limit, from 0: the denial with the longest wait, or
    /// the permit with the fewest units left. It is not called on a limit that has claims. By default the answer is
    /// that of the first limit alone.
    fn check_all(&self, asks: &[LimitAsk<'_>]) -> LimitAnswer<(usize, Decision)> {
        let first = asks.first().map_or((Key::new(), 0), |first| (*first.key, first.cost));
        match self.check(&first.0, first.1) {
            LimitAnswer::Now(decision) => LimitAnswer::Now((0, decision)),
            LimitAnswer::Later(decision) => LimitAnswer::later(async move { (0, decision.await) }),
        }
    }

    /// Statistics of the limit's table of keys, if it has one. This reads the whole table, so do not call it for each
    /// request.
    fn stats(&self) -> Option<Stats> {
        None
    }

    /// The entry of the key, for every other verb. `None`, which is the default, if the limit cannot give back or
    /// reserve here and now: its gate then refunds no request, and queues requests only by [`acquire`](GateLimit::acquire).
    fn full_entry(&self, key: &Key) -> Option<Entry<'_>> {
        None
    }
}

/// The request to one of several limits that are kept elsewhere: see [`GateLimit::check_all`].
#[derive(Clone, Copy)]
pub struct LimitAsk<'a> {
    /// The limit.
    pub limit: &'a dyn GateLimit,
    /// The key that is to be charged.
    pub key: &'a Key,
    /// The units to charge.
    pub cost: u64,
}

impl fmt::Debug for LimitAsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitAsk")
            .field("key", self.key)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// Whether a limit is of this process, so that it can be charged together with any other such limit. The claim is for
/// no units, so it charges nothing.
pub(crate) fn has_claims(limit: &(impl GateLimit + ?Sized)) -> bool {
    limit.claim(&Key::new(), 0).is_some()
}

/// The verbs that the entry of every limiter has.
macro_rules! verbs_of_any_entry {
    (|$limiter:ident, $key:ident| $entry:expr) => {
        #[inline]
        fn peek(&self, $key: &Key, cost: u64) -> Option<Decision> {
            let $limiter = self;
            Some($entry.peek(cost))
        }

        fn check_or(
            &self,
            $key: &Key,
            cost: u64,
            or: &mut dyn FnMut(&Denial) -> bool,
        ) -> Option<Decision> {
            let $limiter = self;
            Some($entry.check_or(cost, |denial, _| or(denial)))
        }

        fn claim<'l>(&'l self, $key: &Key, cost: u64) -> Option<Claim<'l>> {
            let $limiter = self;
            Some($entry.cost(cost))
        }

        fn charge(&self, $key: &Key, cost: u64) -> LimitAnswer<u64> {
            let $limiter = self;
            LimitAnswer::Now($entry.charge(cost))
        }
    };
}

impl GateLimit for Limiter {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.policy())
    }

    #[inline]
    fn check(&self, _: &Key, cost: u64) -> LimitAnswer {
        LimitAnswer::Now(self.check_n(cost))
    }

    verbs_of_any_entry!(|limiter, _key| limiter.entry());

    fn full_entry(&self, _: &Key) -> Option<Entry<'_>> {
        Some(self.entry())
    }
}

impl GateLimit for StripedLimiter {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.policy())
    }

    #[inline]
    fn check(&self, _: &Key, cost: u64) -> LimitAnswer {
        LimitAnswer::Now(self.check_n(cost))
    }

    verbs_of_any_entry!(|limiter, _key| limiter.entry());

    // Stripes have no full entry, since a permit of theirs does not say which stripe was charged.
}

impl<S: BuildHasher + Send + Sync + 'static> GateLimit for SketchLimiter<Key, S> {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.policy())
    }

    #[inline]
    fn check(&self, key: &Key, cost: u64) -> LimitAnswer {
        LimitAnswer::Now(self.check_n(key, cost))
    }

    verbs_of_any_entry!(|limiter, key| limiter.entry(key));

    // A sketch has no full entry: keys share cells, so units that are given back to one key would be given to others.
}

impl<S: BuildHasher + Send + Sync + 'static> GateLimit for KeyedLimiter<Key, S> {
    fn may_change(&self) -> bool {
        false
    }

    fn policy_of(&self, tier: usize) -> Option<Policy> {
        // The first tier needs no list of all policies.
        if tier == 0 { Some(self.policy()) } else { self.policies().get(tier).copied() }
    }

    #[inline]
    fn check(&self, key: &Key, cost: u64) -> LimitAnswer {
        LimitAnswer::Now(if key.tier() == Some(0) {
            self.check_n(key, cost)
        } else {
            check_in_tier(self, key, cost)
        })
    }

    verbs_of_any_entry!(|limiter, key| in_tier(limiter, key));

    fn stats(&self) -> Option<Stats> {
        Some(self.stats())
    }

    fn full_entry(&self, key: &Key) -> Option<Entry<'_>> {
        Some(in_tier(self, key))
    }
}

// This is a separate function for tiers other than the first, so that the code of a check is not inlined twice.
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

/// Implements each verb by calling it on the limit that a pointer points to.
macro_rules! as_what_it_points_to {
    () => {
        fn policy_of(&self, tier: usize) -> Option<Policy> {
            (**self).policy_of(tier)
        }

        #[inline]
        fn check(&self, key: &Key, cost: u64) -> LimitAnswer {
            (**self).check(key, cost)
        }

        fn charge(&self, key: &Key, cost: u64) -> LimitAnswer<u64> {
            (**self).charge(key, cost)
        }

        fn acquire(&self, key: &Key, cost: u64, max_wait: Duration) -> LimitAnswer {
            (**self).acquire(key, cost, max_wait)
        }

        fn peek(&self, key: &Key, cost: u64) -> Option<Decision> {
            (**self).peek(key, cost)
        }

        fn check_or(
            &self,
            key: &Key,
            cost: u64,
            or: &mut dyn FnMut(&Denial) -> bool,
        ) -> Option<Decision> {
            (**self).check_or(key, cost, or)
        }

        fn claim<'l>(&'l self, key: &Key, cost: u64) -> Option<Claim<'l>> {
            (**self).claim(key, cost)
        }

        fn is_charged_with(&self, other: &dyn GateLimit) -> bool {
            (**self).is_charged_with(other)
        }

        fn check_all(&self, asks: &[LimitAsk<'_>]) -> LimitAnswer<(usize, Decision)> {
            (**self).check_all(asks)
        }

        fn stats(&self) -> Option<Stats> {
            (**self).stats()
        }

        fn full_entry(&self, key: &Key) -> Option<Entry<'_>> {
            (**self).full_entry(key)
        }
    };
}

impl<L: GateLimit + ?Sized> GateLimit for Arc<L> {
    fn may_change(&self) -> bool {
        (**self).may_change()
    }

    as_what_it_points_to!();
}

impl<L: GateLimit> GateLimit for Changing<L> {
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

    fn check(limit: &dyn GateLimit, key: &Key, cost: u64) -> Decision {
        limit.check(key, cost).now().expect("a limit of this process answers now")
    }

    fn peek(limit: &dyn GateLimit, key: &Key, cost: u64) -> Decision {
        limit.peek(key, cost).expect("a limit of this process can be looked at")
    }

    fn check_or(limit: &dyn GateLimit, cost: u64, or: &mut dyn FnMut(&Denial) -> bool) -> bool {
        let decision = limit.check_or(&Key::new(), cost, or);
        decision.expect("a limit of this process borrows").is_allowed()
    }

    /// One limit in every form whose entry has every verb.
    fn forms(text: &str) -> [Box<dyn GateLimit>; 4] {
        let clock = ManualClock::new();
        let one = || Limiter::builder(policy(text)).clock(clock.clone()).build();
        let keyed = || {
            let limiter =
                KeyedLimiter::<Key>::builder(policy(text)).clock(clock.clone()).build(100);
            limiter.expect("a limiter")
        };
        [Box::new(one()), Box::new(keyed()), Box::new(Arc::new(one())), Box::new(Arc::new(keyed()))]
    }

    /// One limit in each form whose entry lacks some verbs.
    fn shared_forms(text: &str) -> [Box<dyn GateLimit>; 2] {
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
            assert_eq!(check(&*limit, &key, 6).remaining(), 4);
            assert_eq!([0; 2].map(|_| peek(&*limit, &key, 4).is_allowed()), [true; 2]);
            let mut asked = 0;
            let or = |denial: &Denial| {
                asked += denial.cost();
                asked < 10
            };
            let mut lend = or;
            let admitted = [4, 5, 5].map(|cost| check_or(&*limit, cost, &mut lend));
            assert_eq!(admitted, [true, true, false]);
        }
    }

    #[test]
    fn a_charge_and_a_refund_go_through_any_entry() {
        for limit in forms("fixed-window 10/h") {
            let key = Key::new();
            let entry = limit.full_entry(&key).expect("an entry");
            let permit = check(&*limit, &key, 6).into_result().expect("10 are left");
            assert_eq!(entry.refund(permit.portion(2)), 2);
            assert_eq!((entry.charge(3), entry.charge(8)), (0, 5));
            assert_eq!(peek(&*limit, &key, 0).remaining(), 0);
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
        let limit: &dyn GateLimit = &limit;
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
        assert_eq!(check(limit, &second, 1).remaining(), 4);
        assert_eq!(limit.full_entry(&second).expect("an entry").charge(1), 0);
        assert_eq!([&first, &second].map(|key| peek(limit, key, 1).remaining()), [2, 3]);
        let lent = limit.check_or(&second, 4, &mut |_| true);
        assert!(lent.is_some_and(|lent| lent.is_allowed()));
        // No gate asks for an unknown tier; for other callers it means the first tier.
        assert_eq!(check(limit, &unknown, 1).remaining(), 1);
    }
}
