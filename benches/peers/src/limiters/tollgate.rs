//! Tollgate itself.

use std::hash::Hash;
use std::hint::black_box;
use std::time::Duration;

use tollgate::{
    CoarseClock, KeyedLimiter, Limiter, Quota, SketchLimiter, SketchSize, StripedLimiter,
};

use super::Boxed;
use crate::contender::{self, counted, counted_many, single};
use crate::drive::{Expect, PLENTY_PER_SECOND};

/// The time between two decisions of a thread that decides 50 million times a second.
pub(super) const STEP: Duration = Duration::from_nanos(20);

fn keyed<K: Hash>(keys: u64, expect: Expect) -> KeyedLimiter<K> {
    let quota = match expect {
        Expect::All => {
            // The burst is at least 20: even with very many keys, one of them may ask twice within a moment.
            let burst = (PLENTY_PER_SECOND / keys / 10).max(20);
            Quota::per_second(PLENTY_PER_SECOND / keys).burst(burst)
        }
        Expect::Nothing => Quota::per_hour(1),
    };
    KeyedLimiter::new(quota, keys as usize).expect("a table")
}

pub(crate) fn own_clock<K: Hash + 'static>(keys: u64, expect: Expect) -> Boxed<K> {
    let limiter = keyed(keys, expect);
    counted("tollgate", limiter, |limiter, key: &K| limiter.check(key).is_allowed())
}

/// Decides each key at a time that the caller gives, which advances by a [`STEP`] for each key.
#[inline]
pub(super) fn at_callers_now<K: Hash>(limiter: &KeyedLimiter<K>, keys: &[K]) -> u64 {
    let mut now = limiter.now();
    let mut admitted = 0;
    for key in keys {
        now = now + STEP;
        admitted += u64::from(limiter.entry(key).at(now).check().is_allowed());
    }
    admitted
}

/// Decides at times that the caller gives.
pub(crate) fn callers_now<K: Hash + 'static>(keys: u64, expect: Expect) -> Boxed<K> {
    let limiter = keyed(keys, expect);
    counted_many("tollgate, caller's now", limiter, at_callers_now)
}

/// Batches of `size` keys.
pub(crate) fn many<K: Hash + 'static>(keys: u64, expect: Expect, size: usize) -> Boxed<K> {
    let limiter = keyed(keys, expect);
    counted_many(&format!("tollgate, check_many of {size}"), limiter, move |limiter, keys: &[K]| {
        let mut admitted = 0;
        for batch in keys.chunks(size) {
            limiter.check_many(batch, 1, |_, decision| {
                admitted += u64::from(decision.is_allowed());
            });
        }
        admitted
    })
}

/// The sketch with as many bytes as pingora-limits: 4 rows of 2,048 cells. Keys share the cells. So each key gets the
/// quota that all keys together have in other workloads, and everything is admitted, as this workload demands.
pub(crate) fn sketch<K: Hash + 'static>() -> Boxed<K> {
    let size = SketchSize::new(4, 2_048).expect("a size");
    let limiter = SketchLimiter::new(Quota::per_second(PLENTY_PER_SECOND), size).expect("a sketch");
    single("tollgate, sketch of 64 KiB", move |key: &K| limiter.check(key).is_allowed())
}

fn quota(expect: Expect) -> Quota {
    match expect {
        Expect::All => Quota::per_second(PLENTY_PER_SECOND),
        Expect::Nothing => Quota::per_hour(1),
    }
}

pub(crate) fn direct(expect: Expect) -> Boxed<()> {
    let limiter = Limiter::new(quota(expect));
    single("tollgate", move |()| limiter.check().is_allowed())
}

pub(crate) fn direct_callers_now(expect: Expect) -> Boxed<()> {
    let limiter = Limiter::new(quota(expect));
    contender::many("tollgate, caller's now", move |requests: &[()]| {
        let mut now = limiter.now();
        let mut admitted = 0;
        for () in requests {
            now = now + STEP;
            admitted += u64::from(black_box(&limiter).entry().at(now).check().is_allowed());
        }
        admitted
    })
}

/// Uses a clock that is read by one load and does not tick here, to show the cost of a decision without the clock.
pub(crate) fn direct_coarse(expect: Expect) -> Boxed<()> {
    let coarse = CoarseClock::new();
    let limiter = Limiter::builder(quota(expect)).clock(coarse.clock()).build();
    single("tollgate, coarse clock", move |()| limiter.check().is_allowed())
}

pub(crate) fn striped(expect: Expect) -> Boxed<()> {
    let limiter = StripedLimiter::new(quota(expect)).expect("stripes");
    single("tollgate striped", move |()| limiter.check().is_allowed())
}

/// Each thread takes 32 units at a time.
pub(crate) fn lease(expect: Expect) -> Boxed<()> {
    let limiter = Limiter::new(quota(expect));
    contender::many("tollgate, lease of 32", move |requests: &[()]| {
        let Ok(mut lease) = limiter.entry().lease(32) else { return 0 };
        let mut admitted = 0;
        for () in requests {
            admitted += u64::from(black_box(&mut lease).check().is_ok());
        }
        admitted
    })
}
