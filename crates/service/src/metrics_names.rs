//! [`MetricsNames`]: under which names metrics are shown.

/// The names under which `/metrics` reports decisions.
///
/// ```
/// assert_eq!(tollgate_service::MetricsNames::default(), tollgate_service::MetricsNames::Own);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricsNames {
    /// `tollgate_rule_over_limit_total` and so on.
    #[default]
    Own,
    /// Those, and in addition `ratelimit_service_rate_limit_over_limit` and so on, as dashboards for
    /// envoyproxy/ratelimit use them.
    Envoyproxy,
}
