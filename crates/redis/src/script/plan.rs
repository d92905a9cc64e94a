//! [`ScriptPlan`]: a policy in the numbers that the script computes with.
//!
//! The script's numbers are doubles, which hold whole numbers up to 2^53 - 1 exactly. So time is counted in
//! *ticks*, powers of ten microseconds, and the finest tick is chosen at which nothing exceeds that:
//!
//! ```text
//! gcra      a unit is `b` parts, a tick drains `a` of them (a / b = units per tick, in lowest terms):
//!           burst * b must fit
//! sliding   (limit + 1) * W must fit, W in ticks
//! windows   must be whole ticks
//! ```
//!
//! So no rate is rounded. Every time is cut to the tick before it, for charging and testing alike: `gcra`
//! admits nothing more than one tick early, and windows, being whole ticks, nothing at all.

use std::time::Duration;

use tollgate::{Algorithm, AtLimit, Policy};

use crate::error::BuildError;

/// Up to this number a double can be told from its neighbours.
pub(crate) const LARGEST: u64 = (1 << 53) - 1;

/// Ticks to choose from, finest first, in microseconds: Redis' clock counts no finer.
const TICKS_US: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// The algorithm in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlanKind {
    Gcra { per_tick: u64, per_unit: u64, capacity: u64 },
    Fixed { window: u64 },
    FromFirst { window: u64 },
    Sliding { window: u64, rounding: Rounding },
    Segmented { segment: u64, segments: u8 },
}

/// How the previous window's share is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rounding {
    Exact,
    Down,
    Strict,
}

/// A policy compiled for the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScriptPlan {
    pub(crate) kind: PlanKind,
    pub(crate) tick_us: u64,
    pub(crate) limit: u64,
    policy: Policy,
    mark: PlanMark,
}

/// What tells a policy from others in a key: the script's arguments for it, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PlanMark {
    text: [u8; LONGEST_MARK],
    length: usize,
}

/// A kind, a tick of 1000000 at most and three numbers of 16 digits, each with a space behind it.
const LONGEST_MARK: usize = 2 + 8 + 3 * 17;

impl ScriptPlan {
    /// Compiles a policy, or says why the script cannot compute it exactly.
    pub(crate) fn new(policy: Policy) -> Result<Self, BuildError> {
        // Penalties and the like are not in the script: such a policy is refused rather than kept in part.
        if policy.at_limit() != AtLimit::default() {
            return Err(BuildError::Unknown { policy });
        }
        let quota = policy.quota();
        let limit = quota.max_burst();
        let windowed = |parts: u64, make: &dyn Fn(u64) -> Option<PlanKind>| {
            let length_ns = nanos(quota.period()) / parts;
            if !length_ns.is_multiple_of(1_000) {
                return Err(BuildError::WindowTooFine { window: Duration::from_nanos(length_ns) });
            }
            let kind = TICKS_US.into_iter().find_map(|tick_us| {
                let whole = (length_ns / 1_000).is_multiple_of(tick_us);
                whole
                    .then(|| make(length_ns / 1_000 / tick_us))
                    .flatten()
                    .map(|kind| (kind, tick_us))
            });
            kind.filter(|_| limit <= LARGEST).ok_or(BuildError::TooLarge { policy })
        };
        let sliding = |rounding| {
            windowed(1, &|window| {
                let fits = (u128::from(limit) + 1) * u128::from(window) <= u128::from(LARGEST);
                fits.then_some(PlanKind::Sliding { window, rounding })
            })
        };
        let (kind, tick_us) = match policy.algorithm() {
            Algorithm::Gcra => gcra(policy).ok_or(BuildError::TooLarge { policy })?,
            Algorithm::FixedWindow => windowed(1, &|window| Some(PlanKind::Fixed { window }))?,
            Algorithm::FixedWindowFromFirst => {
                windowed(1, &|window| Some(PlanKind::FromFirst { window }))?
            }
            Algorithm::SlidingWindowExact => sliding(Rounding::Exact)?,
            Algorithm::SlidingWindow => sliding(Rounding::Down)?,
            Algorithm::SlidingWindowStrict => sliding(Rounding::Strict)?,
            Algorithm::SegmentedWindow { segments } => {
                let make = |segment| Some(PlanKind::Segmented { segment, segments });
                windowed(u64::from(segments), &make)?
            }
            // Calendar months, of which the script knows nothing, and what the core may learn later.
            _ => return Err(BuildError::Unknown { policy }),
        };
        let mark = PlanMark { text: [0; LONGEST_MARK], length: 0 };
        let mut plan = Self { kind, tick_us, limit, policy, mark };
        let (kind, [tick, a, b, c]) = plan.arguments();
        let text = format!("{kind} {tick} {a} {b} {c} ");
        // No text is longer: every number in it is one that the script can count.
        for (place, byte) in plan.mark.text.iter_mut().zip(text.bytes()) {
            (*place, plan.mark.length) = (byte, plan.mark.length + 1);
        }
        Ok(plan)
    }

