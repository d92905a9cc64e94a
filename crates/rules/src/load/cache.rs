//! [`RuleCache`]: the rules in force. A decision uses the rules of one load from its start to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use tollgate::{Clock, Timestamp};

use crate::counts::counter::RuleTotal;
use crate::counts::full::{FullReport, NoCell, NoPlaceTally};
use crate::counts::room::Room;
use crate::counts::rule_counts::{Counters, RuleCounts};
use crate::counts::worst::WorstClient;
use crate::language::error::RuleError;
use crate::language::source::RuleText;
use crate::set::before::Before;
use crate::set::linger::Lingering;
use crate::set::pool::HeadroomRefusal;
use crate::set::reclaim::compile_in_room;
use crate::set::rule::Rule;
use crate::set::rule_set::RuleSet;
use crate::set::settings::RuleSettings;
use crate::set::vet::Vet;

/// The rules in force, and the status of loading. The loading thread and the deciding threads share the cache in an
/// [`Arc`].
///
/// A load replaces all rules at once or, if any file is bad, none of them: then the last good rules stay in force.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// assert!(cache.load(&[RuleText::new("shop.yaml", "domain: shop")]).is_ok());
/// assert!(cache.load(&[RuleText::new("shop.yaml", "domain: ''")]).is_err());
/// assert_eq!(cache.rules().map(|rules| rules.domains().count()), Some(1));
/// assert_eq!((cache.status().loads, cache.status().refused_loads), (1, 1));
/// ```
#[derive(Debug)]
pub struct RuleCache {
    settings: RuleSettings,
    clock: Clock,
    vet: Option<Vet>,
    rules: ArcSwapOption<RuleSet>,
    loads: RuleTotal,
    refused_loads: RuleTotal,
    /// Requests in domains without rules.
    unknown_domains: RuleTotal,
    /// Requests that passed only because of the global shadow mode.
    global_shadow: RuleTotal,
    /// The counts under limits that come with requests.
    pub(crate) own_limits: Counters,
    /// Requests that were refused because the table had no place for the pace that came with them.
    pub(crate) no_place: NoPlaceTally,
    /// The room for the series of all rules.
    series: Arc<Room>,
    /// The room for the lists of worst clients.
    pub(crate) lists: Arc<Room>,
    /// Held while loading, so that loads are sequential.
    loading: Mutex<Loading>,
}

/// The state that one load leaves for the next, besides the rules.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// The errors of the last load.
    errors: Vec<RuleError>,
    pub(crate) lingering: Lingering,
    /// The tables of a restored state, until a load takes effect.
    restored: Option<RuleSet>,
    /// The number of limits that were forgotten before their time was over.
    forgotten: u64,
    /// The number of domains without rules that were given up.
    dropped_domains: u64,
}

/// The status of loading.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleSettings};
/// assert_eq!(RuleCache::new(RuleSettings::default()).status().loads, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoadStatus {
    /// Loads that took effect.
    pub loads: u64,
    /// Loads that were refused; the previous rules stayed in force.
    pub refused_loads: u64,
    /// The errors of the last load; none if it took effect.
    pub errors: Vec<RuleError>,
    /// The number of lingering tables, which keep what was spent under limits that are gone.
    pub lingering_tables: usize,
    /// The bytes that the lingering tables take.
    pub lingering_bytes: u64,
    /// Limits that were gone, and were forgotten before their time because memory was short.
    pub forgotten: u64,
    /// Domains without rules whose last good ones were given up because memory was short: see
    /// [`RuleSet::dropped_domains`].
    pub dropped_domains: u64,
}

impl RuleCache {
    /// A cache without rules, on Unix time: windows begin at :00 and at midnight (UTC).
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert!(RuleCache::new(RuleSettings::default()).rules().is_none());
    /// ```
    #[must_use]
    pub fn new(settings: RuleSettings) -> Self {
        Self::with_clock(settings, Clock::unix())
    }

