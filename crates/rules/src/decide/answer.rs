//! [`Answer`]: the decision for a request and for each of its descriptors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;

use crate::counts::full::{FullReport, NoCell};
use crate::decide::receipt::Receipt;
use crate::language::unit::Unit;
use crate::set::rule::Rule;
use crate::set::rule_set::RuleSet;

/// Whether a request or a descriptor is within its limits.
///
/// ```
/// assert!(tollgate_rules::Code::OverLimit > tollgate_rules::Code::Ok);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Within the limits: the request may pass.
    Ok,
    /// Over a limit: the request is denied.
    OverLimit,
}

/// The answer to one request. The answer holds the rules by which the request was decided.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{Code, DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
/// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
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
    pub(crate) receipt: Option<Receipt>,
}

/// The decision about one descriptor.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings, Unit};
/// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
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
    /// Whether this descriptor admits the request. A rule in shadow mode always does.
    pub code: Code,
    /// Whether the limit was exceeded. In shadow mode the request may pass nevertheless.
    pub is_over: bool,
    /// Whether the request was admitted above the limit, within what the rule's `mode: soft` adds.
    pub is_within_soft: bool,
    /// Whether the pool of the domain admitted the request above the limit (`mode: elastic`). For a
    /// [`Peek`](crate::Purpose::Peek), and under a rule in shadow mode, it says whether the pool would admit the
    /// request.
    pub is_borrowed: bool,
    /// The limit that decided. If the rule has several limits, it is the limit with the longest wait or, if none
    /// denies, with the fewest units left. `None` if no rule matched, or if the rule is unlimited.
    pub limit: Option<CurrentLimit>,
    /// Units left after the decision. Under an unlimited rule it is 4,294,967,295.
    pub remaining: u64,
    /// The time until the whole limit is available again.
    pub reset_after: Duration,
    /// The time until the same request would fit, if no other request comes; `None` if the request is not over the
    /// limit, or will never fit. After a [`Charge`](crate::Purpose::Charge) it is the time until one more unit would
    /// fit.
    pub retry_after: Option<Duration>,
    /// The time that the request has to wait before it goes, if it was given a place in a queue. It is zero if the
    /// request may go at once, or if the rule is in shadow mode. For a [`Purpose::Peek`](crate::Purpose::Peek) it is
    /// the time that the request would have to wait.
    pub wait: Duration,
    /// The units of a charge that the limit could not remember, because its debt is bounded; the largest such number if
    /// there are several limits. Only charges that are made even if they do not fit can have such units: those of
    /// [`Purpose::Charge`](crate::Purpose::Charge), and costs of [usage](crate#usage). If the request gives units back,
    /// it is the number of units that did not come back, because they had not been charged or their window is over.
    pub uncharged: u64,
    /// Whether this was the first time under this rule that a limit could not remember all units of a charge; for the
    /// log. This can happen to three kinds of charges: one under a rule with `usage: true`, a
    /// [`Charge`](crate::Purpose::Charge), and a denied cost that is charged into debt.
    pub is_first_uncharged: bool,
    /// Whether this is the first time that the rule denied a cost above 1 from Envoy
    /// ([`CheckEnvoy`](crate::Purpose::CheckEnvoy)) and charged it nowhere. Such a cost is logged, since it may have
    /// been used already. Always `false` if the rule says `usage: false`. See [Usage](crate#usage).
    pub is_first_denied_cost: bool,
    /// How the request was decided, if its client had no cell because the rule's table was full. A client that is
    /// denied for that reason has not necessarily spent its limit.
    pub no_cell: Option<NoCell>,
    /// Whether the store that keeps the limit did not answer, so that the rule's `on_error` decided.
    pub is_without_store: bool,
    pub(crate) place: Option<LimitPlace>,
}

/// The limit that decided: the index of its rule, and the index of the limit within the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitPlace {
    pub(crate) rule: usize,
    pub(crate) limit: usize,
}

/// The limit that an answer reports.
///
/// ```
/// use tollgate_rules::{CurrentLimit, Unit};
/// let limit = CurrentLimit { requests_per_unit: 5, window: Unit::Hour.length(), unit: Some(Unit::Hour) };
/// assert_eq!(limit.window.as_secs(), 3_600);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLimit {
    /// The units that may pass in one window.
    pub requests_per_unit: u32,
    /// The length of the window.
    pub window: Duration,
    /// The unit of time that is as long as the window, if there is one. Windows of the calendar have a unit, too;
    /// `window` is then the greatest length of that unit.
    pub unit: Option<Unit>,
}

