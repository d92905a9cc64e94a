//! [`EnvoyproxyLimiter`]: a limiter that counts in the keys of envoyproxy/ratelimit, so that nodes of both programs
//! share each limit.
//!
//! ```text
//! PREFIX DOMAIN _ KEY _ VALUE _ KEY _ VALUE _ START        shop_user_alice_1764046800
//! INCRBY key hits, EXPIRE key (length of the window + up to `jitter`)
//! over the limit: the count after it is above the limit
//! ```
//!
//! START is the beginning of the window, in seconds of Unix time, a multiple of the window's length. The node's system
//! clock is read for each request. When that clock is set back, the window is set back with it, because all nodes that
//! share a key have to agree on the window. When the clock goes back into an earlier window, that window's count is
//! found again. The two commands are those of envoyproxy/ratelimit, but they are sent through the script that decides
//! all other limits. So a batch of requests is one call, with the same deadline, circuit breaker and metrics.
//!
//! # What is bounded
//! Unless units are given back, the count only grows, and the store returns each value of the count to only one
//! request. So in one window of a key, all nodes of both programs together admit at most the limit plus the units that
//! are given back in that window. They may admit fewer, since denied requests are counted, too. The limits of one
//! request are counted one by one: if one limit denies, the others stay charged. Two nodes whose clocks differ by d
//! count in different windows for a time of d whenever one window ends and the next begins. Around that moment up to
//! twice the limit may be admitted, as with all fixed windows.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Clock, Limiter, Quota, Timestamp};

use crate::decision::{RedisDecision, Source};
use crate::error::{Fault, RedisBuildError};
use crate::hash_slot;
use crate::limiter::RedisLimiter;
use crate::of_requests::{RequestLimits, with_limit};
use crate::script::state::State;
use crate::script::{ScriptPart, ScriptRequest, ScriptVerb, Units};
use crate::settings::{Mode, OnError, Settings};
use crate::store::Store;
use crate::store::stats::StoreEvent;
use crate::told::Told;

/// The window lengths that envoyproxy/ratelimit supports, in seconds: a second, a minute, an hour, a day, a week, 30
/// days and 365 days.
const LENGTHS: [u64; 7] = [1, 60, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400];

/// A limit that is counted in the keys of envoyproxy/ratelimit.
///
/// A client is named by its *stem*: the domain, then each key and value of its descriptor, all followed by a `_`, as in
/// `shop_user_alice_`. Different descriptors may have the same stem, as in envoyproxy/ratelimit.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{EnvoyproxyLimiter, OnError, Settings, Store};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let settings = Settings::new("fixed-window 5/h".parse()?).on_error(OnError::Deny);
/// let limiter = EnvoyproxyLimiter::new(&store, settings, "")?;
/// // The store is away.
/// assert!(!limiter.check_n("shop_user_alice_", 1).await.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EnvoyproxyLimiter {
    limiter: RedisLimiter,
    prefix: Arc<[u8]>,
    window_s: u64,
    clock: Clock,
    /// The random seed of this process, for the jitter of the keys' expiry.
    random: RandomState,
    /// Limits how often a key that holds something other than a count is logged.
    log: Arc<Limiter>,
}

/// The window of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyWindow {
    key: Vec<u8>,
    /// The time until the window ends.
    left: Duration,
}

impl EnvoyproxyLimiter {
    /// The longest time by which a key outlives its window. Each key outlives its window by a random part of this time,
    /// which is also the default of envoyproxy/ratelimit (`EXPIRATION_JITTER_MAX_SECONDS`).
    pub const MAX_JITTER: Duration = Duration::from_secs(300);

