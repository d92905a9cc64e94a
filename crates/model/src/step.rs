//! Requests and the times between them, in units that matter to the policy at hand.

use std::fmt;
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use tollgate::{Decision, Policy};

use crate::policy::period_ns;

/// At most this many steps are read, and at most this many requests are made.
pub(crate) const STEPS_MAX: usize = 512;

/// The floor of a shard moves in granules of 2^20 ns.
const GRANULE_NS: u64 = 1 << 20;

/// Steps, one after the other.
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

/// How far time moves.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Not at all.
    Still,
    /// Thousandths of the period.
    Thousandths(u16),
    /// Emission intervals: the time one unit takes to come back.
    Intervals(u16),
    /// Periods.
    Periods(u8),
    /// The steps in which a shard's floor moves.
    Granules(u16),
    /// Eighths of the time that a floor may trail.
    EpochEighths(u8),
    /// The time after which the time in a word wraps.
    Turns(u8),
    /// The wait that the last denial told.
    ToRetry,
    /// The time that the last decision told until the whole limit is there.
    ToReset,
    /// To this instant, whatever the direction.
    To(u64),
}

impl Span {
    /// The same within a few periods: for worlds in which limits are busy.
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

/// How much is asked for.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepCost {
    /// A cost of 0.
    Nothing,
    /// One unit.
    Single,
    /// So many units.
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
    /// How far time moves.
    pub span: Span,
    /// Nanoseconds more or less.
    pub fine: i8,
    /// Whether it moves back.
    pub backward: bool,
    /// What is asked for then.
    pub cost: StepCost,
}

/// Where time stands, and what its spans are measured in.
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

    /// Remembers what a decision told.
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

/// A wait, or the longest time.
pub(crate) fn nanos_of(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)
}

/// `whole * n / of`, or the longest time.
fn part(whole: u64, n: impl Into<u64>, of: u64) -> u64 {
    let product = u128::from(whole) * u128::from(n.into());
    u64::try_from(product / u128::from(of)).unwrap_or(u64::MAX)
}