impl Status {
    /// The status of a descriptor that no rule limits.
    pub(crate) const FREE: Self = Self {
        code: Code::Ok,
        is_over: false,
        is_within_soft: false,
        is_borrowed: false,
        limit: None,
        remaining: 0,
        reset_after: Duration::ZERO,
        retry_after: None,
        wait: Duration::ZERO,
        uncharged: 0,
        is_first_uncharged: false,
        is_first_denied_cost: false,
        no_cell: None,
        is_without_store: false,
        place: None,
    };

    /// The reason for a decision that does not follow from the client's own requests alone: the [word](NoCell::reason)
    /// of [`NoCell`]; or `store_down_denied` or `store_down_allowed` if the store that keeps the limit did not answer.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    capacity: 1\n    \
    ///             rate_limit: {unit: hour, requests_per_unit: 2}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")])];
    /// let answer = DecisionMaker::new(cache)?.check(&Request::new("shop", &descriptors))?;
    /// assert_eq!(answer.statuses()[0].reason(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        let without_store = || match self.code {
            Code::OverLimit => "store_down_denied",
            Code::Ok => "store_down_allowed",
        };
        let is_down = self.is_without_store.then(without_store);
        self.no_cell.map(NoCell::reason).or(is_down)
    }
}

impl Answer {
    /// Whether the request may pass.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether the request may pass.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.code == Code::Ok
    }

    /// One status for each descriptor, in the order of the descriptors.
    #[must_use]
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }

    /// Reports of rules whose tables are full, for the log. A rule is reported if this request was the first in a
    /// minute to find its table full.
    #[must_use]
    pub fn reports(&self) -> &[FullReport] {
        &self.reports
    }

    /// Whether nothing limits a descriptor: no rule matches it, and no limit comes with it. Descriptors are numbered
    /// from 0.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
    /// let text = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unlimited: true}}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")]), Descriptor::new(&[("usr", "alice")])];
    /// let answer = DecisionMaker::new(cache)?.check(&Request::new("shop", &descriptors))?;
    /// assert_eq!([0, 1].map(|n| answer.is_unmatched(n)), [false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_unmatched(&self, descriptor: usize) -> bool {
        let status = self.statuses.get(descriptor);
        status.is_some_and(|status| status.place.is_none() && status.limit.is_none())
    }

    /// The rule that decided about a descriptor. Descriptors are numbered from 0.
    #[must_use]
    pub fn rule(&self, descriptor: usize) -> Option<&Rule> {
        self.rules.as_ref()?.rules().get(self.rule_index(descriptor)?)
    }

    /// The index in [`RuleSet::rules`] of the rule that decided about a descriptor.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
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
        self.statuses.get(descriptor)?.place.map(|place| place.rule)
    }

    /// The name of the limit that decided about a descriptor.
    #[must_use]
    pub fn limit_name(&self, descriptor: usize) -> Option<&str> {
        let limit = self.statuses.get(descriptor)?.place?.limit;
        let rule = self.rule(descriptor)?;
        rule.limits().get(limit).map_or(rule.name(), |limit| limit.name())
    }

    /// The time that the request has to wait before it goes: the longest wait of its descriptors. It is zero if the
    /// request may go at once, or is denied.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: \
    ///             {unit: second, requests_per_unit: 5, algorithm: gcra, burst: 1, wait: 450ms}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")])];
    /// let check = || maker.check(&Request::new("shop", &descriptors));
    /// let waits = [check()?, check()?, check()?].map(|answer| answer.wait());
    /// assert_eq!(waits, [0, 200, 400].map(Duration::from_millis));
    /// assert!(!check()?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wait(&self) -> Duration {
        let waits = self.statuses.iter().map(|status| status.wait);
        waits.filter(|_| self.is_allowed()).max().unwrap_or_default()
    }

    /// Takes the receipt, by which the charges can be given back. The answer has a receipt if the purpose was
    /// [`Purpose::Reserve`](crate::Purpose::Reserve) and the request was admitted. The receipt can be taken once.
    pub fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take()
    }

    /// The time until a new attempt can succeed: the longest wait of all descriptors that deny. `None` if the request
    /// may pass, or would never fit.
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
