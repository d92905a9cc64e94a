//! [`Rule`]: one compiled rule with its tables.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate::{ChangeError, Changing, KeyedLimiter, Policy, Timestamp};

use crate::counts::full::{FullReport, NoCell};
use crate::counts::rule_counts::{Counters, RuleCounts};
use crate::counts::series::{Series, SeriesTable};
use crate::language::file::{Accuracy, Metadata, RuleOnError, Traits, Usage};
use crate::language::on_full::OnFull;
use crate::language::stem::Stem;
use crate::language::unit::Unit;
use crate::language::zone::Zone;
use crate::set::pool::DomainPool;

/// The table of one limit of a rule, with a count for each client. A key is the bytes that
/// [`crate::language::identifier`] builds; different clients have different keys.
#[derive(Debug)]
pub(crate) enum RuleTable {
    /// The table of a policy that the core cannot change: its words have no bits for a second quota.
    Fixed(KeyedLimiter<[u8]>),
    Changing(Changing<KeyedLimiter<[u8]>>),
}

impl RuleTable {
    /// Changes its quota.
    pub(crate) fn set_quota(&self, policy: Policy) -> Result<(), ChangeError> {
        match self {
            Self::Changing(table) => table.set_quota(policy),
            // The table's words have no bits for another quota. `CarriedTable::can_become` has already refused such a
            // change.
            Self::Fixed(_) => Err(ChangeError::DoesNotFit { state_bits: 0 }),
        }
    }
}

impl Deref for RuleTable {
    type Target = KeyedLimiter<[u8]>;

    #[inline]
    fn deref(&self) -> &KeyedLimiter<[u8]> {
        match self {
            Self::Fixed(table) => table,
            Self::Changing(table) => table,
        }
    }
}

/// A rule, compiled.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: minute, requests_per_unit: 5}\n";
/// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let rule = &rules.rules()[0];
/// assert_eq!((rule.domain(), rule.path()), ("shop", "user"));
/// assert_eq!(rule.limits()[0].policy().map(|policy| policy.to_string()), Some("fixed-window 5/m".into()));
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Debug)]
pub struct Rule {
    pub(crate) domain: Box<str>,
    pub(crate) path: Box<str>,
    /// The parts of the path.
    pub(crate) levels: Box<[Box<str>]>,
    /// Empty if unlimited.
    pub(crate) limits: Box<[RuleLimit]>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) replaces: Box<[Box<str>]>,
    pub(crate) traits: Traits,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) capacity: usize,
    pub(crate) counts: Arc<Counters>,
    /// The rule's counts by the values of requests, if its file asks for them.
    pub(crate) series: Option<Arc<SeriesTable>>,
    pub(crate) identity: Box<str>,
    pub(crate) stem: Stem,
}

/// One limit of a rule. A rule has several limits if its file lists them under `limits`.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings, Unit};
/// let cache = RuleCache::new(RuleSettings::default());
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    limits:\n      \
///             - {unit: second, requests_per_unit: 5}\n      \
///             - {window: 10m, requests_per_unit: 900, algorithm: gcra, burst: 9}\n";
/// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let [first, second] = rules.rules()[0].limits() else { unreachable!() };
/// assert_eq!((first.requests_per_unit(), first.unit()), (5, Some(Unit::Second)));
/// assert_eq!((second.window().as_secs(), second.unit()), (600, None));
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Debug)]
pub struct RuleLimit {
    pub(crate) requests: u32,
    pub(crate) window: Duration,
    pub(crate) unit: Option<Unit>,
    pub(crate) name: Option<Box<str>>,
    /// The policy in the words of the file.
    pub(crate) words: Box<str>,
    /// `None` if the limit is 0.
    pub(crate) gate: Option<LocalLimit>,
    /// Whether under `compat` a denied request uses up what was left, as in envoyproxy/ratelimit.
    pub(crate) drains_denied: bool,
    /// See [`RuleLimit::place`].
    pub(crate) place: Box<str>,
    pub(crate) attached: Attached,
}

