//! Limits that come with requests, in Redis. There is one set of keys for each unit of time, such as a minute. Each
//! request says how many hits may pass in one unit of time.

use tollgate::{Algorithm, Policy, Quota};
use tollgate_redis::{
    EnvoyproxyLimiter, OnError, RedisBuildError, RedisLimiter, RequestLimits, Settings,
};
use tollgate_rules::{Override, Rule, Unit};

/// Makes a limiter for the limit that a request brings.
pub(super) trait PerRequest {
    /// The limiter.
    type Counter;

    fn with_limit(&self, units: u64, on_error: OnError) -> Result<Self::Counter, RedisBuildError>;
}

impl PerRequest for RequestLimits {
    type Counter = RedisLimiter;

    fn with_limit(&self, units: u64, on_error: OnError) -> Result<RedisLimiter, RedisBuildError> {
        self.with_limit(units, on_error)
    }
}

impl PerRequest for EnvoyproxyLimiter {
    type Counter = Self;

    fn with_limit(&self, units: u64, on_error: OnError) -> Result<Self, RedisBuildError> {
        self.with_limit(units, on_error)
    }
}

pub(super) fn on_error_of(on_error: tollgate_rules::RuleOnError) -> OnError {
    match on_error {
        tollgate_rules::RuleOnError::Local => OnError::Local,
        tollgate_rules::RuleOnError::Allow => OnError::Allow,
        tollgate_rules::RuleOnError::Deny => OnError::Deny,
    }
}

/// The limiters for all units of time.
#[derive(Debug)]
pub(super) struct OwnLimits<L> {
    /// One limiter for each unit of time, in the order of [`Unit::ALL`].
    of_units: Vec<L>,
    /// Applies if no rule matches the request, or if the rule names no `on_error`.
    on_error: tollgate_rules::RuleOnError,
}

impl<L: PerRequest> OwnLimits<L> {
    /// `build` gets the settings of each unit of time: its window and its name.
    pub(super) fn new(
        on_error: tollgate_rules::RuleOnError,
        build: impl Fn(Settings) -> Result<L, RedisBuildError>,
    ) -> Result<Self, RedisBuildError> {
        let of_unit = |unit: Unit| {
            let policy = Quota::try_per(1, unit.length())
                .and_then(|quota| Policy::new(Algorithm::FixedWindow, quota))
                .map_err(|_| RedisBuildError::Setting {
                    setting: "the unit of a limit that comes with a request",
                    accepted: "one that is the period of a fixed window, as all of them are",
                })?;
            // No part of a rule's key begins with `#`, so these keys never equal a rule's key.
            let part = format!("#{unit}");
            build(Settings::new(policy).name("limit").part(part))
        };
        let of_units = Unit::ALL.into_iter().map(of_unit).collect::<Result<_, _>>()?;
        Ok(Self { of_units, on_error })
    }

    /// The limiter for a limit that comes with a request and replaces the limits of `rule`. `None` for a limit of 0,
    /// which is denied without asking the store.
    pub(super) fn of(&self, limit: Override, rule: Option<&Rule>) -> Option<L::Counter> {
        let place = Unit::ALL.iter().position(|unit| *unit == limit.unit)?;
        let on_error = rule.and_then(Rule::on_error).unwrap_or(self.on_error);
        let limiter = self.of_units.get(place)?;
        limiter.with_limit(limit.requests_per_unit.into(), on_error_of(on_error)).ok()
    }
}
