//! [`ToldLimit`]: the limit of a layer whose requests are decided elsewhere, before the layer is called.
//!
//! The decision is handed over by a thread-local slot that is filled before the call and emptied after it: `call`
//! asks its limit before it returns.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Decision, Entry, Limiter, Permit, Policy};

use crate::key::Key;
use crate::limit::Limit;
use crate::remote_limit::RemoteLimit;

thread_local! {
    /// The decision for the call that this thread is about to make.
    static FOUND: Cell<Option<Decision>> = const { Cell::new(None) };
}

/// Makes a call with this decision in the slot.
pub(crate) fn with_found<T>(found: Option<Decision>, call: impl FnOnce() -> T) -> T {
    // A thread that is ending has no slot: then no decision is found, and the request is denied.
    let _ = FOUND.try_with(|slot| slot.set(found));
    let answer = call();
    let _ = FOUND.try_with(|slot| slot.set(None));
    answer
}

/// The limit of the inner layer: it returns the decision in the slot.
pub(crate) struct ToldLimit {
    remote: Arc<dyn RemoteLimit>,
    /// A stand-in for the methods that a single gate which does not wait never calls.
    aside: Limiter,
}

impl ToldLimit {
    pub(crate) fn of(remote: Arc<dyn RemoteLimit>) -> Self {
        let aside = Limiter::new(remote.policy());
        Self { remote, aside }
    }
}

impl Limit for ToldLimit {
    fn policy(&self) -> Policy {
        self.remote.policy()
    }

    fn check(&self, _: &Key, cost: u64) -> Decision {
        let found = FOUND.try_with(Cell::take).ok().flatten();
        found.unwrap_or_else(|| {
            // No decision was handed over: the request is denied.
            let limit = self.remote.policy().quota().max_burst();
            let later = Duration::from_secs(1);
            let (retry_after, reset_after) = (later, later);
            let (allowed, remaining) = (false, 0);
            let (soft_bp, penalty) = (0, false);
            tollgate::Told {
                allowed,
                cost,
                limit,
                soft_bp,
                remaining,
                retry_after,
                reset_after,
                penalty,
            }
            .into()
        })
    }

    fn entry(&self, _: &Key) -> Entry<'_> {
        self.aside.entry()
    }

    /// What was charged elsewhere is not given back.
    fn refund(&self, _: &Key, _: Permit) -> u64 {
        0
    }

    /// Charges nothing: a charge here would have no effect on the remote limit.
    fn charge(&self, _: &Key, cost: u64) -> u64 {
        cost
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Quota;

    use super::*;
    use crate::remote_limit::Answering;

    struct Elsewhere;

    impl RemoteLimit for Elsewhere {
        fn policy(&self) -> Policy {
            Quota::per_hour(2).into()
        }

        fn check<'a>(&'a self, _: &'a Key, _: u64) -> Answering<'a> {
            unreachable!("it is asked before the call")
        }
    }

    #[test]
    fn what_was_found_decides_one_call_and_without_it_no_caller_goes() {
        let (told, found) =
            (ToldLimit::of(Arc::new(Elsewhere)), Limiter::new(Quota::per_hour(9)).check_n(3));
        let check = || told.check(&Key::new(), 1);
        let [first, second] = with_found(Some(found), || [check(), check()]);
        assert!(first.is_allowed());
        assert_eq!((first.limit(), first.remaining()), (9, 6));
        with_found(Some(found), || ()); // and the call does not look
        for denied in [second, with_found(None, check), check()] {
            let denial = denied.into_result().unwrap_err();
            assert_eq!((denial.cost(), denial.limit(), denial.remaining()), (1, 2, 0));
            assert_eq!(denial.retry_after(), Some(Duration::from_secs(1)));
        }
    }

    #[test]
    fn what_was_charged_elsewhere_is_not_settled_here() {
        let (told, key) = (ToldLimit::of(Arc::new(Elsewhere)), Key::new());
        let permit = Limiter::new(Quota::per_hour(9)).check_n(3).into_result().expect("9 are left");
        assert_eq!(told.refund(&key, permit), 0);
        assert_eq!(told.charge(&key, 7), 7);
    }

    #[test]
    fn a_place_that_was_taken_aside_is_given_back_there_if_it_is_the_last() {
        let (told, key) = (ToldLimit::of(Arc::new(Elsewhere)), Key::new());
        let places = [0, 1].map(|_| told.entry(&key).reserve(1, Duration::ZERO).expect("a place"));
        let [first, last] = places;
        assert!(!told.entry(&key).cancel(first));
        assert!(told.entry(&key).cancel(last));
    }
}
