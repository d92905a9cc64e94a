//! [`Forgotten`]: a limit whose counts were dropped before the time to keep them was over.

use std::fmt;

use tollgate::Policy;

/// A limit whose rule is gone, and whose counts were dropped before the time to keep them was over, because the tables
/// of rules in force needed the memory. If the rule comes back, it starts with nothing spent.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    pub(crate) domain: Box<str>,
    pub(crate) path: Box<str>,
    pub(crate) policy: Policy,
}

impl Forgotten {
    /// The domain of the rule.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The path of the rule, as in [`Rule::path`](crate::Rule::path).
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The limit.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, path, policy } = self;
        write!(
            f,
            "{}.{}: {policy} is gone, and what was spent under it is forgotten: the tables of the rules in \
             force leave no room for it",
            domain.escape_debug(),
            path.escape_debug()
        )
    }
}
