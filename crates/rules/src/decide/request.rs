//! [`Request`]: the domain, the descriptors and the cost of one decision, borrowed from the caller.

use std::fmt;
use std::sync::Arc;

use crate::language::unit::Unit;
use crate::language::value::DescriptorEntry;
use crate::set::rule_set::RuleSet;
use crate::set::settings::RuleSettings;

/// A request for a decision: the domain, the descriptors and the cost.
///
/// ```
/// use tollgate_rules::{Descriptor, Request};
/// let descriptors = [Descriptor::new(&[("user", "alice")])];
/// let request = Request::new("shop", &descriptors);
/// assert_eq!(request.hits, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The domain whose rules apply.
    pub domain: &'a str,
    /// The descriptors of the request. Each is matched against the rules by itself.
    pub descriptors: &'a [Descriptor<'a>],
    /// The cost of each descriptor that does not give a cost of its own. 0 counts as 1, as in Envoy.
    pub hits: u32,
    /// The rules by which the request is decided; `None` for the rules in force. If the descriptors were made by
    /// [`RuleSet::forwards`], give that rule set here, so that a load in between changes nothing. If the rules are from
    /// another cache, the tables of that cache are charged.
    pub rules: Option<&'a Arc<RuleSet>>,
}

/// A descriptor of a request: keys and values, in the order of a rule's levels.
///
/// ```
/// use tollgate_rules::{Descriptor, Override, Unit};
/// let entries = [("plan", "free"), ("user", "alice")];
/// let descriptor = Descriptor {
///     hits: Some(5),
///     limit: Some(Override { requests_per_unit: 10, unit: Unit::Day }),
///     ..Descriptor::new(&entries)
/// };
/// assert_eq!(descriptor.entries.len(), 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Keys and values, outermost first.
    pub entries: &'a [DescriptorEntry<'a>],
    /// The cost in units; `Some(0)` charges nothing.
    pub hits: Option<u64>,
    /// A limit that comes with the request, and applies in place of the rule's limits.
    pub limit: Option<Override>,
    /// Whether the cost is given back instead of charged: see [Usage](crate#usage).
    pub is_negative: bool,
}

/// A limit that comes with a request: the units in a window of the clock. A key has one count for each unit, even if
/// the limits differ from request to request. So such limits create no new counts and no new metrics.
///
/// ```
/// use tollgate_rules::{Override, Unit};
/// assert_eq!(Override { requests_per_unit: 10, unit: Unit::Day }.unit.length().as_secs(), 86_400);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Override {
    /// The units that may pass in one window. A limit above 2,248,262,313 a second is counted and reported as
    /// 2,248,262,313.
    pub requests_per_unit: u32,
    /// The length of the window.
    pub unit: Unit,
}

impl<'a> Request<'a> {
    /// A request that costs 1.
    ///
    /// ```
    /// assert!(tollgate_rules::Request::new("shop", &[]).descriptors.is_empty());
    /// ```
    #[must_use]
    pub fn new(domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> Self {
        Self { domain, descriptors, hits: 1, rules: None }
    }

    pub(crate) fn cost(&self, descriptor: &Descriptor<'_>) -> u64 {
        descriptor.hits.unwrap_or_else(|| u64::from(self.hits.max(1)))
    }

    /// Refuses requests without a domain or a descriptor, and requests that are larger than the settings allow.
    pub(crate) fn check(&self, settings: &RuleSettings) -> Result<(), RequestError> {
        if self.domain.is_empty() {
            return Err(RequestError::EmptyDomain);
        }
        if self.descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        let (found, most) = (self.descriptors.len(), settings.max_descriptors);
        if found > most {
            return Err(RequestError::TooManyDescriptors { found, most });
        }
        let mut bytes = self.domain.len();
        for descriptor in self.descriptors {
            let (found, most) = (descriptor.entries.len(), settings.max_entries);
            if found > most {
                return Err(RequestError::TooManyEntries { found, most });
            }
            let of_entries = descriptor.entries.iter().map(|(key, value)| key.len() + value.len());
            bytes = of_entries.fold(bytes, usize::saturating_add);
            if descriptor.limit.is_some() && settings.override_capacity == 0 {
                return Err(RequestError::OverridesOff);
            }
        }
        if bytes > settings.max_key_bytes {
            let most = settings.max_key_bytes;
            return Err(RequestError::TooManyBytes { found: bytes, most });
        }
        Ok(())
    }
}

impl<'a> Descriptor<'a> {
    /// A descriptor that has the cost of its request.
    ///
    /// ```
    /// assert_eq!(tollgate_rules::Descriptor::new(&[("user", "alice")]).hits, None);
    /// ```
    #[must_use]
    pub fn new(entries: &'a [DescriptorEntry<'a>]) -> Self {
        Self { entries, hits: None, limit: None, is_negative: false }
    }
}

/// The reason why a request gets no decision. Nothing was charged.
///
/// ```
/// use tollgate_rules::RequestError;
/// assert_eq!(RequestError::EmptyDomain.to_string(), "rate limit domain must not be empty");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The domain is empty.
    EmptyDomain,
    /// There is no descriptor.
    NoDescriptors,
    /// More descriptors than a request may have.
    TooManyDescriptors {
        /// The number of descriptors.
        found: usize,
        /// The maximum.
        most: usize,
    },
    /// More entries than a descriptor may have.
    TooManyEntries {
        /// The number of entries.
        found: usize,
        /// The maximum.
        most: usize,
    },
    /// All keys and values together are longer than they may be.
    TooManyBytes {
        /// The number of bytes.
        found: usize,
        /// The maximum.
        most: usize,
    },
    /// A limit came with the request, and such limits are switched off.
    OverridesOff,
    /// A [`Pace`](crate::Pace) came with the request, and its table has no place for another pace, because its keys are
    /// already counted under too many different paces.
    TooManyPaces {
        /// The number of different paces for which a table is built.
        most: usize,
        /// The number of requests that were refused for this reason since the last report. It is set if a report is
        /// due, at most once a minute.
        report: Option<u64>,
    },
    /// No rules have been loaded yet.
    NotLoaded,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyDomain => f.write_str("rate limit domain must not be empty"),
            Self::NoDescriptors => f.write_str("rate limit descriptor list must not be empty"),
            Self::TooManyDescriptors { found, most } => {
                write!(f, "{found} descriptors; a request may have {most}")
            }
            Self::TooManyEntries { found, most } => {
                write!(f, "{found} entries in one descriptor; it may have {most}")
            }
            Self::TooManyBytes { found, most } => {
                write!(f, "{found} bytes of keys and values; a request may have {most}")
            }
            Self::OverridesOff => {
                f.write_str("limits that come with requests are switched off; leave limit out")
            }
            Self::TooManyPaces { most, report: _ } => write!(
                f,
                "too many different limits come with requests: {most} have a place at a time; ask with fewer different \
                 numbers, or again once keys that were asked under others are idle"
            ),
            Self::NotLoaded => f.write_str("no rate limit configuration loaded"),
        }
    }
}

impl std::error::Error for RequestError {}
