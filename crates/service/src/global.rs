//! Limits that are kept in Redis, shared by all services that use the same Redis.
//!
//! When rules are loaded, each of their limits gets a limiter in Redis. If Redis cannot keep one of the limits, the
//! load is refused, and the previous rules stay. A check makes one call to Redis, whatever the number of its
//! descriptors. If Redis does not answer in time, each rule's `on_error` decides, or the `on_error` of [`Global`] if
//! the rule names none.

mod envoyproxy;
mod metrics;
mod own_limits;
mod redis_store;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tollgate::{Clock, Policy};
use tollgate_redis::{
    EnvoyproxyLimiter, Fault, Mode, Outage, RedisLimiter, RequestLimits, Settings, Store,
    StoreOptions,
};
use tollgate_rules::{
    Accuracy, Answer, DecisionMaker, Purpose, Request, RequestError, Rule, RuleOnError,
};

use crate::start_error::StartError;

pub(crate) use metrics::OfStore;
pub(crate) use redis_store::StoredCharge;

use envoyproxy::EnvoyproxyStore;
use own_limits::{OwnLimits, on_error_of};
use redis_store::RedisStore;

/// The Redis that keeps the limits of many nodes, and how to use it.
///
/// ```
/// use tollgate_service::Global;
/// let global = Global { nodes: 3, ..Global::new("redis://limiter:secret@127.0.0.1/") };
/// assert_eq!(global.deadline.as_millis(), 10);
/// assert!(!format!("{global:?}").contains("secret"));
/// assert_eq!(global.to_string(), "redis://127.0.0.1/, shared by 3 nodes");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Global {
    /// `redis://user:password@host:port/database`, or another address that [`tollgate_redis::StoreOptions::new`]
    /// accepts.
    pub address: String,
    /// The number of nodes that share the limits. It determines the share of each node while the store does not answer.
    pub nodes: u64,
    /// Decides requests while the store does not answer, under rules that name no `on_error`.
    pub on_error: RuleOnError,
    /// The maximum time that a request waits for the store.
    pub deadline: Duration,
    /// The prefix of all keys.
    pub prefix: String,
    /// If set, limits are counted in the keys of envoyproxy/ratelimit, so that its nodes and these nodes share the
    /// limits. The keys begin with this text. It must equal `CACHE_KEY_PREFIX` of envoyproxy/ratelimit, which is empty
    /// by default. Works only with [`compat`](tollgate_rules::RuleSettings::compat), and with rules that
    /// envoyproxy/ratelimit knows. Default: none.
    pub envoyproxy: Option<String>,
    /// With TLS, a file with the authorities that may issue the store's certificate.
    pub authority: Option<PathBuf>,
    /// With TLS, a file with the client certificate, for a store that asks for one.
    pub certificate: Option<PathBuf>,
    /// The file with the key of that certificate.
    pub key: Option<PathBuf>,
}

impl Global {
    /// Uses the defaults: one node, [`RuleOnError::Local`], [`StoreOptions::DEADLINE`], the prefix `tollgate`.
    ///
    /// ```
    /// assert_eq!(tollgate_service::Global::new("redis://127.0.0.1/").nodes, 1);
    /// ```
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        let (deadline, prefix) = (StoreOptions::DEADLINE, "tollgate".to_owned());
        let (authority, certificate, key) = (None, None, None);
        let (nodes, on_error) = (1, RuleOnError::default());
        let (address, envoyproxy) = (address.into(), None);
        Self { address, nodes, on_error, deadline, prefix, envoyproxy, authority, certificate, key }
    }
}

impl fmt::Display for Global {
    /// Writes the store's address without user and password, and the number of nodes that share the limits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = StoreOptions::new(&self.address).place();
        let s = if self.nodes == 1 { "" } else { "s" };
        write!(f, "{place}, shared by {} node{s}", self.nodes)
    }
}

impl fmt::Debug for Global {
    /// Omits the address, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Global")
            .field("nodes", &self.nodes)
            .field("on_error", &self.on_error)
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .field("envoyproxy", &self.envoyproxy)
            .finish_non_exhaustive()
    }
}

/// The memory in bytes that each client of a limit in the store takes in this process, besides its cell in the table of
/// its rule: 14 bytes for its share of the limit, and at most 66 for its entry. A client that holds a lease takes about
/// 400 bytes more.
pub(crate) const BYTES_OF_A_CLIENT: u64 = 80;