/// The object that keeps a limit elsewhere.
#[derive(Default)]
pub(crate) struct Attached(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Attached {
    pub(crate) fn any(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.0.get()
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attached").field(&self.0.get().is_some()).finish()
    }
}

#[derive(Debug)]
pub(crate) struct LocalLimit {
    pub(crate) policy: Policy,
    pub(crate) table: Arc<RuleTable>,
    /// Whether the policy lets requests wait.
    pub(crate) has_queue: bool,
    /// The time zone, if the file names one. The windows begin at midnights of this zone.
    pub(crate) zone: Option<Arc<Zone>>,
    /// The pool that lends units which the limit denies for now.
    pub(crate) pool: Option<Arc<DomainPool>>,
}

impl Rule {
    /// The domain that the rule belongs to.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The keys and values from the root of the domain, as `key_value.key`: the name of the rule in metrics. It
    /// contains no text from requests.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The levels of the [path](Rule::path), outermost first: a key, or `key_value`.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let cache = RuleCache::new(RuleSettings::default());
    /// let text = "domain: shop\ndescriptors:\n  - key: plan\n    value: v1.5\n    descriptors:\n      \
    ///             - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}\n";
    /// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let rule = &rules.rules()[0];
    /// assert_eq!((rule.path(), rule.levels().collect()), ("plan_v1.5.user", vec!["plan_v1.5", "user"]));
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().map(|level| &**level)
    }

    /// The rule's limits; empty if the rule is unlimited.
    #[must_use]
    pub fn limits(&self) -> &[RuleLimit] {
        &self.limits
    }

    /// Whether the rule is explicitly unlimited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }

    /// The name of the rule's first limit, or of the rule itself if it is unlimited.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.limits.iter().find_map(RuleLimit::name).or(self.name.as_deref())
    }

    /// Whether the rule decides and counts, but never denies a request.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.traits.shadow_mode
    }

    /// Whether the rule denies only if all other rules of the request in quota mode deny as well.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.traits.quota_mode
    }

    /// Whether costs are known only after they were used. If so, a cost is charged in full, and the limit goes into
    /// debt if the cost does not fit. The request is denied if nothing was left before the charge, even if it asks for
    /// no units.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        self.traits.usage == Usage::Always
    }

    /// Whether under [`compat`](crate::RuleSettings::compat) all limits of the rule remember the costs that they
    /// denied. If they do, a request of cost 0 is denied only when a limit has been exceeded; otherwise it is denied
    /// when a limit is used up. A limit that is kept elsewhere remembers such costs, unless each node counts for itself
    /// (`accuracy: async`).
    pub(crate) fn remembers_denied(&self, is_elsewhere: bool) -> bool {
        let is_told = is_elsewhere && self.accuracy() != Accuracy::Async;
        let remembers = |gate: &LocalLimit| is_told || gate.policy.at_limit().debt > 0;
        let both =
            |limit: &RuleLimit| limit.drains_denied && limit.gate.as_ref().is_some_and(remembers);
        self.limits.iter().all(both)
    }

    /// How the rule decides while the store is unavailable. If the file does not say (`None`), the object that keeps
    /// the counts decides.
    #[must_use]
    pub fn on_error(&self) -> Option<RuleOnError> {
        self.traits.on_error
    }

    /// The accuracy of the rule's counts across several nodes.
    #[must_use]
    pub fn accuracy(&self) -> Accuracy {
        self.traits.accuracy
    }

    /// How the rule treats a client that has no cell because the table is full.
    #[must_use]
    pub fn on_full(&self) -> OnFull {
        self.traits.on_full
    }

    /// The values that are returned in answers.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// Whether envoyproxy/ratelimit could read the rule's keys and values, and would tell the same clients apart. It is
    /// `true` if the rule has no network, regular expression, pattern of keys or grouped addresses, and at most one
    /// limit.
    #[must_use]
    pub fn is_of_envoyproxy(&self) -> bool {
        self.stem.is_known
    }

    /// The keys and values from the root of the domain, as a text that is unique in the domain. It is the same in every
    /// process that has loaded the rule, whatever else the file contains.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The capacity of each of the rule's tables, in clients.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The counts of the rule's decisions since its first load.
    #[must_use]
    pub fn counts(&self) -> RuleCounts {
        self.counts.read()
    }

    /// The rule's hits by the values of requests, if its file says `detailed_metric` or `value_to_metric`. The series
    /// are in the order of their names. One more series, without levels, has the hits that found no room.
    #[must_use]
    pub fn series(&self) -> Vec<Arc<Series>> {
        self.series.as_ref().map_or_else(Vec::new, |table| table.all())
    }

    /// Statistics of the rule's tables, such as the live keys now, and the new keys that were denied because a table
    /// was full. The call reads whole tables: make it for a gauge, not for every decision.
    #[must_use]
    pub fn table_stats(&self) -> Vec<tollgate::Stats> {
        self.gates().map(|gate| gate.table.stats()).collect()
    }

    /// Counts hits of a client without a cell; returns a report if one is due.
    pub(crate) fn count_no_cell(
        &self,
        how: NoCell,
        hits: u64,
        now: Timestamp,
    ) -> Option<FullReport> {
        let is_due = self.counts.no_cell.count(how, hits, now);
        is_due.then(|| FullReport {
            domain: self.domain.clone(),
            path: self.path.clone(),
            capacity: self.capacity,
            hits: self.counts.no_cell.since_report(),
        })
    }

    pub(crate) fn gates(&self) -> impl Iterator<Item = &LocalLimit> {
        self.limits.iter().filter_map(|limit| limit.gate.as_ref())
    }

    pub(crate) fn blocks(&self) -> bool {
        self.limits.iter().any(|limit| limit.gate.is_none())
    }
}

