//! Requests and the times between them, in units that matter to the policy at hand.

use std::fmt;
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use tollgate::{Decision, Policy};

use crate::policy::period_ns;

/// The maximum number of steps that are read, and of requests that are made.
pub(crate) const STEPS_MAX: usize = 512;

/// The floor of a shard moves in granules of 2^20 ns.
const GRANULE_NS: u64 = 1 << 20;

/// A list of steps.
#[derive(Clone, PartialEq, Eq)]
pub struct Steps<T>(pub Vec<T>);

impl<T: fmt::Debug> fmt::Debug for Steps<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps(vec![\n")?;
        self.0.iter().try_for_each(|step| writeln!(f, "    {step:?},"))?;
        f.write_str("])")
    }
}

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Steps<T> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        u.arbitrary_iter()?.take(STEPS_MAX).collect::<Result<_>>().map(Self)
    }
}

/// The span by which time moves.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Time stands still.
    Still,
    /// Thousandths of the period.
    Thousandths(u16),
    /// Emission intervals: the time one unit takes to come back.
    Intervals(u16),
    /// Periods.
    Periods(u8),
    /// Granules, in which the floor of a shard moves.
    Granules(u16),
    /// Eighths of the longest time by which a floor trails the latest time.
    EpochEighths(u8),
    /// The time after which the time in a word wraps.
    Turns(u8),
    /// The wait in the last denial.
    ToRetry,
    /// The reset time in the last decision.
    ToReset,
    /// Time moves to this instant, forward or back.
    To(u64),
}

impl Span {
    /// A span of the same kind, but of a few periods at most, so that the limits of a world stay in use.
    #[must_use]
    pub fn near(self) -> Self {
        match self {
            Self::Thousandths(n) => Self::Thousandths(n % 700),
            Self::Intervals(n) => Self::Intervals(n % 8),
            Self::Periods(n) => Self::Thousandths(u16::from(n) * 8),
            Self::To(_) | Self::Turns(_) => Self::Still,
            span => span,
        }
    }
}

/// The cost of a request.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepCost {
    /// A cost of 0.
    Nothing,
    /// One unit.
    Single,
    /// This number of units.
    Units(u8),
    /// All that remains.
    Rest,
    /// One unit more than remains.
    RestAndOne,
    /// The limit.
    Whole,
    /// One unit more than the limit.
    Never,
    /// Any cost.
    AnyCost(u64),
}

impl StepCost {
    pub(crate) fn units(self, limit: u64, remaining: u64) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Single => 1,
            Self::Units(units) => units.into(),
            Self::Rest => remaining,
            Self::RestAndOne => remaining.saturating_add(1),
            Self::Whole => limit,
            Self::Never => limit.saturating_add(1),
            Self::AnyCost(units) => units,
        }
    }
}

/// A request, and the time before it.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStep {
    /// The span by which time moves.
    pub span: Span,
    /// Nanoseconds that are added to the span.
    pub fine: i8,
    /// Whether time moves back.
    pub backward: bool,
    /// The cost of the request.
    pub cost: StepCost,
}

/// The current time, and the units of its spans.
#[derive(Debug)]
pub(crate) struct StepPace {
    pub(crate) now_ns: u64,
    count: u64,
    period_ns: u64,
    epoch_ns: u64,
    turn_ns: u64,
    retry_ns: u64,
    reset_ns: u64,
}

impl StepPace {
    pub(crate) fn new(policy: Policy, epoch_ns: u64, turn_ns: u64) -> Self {
        Self {
            now_ns: 0,
            count: policy.quota().count(),
            period_ns: period_ns(policy),
            epoch_ns,
            turn_ns,
            retry_ns: 0,
            reset_ns: 0,
        }
    }

    /// Remembers the times in a decision.
    pub(crate) fn heard(&mut self, decision: &Decision) {
        self.reset_ns = nanos_of(decision.reset_after());
        if let Decision::Denied(denial) = decision {
            self.retry_ns = denial.retry_after().map_or(0, nanos_of);
        }
    }

    pub(crate) fn move_by(&mut self, span: Span, fine: i8, backward: bool) {
        let coarse_ns = match span {
            Span::Still => 0,
            Span::Thousandths(n) => part(self.period_ns, n, 1_000),
            Span::Intervals(n) => part(self.period_ns, n, self.count),
            Span::Periods(n) => part(self.period_ns, n, 1),
            Span::Granules(n) => part(GRANULE_NS, n, 1),
            Span::EpochEighths(n) => part(self.epoch_ns, n, 8),
            Span::Turns(n) => part(self.turn_ns, n, 1),
            Span::ToRetry => self.retry_ns,
            Span::ToReset => self.reset_ns,
            Span::To(instant_ns) => {
                self.now_ns = instant_ns.saturating_add_signed(fine.into());
                return;
            }
        };
        let span_ns = coarse_ns.saturating_add_signed(fine.into());
        self.now_ns = if backward {
            self.now_ns.saturating_sub(span_ns)
        } else {
            self.now_ns.saturating_add(span_ns)
        };
    }
}

/// A wait in nanoseconds, capped at the longest time.
pub(crate) fn nanos_of(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)
}

/// `whole * n / of`, capped at the longest time.
fn part(whole: u64, n: impl Into<u64>, of: u64) -> u64 {
    let product = u128::from(whole) * u128::from(n.into());
    u64::try_from(product / u128::from(of)).unwrap_or(u64::MAX)
}