/// Identifies a limiter, so that the next load of rules finds the limiter and keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LimiterIdentity {
    domain: Box<str>,
    rule: Box<str>,
    /// Names the limit within its rule.
    place: Box<str>,
    policy: Policy,
    accuracy: Accuracy,
    on_error: RuleOnError,
    capacity: usize,
}

/// The kind of keys that limits are counted in, with the limiters for limits that come with requests and not from
/// rules.
#[derive(Clone, Debug)]
enum LimitKeys {
    Own(Arc<OwnLimits<RequestLimits>>),
    /// The keys of envoyproxy/ratelimit, which begin with this prefix.
    Envoyproxy(Arc<str>, Arc<OwnLimits<EnvoyproxyLimiter>>),
}

/// The limiters of all rules in force.
#[derive(Clone, Debug)]
pub(crate) struct GlobalLimits {
    store: Store,
    nodes: u64,
    /// Applies to rules that name no `on_error`.
    on_error: RuleOnError,
    keys: LimitKeys,
    /// The clock that determines the windows of envoyproxy/ratelimit's keys.
    clock: Clock,
    /// The limiters that some rules still use.
    known: Arc<Mutex<HashMap<LimiterIdentity, Weak<RedisLimiter>>>>,
}

impl GlobalLimits {
    /// Opens the store. `own_clients` is the capacity for clients whose limits come with requests. Each unit of time
    /// has this capacity.
    pub(crate) fn open(
        global: &Global,
        own_clients: usize,
        clock: Clock,
    ) -> Result<Self, StartError> {
        if global.nodes == 0 {
            return Err(StartError::Store(tollgate_redis::RedisBuildError::NoNodes));
        }
        let mut options = StoreOptions::new(&global.address)
            .deadline(global.deadline)
            .prefix(global.prefix.clone());
        if let Some(path) = &global.authority {
            options = options.trust(read(path)?);
        }
        if let (Some(certificate), Some(key)) = (&global.certificate, &global.key) {
            options = options.identity(read(certificate)?, read(key)?);
        }
        let store = options.open().map_err(StartError::Store)?;
        let (nodes, on_error) = (global.nodes, global.on_error);
        let own = |settings: Settings| {
            settings.on_error(on_error_of(on_error)).nodes(nodes).keys(own_clients.max(1))
        };
        let keys = match &global.envoyproxy {
            None => {
                let build = |settings| RequestLimits::new(&store, own(settings));
                let own = OwnLimits::new(on_error, build).map_err(StartError::Store)?;
                LimitKeys::Own(Arc::new(own))
            }
            Some(prefix) => {
                let build = |settings| {
                    let of = EnvoyproxyLimiter::for_requests(&store, own(settings), prefix);
                    of.map(|limiter| limiter.with_clock(clock.clone()))
                };
                let own = OwnLimits::new(on_error, build).map_err(StartError::Store)?;
                LimitKeys::Envoyproxy(prefix.as_str().into(), Arc::new(own))
            }
        };
        Ok(Self { store, nodes, on_error, keys, clock, known: Arc::default() })
    }

    pub(crate) fn metrics(&self) -> OfStore {
        OfStore { store: self.store.clone() }
    }

    /// The current outage of the store; `None` while the store answers.
    pub(crate) fn outage(&self) -> Option<Outage> {
        self.store.outage()
    }

