//! [`RuleSet`]: all rules of one load, compiled. It never changes; a reload makes a new one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;

use crate::counts::rule_counts::Counters;
use crate::counts::series::SeriesTable;
use crate::language::error::RuleError;
use crate::language::file::Usage;
use crate::language::forward::Forward;
use crate::language::identifier::{AddressBits, Identifier};
use crate::language::rule_id::RuleId;
use crate::language::source::RuleText;
use crate::set::carry::{CarriedTable, LimitChange};
use crate::set::narrowed::Narrowed;
use crate::set::pool::DomainPool;
use crate::set::rule::Rule;
use crate::set::tree::Level;

/// The rules of one load.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleSettings};
/// let rules = RuleCache::new(RuleSettings::default()).load(&[]).map_err(|errors| errors[0].clone())?;
/// assert!(rules.rules().is_empty());
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Debug, Default)]
pub struct RuleSet {
    pub(crate) domains: HashMap<Box<str>, Level, RandomState>,
    pub(crate) rules: Vec<Rule>,
    /// For each rule, the parts of the entries that go into its keys, in the order of [`rules`](RuleSet::rules).
    pub(crate) identifiers: Vec<Identifier>,
    /// The address bits that tell clients apart if a rule does not give them, or if a limit comes with the request.
    pub(crate) bits: AddressBits,
    /// For each rule the tables of its limits other than 0, for the next load to keep.
    pub(crate) tables: HashMap<RuleId, Vec<CarriedTable>, RandomState>,
    pub(crate) counters: HashMap<RuleId, Arc<Counters>, RandomState>,
    pub(crate) series: HashMap<RuleId, Arc<SeriesTable>, RandomState>,
    pub(crate) pools: BTreeMap<Box<str>, Arc<DomainPool>>,
    /// The descriptors of forwarded requests, for each domain.
    pub(crate) forwards: BTreeMap<Box<str>, Vec<Forward>>,
    pub(crate) table_bytes: u64,
    pub(crate) changes: Vec<LimitChange>,
    /// The files of each domain. They stay in force if the domain has no rule any more.
    pub(crate) texts: HashMap<Box<str>, Vec<RuleText>, RandomState>,
    pub(crate) kept_domains: Vec<Box<str>>,
    pub(crate) dropped_domains: Vec<Box<str>>,
    pub(crate) lingering: usize,
    pub(crate) forgotten: Vec<LimitChange>,
    pub(crate) hidden: Vec<RuleError>,
    pub(crate) lowered: Vec<RuleError>,
    pub(crate) narrowed: Option<Narrowed>,
}

