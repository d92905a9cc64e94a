//! [`MetricsNames`]: the names under which metrics are reported.

/// A choice of names under which `/metrics` reports decisions.
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
    /// The names of [`Own`](MetricsNames::Own), and also `ratelimit_service_rate_limit_over_limit` and so on, which
    /// dashboards for envoyproxy/ratelimit use.
    Envoyproxy,
}
