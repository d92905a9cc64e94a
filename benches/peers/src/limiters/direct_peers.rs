//! Limiters without keys, from other crates.

use std::time::Duration;

use super::Boxed;
use crate::contender::single;
use crate::drive::{Expect, PLENTY_PER_SECOND};

/// ratelimit 2.
pub(crate) fn ratelimit(expect: Expect) -> Boxed<()> {
    let limiter = match expect {
        Expect::All => ratelimit::Ratelimiter::builder(PLENTY_PER_SECOND)
            .max_tokens(PLENTY_PER_SECOND)
            .initial_available(PLENTY_PER_SECOND),
        Expect::Nothing => ratelimit::Ratelimiter::builder(1)
            .period(Duration::from_secs(3_600))
            .max_tokens(1)
            .initial_available(1),
    };
    let limiter = limiter.build().expect("a rate");
    single("ratelimit", move |()| limiter.try_wait().is_ok())
}

/// atomic_token_bucket 0.1.
pub(crate) fn atomic_token_bucket(expect: Expect) -> Boxed<()> {
    use atomic_token_bucket::TokenBucket;
    let bucket = match expect {
        Expect::All => {
            TokenBucket::new(PLENTY_PER_SECOND, PLENTY_PER_SECOND, PLENTY_PER_SECOND as f64)
        }
        Expect::Nothing => TokenBucket::new(1, 1, 1.0 / 3_600.0),
    };
    single("atomic_token_bucket", move |()| bucket.consume_tokens(1).is_ok())
}

/// leaky-bucket 1, without waiting.
pub(crate) fn leaky_bucket(expect: Expect) -> Boxed<()> {
    let plenty = usize::try_from(PLENTY_PER_SECOND).expect("a rate");
    let mut builder = leaky_bucket::RateLimiter::builder();
    let limiter = match expect {
        Expect::All => builder.initial(plenty * 1_000).max(plenty * 1_000).refill(plenty),
        Expect::Nothing => builder.initial(1).max(1).refill(1).interval(Duration::from_secs(3_600)),
    };
    let limiter = limiter.build();
    single("leaky-bucket", move |()| limiter.try_acquire(1))
}

/// rate-net 2, its limiter without keys.
pub(crate) fn rate_net(expect: Expect) -> Boxed<()> {
    let plenty = u32::try_from(PLENTY_PER_SECOND).expect("a rate");
    let builder = match expect {
        Expect::All => rate_net::RateLimiter::builder().per_second(plenty).burst(plenty),
        Expect::Nothing => {
            rate_net::RateLimiter::builder().quota(1, Duration::from_secs(3_600)).burst(1)
        }
    };
    let limiter = builder.try_build_direct().expect("a quota");
    single("rate-net", move |()| limiter.check() == rate_net::Decision::Allow)
}