impl RuleSet {
    /// All rules, in the order of the files.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The domains, in no order.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let cache = RuleCache::new(RuleSettings::default());
    /// let loaded = cache.load(&[RuleText::new("shop.yaml", "domain: shop")]);
    /// let rules = loaded.map_err(|errors| errors[0].clone())?;
    /// assert_eq!(rules.domains().collect::<Vec<_>>(), ["shop"]);
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|domain| &**domain)
    }

    /// The pools of the domains, in the order of the domains' names: see [`DomainPool`].
    pub fn pools(&self) -> impl Iterator<Item = &DomainPool> {
        self.pools.values().map(|pool| &**pool)
    }

    /// The descriptors to make of a request that a proxy forwards for a decision in this domain, in the order of the
    /// file; `None` if the domain is in no file.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let text = "{domain: shop, forward_auth: [{remote_address: address}]}";
    /// let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("shop.yaml", text)]);
    /// let rules = loaded.map_err(|errors| errors[0].clone())?;
    /// assert_eq!(rules.forwards("shop").map(<[_]>::len), Some(1));
    /// assert!(rules.forwards("bank").is_none());
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    #[must_use]
    pub fn forwards(&self, domain: &str) -> Option<&[Forward]> {
        self.domains.get(domain)?;
        Some(self.forwards.get(domain).map_or(&[], Vec::as_slice))
    }

    /// The descriptors of forwarded requests for all domains, in the order of the domains' names.
    pub fn all_forwards(&self) -> impl Iterator<Item = &Forward> {
        self.forwards.values().flatten()
    }

    /// The bytes of all tables together.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// The limits that this load has changed. [`LimitChange::is_kept`] says whether the units that were spent stay
    /// spent. Rules that are new or gone are not listed.
    #[must_use]
    pub fn changes(&self) -> &[LimitChange] {
        &self.changes
    }

    /// The domains that had limits and for which this load found no rule. Their last good rules stay in force, unless
    /// [`RuleSettings::allow_empty`](crate::RuleSettings::allow_empty) is set. The domains are in the order in which
    /// they lost their rules.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let cache = RuleCache::new(RuleSettings::default());
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: hour, requests_per_unit: 5}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let rules = cache.load(&[]).map_err(|errors| errors[0].clone())?;
    /// assert_eq!(rules.kept_domains().collect::<Vec<_>>(), ["shop"]);
    /// assert_eq!(rules.rules().len(), 1);
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    pub fn kept_domains(&self) -> impl Iterator<Item = &str> {
        self.kept_domains.iter().map(|domain| &**domain)
    }

    /// The domains that have no rule left, and whose last good rules this load has given up because its own rules
    /// needed their memory. Their counts linger if there is room; otherwise they are [`forgotten`](RuleSet::forgotten).
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let cache = RuleCache::new(RuleSettings { max_table_bytes: 3_000, ..RuleSettings::default() });
    /// let text = |domain| {
    ///     let rule = "descriptors: [{key: user, capacity: 50, rate_limit: {unit: hour, requests_per_unit: 5}}]";
    ///     [RuleText::new("rules.yaml", format!("{{domain: {domain}, {rule}}}"))]
    /// };
    /// cache.load(&text("shop")).map_err(|errors| errors[0].clone())?;
    /// let rules = cache.load(&text("bank")).map_err(|errors| errors[0].clone())?;
    /// assert_eq!(rules.dropped_domains().collect::<Vec<_>>(), ["shop"]);
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    pub fn dropped_domains(&self) -> impl Iterator<Item = &str> {
        self.dropped_domains.iter().map(|domain| &**domain)
    }

    /// The number of tables that linger after this load. They keep what was spent under limits that are gone.
    #[must_use]
    pub fn lingering(&self) -> usize {
        self.lingering
    }

    /// Limits that are gone, and whose counts this load dropped before the time to keep them was over, because memory
    /// was short ([`Loss::Forgotten`](crate::Loss::Forgotten)). They are in the order in which their rules went.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let settings = RuleSettings { max_table_bytes: 2_000, allow_empty: true, ..RuleSettings::default() };
    /// let cache = RuleCache::new(settings);
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    capacity: 50\n    \
    ///             rate_limit: {unit: hour, requests_per_unit: 5}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let other = text.replace("user", "path").replace("50", "60");
    /// let rules = cache.load(&[RuleText::new("shop.yaml", other)]).map_err(|errors| errors[0].clone())?;
    /// assert_eq!(
    ///     rules.forgotten()[0].to_string(),
    ///     "shop.user: fixed-window 5/h is gone, and what was spent under it is forgotten: the tables of the \
    ///      rules in force leave no room for it"
    /// );
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    #[must_use]
    pub fn forgotten(&self) -> &[LimitChange] {
        &self.forgotten
    }

    /// Entries that can never match, because an earlier entry matches all values that they would match
    /// ([`Problem::Hidden`](crate::Problem::Hidden)), and descriptors of `forward_auth` that no rule matches
    /// ([`Problem::ForwardInVain`](crate::Problem::ForwardInVain)). They are listed as errors, but are loaded like all
    /// others, as in envoyproxy/ratelimit.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let text = "domain: shop\ndescriptors:\n  \
    ///     - {key: path, value: '/api/*', rate_limit: {unit: second, requests_per_unit: 50}}\n  \
    ///     - {key: path, value: '/api/v1/*', rate_limit: {unit: second, requests_per_unit: 5}}\n";
    /// let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("shop.yaml", text)]);
    /// let rules = loaded.map_err(|errors| errors[0].clone())?;
    /// let hidden = rules.hidden()[0].to_string();
    /// assert!(hidden.starts_with("shop.yaml:4:24: 'path_/api/v1/*' never matches, because 'path_/api/*' at 3:24"));
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    #[must_use]
    pub fn hidden(&self) -> &[RuleError] {
        &self.hidden
    }

    /// The numbers of rules with limits that say neither `usage: true` nor `usage: false`: first of those in quota
    /// mode, then of all others. Without [`RuleSettings::compat`](crate::RuleSettings::compat) these rules charge
    /// nothing for a cost that they deny. So they do not bound a budget whose costs are known only after a response.
    /// See [Usage](crate#usage).
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let rule = |own: &str| format!("{{key: k, value: '{own}', {own}, rate_limit: {{unit: day, requests_per_unit: 9}}}}");
    /// let rules = ["quota_mode: true", "usage: false", "usage: true", "shadow_mode: false"].map(rule);
    /// let text = format!("{{domain: shop, descriptors: [{}]}}", rules.join(", "));
    /// let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("shop.yaml", text)]);
    /// let rules = loaded.map_err(|errors| errors[0].clone())?;
    /// assert_eq!(rules.without_usage(), [1, 1]);
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    #[must_use]
    pub fn without_usage(&self) -> [usize; 2] {
        let unsaid = self.rules.iter().filter(|rule| !rule.is_unlimited());
        let unsaid = unsaid.filter(|rule| rule.traits.usage == Usage::Unsaid);
        let (quota, others): (Vec<&Rule>, Vec<&Rule>) = unsaid.partition(|rule| rule.is_quota());
        [quota.len(), others.len()]
    }

    /// The rules without a `capacity` whose tables are smaller than usual, because many rules share the memory for
    /// tables.
    #[must_use]
    pub fn narrowed(&self) -> Option<Narrowed> {
        self.narrowed
    }

    /// Limits and pools that are counted at a lower rate than their files say, because the rate in the file cannot be
    /// counted exactly ([`Problem::Lowered`](crate::Problem::Lowered)). They are listed as errors, but are loaded like
    /// all others.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let text = "domain: shop\ndescriptors:\n  \
    ///     - {key: path, rate_limit: {unit: second, requests_per_unit: 4294967295}}\n";
    /// let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("shop.yaml", text)]);
    /// let rules = loaded.map_err(|errors| errors[0].clone())?;
    /// assert_eq!(
    ///     rules.lowered()[0].to_string(),
    ///     "shop.yaml:3:29: 4294967295 in 1s is too many to be counted exactly: 2248262313 in 1s are counted, the most that can be"
    /// );
    /// assert_eq!(rules.rules()[0].limits()[0].requests_per_unit(), 2_248_262_313);
    /// # Ok::<(), tollgate_rules::RuleError>(())
    /// ```
    #[must_use]
    pub fn lowered(&self) -> &[RuleError] {
        &self.lowered
    }
}
