//! Rates that are too high to be counted exactly, and are lowered to the highest that can be counted. Files of other
//! services have such rates: they write 4,294,967,295 a second if there is to be no limit.

use std::fmt;
use std::time::Duration;

use crate::language::position::Position;

/// A limit whose rate is too high to be counted exactly. It is in force at the highest rate that can be counted, which
/// is stricter. See [`RuleSet::lowered`](crate::RuleSet::lowered).
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    file: String,
    at: Position,
    rate: LoweredRate,
}

/// The numbers of a lowered rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoweredRate {
    pub(crate) asked: u32,
    pub(crate) counted: u32,
    pub(crate) window: Duration,
}

impl Lowered {
    pub(crate) fn new(file: &str, at: Position, rate: LoweredRate) -> Self {
        Self { file: file.to_owned(), at, rate }
    }

    /// The requests in one window, as the file says.
    #[must_use]
    pub fn asked(&self) -> u32 {
        self.rate.asked
    }

    /// The requests in one window, as they are counted.
    #[must_use]
    pub fn counted(&self) -> u32 {
        self.rate.counted
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, at, rate: LoweredRate { asked, counted, window } } = self;
        write!(
            f,
            "{}:{at}: {asked} in {window:?} is too many to be counted exactly: {counted} in {window:?} are counted, the \
             most that can be",
            file.escape_debug()
        )
    }
}
