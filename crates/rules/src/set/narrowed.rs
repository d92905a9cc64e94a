//! [`Narrowed`]: the rules whose tables are smaller than usual. This module also has the text of the error if tables do
//! not fit.

use std::fmt;

/// The rules without a `capacity` whose share of the memory for tables is less than the usual 65,536 clients, times
/// their `weight`: see [`RuleSettings::default_capacity`](crate::RuleSettings::default_capacity).
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let text = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]}";
/// let load = |max_table_bytes| {
///     let cache = RuleCache::new(RuleSettings { max_table_bytes, ..RuleSettings::default() });
///     cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())
/// };
/// assert_eq!(load(1 << 30)?.narrowed(), None);
/// let narrowed = load(1 << 20)?.narrowed().expect("half a megabyte is less than 65,536 clients take");
/// assert_eq!(narrowed.rules, 1);
/// assert!(narrowed.least > 30_000);
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Narrowed {
    /// The number of these rules.
    pub rules: usize,
    /// The smallest number of clients that one of them has tables for.
    pub least: usize,
}

impl fmt::Display for Narrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rules, least } = self;
        let s = if *rules == 1 { " without a capacity has" } else { "s without a capacity have" };
        write!(
            f,
            "{rules} rule{s} smaller tables than for the usual 65536 clients times the weight, the smallest for {least}: \
             their share of the memory for tables; give rules that need more of it a weight or a capacity, or raise the \
             allowance (--table-bytes)"
        )
    }
}
