//! [`RuleSettings`]: the settings of all rules.

use std::time::Duration;

/// The settings of all rules of a service.
///
/// ```
/// use tollgate_rules::RuleSettings;
/// let settings = RuleSettings { compat: true, ..RuleSettings::default() };
/// assert_eq!(settings.default_capacity, None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSettings {
    /// Decide as envoyproxy/ratelimit does: each descriptor of a request on its own, so that a denied request is
    /// charged to the limits that had room. A denied descriptor is charged to its own limit as well, if the limit names
    /// no `algorithm` and no `debt`. Units beyond the limit become a [debt](crate#usage), if the limit can remember it.
    /// Default: off, so that either all descriptors are charged or none.
    pub compat: bool,
    /// Whether several files may hold parts of one domain. Default: no, as in envoyproxy/ratelimit.
    pub merge_domains: bool,
    /// Whether every request is admitted; statuses and counters then show what would have been denied. Default: no.
    pub global_shadow_mode: bool,
    /// Whether every rule is in `quota_mode`. Default: no.
    pub global_quota_mode: bool,
    /// The number of clients for which a rule's tables are built if the rule has no `capacity` and leaves a value open;
    /// it is multiplied by the rule's `weight`. A client takes about 15 bytes. Default: `None`. The number is then
    /// 65,536 if all such rules take no more than half of [`max_table_bytes`](RuleSettings::max_table_bytes). Otherwise
    /// it is the number that fits in the rule's share of that half ([`RuleSet::narrowed`](crate::RuleSet::narrowed)).
    pub default_capacity: Option<usize>,
    /// The maximum number of bytes for all tables, [lingering](RuleSettings::linger_rules) ones included. While rules
    /// are loaded, the previous tables still exist beside new ones. Default: 1 GiB.
    pub max_table_bytes: u64,
    /// The time for which the counts of a limit are kept after its rule is gone, or after the limit has got another
    /// table. If the rule comes back within that time, it continues with its counts. If the time is zero, counts are
    /// not kept. Default: `None`, which means ten minutes or the limit's window, whichever is longer.
    pub linger_rules: Option<Duration>,
    /// Whether a domain loses its limits when it has no rule left, or its file is gone. Default: no, so that the
    /// domain's last good rules stay in force until there are new ones
    /// ([`RuleSet::kept_domains`](crate::RuleSet::kept_domains)).
    pub allow_empty: bool,
    /// The bytes that a limit which is kept elsewhere takes for each client, in addition to its table. They are
    /// included in [`max_table_bytes`](RuleSettings::max_table_bytes). Default: 0.
    pub more_bytes_per_client: u64,
    /// The number of keys for which limits that come with requests are counted, for each of the seven units of time and
    /// in each of the six tables of a [`Pace`](crate::Pace): about 15 bytes for each key. The paces themselves take 2.7
    /// MB together. If the number is 0, requests that bring limits are refused. Default: 10,000.
    pub override_capacity: usize,
    /// The share of a limit above which admitted requests count as near it. Default: 0.8, as in envoyproxy/ratelimit.
    pub near_limit_ratio: f64,
    /// The maximum number of [series](crate::Series) of all rules with `detailed_metric` or `value_to_metric` together:
    /// each rule counts the hits of all further values in one more series. A series takes about 1 KiB at most, and a
    /// line in each of five metrics. Default: 10,000.
    pub max_series: usize,
    /// Whether each rule remembers the clients that it denies most: see
    /// [`RuleCache::worst_clients`](crate::RuleCache::worst_clients). The lists take 8 MiB at most. Default: no.
    pub worst_clients: bool,
    /// The maximum number of descriptors in a request. Default: 100.
    pub max_descriptors: usize,
    /// The maximum number of entries in a descriptor. Default: 32.
    pub max_entries: usize,
    /// The maximum number of bytes of all keys and values of a request together. Default: 1,048,576. Envoy passes on up
    /// to 60 KiB of headers, and each header as often as Envoy's configuration names it. By default Envoy lets a
    /// request pass if this limit refuses it.
    pub max_key_bytes: usize,
}

impl Default for RuleSettings {
    fn default() -> Self {
        Self {
            compat: false,
            merge_domains: false,
            global_shadow_mode: false,
            global_quota_mode: false,
            default_capacity: None,
            max_table_bytes: 1 << 30,
            linger_rules: None,
            allow_empty: false,
            more_bytes_per_client: 0,
            override_capacity: 10_000,
            near_limit_ratio: 0.8,
            max_series: 10_000,
            worst_clients: false,
            max_descriptors: 100,
            max_entries: 32,
            max_key_bytes: 1 << 20,
        }
    }
}
