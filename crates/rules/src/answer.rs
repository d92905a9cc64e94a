//! [`Answer`]: what was decided, for the request and for each of its descriptors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;

use crate::full::{FullReport, NoCell};
use crate::rule::Rule;
use crate::rule_set::RuleSet;
use crate::unit::Unit;

/// Whether something may go.
///
/// ```
/// assert!(tollgate_rules::Code::OverLimit > tollgate_rules::Code::Ok);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// It may go.
    Ok,
    /// It must not.
    OverLimit,
}

/// The answer to one request. It keeps the rules that it was decided by.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{Code, DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
/// let cache = Arc::new(RuleCache::new(Settings::default()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: hour, requests_per_unit: 1, name: slow}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let descriptors = [Descriptor::new(&[("user", "alice")])];
/// let request = Request::new("shop", &descriptors);
/// assert_eq!(maker.check(&request)?.code(), Code::Ok);
/// let denied = maker.check(&request)?;
/// assert_eq!((denied.code(), denied.limit_name(0)), (Code::OverLimit, Some("slow")));
/// assert!(denied.retry_after().is_some_and(|wait| wait.as_secs() < 3_600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Answer {
    pub(crate) rules: Guard<Option<Arc<RuleSet>>>,
    pub(crate) code: Code,
    pub(crate) statuses: Vec<Status>,
    pub(crate) reports: Vec<FullReport>,
}

/// What was decided about one descriptor.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings, Unit};
/// let cache = Arc::new(RuleCache::new(Settings::default()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: hour, requests_per_unit: 5}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let descriptors = [Descriptor::new(&[("user", "alice")]), Descriptor::new(&[("page", "/")])];
/// let answer = DecisionMaker::new(cache)?.check(&Request::new("shop", &descriptors))?;
/// let [user, page] = answer.statuses() else { unreachable!() };
/// assert_eq!((user.remaining, user.limit.map(|limit| limit.unit)), (4, Some(Some(Unit::Hour))));
/// assert_eq!((page.remaining, page.limit), (0, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Whether this descriptor would let the request go. A rule in shadow mode always does.
    pub code: Code,
    /// Whether the limit was exceeded, in shadow mode or not.
    pub is_over: bool,
    /// The limit that was decided by: of stacked limits the one that denies longest, or has least left.
    /// `None` if no rule matched, or an unlimited one.
    pub limit: Option<CurrentLimit>,
    /// Units left after the decision. 4,294,967,295 under an unlimited rule.
    pub remaining: u64,
    /// When the whole limit will be there again.
    pub reset_after: Duration,
    /// When the same request would fit, if nothing else happens; `None` if it is not over, or never will.
    pub retry_after: Option<Duration>,
    /// How it was decided if its client had no cell in the rule's full table: a denial is none for what this client has
    /// done then.
    pub no_cell: Option<NoCell>,
    /// By index.
    pub(crate) rule: Option<(usize, usize)>,
}

/// A limit as an answer names it.
///
/// ```
/// use tollgate_rules::{CurrentLimit, Unit};
/// let limit = CurrentLimit { requests_per_unit: 5, window: Unit::Hour.length(), unit: Some(Unit::Hour) };
/// assert_eq!(limit.window.as_secs(), 3_600);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLimit {
    /// What may pass in one window.
    pub requests_per_unit: u32,
    /// The length of the window.
    pub window: Duration,
    /// The unit of that length, if there is one.
    pub unit: Option<Unit>,
}

impl Status {
    /// No rule has anything to say.
    pub(crate) const FREE: Self = Self {
        code: Code::Ok,
        is_over: false,
        limit: None,
        remaining: 0,
        reset_after: Duration::ZERO,
        retry_after: None,
        no_cell: None,
        rule: None,
    };
}

impl Answer {
    /// Whether the request may go.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether the request may go.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.code == Code::Ok
    }

    /// One for each descriptor, in their order.
    #[must_use]
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }

    /// Of rules whose tables were found full, by this request the first time in a minute: to be logged.
    #[must_use]
    pub fn reports(&self) -> &[FullReport] {
        &self.reports
    }

    /// The rule that decided about a descriptor, counted from 0.
    #[must_use]
    pub fn rule(&self, descriptor: usize) -> Option<&Rule> {
        self.rules.as_ref()?.rules().get(self.rule_index(descriptor)?)
    }

    /// The place of that rule in [`RuleSet::rules`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
    /// let cache = Arc::new(RuleCache::new(Settings::default()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: hour, requests_per_unit: 1}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")]), Descriptor::new(&[("page", "/")])];
    /// let answer = DecisionMaker::new(cache)?.check(&Request::new("shop", &descriptors))?;
    /// assert_eq!((answer.rule_index(0), answer.rule_index(1)), (Some(0), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rule_index(&self, descriptor: usize) -> Option<usize> {
        self.statuses.get(descriptor)?.rule.map(|(rule, _)| rule)
    }

    /// The name of the limit that decided about a descriptor.
    #[must_use]
    pub fn limit_name(&self, descriptor: usize) -> Option<&str> {
        let (_, limit) = self.statuses.get(descriptor)?.rule?;
        let rule = self.rule(descriptor)?;
        rule.limits().get(limit).map_or(rule.name(), |limit| limit.name())
    }

    /// How long to stay away: the longest wait of all descriptors that deny. `None` if the request may
    /// go, or would never fit.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let denying = self.statuses.iter().filter(|status| status.code == Code::OverLimit);
        let waits: Option<Vec<Duration>> = denying.map(|status| status.retry_after).collect();
        if self.is_allowed() { None } else { waits?.into_iter().max() }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, statuses, .. } = self;
        f.debug_struct("Answer").field("code", code).field("statuses", statuses).finish()
    }
}
