//! [`DomainPool`]: lends spare capacity of the servers behind a domain to clients that are over a limit with
//! `mode: elastic`.
//!
//! # A report is in force for a limited time
//! Only the program that does the work knows what it can spare. If it stops reporting, its last report expires, and
//! nothing is lent from then on. A decision sees this by comparing two times, so no thread has to run to expire
//! reports.
//!
//! # Orderings
//! A report writes two words: first the headroom, then the time until which the report is in force (its end). A
//! decision reads them in the opposite order, so it never sees the end of a report without its headroom (Release and
//! Acquire on the end). A decision between the two writes combines the new headroom with the end of the previous
//! report. This is harmless: either the previous report is still in force, and only its headroom is replaced early, or
//! it is over and nothing is lent. Reports are made one after the other, under a lock that no decision takes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::{Clock, Decision, DecisionSummary, Denial, Entry, Permit, Quota, Timestamp};
use tollgate_elastic::SparePool;

use crate::counts::counter::RuleTotal;

/// The pool of a domain: `pool: {unit: second, requests_per_unit: 500, burst: 100}` in its file.
///
/// To all limits of the domain with `mode: elastic` together, it lends at most `headroom * (burst + rate * W)` units in
/// any interval of length W ([`SparePool`]). Before the first report, and after the last report has expired, it lends
/// nothing.
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// let text = "{domain: shop, pool: {unit: hour, requests_per_unit: 500, burst: 100}}";
/// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let pool = rules.pools().next().ok_or("one pool")?;
/// assert_eq!((pool.domain(), pool.headroom()), ("shop", 0.0));
/// cache.report_headroom("shop", 0.25, Duration::from_secs(10))?;
/// assert_eq!((pool.headroom(), pool.remaining()), (0.25, 25));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DomainPool {
    domain: Box<str>,
    quota: Quota,
    pool: SparePool,
    /// The time until which the last report is in force, in nanoseconds; 0 if there is no such report.
    until: AtomicU64,
    /// Held while a report is made, or is found to be over.
    reporting: Mutex<()>,
    lent: RuleTotal,
    expired: RuleTotal,
}

/// The units that were lent to one request under one limit.
#[derive(Debug)]
pub(crate) struct Loan {
    /// The figures of the limit that borrowed, which was charged nothing.
    own: DecisionSummary,
    /// The permit of the pool; `None` if the rule is in shadow mode, so that nothing was taken from the pool.
    loan: Option<Permit>,
    pool: Arc<DomainPool>,
}

/// The answer of a limit, and of the pool that it may borrow from, to a peek.
#[derive(Debug)]
pub(crate) struct Peeked {
    pub(crate) decision: Decision,
    /// Whether the pool would lend the units.
    pub(crate) is_borrowed: bool,
}

impl DomainPool {
    /// The longest time that a report may be in force.
    pub const LONGEST: Duration = Duration::from_secs(3_600);

    pub(crate) fn new(domain: &str, quota: Quota, clock: &Clock) -> Self {
        Self {
            domain: domain.into(),
            quota,
            pool: SparePool::with_clock(quota, clock.clone()),
            until: AtomicU64::new(0),
            reporting: Mutex::new(()),
            lent: RuleTotal::default(),
            expired: RuleTotal::default(),
        }
    }

    /// The domain of the pool.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The quota of units that the pool lends at headroom 1.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The headroom in force, between 0 and 1. It is the headroom that was reported last, or 0 if that report has
    /// expired.
    #[must_use]
    pub fn headroom(&self) -> f64 {
        if self.is_live(self.pool.now()) { self.pool.headroom() } else { 0.0 }
    }