    /// Makes a limit whose keys begin with `prefix` (envoyproxy/ratelimit's `CACHE_KEY_PREFIX`, by default empty). The
    /// settings' mode, name and part have no meaning here.
    ///
    /// # Errors
    /// As [`RedisLimiter::new`], and [`RedisBuildError::NotOfEnvoyproxy`] if the policy is not a fixed window of a
    /// length that envoyproxy/ratelimit supports.
    pub fn new(store: &Store, settings: Settings, prefix: &str) -> Result<Self, RedisBuildError> {
        let policy = settings.policy;
        let window_s = policy.quota().period().as_secs();
        let is_plain = policy.algorithm() == Algorithm::FixedWindow
            && policy.at_limit() == tollgate::AtLimit::default()
            && policy.quota().period().subsec_nanos() == 0;
        if !is_plain || !LENGTHS.contains(&window_s) {
            return Err(RedisBuildError::NotOfEnvoyproxy { policy: policy.into() });
        }
        let limiter = RedisLimiter::new(store, settings.mode(Mode::Exact))?;
        let (prefix, random) = (prefix.as_bytes().into(), RandomState::new());
        let log = Arc::new(Limiter::new(Quota::per_minute(1)));
        Ok(Self { limiter, prefix, window_s, clock: Clock::default(), random, log })
    }

    /// Makes a limiter for requests that each bring their own limit, as [`RequestLimits`] does, in the keys of
    /// envoyproxy/ratelimit.
    ///
    /// # Errors
    /// As [`new`](EnvoyproxyLimiter::new).
    pub fn for_requests(
        store: &Store,
        settings: Settings,
        prefix: &str,
    ) -> Result<Self, RedisBuildError> {
        let limiter = RequestLimits::new(store, settings.clone())?.any().clone();
        // `new` builds a limiter whose share has room for one key only. `limiter` replaces it.
        Ok(Self { limiter, ..Self::new(store, settings.keys(1), prefix)? })
    }