    /// The text that stands before what a key holds under this policy.
    pub(crate) fn mark(&self) -> &[u8] {
        &self.mark.text[..self.mark.length]
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// The arguments of the script: kind, tick, a, b, c.
    pub(crate) fn arguments(&self) -> (u8, [u64; 4]) {
        let (kind, a, b, c) = match self.kind {
            PlanKind::Gcra { per_tick, per_unit, capacity } => (1, per_tick, per_unit, capacity),
            PlanKind::Fixed { window } => (2, window, self.limit, 0),
            PlanKind::FromFirst { window } => (3, window, self.limit, 0),
            PlanKind::Sliding { window, rounding } => {
                let rounding = match rounding {
                    Rounding::Exact => 0,
                    Rounding::Down => 1,
                    Rounding::Strict => 2,
                };
                (4, window, self.limit, rounding)
            }
            PlanKind::Segmented { segment, segments } => {
                (5, segment, self.limit, u64::from(segments))
            }
        };
        (kind, [self.tick_us, a, b, c])
    }

    /// The tick that a time lies in.
    pub(crate) fn tick(&self, at_us: u64) -> u64 {
        at_us / self.tick_us
    }

    /// When a tick begins.
    pub(crate) fn micros(&self, tick: u64) -> u64 {
        tick.saturating_mul(self.tick_us)
    }

    /// The time in which so many units come back, rounded up.
    pub(crate) fn drain_us(&self, units: u64) -> u64 {
        let quota = self.policy.quota();
        let drain_ns = u128::from(units) * quota.period().as_nanos() / u128::from(quota.count());
        u64::try_from(drain_ns.div_ceil(1_000)).unwrap_or(u64::MAX)
    }
}

/// The finest tick at which the burst can be counted in parts of a unit.
fn gcra(policy: Policy) -> Option<(PlanKind, u64)> {
    let quota = policy.quota();
    let period_ns = u128::from(nanos(quota.period()));
    TICKS_US.into_iter().find_map(|tick_us| {
        let per_period = u128::from(quota.count()) * u128::from(tick_us) * 1_000;
        let divisor = common(per_period, period_ns);
        let (per_tick, per_unit) = (per_period / divisor, period_ns / divisor);
        let capacity = per_unit.checked_mul(u128::from(quota.max_burst()))?;
        // What one tick drains must be a number that the script can count, too.
        let exact = |number: u128| u64::try_from(number).ok().filter(|&number| number <= LARGEST);
        let kind = PlanKind::Gcra {
            per_tick: exact(per_tick)?,
            per_unit: exact(per_unit)?,
            capacity: exact(capacity)?,
        };
        Some((kind, tick_us))
    })
}

/// The greatest common divisor.
fn common(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(policy: &str) -> Result<ScriptPlan, BuildError> {
        ScriptPlan::new(policy.parse().unwrap())
    }

    #[test]
    fn gcra_is_counted_in_microseconds_and_lowest_terms() {
        let plan = plan("10/m burst 5").unwrap();
        let kind = PlanKind::Gcra { per_tick: 1, per_unit: 6_000_000, capacity: 30_000_000 };
        assert_eq!((plan.kind, plan.tick_us), (kind, 1));
        // A million a day: one unit drains in 86.4 ms.
        let kind = PlanKind::Gcra { per_tick: 1, per_unit: 86_400, capacity: 86_400_000_000 };
        assert_eq!(self::plan("1000000/d").unwrap().kind, kind);
        // 7 and 1,000,000 have no common divisor.
        let kind = PlanKind::Gcra { per_tick: 7, per_unit: 1_000_000, capacity: 7_000_000 };
        assert_eq!(self::plan("7/s").unwrap().kind, kind);
    }

    #[test]
    fn ticks_grow_until_the_burst_fits_and_no_further() {
        // 1,000,003 * 86.4e9 is above 2^53; at 10 us it is 8.64e15, which fits.
        let plan = plan("1000003/d").unwrap();
        assert_eq!((plan.tick_us, plan.tick(29), plan.micros(2)), (10, 2, 20));
        let PlanKind::Gcra { capacity, .. } = plan.kind else { panic!("{plan:?}") };
        assert_eq!(capacity, 1_000_003 * 8_640_000_000);
        let plan = self::plan("sliding-window 100000/d exact").unwrap();
        assert_eq!((plan.tick_us, plan.limit), (1, 100_000));
        assert_eq!(self::plan("sliding-window 110000/d exact").unwrap().tick_us, 10);
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "that is the question")]
    fn numbers_are_those_that_a_double_tells_from_their_neighbours() {
        let tells = |number: u64| number as f64 != (number + 1) as f64;
        assert_eq!([LARGEST - 1, LARGEST, LARGEST + 1].map(tells), [true, true, false]);
        // 2^53 - 1 is the largest limit of a window, and the largest product of a sliding one.
        let is_exact = |policy: &str| plan(policy).is_ok();
        assert!(is_exact("fixed-window 9007199254740991/60d"));
        assert!(!is_exact("fixed-window 9007199254740992/60d"));
        // 69,431 times 129,728,784,761 is 2^53 - 1.
        assert!(is_exact("sliding-window 69430/129728784761us exact"));
        assert!(!is_exact("sliding-window 69431/129728784761us exact"));
    }