impl RuleLimit {
    /// The units that may pass in one window; 0 admits none.
    #[must_use]
    pub fn requests_per_unit(&self) -> u32 {
        self.requests
    }

    /// The length of the window.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The unit of time that is as long as the window, if there is one.
    #[must_use]
    pub fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// The name of the limit, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// A text that identifies this limit among the limits of its rule, for the object that keeps the limit elsewhere.
    /// It is empty for the limit with the longest window, and otherwise made from the window, so it stays the same if
    /// other properties change.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Attaches the object that keeps this limit elsewhere, for as long as this load of rules is in use. Returns
    /// `false` if an object is already attached.
    pub fn attach(&self, object: Arc<dyn Any + Send + Sync>) -> bool {
        self.attached.0.set(object).is_ok()
    }

    /// The object that keeps this limit elsewhere, if it is a `T`.
    #[must_use]
    pub fn attached<T: Any>(&self) -> Option<&T> {
        self.attached.0.get()?.downcast_ref()
    }

    /// Whether under [`compat`](crate::RuleSettings::compat) a request that the limit denies uses up what was left, as
    /// in envoyproxy/ratelimit. It is `true` if the limit has neither the key `algorithm` nor the key `debt`.
    #[must_use]
    pub fn drains_denied(&self) -> bool {
        self.drains_denied
    }

    /// Whether the limit may borrow units from the pool of its domain when it denies for now (`mode: elastic`).
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let text = "{domain: shop, pool: {unit: second, requests_per_unit: 500}, descriptors: [{key: user, \
    ///             rate_limit: {unit: second, requests_per_unit: 5, mode: elastic}}]}";
    /// let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("shop.yaml", text)]);
    /// let rules = loaded.map_err(|errors| errors[0].clone())?;
    /// assert!(rules.rules()[0].limits()[0].borrows());
    /// assert_eq!(rules.rules()[0].to_string(), "shop.user: fixed-window 5/s, elastic");
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    #[must_use]
    pub fn borrows(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.pool.is_some())
    }

    /// The policy of the limit; `None` for a limit of 0.
    #[must_use]
    pub fn policy(&self) -> Option<Policy> {
        self.gate.as_ref().map(|gate| gate.policy)
    }
}

/// Prints the rule in one line, as `tollgate check` does.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    shadow_mode: true\n    \
///             rate_limit: {unit: minute, requests_per_unit: 5, name: slow}\n";
/// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// assert_eq!(rules.rules()[0].to_string(), "shop.user: fixed-window 5/m named slow, shadow");
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}: ", self.domain.escape_debug(), self.path.escape_debug())?;
        if self.is_unlimited() {
            f.write_str("unlimited")?;
            write_name(f, self.name.as_deref())?;
        }
        for (n, limit) in self.limits.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { " and " })?;
            f.write_str(if limit.gate.is_some() { &limit.words } else { "nothing passes" })?;
            if let Some(zone) = limit.gate.as_ref().and_then(|gate| gate.zone.as_ref()) {
                write!(f, " in {zone}")?;
            }
            f.write_str(if limit.borrows() { ", elastic" } else { "" })?;
            write_name(f, limit.name())?;
        }
        if self.is_shadow() {
            f.write_str(", shadow")?;
        }
        if self.is_quota() {
            f.write_str(", quota")?;
        }
        if self.is_usage() {
            f.write_str(", usage")?;
        }
        Ok(())
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, name: Option<&str>) -> fmt::Result {
    name.map_or(Ok(()), |name| write!(f, " named {}", name.escape_debug()))
}
