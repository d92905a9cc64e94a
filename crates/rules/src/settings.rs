//! [`Settings`]: what holds for all rules.

use std::time::Duration;

/// What holds for all rules of a service.
///
/// ```
/// use tollgate_rules::Settings;
/// let settings = Settings { compat: true, ..Settings::default() };
/// assert_eq!(settings.default_capacity, 65_536);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Decide as envoyproxy/ratelimit does: each descriptor of a request on its own, so that a denied
    /// request is charged to the limits that had room; and a denied descriptor uses up what was left of
    /// its limit, where the rule names no algorithm. Default: off, all descriptors or none.
    pub compat: bool,
    /// Whether several files may hold parts of one domain. Default: no, as there.
    pub merge_domains: bool,
    /// Whether nothing is denied at all: statuses and counters tell what would be. Default: no.
    pub global_shadow_mode: bool,
    /// Whether every rule is of `quota_mode`. Default: no.
    pub global_quota_mode: bool,
    /// The keys that a rule's table is built for where the rule has no `capacity` and leaves a value
    /// open: 14 to 16 bytes each. Default: 65,536.
    pub default_capacity: usize,
    /// The most bytes that all tables may take, those that [linger](Settings::linger_rules) included. While
    /// rules are loaded, the tables of before are still there beside new ones. Default: 1 GiB.
    pub most_table_bytes: u64,
    /// How long what was spent under a limit is kept after its rule is gone, or has got another table. If
    /// the rule comes back within that time, it goes on with it. Zero: not at all. Default: `None`, ten
    /// minutes or the limit's window, whichever is longer.
    pub linger_rules: Option<Duration>,
    /// Whether a domain that had limits, and of which no rule is left, or whose file is gone, is taken for
    /// what it looks like: nothing limits its requests any more. Default: no, its last good rules stay in
    /// force ([`RuleSet::kept_domains`](crate::RuleSet::kept_domains)), until there are others.
    pub allow_empty: bool,
    /// What a limit that is kept elsewhere takes here for each client besides: counts as its table does.
    /// Default: 0.
    pub more_bytes_per_client: u64,
    /// The keys, for each of the seven units of time, for which limits that come with requests are
    /// counted. 0 refuses such requests. Default: 10,000.
    pub override_capacity: usize,
    /// From which share of a limit on admitted requests count as near it. Default: 0.8, as there.
    pub near_limit_ratio: f64,
    /// The most descriptors in a request. Default: 100.
    pub most_descriptors: usize,
    /// The most entries in a descriptor. Default: 32.
    pub most_entries: usize,
    /// The most bytes of all keys and values of a request together. Default: 65,536.
    pub most_key_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            compat: false,
            merge_domains: false,
            global_shadow_mode: false,
            global_quota_mode: false,
            default_capacity: 65_536,
            most_table_bytes: 1 << 30,
            linger_rules: None,
            allow_empty: false,
            more_bytes_per_client: 0,
            override_capacity: 10_000,
            near_limit_ratio: 0.8,
            most_descriptors: 100,
            most_entries: 32,
            most_key_bytes: 65_536,
        }
    }
}
