//! Limits that come with requests, in Redis: for each unit of time a limiter that takes the number of each request.

use tollgate::{Algorithm, Policy, Quota};
use tollgate_redis::{
    BuildError, EnvoyproxyLimiter, OnError, RedisLimiter, RequestLimits, Settings,
};
use tollgate_rules::{Override, Rule, Unit};

/// What gives a limiter for the number of a request.
pub(super) trait PerRequest {
    /// What counts under that number.
    type Counter;

    fn with_limit(&self, units: u64, on_error: OnError) -> Result<Self::Counter, BuildError>;
}

impl PerRequest for RequestLimits {
    type Counter = RedisLimiter;

    fn with_limit(&self, units: u64, on_error: OnError) -> Result<RedisLimiter, BuildError> {
        self.with_limit(units, on_error)
    }
}

impl PerRequest for EnvoyproxyLimiter {
    type Counter = Self;

    fn with_limit(&self, units: u64, on_error: OnError) -> Result<Self, BuildError> {
        self.with_limit(units, on_error)
    }
}

pub(super) fn on_error_of(on_error: tollgate_rules::OnError) -> OnError {
    match on_error {
        tollgate_rules::OnError::Local => OnError::Local,
        tollgate_rules::OnError::Allow => OnError::Allow,
        tollgate_rules::OnError::Deny => OnError::Deny,
    }
}

/// The limiters of all units.
#[derive(Debug)]
pub(super) struct OwnLimits<L> {
    /// In the order of [`Unit::ALL`].
    of_units: Vec<L>,
    /// Where no rule says otherwise.
    on_error: tollgate_rules::OnError,
}

impl<L: PerRequest> OwnLimits<L> {
    /// One for each unit, of the settings that `settings` gives for its window and name.
    pub(super) fn new(
        on_error: tollgate_rules::OnError,
        build: impl Fn(Settings) -> Result<L, BuildError>,
    ) -> Result<Self, BuildError> {
        let of_unit = |unit: Unit| {
            let quota = Quota::try_per(1, unit.length());
            // Always valid: every unit is a window.
            let policy = quota.and_then(|quota| Policy::new(Algorithm::FixedWindow, quota));
            let policy = policy.unwrap_or_else(|_| Quota::per_second(1).into());
            // No part of a rule's keys begins so.
            let part = format!("#{unit}");
            build(Settings::new(policy).name("limit").part(part))
        };
        let of_units = Unit::ALL.into_iter().map(of_unit).collect::<Result<_, _>>()?;
        Ok(Self { of_units, on_error })
    }

    /// The limiter of a limit that has come in the place of this rule's; `None` of 0, which is asked of no store.
    pub(super) fn of(&self, limit: Override, rule: Option<&Rule>) -> Option<L::Counter> {
        let place = Unit::ALL.iter().position(|unit| *unit == limit.unit)?;
        let on_error = rule.and_then(Rule::on_error).unwrap_or(self.on_error);
        let limiter = self.of_units.get(place)?;
        limiter.with_limit(limit.requests_per_unit.into(), on_error_of(on_error)).ok()
    }
}