    /// Returns a function that gives every limit of a rule its limiter, or returns the reason why a limit cannot have
    /// one.
    pub(crate) fn vet(&self) -> impl Fn(&Rule) -> Result<(), String> + Send + Sync + 'static {
        let this = self.clone();
        move |rule| {
            if matches!(this.keys, LimitKeys::Envoyproxy(..))
                && let Some(refusal) = envoyproxy::refusal(rule)
            {
                return Err(refusal);
            }
            for limit in rule.limits() {
                if let Some(policy) = limit.policy() {
                    match &this.keys {
                        LimitKeys::Own(_) => {
                            limit.attach(this.limiter(rule, limit.place(), policy)?)
                        }
                        LimitKeys::Envoyproxy(prefix, _) => {
                            limit.attach(this.counter(rule, prefix, policy)?)
                        }
                    };
                }
            }
            Ok(())
        }
    }

    /// The limiter that counts a limit in the keys of envoyproxy/ratelimit.
    fn counter(
        &self,
        rule: &Rule,
        prefix: &str,
        policy: Policy,
    ) -> Result<Arc<EnvoyproxyLimiter>, String> {
        let settings = self.settings(rule, policy);
        let limiter = EnvoyproxyLimiter::new(&self.store, settings, prefix);
        let limiter = limiter.map(|limiter| limiter.with_clock(self.clock.clone()));
        limiter.map(Arc::new).map_err(|error| error.to_string())
    }

    fn on_error(&self, rule: &Rule) -> RuleOnError {
        rule.on_error().unwrap_or(self.on_error)
    }

    /// The settings that all limiters of a rule have in common.
    fn settings(&self, rule: &Rule, policy: Policy) -> Settings {
        Settings::new(policy)
            .name(escaped(rule.domain()))
            .on_error(on_error_of(self.on_error(rule)))
            .nodes(self.nodes)
            .keys(rule.capacity())
    }

    fn limiter(
        &self,
        rule: &Rule,
        place: &str,
        policy: Policy,
    ) -> Result<Arc<RedisLimiter>, String> {
        let (accuracy, on_error) = (rule.accuracy(), self.on_error(rule));
        let capacity = rule.capacity();
        let (domain, path) = (rule.domain().into(), rule.identity().into());
        let identity = LimiterIdentity {
            domain,
            rule: path,
            place: place.into(),
            policy,
            accuracy,
            on_error,
            capacity,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limiter) = known.get(&identity).and_then(Weak::upgrade) {
            return Ok(limiter);
        }
        let mode = match accuracy {
            Accuracy::Exact => Mode::Exact,
            Accuracy::Leased => Mode::Leased,
            Accuracy::Async => Mode::Async,
        };
        // This part of the key does not contain the policy, so that units stay spent when the policy changes.
        let mut part = escaped(rule.identity());
        if !place.is_empty() {
            part += &format!("#{place}");
        }
        let settings = self.settings(rule, policy).part(part).mode(mode);
        let limiter =
            RedisLimiter::new(&self.store, settings).map_err(|error| error.to_string())?;
        let limiter = Arc::new(limiter);
        known.retain(|_, limiter| limiter.strong_count() > 0);
        known.insert(identity, Arc::downgrade(&limiter));
        Ok(limiter)
    }

    /// Decides a request; returns the answer, and the charges, so that they can be given back. `None` with the keys of
    /// envoyproxy/ratelimit: charges there cannot be given back, because a count does not say which request added to
    /// it.
    pub(crate) async fn decide(
        &self,
        maker: &DecisionMaker,
        request: &Request<'_>,
        purpose: Purpose,
    ) -> Result<(Answer, Option<Vec<StoredCharge>>), RequestError> {
        match &self.keys {
            LimitKeys::Own(own) => {
                let mut store = RedisStore::new(own);
                let answer = maker.decide_in(&mut store, request, purpose).await?;
                Ok((answer, Some(store.charges)))
            }
            LimitKeys::Envoyproxy(_, own) => {
                Ok((maker.decide_in(&mut EnvoyproxyStore { own }, request, purpose).await?, None))
            }
        }
    }

    /// Makes the store forget all charges to the clients of a request; returns the number of limits that were reset.
    pub(crate) async fn reset(
        &self,
        maker: &DecisionMaker,
        request: &Request<'_>,
    ) -> Result<Result<usize, Fault>, RequestError> {
        let mut done = 0;
        match &self.keys {
            LimitKeys::Own(own) => {
                let store = RedisStore::new(own);
                for (limiter, client) in
                    maker.with_claims(request, |claims| store.to_reset(claims))?
                {
                    if let Err(fault) = limiter.entry(&client).reset().await {
                        return Ok(Err(fault));
                    }
                    done += 1;
                }
            }
            LimitKeys::Envoyproxy(_, own) => {
                let store = EnvoyproxyStore { own };
                for (limiter, stem) in
                    maker.with_claims(request, |claims| store.to_reset(claims))?
                {
                    if let Err(fault) = limiter.reset(&stem).await {
                        return Ok(Err(fault));
                    }
                    done += 1;
                }
            }
        }
        Ok(Ok(done))
    }

    /// Gives back the units that this node holds in leases.
    pub(crate) async fn close(&self) {
        let limiters: Vec<_> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.values().filter_map(Weak::upgrade).collect()
        };
        for limiter in limiters {
            limiter.return_leases().await;
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StartError> {
    std::fs::read(path)
        .map_err(|error| StartError::StoreFile { path: path.into(), reason: error.to_string() })
}

/// Escapes the separators of a key, so that different texts stay different.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '%' | '{' | '}' | ':' | '#' => escaped += &format!("%{:02X}", u32::from(letter)),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_are_free_of_separators_and_no_two_become_one() {
        assert_eq!(escaped("shop:{a}%3A#1"), "shop%3A%7Ba%7D%253A%231");
        assert_ne!(escaped("a%7B"), escaped("a{"));
    }
}
