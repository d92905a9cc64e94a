//! Other keyed limiters from crates.io, each used as its own documentation shows.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use super::Boxed;
use crate::contender::single;
use crate::cores::cores;
use crate::drive::{Expect, PLENTY_PER_SECOND};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn rate_and_burst(keys: u64, expect: Expect) -> (u32, u32, Duration) {
    let rate = u32::try_from(PLENTY_PER_SECOND / keys).expect("a rate");
    match expect {
        Expect::All => (rate, rate / 10, Duration::from_secs(1)),
        Expect::Nothing => (1, 1, HOUR),
    }
}

/// gcra 0.6: GCRA in a DashMap. Its check is `async` but never waits.
pub(crate) fn gcra<K>(keys: u64, expect: Expect) -> Boxed<K>
where
    K: Hash + Eq + Clone + Display + Send + Sync + 'static,
{
    let (rate, _, period) = rate_and_burst(keys, expect);
    let limiter = gcra::RateLimiter::<K>::new(0);
    let limit = gcra::RateLimit::new(rate, period);
    single("gcra", move |key: &K| {
        let check = pin!(limiter.check(key.clone(), &limit, 1));
        match check.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.is_ok(),
            Poll::Pending => unreachable!("gcra never waits"),
        }
    })
}

/// atomic_token_bucket 0.1: a bucket for each key in a DashMap with the default number of shards. It evicts keys when
/// it holds twice its target.
pub(crate) fn atomic_token_bucket<K>(keys: u64, expect: Expect) -> Boxed<K>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    use atomic_token_bucket::{KeyedRateLimiter, TokenBucket};
    let (rate, burst, period) = rate_and_burst(keys, expect);
    let per_second = f64::from(rate) / period.as_secs_f64();
    let prototype = TokenBucket::new(burst.into(), burst.into(), per_second);
    let shards = (4 * cores()).next_power_of_two();
    let limiter = KeyedRateLimiter::new(keys as usize, prototype, shards);
    single("atomic_token_bucket", move |key: &K| limiter.consume_tokens(key.clone(), 1).is_ok())
}

/// tokio-rate-limit 0.10 with the token bucket that is its default. Its keys are strings, and its burst is at least the
/// units of a second.
pub(crate) fn tokio_rate_limit(keys: u64) -> Boxed<String> {
    let rate = PLENTY_PER_SECOND / keys;
    let builder = tokio_rate_limit::RateLimiter::builder().requests_per_second(rate).burst(rate);
    let limiter = builder.build().expect("a quota");
    single("tokio-rate-limit", move |key: &String| limiter.check(key).permitted)
}

/// pingora-limits is a sketch that counts. Its caller compares the count with a limit.
pub(crate) fn pingora<K: Hash + Send + Sync + 'static>(expect: Expect) -> Boxed<K> {
    let rate = pingora_limits::rate::Rate::new(Duration::from_secs(1));
    let most = if expect == Expect::All { isize::MAX } else { 0 };
    single("pingora-limits observe", move |key: &K| rate.observe(key, 1) <= most)
}

fn rate_net_limiter(keys: u64, expect: Expect) -> rate_net::RateLimiter {
    let (rate, burst, period) = rate_and_burst(keys, expect);
    let builder = rate_net::RateLimiter::builder().quota(rate, period).burst(burst);
    // Every shard has room for all keys, because rate-net evicts keys above its cap.
    let cap = usize::try_from(keys * 2).expect("keys");
    builder.eviction(rate_net::Eviction::capacity(cap)).try_build().expect("a quota")
}

/// rate-net 2 with the token bucket that is its default.
pub(crate) fn rate_net_u64(keys: u64, expect: Expect) -> Boxed<u64> {
    let limiter = rate_net_limiter(keys, expect);
    single("rate-net", move |key: &u64| {
        limiter.check(rate_net::Key::id(*key)) == rate_net::Decision::Allow
    })
}

pub(crate) fn rate_net_text(keys: u64, expect: Expect) -> Boxed<String> {
    let limiter = rate_net_limiter(keys, expect);
    single("rate-net", move |key: &String| limiter.check_bytes(key) == rate_net::Decision::Allow)
}

/// throttlecrab's library, whose limiter takes `&mut self` and so needs a lock around it.
pub(crate) fn throttlecrab(keys: u64, expect: Expect) -> Boxed<String> {
    use throttlecrab::{AdaptiveStore, RateLimiter};
    let (rate, burst, period) = rate_and_burst(keys, expect);
    let (rate, burst) = (i64::from(rate), i64::from(burst));
    let period = i64::try_from(period.as_secs()).expect("a period");
    // With a burst of 1 this release of throttlecrab admits everything; with a burst of 2 it admits the first two
    // requests.
    let burst = burst.max(2);
    let store = AdaptiveStore::with_capacity(usize::try_from(keys).expect("keys"));
    let limiter = Mutex::new(RateLimiter::new(store));
    single("throttlecrab", move |key: &String| {
        let mut limiter = limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = limiter.rate_limit(key, burst, rate, period, 1, SystemTime::now());
        answer.is_ok_and(|(allowed, _)| allowed)
    })
}

/// limitador's in-memory storage. Each call passes the context that limitador's interface requires.
pub(crate) fn limitador(keys: u64, expect: Expect) -> Boxed<String> {
    use limitador::RateLimiter;
    use limitador::limit::{Context as Request, Expression, Limit};
    let (most, seconds) = if expect == Expect::All { (1 << 40, 1) } else { (1, 3_600) };
    let limiter = RateLimiter::new(keys * 2);
    let user = Expression::parse("user").expect("an expression");
    limiter.add_limit(Limit::new("peers", most, seconds, [], [user]));
    let namespace = "peers".into();
    single("limitador in-memory", move |key: &String| {
        let request = Request::from(HashMap::from([("user".to_owned(), key.clone())]));
        let answer = limiter.check_rate_limited_and_update(&namespace, &request, 1);
        answer.is_ok_and(|answer| !answer.limited)
    })
}
