//! Requests that name a key with its own quota together with other limits.

use std::time::Duration;

use tollgate::{Limiter, Quota, check_all};

use super::{admitted, fast, slow, started};

#[test]
fn beside_a_limit_that_denies_nothing_is_taken() {
    let (limiter, clock) = started(slow());
    let empty = Limiter::builder(Quota::per_hour(1)).clock(clock.clone()).build();
    assert!(empty.check().is_allowed());
    assert!(limiter.entry(&7).under(slow()).unwrap().check_n(10).is_allowed());
    let own = limiter.entry(&7).under(fast()).unwrap();
    for _ in 0..10 {
        assert_eq!(check_all(&mut [own.cost(5), empty.entry().cost(1)]).denied_by(), Some(1));
        assert_eq!(check_all(&mut [empty.entry().cost(1), own.cost(5)]).denied_by(), Some(0));
    }
    assert_eq!(own.peek(0).remaining(), 20);
    assert!(check_all(&mut [own.cost(5), limiter.entry(&8).cost(5)]).is_allowed());
    assert_eq!(own.peek(0).remaining(), 15);
}

/// A request that names a limit twice is denied by the second charge only after the first was made.
#[test]
fn what_was_charged_before_a_denial_is_undone() {
    let (limiter, clock) = started(slow());
    let ten = Limiter::builder(Quota::per_hour(10)).clock(clock.clone()).build();
    assert!(limiter.entry(&7).under(slow()).unwrap().check_n(10).is_allowed());
    for quota in [slow(), fast()] {
        let own = limiter.entry(&7).under(quota).unwrap();
        let mut claims = [own.cost(5), ten.entry().cost(6), ten.entry().cost(6)];
        assert_eq!(check_all(&mut claims).denied_by(), Some(2));
        assert_eq!((own.peek(0).remaining(), ten.entry().peek(0).remaining()), (20, 10));
    }
}

/// This holds whichever limit is asked first.
#[test]
fn after_the_wait_that_several_limits_tell_a_key_whose_rate_was_raised_is_admitted() {
    for is_first in [true, false] {
        let (limiter, clock) = started(slow());
        let other = Limiter::builder(Quota::per_hour(10)).clock(clock.clone()).build();
        assert_eq!(admitted(&limiter, 7, slow()), 30);
        let own = limiter.entry(&7).under(fast()).unwrap();
        let ask = || {
            let mut claims = [own.cost(10), other.entry().cost(1)];
            if !is_first {
                claims.reverse();
            }
            check_all(&mut claims)
        };
        assert_eq!(ask().decision().unwrap().retry_after(), Some(Duration::from_secs(10)));
        clock.advance(Duration::from_secs(10));
        assert!(ask().is_allowed(), "{is_first}");
    }
}

#[test]
fn a_key_borrows_what_its_own_quota_has_not() {
    let (limiter, clock) = started(slow());
    let pool = Limiter::builder(Quota::per_hour(10)).clock(clock.clone()).build();
    assert_eq!(admitted(&limiter, 7, slow()), 30);
    let own = limiter.entry(&7).under(fast()).unwrap();
    assert!(own.check_or(1, |_, _| pool.check().is_allowed()).is_allowed());
    assert_eq!(pool.entry().peek(0).remaining(), 9);
    clock.advance(Duration::from_secs(4));
    assert_eq!(own.peek(0).remaining(), 4);
}
