//! [`Settings`]: the settings of one limit over many nodes, including how to decide while the store fails.

use std::time::Duration;

use tollgate::Policy;

use crate::error::RedisBuildError;
use crate::script::plan::ScriptPlan;
use crate::share;

/// How often counts are reported by default: ten times a second for each key, whatever the load.
const INTERVAL: Duration = Duration::from_millis(100);

/// Where decisions are made.
///
/// ```
/// assert_eq!(tollgate_redis::Mode::default(), tollgate_redis::Mode::Leased);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// The store makes every decision. In any interval all nodes together admit no more than one limiter would. Use
    /// this mode for small limits and low rates.
    Exact,
    /// Units are taken from the store in batches, and spent by this node. From the first request on, all nodes together
    /// admit no more than one limiter would. In an interval that begins later, they may also admit the units that they
    /// held when it began, at most [`Settings::max_held`] on each node. Use this mode for hot keys.
    #[default]
    Leased,
    /// This node decides at once, by counts that the nodes exchange through the store every [`Settings::interval`]. All
    /// nodes together may admit more than one limiter would, since no node knows the newest counts of the others. The
    /// excess is at most the units that each node admits in six intervals, or in about three without faults. The first
    /// request for a key after a pause is decided by the store. Use this mode for the highest rates.
    Async,
}

/// How requests are decided when the store fails.
///
/// ```
/// assert_eq!(tollgate_redis::OnError::default(), tollgate_redis::OnError::Local);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnError {
    /// Each node goes on within its share of the limit: a burst of `burst / nodes`, at least 1, and a rate of `rate /
    /// nodes`. The share regains units only while the node is without the store, so it is one budget for all outages
    /// together.
    #[default]
    Local,
    /// All requests that cost no more than the limit are admitted, without any bound.
    Allow,
    /// Requests are denied.
    Deny,
}

/// The settings of a [`RedisLimiter`](crate::RedisLimiter).
///
/// All nodes must use the same name, and the same policy except while it changes: a limit is identified by its name and
/// part, and units that are spent stay spent when the policy changes.
///
/// ```
/// use tollgate_redis::{Mode, OnError, Settings};
/// let settings = Settings::new("gcra 100/s burst 200".parse()?)
///     .name("api")
///     .mode(Mode::Exact)
///     .nodes(3)
///     .on_error(OnError::Deny);
/// assert!(settings.check().is_ok());
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Settings {
    pub(crate) policy: Policy,
    pub(crate) name: String,
    pub(crate) part: String,
    pub(crate) mode: Mode,
    pub(crate) on_error: OnError,
    pub(crate) nodes: u64,
    pub(crate) keys: usize,
    pub(crate) max_held: Option<u64>,
    pub(crate) interval: Duration,
}