    #[test]
    fn what_cannot_be_exact_is_refused() {
        let error = plan("fixed-window 5/1500ns").unwrap_err();
        assert_eq!(error, BuildError::WindowTooFine { window: Duration::from_nanos(1_500) });
        let error = plan("segmented-window 2/1ms x16").unwrap_err();
        assert_eq!(error, BuildError::WindowTooFine { window: Duration::from_nanos(62_500) });
        assert!(matches!(plan("1/d burst 200000000000"), Err(BuildError::TooLarge { .. })));
        for text in
            ["10/m soft 10%", "10/m count-denied", "10/m penalty 10m after 5", "calendar-month 10"]
        {
            assert!(matches!(plan(text), Err(BuildError::Unknown { .. })), "{text}");
        }
    }

    #[test]
    fn two_policies_have_one_mark_if_they_are_the_same_limit_and_else_two() {
        let mark = |text| String::from_utf8(plan(text).unwrap().mark().to_vec()).unwrap();
        assert_eq!(mark("10/m burst 5"), "1 1 1 6000000 30000000 ");
        assert_eq!(mark("60/m"), mark("1/s burst 60"));
        assert_ne!(mark("60/m"), mark("1/s"));
        assert_eq!(mark("segmented-window 10/m x6"), "5 1 10000000 10 6 ");
        // The largest numbers: nothing is cut off.
        assert_eq!(mark("1/d burst 104249"), "1 1 1 86400000000 9007113600000000 ");
        let longest = "1 1000000 9007199254740991 9007199254740991 9007199254740991 ";
        assert_eq!(longest.len(), LONGEST_MARK);
    }

    #[test]
    fn drain_times_are_rounded_up() {
        assert_eq!(plan("3/s").unwrap().drain_us(1), 333_334);
        assert_eq!(plan("3/s").unwrap().drain_us(3), 1_000_000);
    }
}