    /// The units that the pool would lend now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        let now = self.pool.now();
        if self.is_live(now) { self.pool.remaining_at(now) } else { 0 }
    }

    /// The units that the pool has lent so far, including those that were given back.
    #[must_use]
    pub fn lent(&self) -> u64 {
        self.lent.get()
    }

    /// The number of reports whose time was over before the next report came: see [`expire`](DomainPool::expire).
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired.get()
    }

    /// Returns `true` if the last report has expired and no earlier call has returned `true` for this report. The call
    /// is for logs; decisions do not need it.
    #[must_use]
    pub fn expire(&self) -> bool {
        let _alone = self.reporting();
        // Relaxed, for the load and the store: under the lock no other thread writes `until`.
        let until = self.until.load(Ordering::Relaxed);
        let is_over = until > 0 && self.pool.now().as_nanos() >= until;
        if is_over {
            self.until.store(0, Ordering::Relaxed);
            self.expired.add(1);
        }
        is_over
    }

    pub(crate) fn report(&self, headroom: f64, lasts: Duration) -> Result<(), HeadroomRefusal> {
        if lasts.is_zero() || lasts > Self::LONGEST {
            return Err(HeadroomRefusal::Lasts { found: lasts });
        }
        let _alone = self.reporting();
        let reported = self.pool.report_headroom(headroom);
        reported.map_err(|_| HeadroomRefusal::Headroom { found: headroom })?;
        // Release: pairs with the Acquire load of `until`, as the head of this file explains.
        self.until.store((self.pool.now() + lasts).as_nanos(), Ordering::Release);
        Ok(())
    }

    fn reporting(&self) -> MutexGuard<'_, ()> {
        // A report that panicked has left both words valid.
        self.reporting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_live(&self, now: Timestamp) -> bool {
        // Acquire: pairs with the Release store of `until`, as the head of this file explains.
        now.as_nanos() < self.until.load(Ordering::Acquire)
    }

    /// Charges the client's own limit or, if that limit denies for now, lends the units. `at` is the time of the
    /// request, if the caller gave one. If the client's own limit has a time zone, it is asked at the local time of
    /// that zone instead. In shadow mode nothing is lent, but the answer is the same as if the units were lent.
    pub(crate) fn check(
        self: &Arc<Self>,
        own: Entry<'_>,
        cost: u64,
        at: Option<Timestamp>,
        is_shadow: bool,
    ) -> Result<(Permit, Option<Loan>), Denial> {
        let (mut loan, mut is_lent) = (None, false);
        let decision = own.check_or(cost, |denial, _| {
            let now = at.unwrap_or_else(|| self.pool.now());
            is_lent = self.is_live(now)
                && if is_shadow {
                    self.pool.would_lend(denial, Some(now))
                } else {
                    loan = self.pool.lend(denial, Some(now));
                    loan.is_some()
                };
            is_lent
        });
        let own = decision.into_result()?;
        if loan.is_some() {
            self.lent.add(cost);
        }
        let lent = is_lent.then(|| Loan { own: own.summary(), loan, pool: Arc::clone(self) });
        Ok((own, lent))
    }

    /// The answer that [`check`](DomainPool::check) would give.
    pub(crate) fn peek(&self, own: Entry<'_>, cost: u64, at: Option<Timestamp>) -> Peeked {
        let mut is_borrowed = false;
        let decision = own.peek_or(cost, |denial, _| {
            let now = at.unwrap_or_else(|| self.pool.now());
            is_borrowed = self.is_live(now) && self.pool.would_lend(denial, Some(now));
            is_borrowed
        });
        Peeked { decision, is_borrowed }
    }
}

impl Loan {
    pub(crate) fn own(&self) -> DecisionSummary {
        self.own
    }

    /// Gives back up to this many units, and returns the number that came back.
    pub(crate) fn give_back(self, units: u64, at: Option<Timestamp>) -> u64 {
        let cost = self.own.cost;
        let units = units.min(cost);
        let Some(loan) = self.loan else { return units };
        // The pool counts in parts of units. Both quotients are below 2^64, because `units` is at most the loan's cost,
        // and a unit has at least one part.
        let quotient = |of: u128, by: u64| u64::try_from(of / u128::from(by.max(1)));
        let whole = loan.cost();
        let parts = quotient(u128::from(whole) * u128::from(units), cost).unwrap_or(u64::MAX);
        let given = self.pool.pool.give_back(loan.portion(parts), at);
        // The parts of a number of units are rounded down. So the number of units that came back is the largest one
        // with at most `given` parts.
        let below = (u128::from(given) + 1) * u128::from(cost);
        quotient(below.saturating_sub(1), whole).unwrap_or(u64::MAX)
    }
}

/// The reason why a headroom was refused.
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::{HeadroomRefusal, RuleCache, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// let refusal = cache.report_headroom("shop", 0.5, Duration::from_secs(10)).unwrap_err();
/// assert_eq!(refusal, HeadroomRefusal::UnknownDomain { domain: "shop".to_owned() });
/// assert_eq!(refusal.to_string(), "domain 'shop' has no rules; report for a domain of the rule files");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HeadroomRefusal {
    /// The domain is in no file.
    UnknownDomain {
        /// The domain.
        domain: String,
    },
    /// The domain has no pool.
    NoPool {
        /// The domain.
        domain: String,
    },
    /// The headroom is below 0, above 1, or not a number.
    Headroom {
        /// The headroom that was reported.
        found: f64,
    },
    /// The time for which the report is to be in force is zero, or above [`DomainPool::LONGEST`].
    Lasts {
        /// The time that was reported.
        found: Duration,
    },
}

impl fmt::Display for HeadroomRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDomain { domain } => write!(
                f,
                "domain '{}' has no rules; report for a domain of the rule files",
                domain.escape_debug()
            ),
            Self::NoPool { domain } => write!(
                f,
                "domain '{}' has no pool; write pool: {{unit: second, requests_per_unit: 100}} beside it",
                domain.escape_debug()
            ),
            Self::Headroom { found } => write!(f, "headroom {found} is refused; use 0 to 1"),
            Self::Lasts { found } => {
                write!(f, "a time to live of {found:?} is refused; use 1 ms to 1 h")
            }
        }
    }
}

impl std::error::Error for HeadroomRefusal {}