    /// A limiter with the same keys, for a request that brings its own limit of `hits` in the window.
    ///
    /// # Errors
    /// As [`RequestLimits::with_limit`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::{EnvoyproxyLimiter, OnError, Settings, Store};
    /// let store = Store::open("redis://127.0.0.1:1/")?;
    /// let settings = Settings::new("fixed-window 1/h".parse()?);
    /// let hourly = EnvoyproxyLimiter::for_requests(&store, settings, "")?;
    /// let five = hourly.with_limit(5, OnError::Local)?;
    /// // The store is away, and this is the only node.
    /// assert!(five.check_n("shop_user_alice_", 5).await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_limit(&self, hits: u64, on_error: OnError) -> Result<Self, RedisBuildError> {
        Ok(Self { limiter: with_limit(&self.limiter, hits, on_error)?, ..self.clone() })
    }

    /// The same limit, with windows that follow [this clock's `wall`](Clock::wall). By default they follow the system's
    /// clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_redis::{EnvoyproxyLimiter, Settings, Store};
    /// let store = Store::open("redis://127.0.0.1:1/")?;
    /// let settings = Settings::new("fixed-window 5/h".parse()?);
    /// let clock = ManualClock::new();
    /// clock.set(Timestamp::from_secs(1_764_046_800));
    /// let limiter = EnvoyproxyLimiter::new(&store, settings, "")?.with_clock(clock);
    /// # drop(limiter);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_clock(self, clock: impl Into<Clock>) -> Self {
        Self { clock: clock.into(), ..self }
    }

    /// Adds `hits` to the count, and admits the request if the count is then within the limit. A request of 0 hits adds
    /// nothing, and is denied if the limit is exceeded already.
    ///
    /// Without the store [`OnError`](crate::OnError) decides.
    pub async fn check_n(&self, stem: impl AsRef<[u8]>, hits: u64) -> RedisDecision {
        let (inner, stem) = (&self.limiter.inner, stem.as_ref());
        let decision = match self.ask(ScriptVerb::Count, stem, hits).await {
            Ok((window, count, _)) => self.decision(count, hits, window.left),
            Err(fault) => inner.fall_back(stem, Units::exactly(hits), fault),
        };
        inner.counters().decision(decision.source(), decision.is_allowed());
        decision
    }

    /// Finds out whether a request would be admitted. It counts nothing, and writes no key.
    pub async fn peek(&self, stem: impl AsRef<[u8]>, hits: u64) -> RedisDecision {
        let (inner, stem) = (&self.limiter.inner, stem.as_ref());
        match self.ask(ScriptVerb::LookAtCount, stem, 0).await {
            Ok((window, count, _)) => {
                let decision = self.decision(count.saturating_add(hits), hits, window.left);
                // The answer reports the units that are left before this request is charged.
                if decision.is_allowed() { self.decision(count, 0, window.left) } else { decision }
            }
            Err(fault) => inner.peek_fallen_back(stem, hits, fault),
        }
    }

    /// Subtracts hits from the count of the current window, but not below 0, and returns how many were subtracted.
    ///
    /// # Errors
    /// Says why the store did not confirm the call. The store may have carried out the call nevertheless.
    pub async fn uncharge(&self, stem: impl AsRef<[u8]>, hits: u64) -> Result<u64, Fault> {
        self.ask(ScriptVerb::Uncount, stem.as_ref(), hits).await.map(|(_, _, given)| given)
    }

    /// Deletes the count of the current window.
    ///
    /// # Errors
    /// Says why the store did not confirm the call. The store may have carried out the call nevertheless.
    pub async fn reset(&self, stem: impl AsRef<[u8]>) -> Result<(), Fault> {
        self.ask(ScriptVerb::Reset, stem.as_ref(), 0).await.map(|_| ())
    }

    /// Asks the store. Returns the window, its count after the request, and the hits that were subtracted.
    async fn ask(
        &self,
        verb: ScriptVerb,
        stem: &[u8],
        hits: u64,
    ) -> Result<(KeyWindow, u64, u64), Fault> {
        let inner = &self.limiter.inner;
        let window = self.window(stem);
        // The jitter keeps keys whose windows end together from expiring all at once.
        let jitter_s = self.random.hash_one(&window.key) % Self::MAX_JITTER.as_secs();
        let units = Units { share: self.window_s + jitter_s, ..Units::owed(hits) };
        let links = &inner.store.links;
        let slot = if links.is_cluster() { hash_slot::of_key(&window.key) } else { 0 };
        let parts = vec![ScriptPart::new(window.key.clone(), inner.plan, units)];
        let reply = links.of(slot).call(ScriptRequest { verb, parts }, inner.due()).await?;
        let seen = reply.parts.first().ok_or(Fault::Unexpected)?;
        match seen.state {
            State::Fixed { count, .. } if !seen.broken => Ok((window, count, seen.units)),
            // The key's value is not a count.
            _ => {
                inner.counters().add(StoreEvent::Broken, 1);
                inner.counters().fault(Fault::Unexpected);
                if self.log.check().is_allowed() {
                    let key = String::from_utf8_lossy(&window.key);
                    tracing::warn!(key = %key.escape_debug(), "no count under a key of envoyproxy/ratelimit");
                }
                Err(Fault::Unexpected)
            }
        }
    }

    fn window(&self, stem: &[u8]) -> KeyWindow {
        let now = self.clock.wall() - Timestamp::default();
        let start_s = now.as_secs() / self.window_s * self.window_s;
        let mut key = Vec::with_capacity(self.prefix.len() + stem.len() + 20);
        key.extend_from_slice(&self.prefix);
        key.extend_from_slice(stem);
        key.extend_from_slice(start_s.to_string().as_bytes());
        let end = Duration::from_secs(start_s.saturating_add(self.window_s));
        KeyWindow { key, left: end.saturating_sub(now) }
    }

    fn decision(&self, count: u64, hits: u64, left: Duration) -> RedisDecision {
        let limit = self.limiter.inner.plan.limit;
        let told = Told {
            allowed: count <= limit,
            cost: hits,
            limit,
            soft_bp: 0,
            remaining: limit.saturating_sub(count),
            retry_after: left,
            reset_after: left,
            penalty: false,
        };
        RedisDecision::new(told, Source::Store, 0)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::*;

    fn limiter(policy: &str, prefix: &str) -> Result<EnvoyproxyLimiter, RedisBuildError> {
        let store = Store::open("redis://127.0.0.1:1/").unwrap();
        EnvoyproxyLimiter::new(&store, Settings::new(policy.parse().unwrap()), prefix)
    }

    /// Compares the keys with those that the tests of envoyproxy/ratelimit expect at these times, and with more keys of
    /// the same form.
    #[tokio::test]
    async fn a_key_is_the_prefix_the_stem_and_when_the_window_began() {
        for (policy, prefix, stem, now_s, key, left_s) in [
            ("10/s", "", "domain_key_value_", 1_234, "domain_key_value_1234", 1),
            ("10/m", "", "domain_key_value_", 1_234, "domain_key_value_1200", 26),
            (
                "10/m",
                "",
                "domain_key2_value2_subkey2_subvalue2_",
                1_234,
                "domain_key2_value2_subkey2_subvalue2_1200",
                26,
            ),
            ("10/h", "", "domain_key3_value3_", 1_000_000, "domain_key3_value3_997200", 800),
            ("10/d", "", "domain_key3_value3_", 1_000_000, "domain_key3_value3_950400", 36_800),
            ("10/7d", "", "domain_key_value_", 1_000_000, "domain_key_value_604800", 209_600),
            ("10/30d", "", "domain_key_value_", 3_000_000, "domain_key_value_2592000", 2_184_000),
            (
                "10/365d",
                "",
                "domain_key_value_",
                40_000_000,
                "domain_key_value_31536000",
                23_072_000,
            ),
            ("10/s", "prefix:", "domain_key_value_", 1_234, "prefix:domain_key_value_1234", 1),
            ("10/s", "", "domain_key__", 1_234, "domain_key__1234", 1),
            ("10/s", "", "domain_key_{a} %:\n_", 1_234, "domain_key_{a} %:\n_1234", 1),
        ] {
            let clock = ManualClock::new();
            clock.set(Timestamp::from_secs(now_s));
            let window = limiter(&format!("fixed-window {policy}"), prefix).unwrap();
            let window = window.with_clock(clock).window(stem.as_bytes());
            assert_eq!(String::from_utf8(window.key).unwrap(), key);
            assert_eq!(window.left, Duration::from_secs(left_s), "{key}");
        }
    }

    /// Two nodes that have run for days use the same key in the same second, even if one node's clock was set back.
    #[tokio::test]
    async fn a_node_has_the_key_of_the_clock_as_it_is_however_old_it_is_and_whatever_was_set() {
        let clock = ManualClock::new();
        let node = limiter("fixed-window 10/s", "").unwrap().with_clock(clock.clone());
        for now_s in [1_764_046_800, 1_764_046_801, 1_764_046_801 + 2 * 86_400, 1_764_046_802] {
            clock.set(Timestamp::from_secs(now_s));
            let (own, fresh) = (node.window(b"a_"), limiter("fixed-window 10/s", "").unwrap());
            assert_eq!(own, fresh.with_clock(clock.clone()).window(b"a_"));
            assert_eq!(own.key, format!("a_{now_s}").into_bytes());
        }
        // By default the limiter reads the system's clock itself. A clock derived from the system's could be ahead of
        // it.
        let default = limiter("fixed-window 10/365d", "").unwrap();
        let system = Clock::monotonic().wall().as_nanos() / 1_000_000_000 / (365 * 86_400);
        assert_eq!(default.window(b"").key, (system * 365 * 86_400).to_string().into_bytes());
    }

    #[tokio::test]
    async fn what_envoyproxy_cannot_count_is_refused() {
        let refused = [
            "gcra 10/s",
            "sliding-window 10/h",
            "fixed-window 10/m from-first",
            "fixed-window 10/90m",
            "fixed-window 10/500ms",
            "fixed-window 10/m soft 10%",
            "fixed-window 10/m count-denied",
            "calendar-month 10",
            "calendar-year 10",
            "calendar-week 10",
        ];
        for policy in refused {
            let error = limiter(policy, "").unwrap_err();
            assert!(matches!(error, RedisBuildError::NotOfEnvoyproxy { .. }), "{policy}: {error}");
            assert!(error.to_string().starts_with(policy), "{error}");
        }
    }
}
