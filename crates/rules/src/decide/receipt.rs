//! [`Receipt`]: the charges of a request, for giving them back.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, DecisionSummary, Entry, Permit, Reservation, Timestamp};

use crate::language::zone::Zone;
use crate::set::pool::Loan;
use crate::set::rule::RuleTable;

/// The charges that a request has made to each of its limits. It is for a caller that gives up its place, or has used
/// less than it asked for. If a receipt is dropped, the charges stay.
///
/// A receipt holds the limits' tables and the keys of the request, so it stays valid over a reload of the rules. Units
/// that are given back to a limit that is gone have no effect.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tollgate::ManualClock;
/// use tollgate_rules::{Purpose, DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
/// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: \
///             {window: 1s, requests_per_unit: 5, algorithm: gcra, burst: 1, queue: 50}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let descriptors = [Descriptor::new(&[("user", "alice")])];
/// let reserve = || maker.decide(&Request::new("shop", &descriptors), Purpose::Reserve { max_wait: None });
/// assert_eq!(reserve()?.wait(), Duration::ZERO);
/// let mut second = reserve()?;
/// assert_eq!(second.wait(), Duration::from_millis(200));
/// assert!(second.take_receipt().is_some_and(|receipt| receipt.cancel()));
/// // The place is the next caller's.
/// assert_eq!(reserve()?.wait(), Duration::from_millis(200));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the units are charged; cancel it if they are not wanted"]
pub struct Receipt {
    pub(crate) keys: Box<[u8]>,
    pub(crate) charges: Vec<ReceiptLine>,
    /// The clock for limits with a time zone.
    pub(crate) clock: Clock,
}

/// A charge that was made to a limit.
#[derive(Debug)]
pub(crate) enum Charged {
    At(Permit),
    Place(Reservation),
    /// The pool of the limit's domain has lent the units. The limit itself is charged nothing.
    Loan(Loan),
}

/// The charge of one limit, and the table that holds it.
#[derive(Debug)]
pub(crate) struct ReceiptLine {
    pub(crate) table: Arc<RuleTable>,
    pub(crate) zone: Option<Arc<Zone>>,
    pub(crate) key: Range<usize>,
    pub(crate) charged: Charged,
}

impl Charged {
    /// The figures of the decision that made the charge.
    pub(crate) fn summary(&self) -> DecisionSummary {
        match self {
            Self::At(permit) => permit.summary(),
            Self::Place(place) => place.permit().summary(),
            Self::Loan(loan) => loan.own(),
        }
    }

    pub(crate) fn wait(&self) -> Duration {
        match self {
            Self::At(_) | Self::Loan(_) => Duration::ZERO,
            Self::Place(place) => place.wait(),
        }
    }

    pub(crate) fn is_borrowed(&self) -> bool {
        matches!(self, Self::Loan(_))
    }

    /// Gives back all units that can come back. Returns `true` if units came back, or if none had been charged. `at` is
    /// the time at which the pool gets its units back: the time of the request, or `None` for now.
    pub(crate) fn undo(self, entry: Entry<'_>, at: Option<Timestamp>) -> bool {
        let (cost, is_turn) = (self.summary().cost, self.wait().is_zero());
        match self {
            Self::Loan(loan) => loan.give_back(cost, at) > 0,
            _ if cost == 0 => true,
            Self::At(permit) => entry.refund(permit) > 0,
            // If the request did not have to wait, its place is refunded like the charge of a check.
            Self::Place(place) if is_turn => entry.refund(place.into_permit()) > 0,
            // A place is not given back if other requests wait behind it, because their waits depend on it.
            Self::Place(place) => entry.cancel(place),
        }
    }
}

fn entry<'t>(table: &'t RuleTable, zone: Option<&Zone>, key: &[u8], clock: &Clock) -> Entry<'t> {
    let entry = table.entry(key);
    zone.map_or(entry, |zone| entry.at(zone.local(clock.now())))
}

impl Receipt {
    /// Gives back up to this many units to each limit that has charged them. Returns the number of units that came
    /// back; if there are several limits, the smallest of their numbers. Units that have drained meanwhile, or were
    /// charged in a window that is over, do not come back ([`tollgate::Entry::refund`]).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{Purpose, DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: hour, requests_per_unit: 10}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let descriptors = [Descriptor { hits: Some(8), ..Descriptor::new(&[("user", "alice")]) }];
    /// let mut answer = maker.decide(&Request::new("shop", &descriptors), Purpose::Reserve { max_wait: None })?;
    /// // Three were enough.
    /// assert_eq!(answer.take_receipt().map(|receipt| receipt.refund(5)), Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "what came back need not matter")]
    pub fn refund(self, units: u64) -> u64 {
        let Self { keys, charges, clock } = self;
        let given = charges.into_iter().map(|ReceiptLine { table, zone, key, charged }| {
            let permit = match charged {
                Charged::Loan(loan) => return loan.give_back(units, None),
                Charged::At(permit) => permit,
                Charged::Place(place) => place.into_permit(),
            };
            let entry = entry(&table, zone.as_deref(), &keys[key], &clock);
            entry.refund(permit.portion(units))
        });
        given.min().unwrap_or(0)
    }

    /// Gives everything back. Returns `true` if every limit could take its charge back. A place in a queue goes back
    /// whole if no request has queued up behind it; otherwise it stays charged, because the waits of the places behind
    /// it depend on it ([`tollgate::Entry::cancel`]). The place of a request that did not have to wait is refunded.
    #[expect(clippy::must_use_candidate, reason = "what came back need not matter")]
    pub fn cancel(self) -> bool {
        let Self { keys, charges, clock } = self;
        let undone = charges.into_iter().rev().map(|ReceiptLine { table, zone, key, charged }| {
            charged.undo(entry(&table, zone.as_deref(), &keys[key], &clock), None)
        });
        undone.fold(true, |all, one| all & one)
    }

    /// The bytes of the keys that the receipt holds.
    #[must_use]
    pub fn key_bytes(&self) -> usize {
        self.keys.len()
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("limits", &self.charges.len()).finish_non_exhaustive()
    }
}