    /// Like [`new`](RuleCache::new), with a clock of your choice. The first window begins at the origin of the clock.
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert!(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()).rules().is_none());
    /// ```
    #[must_use]
    pub fn with_clock(settings: RuleSettings, clock: impl Into<Clock>) -> Self {
        let series = Arc::new(Room::new(settings.max_series));
        Self {
            settings,
            clock: clock.into(),
            vet: None,
            rules: ArcSwapOption::empty(),
            loads: RuleTotal::default(),
            refused_loads: RuleTotal::default(),
            unknown_domains: RuleTotal::default(),
            global_shadow: RuleTotal::default(),
            own_limits: Counters::default(),
            no_place: NoPlaceTally::default(),
            series,
            lists: Arc::new(Room::new(WorstClient::MAX_RULES)),
            loading: Mutex::new(Loading::default()),
        }
    }

    /// Passes all rules to `vet` before they are put in force, and refuses the load if `vet` refuses one. Call this if
    /// limits are kept outside this process, in a store that does not support every policy. [`RuleSet::changes`] then
    /// lists the limits that changed in that store, and says whether they kept their counts.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let vet = |rule: &tollgate_rules::Rule| match rule.is_shadow() {
    ///     true => Err("no shadows here".to_owned()),
    ///     false => Ok(()),
    /// };
    /// let cache = RuleCache::new(RuleSettings::default()).vetted(vet);
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    shadow_mode: true\n    \
    ///             rate_limit: {unit: minute, requests_per_unit: 5}\n";
    /// let errors = cache.load(&[RuleText::new("shop.yaml", text)]).unwrap_err();
    /// assert_eq!(errors[0].to_string(), "shop.user: no shadows here");
    /// ```
    #[must_use]
    pub fn vetted(self, vet: impl Fn(&Rule) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { vet: Some(Vet(Box::new(vet))), ..self }
    }

    /// Compiles the texts and puts the rules in force. Limits of rules that existed before keep their counts;
    /// [`RuleSet::changes`] lists the limits that changed, and says whether they kept their counts.
    ///
    /// # Errors
    /// One error for each bad file. The previous rules then stay in force.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let cache = RuleCache::new(RuleSettings::default());
    /// let texts = ["a.yaml", "b.yaml"].map(|file| RuleText::new(file, "domain: shop"));
    /// let errors = cache.load(&texts).unwrap_err();
    /// assert!(errors[0].to_string().starts_with("b.yaml:1:1: duplicate domain 'shop' in config file"));
    /// ```
    pub fn load(&self, texts: &[RuleText]) -> Result<Arc<RuleSet>, Vec<RuleError>> {
        let mut loading = self.loading();
        let now = self.clock.now();
        loading.lingering.expire(now);
        let previous = self.rules.load();
        let vet = self.vet.as_ref().map(|vet| |rules: &RuleSet| vet.errors(rules));
        let restored = loading.restored.take();
        let previous = previous.as_deref().or(restored.as_ref());
        let lingering = &loading.lingering;
        let before =
            Before { rules: previous, lingering, room: &self.series, dropped: &[], anew: false };
        match compile_in_room(texts, &self.settings, &self.clock, before, vet.as_ref()) {
            Ok(mut rules) => {
                rules.forgotten = loading.lingering.turn(previous, &rules, now, &self.settings);
                rules.lingering = loading.lingering.tables();
                loading.forgotten += rules.forgotten.len() as u64;
                loading.dropped_domains += rules.dropped_domains.len() as u64;
                let rules = Arc::new(rules);
                self.rules.store(Some(Arc::clone(&rules)));
                self.loads.add(1);
                loading.errors.clear();
                Ok(rules)
            }
            Err(errors) => {
                loading.restored = restored;
                self.refused_loads.add(1);
                loading.errors.clone_from(&errors);
                Err(errors)
            }
        }
    }

    /// Records that the texts could not be read at all. The rules stay in force.
    pub(crate) fn refuse(&self, error: RuleError) -> Vec<RuleError> {
        let mut loading = self.loading();
        self.refused_loads.add(1);
        loading.errors = vec![error];
        loading.errors.clone()
    }

    pub(crate) fn loading(&self) -> MutexGuard<'_, Loading> {
        // A load that panicked has put nothing in force, so the next load can continue.
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules in force; `None` before the first load that took effect.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let cache = RuleCache::new(RuleSettings::default());
    /// let loaded = cache.load(&[RuleText::new("shop.yaml", "domain: shop")]);
    /// assert!(loaded.is_ok() && cache.rules().is_some());
    /// ```
    #[must_use]
    pub fn rules(&self) -> Option<Arc<RuleSet>> {
        self.rules.load_full()
    }

    /// The same as [`rules`](RuleCache::rules), without the cost of counting a reference. The result may be held for
    /// one decision only.
    pub(crate) fn current(&self) -> Guard<Option<Arc<RuleSet>>> {
        self.rules.load()
    }

    /// Reports which share of a domain's [pool](crate::DomainPool) can be spared from now on, 0 for none and 1 for all.
    /// The report is in force for the given time, at most [`DomainPool::LONGEST`](crate::DomainPool::LONGEST). After
    /// that time nothing is lent until the next report. It can be called from any thread, and as often as you like.
    ///
    /// # Errors
    /// The domain is unknown or has no pool; the headroom is not a number from 0 to 1; or the time is zero or too long.
    /// The last report stays in force.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let cache = RuleCache::new(RuleSettings::default());
    /// let text = "{domain: shop, pool: {unit: second, requests_per_unit: 500}}";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// cache.report_headroom("shop", 0.4, Duration::from_secs(5))?;
    /// let refusal = cache.report_headroom("shop", 1.5, Duration::from_secs(5)).unwrap_err();
    /// assert_eq!(refusal.to_string(), "headroom 1.5 is refused; use 0 to 1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report_headroom(
        &self,
        domain: &str,
        headroom: f64,
        lasts: Duration,
    ) -> Result<(), HeadroomRefusal> {
        let rules = self.rules.load();
        let rules = rules.as_deref().filter(|rules| rules.domains.contains_key(domain));
        let name = || domain.to_owned();
        let rules = rules.ok_or_else(|| HeadroomRefusal::UnknownDomain { domain: name() })?;
        let pool = rules.pools.get(domain);
        let pool = pool.ok_or_else(|| HeadroomRefusal::NoPool { domain: name() })?;
        pool.report(headroom, lasts)
    }

    /// The status of loading so far.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert!(RuleCache::new(RuleSettings::default()).status().errors.is_empty());
    /// ```
    #[must_use]
    pub fn status(&self) -> LoadStatus {
        let loading = self.loading();
        LoadStatus {
            loads: self.loads.get(),
            refused_loads: self.refused_loads.get(),
            errors: loading.errors.clone(),
            lingering_tables: loading.lingering.tables(),
            lingering_bytes: loading.lingering.bytes(),
            forgotten: loading.forgotten,
            dropped_domains: loading.dropped_domains,
        }
    }

    /// The settings of all rules.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert!(!RuleCache::new(RuleSettings::default()).settings().compat);
    /// ```
    #[must_use]
    pub fn settings(&self) -> &RuleSettings {
        &self.settings
    }

    /// Requests so far whose domain is in no file. They are not limited.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert_eq!(RuleCache::new(RuleSettings::default()).unknown_domains(), 0);
    /// ```
    #[must_use]
    pub fn unknown_domains(&self) -> u64 {
        self.unknown_domains.get()
    }

    /// Requests so far that only [`global_shadow_mode`](RuleSettings::global_shadow_mode) saved from a denial.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert_eq!(RuleCache::new(RuleSettings::default()).global_shadow_mode(), 0);
    /// ```
    #[must_use]
    pub fn global_shadow_mode(&self) -> u64 {
        self.global_shadow.get()
    }

    /// The counts under limits that came with requests: hits whose client had no cell because the table of such limits
    /// was full, and denied costs. Other hits under such limits are not counted.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert_eq!(RuleCache::new(RuleSettings::default()).own_limits().spilled, 0);
    /// ```
    #[must_use]
    pub fn own_limits(&self) -> RuleCounts {
        self.own_limits.read()
    }

    /// Requests so far that were refused because too many different limits came with requests
    /// ([`RequestError::TooManyPaces`](crate::RequestError)).
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert_eq!(RuleCache::new(RuleSettings::default()).too_many_paces(), 0);
    /// ```
    #[must_use]
    pub fn too_many_paces(&self) -> u64 {
        self.no_place.read()
    }

    /// The number of [series](crate::Series) that the rules have, without those called `other`. The maximum is
    /// [`RuleSettings::max_series`].
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert_eq!(RuleCache::new(RuleSettings::default()).live_series(), 0);
    /// ```
    #[must_use]
    pub fn live_series(&self) -> usize {
        self.series.live()
    }

    /// The number of descriptors so far that were counted in the series `other`, because there was no room for a
    /// [series](crate::Series) of their own, or because its name would have been too long.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings};
    /// assert_eq!(RuleCache::new(RuleSettings::default()).refused_series(), 0);
    /// ```
    #[must_use]
    pub fn refused_series(&self) -> u64 {
        self.series.refused.get()
    }

    /// The ten clients of a rule with the most denied hits in the last 7.5 to 15 minutes, the worst first. Under a rule
    /// in shadow mode, hits that would have been denied count as denied. The list is empty without
    /// [`RuleSettings::worst_clients`], for a rule under which all clients have one limit, and for a rule that [found
    /// no room](WorstClient::MAX_RULES). The call may wait a moment for another thread that reads or updates the lists
    /// of this rule. A decision never waits for it.
    #[must_use]
    pub fn worst_clients(&self, rule: &Rule) -> Vec<WorstClient> {
        rule.counts.worst.read(self.clock.now())
    }

    /// Counts hits of clients without a cell under a limit that came with a request. Returns a report if one is due.
    pub(crate) fn count_own_limit_full(
        &self,
        how: NoCell,
        hits: u64,
        now: Timestamp,
    ) -> Option<FullReport> {
        let tally = &self.own_limits.no_cell;
        tally.count(how, hits, now).then(|| FullReport {
            domain: "".into(),
            path: "".into(),
            capacity: self.settings.override_capacity,
            hits: tally.since_report(),
        })
    }

    pub(crate) fn count_unknown_domain(&self) {
        self.unknown_domains.add(1);
    }

    pub(crate) fn count_global_shadow(&self) {
        self.global_shadow.add(1);
    }

    /// Stores restored tables, which the first load will keep, and replaces the clock with the one that `resumed`
    /// returns.
    pub(crate) fn go_on_with(&mut self, restored: RuleSet, resumed: impl FnOnce(Clock) -> Clock) {
        self.loading().restored = Some(restored);
        self.clock = resumed(self.clock.clone());
    }

    /// Whether limits are kept in a store outside this process.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.vet.is_some()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}
