//! governor 0.10, the limiter with which most of its users would compare Tollgate.

use std::hash::Hash;
use std::num::NonZeroU32;

use governor::clock::DefaultClock;
use governor::state::keyed::DashMapStateStore;
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Boxed;
use crate::contender::single;
use crate::drive::{Expect, PLENTY_PER_SECOND};

fn quota(keys: u64, burst_share: u64, expect: Expect) -> Quota {
    let rate = PLENTY_PER_SECOND / keys;
    let cells = |count: u64| NonZeroU32::new(count as u32).expect("a count");
    match expect {
        Expect::All => Quota::per_second(cells(rate)).allow_burst(cells(rate / burst_share)),
        Expect::Nothing => Quota::per_hour(cells(1)),
    }
}

/// The default store, a DashMap with the standard library's hash.
pub(crate) fn keyed<K: Hash + Eq + Clone + Send + Sync + 'static>(
    name: &str,
    keys: u64,
    expect: Expect,
) -> Boxed<K> {
    ask(name, RateLimiter::dashmap(quota(keys, 10, expect)))
}

/// The default store with room for all keys, so that it does not grow during the rounds.
pub(crate) fn keyed_with_room(keys: u64, expect: Expect) -> Boxed<u64> {
    let store = DashMapStateStore::with_capacity(keys as usize);
    let limiter = RateLimiter::new(quota(keys, 10, expect), store, DefaultClock::default());
    ask("governor, room for all", limiter)
}

/// One function serves both stores. If a second function also called governor's `check_key`, the compiler would no
/// longer inline `check_key` into the first.
fn ask<K: Hash + Eq + Clone + Send + Sync + 'static>(
    name: &str,
    limiter: DefaultKeyedRateLimiter<K>,
) -> Boxed<K> {
    single(name, move |key: &K| limiter.check_key(key).is_ok())
}

/// The default store, with the hash function that Tollgate uses.
pub(crate) fn keyed_ahash<K: Hash + Eq + Clone + Send + Sync + 'static>(
    keys: u64,
    expect: Expect,
) -> Boxed<K> {
    let limiter =
        RateLimiter::dashmap_with_hasher(quota(keys, 10, expect), ahash::RandomState::new());
    single("governor, ahash", move |key: &K| limiter.check_key(key).is_ok())
}

pub(crate) fn direct(name: &str, expect: Expect) -> Boxed<()> {
    let limiter: DefaultDirectRateLimiter = RateLimiter::direct(quota(1, 1, expect));
    single(name, move |()| limiter.check().is_ok())
}