impl Settings {
    /// Settings of a leased limit of one node, which goes on locally while the store fails.
    ///
    /// ```
    /// use tollgate_redis::Settings;
    /// assert!(Settings::new("100/s".parse()?).check().is_ok());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn new(policy: Policy) -> Self {
        let (mode, on_error) = (Mode::default(), OnError::default());
        let (name, part) = ("default".to_string(), String::new());
        Self {
            policy,
            name,
            part,
            mode,
            on_error,
            nodes: 1,
            keys: 100_000,
            max_held: None,
            interval: INTERVAL,
        }
    }

    /// The name of the limit. Two limiters with the same name and part are one limit, even if their policies differ. It
    /// may contain none of `{`, `}` and `:`.
    ///
    /// In a cluster the clients of a limit are spread over all nodes, whatever the name. All limits of one client are
    /// in one slot, and charged by one call.
    ///
    /// ```
    /// use tollgate_redis::Settings;
    /// assert!(Settings::new("100/s".parse()?).name("api").check().is_ok());
    /// assert!(Settings::new("100/s".parse()?).name("a:b").check().is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// A second part of the name, such as the rule of a domain. It may contain none of `{`, `}` and `:`.
    ///
    /// ```
    /// use tollgate_redis::Settings;
    /// assert!(Settings::new("100/s".parse()?).name("shop").part("user/login").check().is_ok());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.part = part.into();
        self
    }

    /// Where decisions are made.
    ///
    /// ```
    /// use tollgate_redis::{Mode, Settings};
    /// assert!(Settings::new("100/s".parse()?).mode(Mode::Exact).check().is_ok());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How requests are decided when the store fails.
    ///
    /// ```
    /// use tollgate_redis::{OnError, Settings};
    /// assert!(Settings::new("100/s".parse()?).on_error(OnError::Deny).check().is_ok());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// The number of nodes that share the limit, at least 1. It determines each node's share while the store fails, and
    /// the units that each node may hold in leases. Each further node that uses the limit adds its share, and the units
    /// that it holds, to what all nodes together may admit.
    ///
    /// ```
    /// use tollgate_redis::Settings;
    /// assert!(Settings::new("100/s".parse()?).nodes(50).check().is_ok());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.nodes = nodes;
        self
    }

    /// The number of keys whose leases and shares fit in the memory of this node at the same time. A key takes 14 bytes
    /// for the share, 22 to 66 bytes for its place in the table, and about 400 bytes while it has leases. A lease of
    /// 576 units or more adds 1,024 bytes. If the table has no place for a key, the store decides. If the store fails,
    /// [`OnError`] decides. With [`OnError::Local`], a key that finds no cell in the table of shares may then be denied
    /// although it has units left (see [`tollgate::WhenFull::Spill`]).
    ///
    /// ```
    /// use tollgate_redis::Settings;
    /// assert!(Settings::new("100/s".parse()?).keys(1_000).check().is_ok());
    /// assert!(Settings::new("100/s".parse()?).keys(0).check().is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn keys(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
    }

    /// The most units of one key that this node holds in leases; at least 1. The default is half of the burst divided
    /// by the number of nodes. All nodes together then hold at most half of the burst, or one unit each if that is
    /// more. A request that costs more than the node may hold gets a lease of its own size, and normally spends it at
    /// once.
    ///
    /// ```
    /// use tollgate_redis::Settings;
    /// assert!(Settings::new("100/s".parse()?).max_held(10).check().is_ok());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn max_held(mut self, units: u64) -> Self {
        self.max_held = Some(units);
        self
    }

    /// In mode `Async`, the time between two reports of the units that this node has admitted. From the answer to a
    /// report the node learns the units of the other nodes. It is from 1 ms to a minute, and 100 ms by default.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_redis::{Mode, Settings};
    /// let settings = Settings::new("100/s".parse()?).mode(Mode::Async);
    /// assert!(settings.clone().interval(Duration::from_millis(20)).check().is_ok());
    /// assert!(settings.interval(Duration::ZERO).check().is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Checks whether a limiter can be built from these settings. `tollgate check` does this for every rule.
    ///
    /// # Errors
    /// An error if the policy has numbers that the script in the store cannot compute exactly, or if a setting is out
    /// of range.
    ///
    /// ```
    /// use tollgate_redis::Settings;
    /// let error = Settings::new("fixed-window 5/1500ns".parse()?).check().unwrap_err();
    /// assert!(error.to_string().starts_with("a window or segment of 1.5µs is no whole number"));
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn check(&self) -> Result<(), RedisBuildError> {
        self.plan().map(|_| ())
    }

    pub(crate) fn plan(&self) -> Result<ScriptPlan, RedisBuildError> {
        let plan = ScriptPlan::new(self.policy)?;
        if let Some(reason) = plan.only_exact().filter(|_| self.mode != Mode::Exact) {
            return Err(RedisBuildError::OnlyExact { policy: self.policy.into(), reason });
        }
        if self.nodes == 0 {
            return Err(RedisBuildError::NoNodes);
        }
        check_name("name", &self.name)?;
        if !self.part.is_empty() {
            check_name("part", &self.part)?;
        }
        if self.keys == 0 {
            return Err(RedisBuildError::Setting { setting: "keys", accepted: "at least 1" });
        }
        if self.max_held == Some(0) {
            return Err(RedisBuildError::Setting { setting: "max_held", accepted: "at least 1" });
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&self.interval) {
            return Err(RedisBuildError::Setting { setting: "interval", accepted: "1 ms to 60 s" });
        }
        share::policy(self.policy, self.nodes)?;
        Ok(plan)
    }

    pub(crate) fn held(&self) -> u64 {
        let burst = self.policy.quota().max_burst();
        self.max_held.unwrap_or(burst / self.nodes / 2).clamp(1, burst)
    }
}

/// These characters separate the parts of a key, and names are such parts. A name that contained one of these
/// characters could give the same key as another name.
pub(crate) fn check_name(setting: &'static str, name: &str) -> Result<(), RedisBuildError> {
    if name.is_empty() || name.contains(['{', '}', ':']) {
        return Err(RedisBuildError::Setting {
            setting,
            accepted: "at least one character, and none of { } :",
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(policy: &str) -> Settings {
        Settings::new(policy.parse().unwrap())
    }

    #[test]
    fn all_nodes_together_hold_half_of_a_burst_or_one_unit_each() {
        assert_eq!(settings("100/s burst 600").nodes(3).held(), 100);
        assert_eq!(settings("100/s burst 5").nodes(50).held(), 1);
        assert_eq!(settings("100/s burst 600").nodes(3).max_held(1_000).held(), 600);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refused = |settings: Settings| settings.check().unwrap_err().to_string();
        assert_eq!(refused(settings("1/s").nodes(0)), "0 nodes share nothing; use at least 1");
        assert_eq!(
            refused(settings("1/s").max_held(0)),
            "max_held is out of range; use at least 1"
        );
        assert_eq!(
            refused(settings("1/s").name("")),
            "name is out of range; use at least one character, and none of { } :"
        );
        assert!(refused(settings("1/d burst 200000000000")).contains("cannot be computed exactly"));
        for mode in [Mode::Leased, Mode::Async] {
            assert_eq!(
                refused(settings("10/m count-denied").mode(mode)),
                "gcra 10/m count-denied needs mode exact (in a rule `accuracy: exact`): a node that decides by itself \
                 does not know in which order other nodes admit and deny, and to tell the store of every denial takes \
                 as many calls as mode exact"
            );
            assert!(settings("10/m penalty 10m after 3").mode(mode).check().is_err());
            let of_a_log = refused(settings("sliding-log 10/m").mode(mode));
            assert!(of_a_log.starts_with("sliding-log 10/m needs mode exact"), "{of_a_log}");
        }
        for policy in ["10/m count-denied", "sliding-log 10/m"] {
            assert_eq!(settings(policy).mode(Mode::Exact).check(), Ok(()));
        }
    }
}
