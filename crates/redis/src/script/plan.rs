//! [`ScriptPlan`]: a policy in the numbers that the script computes with.
//!
//! The script's numbers are doubles, which represent whole numbers up to 2^53 - 1 exactly. So time is counted in
//! *ticks*. A tick is a power of ten microseconds, and the finest tick is chosen at which no number of the policy
//! exceeds 2^53 - 1:
//!
//! ```text
//! gcra      a unit is `b` parts, a tick drains `a` of them (a / b = units per tick, in lowest terms):
//!           burst * b must fit, and with `count-denied` what is owed where the charge of a denial is cut
//! sliding   (limit + 1) * W must fit, W in ticks; with `count-denied` twice the limit takes the place of the limit
//! windows   must be whole ticks
//! ```
//!
//! So no rate is rounded. The server's time is rounded down to a tick, both when units are charged and when a later
//! request tests whether its units fit. So `gcra` admits a request at most one tick early. Windows are whole numbers of
//! ticks, and admit nothing early.

use std::time::Duration;

use tollgate::{Algorithm, CalendarUnit, CountDenied, Policy, Rounding, Wait};

use crate::error::RedisBuildError;
use crate::script::calendar::number_of;
use crate::script::rules::{PlanRules, largest_count, largest_debt};

/// The largest number up to which doubles represent every whole number exactly, 2^53 - 1.
pub(crate) const LARGEST: u64 = (1 << 53) - 1;

/// The possible ticks in microseconds, finest first. Redis' clock counts microseconds, so a finer tick would be
/// useless.
const TICKS_US: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// The algorithm of a policy, with its times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlanKind {
    Gcra { per_tick: u64, per_unit: u64, capacity: u64 },
    Fixed { window: u64 },
    FromFirst { window: u64 },
    Sliding { window: u64, rounding: Rounding },
    Segmented { segment: u64, segments: u8 },
    Log { window: u64 },
    Calendar { unit: CalendarUnit, number: u8 },
}

/// A policy compiled for the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScriptPlan {
    pub(crate) kind: PlanKind,
    pub(crate) tick_us: u64,
    /// The limit that the script uses. If the policy is soft, this is the softened limit.
    pub(crate) limit: u64,
    pub(crate) soft_bp: u16,
    /// The changes that a denial makes, if any.
    pub(crate) rules: Option<PlanRules>,
    policy: Policy,
    mark: PlanMark,
}

/// The script's arguments for a policy. The kind says which numbers `a`, `b` and `c` are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanArguments {
    pub(crate) kind: u8,
    pub(crate) tick_us: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: u64,
}

/// The script's arguments for a policy, as text. In the store this text marks which policy a state of a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PlanMark {
    text: [u8; LONGEST_MARK],
    length: usize,
}

/// The longest mark: a kind, a tick of 1000000 at most and three numbers of 16 digits, each followed by a space. If the
/// policy has rules for denials, four more numbers follow: two of 16 digits, one of 10 digits and one of 1 digit.
const LONGEST_MARK: usize = 3 + 8 + 3 * 17 + 2 * 17 + 11 + 2;

/// This is added to the kind if the policy has rules for denials.
const RULED: u8 = 8;

impl ScriptPlan {
    /// Compiles a policy, or says why the script cannot compute it exactly.
    pub(crate) fn new(policy: Policy) -> Result<Self, RedisBuildError> {
        let (quota, soft_bp) = (policy.quota(), policy.at_limit().soft.hundredths());
        let limit = softened(quota.max_burst(), soft_bp)
            .ok_or(RedisBuildError::TooLarge { policy: policy.into() })?;
        let windowed = |parts: u64, make: &dyn Fn(u64) -> Option<PlanKind>| {
            let length_ns = nanos(quota.period()) / parts;
            if !length_ns.is_multiple_of(1_000) {
                return Err(RedisBuildError::WindowTooFine {
                    window: Duration::from_nanos(length_ns),
                });
            }
            let kind = TICKS_US.into_iter().find_map(|tick_us| {
                let whole = (length_ns / 1_000).is_multiple_of(tick_us);
                whole
                    .then(|| make(length_ns / 1_000 / tick_us))
                    .flatten()
                    .map(|kind| (kind, tick_us))
            });
            kind.filter(|_| limit <= LARGEST)
                .ok_or(RedisBuildError::TooLarge { policy: policy.into() })
        };
        let sliding = |rounding| {
            windowed(1, &|window| {
                // If denials are charged, the count may rise above the limit.
                let most = largest_count(policy, limit).max(u128::from(limit));
                let fits = (most + 1) * u128::from(window) <= u128::from(LARGEST);
                fits.then_some(PlanKind::Sliding { window, rounding })
            })
        };
        let (kind, tick_us) = match policy.algorithm() {
            Algorithm::Gcra => {
                gcra(policy, limit).ok_or(RedisBuildError::TooLarge { policy: policy.into() })?
            }
            Algorithm::FixedWindow => windowed(1, &|window| Some(PlanKind::Fixed { window }))?,
            Algorithm::FixedWindowFromFirst => {
                windowed(1, &|window| Some(PlanKind::FromFirst { window }))?
            }
            Algorithm::SlidingWindow { rounding } => sliding(rounding)?,
            Algorithm::SegmentedWindow { segments } => {
                let make = |segment| Some(PlanKind::Segmented { segment, segments });
                windowed(u64::from(segments), &make)?
            }
            // A log counts in microseconds, however long its window is. No policy has both a log and a penalty.
            Algorithm::SlidingLog => windowed(1, &|window| Some(PlanKind::Log { window }))?,
            // Each request brings the calendar windows.
            Algorithm::Calendar(unit) => {
                let number =
                    number_of(unit).ok_or(RedisBuildError::Unknown { policy: policy.into() })?;
                windowed(1, &|_| Some(PlanKind::Calendar { unit, number }))?
            }
            // A later version of the core may add other algorithms.
            _ => return Err(RedisBuildError::Unknown { policy: policy.into() }),
        };
        let most = match kind {
            PlanKind::Gcra { per_tick, per_unit, capacity } => {
                largest_debt(policy, per_tick, per_unit, capacity, tick_us)
            }
            _ => largest_count(policy, limit),
        };
        let rules = match kind {
            // If denials are charged, a log enters them as units. A log has no count that a largest value could bound.
            PlanKind::Log { .. } => None,
            _ => PlanRules::new(policy, tick_us, most, LARGEST)?,
        };
        let mark = PlanMark { text: [0; LONGEST_MARK], length: 0 };
        let plan = Self { kind, tick_us, limit, soft_bp, rules, policy, mark };
        Ok(Self { mark: plan.written(), ..plan })
    }

    /// The policy as text for the keys in the store.
    fn written(&self) -> PlanMark {
        let PlanArguments { kind, tick_us, a, b, c } = self.arguments();
        let mut text = format!("{kind} {tick_us} {a} {b} {c} ");
        if let Some(rules) = self.rules {
            text += &rules.text();
        }
        let mut mark = self.mark;
        // The text always fits, since no number in it exceeds what the script can count.
        for (place, byte) in mark.text.iter_mut().zip(text.bytes()) {
            (*place, mark.length) = (byte, mark.length + 1);
        }
        mark
    }

    /// The text before the state that a key stores under this policy.
    pub(crate) fn mark(&self) -> &[u8] {
        &self.mark.text[..self.mark.length]
    }

    /// The number of units by which the softened limit exceeds the named limit.
    pub(crate) fn beyond(&self) -> u64 {
        self.limit - self.policy.quota().max_burst()
    }

    /// If only the store can decide under this policy, the reason why.
    pub(crate) fn only_exact(&self) -> Option<&'static str> {
        if let PlanKind::Log { .. } = self.kind {
            return Some(
                "each unit of a log counts from its very instant, and a node that decides by itself tells the store of it \
                 before or after; segmented-window needs no instants",
            );
        }
        self.rules.is_some().then_some(
            "a node that decides by itself does not know in which order other nodes admit and deny, and to tell the \
             store of every denial takes as many calls as mode exact",
        )
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// The arguments for the script. The numbers of the rules for denials are in the mark instead.
    pub(crate) fn arguments(&self) -> PlanArguments {
        let ruled = if self.rules.is_some() { RULED } else { 0 };
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
            PlanKind::Log { window } => {
                let counts = self.policy.at_limit().count_denied != CountDenied::No;
                (6, window, self.limit, counts.into())
            }
            PlanKind::Calendar { number, .. } => (7, 1, self.limit, number.into()),
        };
        PlanArguments { kind: kind + ruled, tick_us: self.tick_us, a, b, c }
    }

    /// The caller's bound on the wait, tightened by the bound of the policy's own queue.
    pub(crate) fn bounded(&self, wait: Wait) -> Wait {
        let Some(queue) = self.policy.at_limit().queue else { return wait };
        Wait::at_most(wait.max_wait().min(queue.max_wait()))
            .behind(wait.max_behind().min(queue.max_behind()))
    }

    /// Whether a waiting request may ask again after a denial. It may not if the store counts each denial, or if `wait`
    /// bounds the units ahead of the request: waiting requests are stored nowhere, so the units ahead cannot be
    /// counted.
    pub(crate) fn asks_again(&self, wait: Wait) -> bool {
        !self.counts_denials() && wait.max_behind() == u64::MAX
    }

    /// Whether a denial changes the state. A sliding log may count denials, too, although it has no `rules`.
    pub(crate) fn counts_denials(&self) -> bool {
        let at_limit = self.policy.at_limit();
        at_limit.count_denied != CountDenied::No || at_limit.penalty.is_some()
    }

    /// The number of parts by which the debt may exceed the capacity so that a new place waits at most `wait`. Only
    /// GCRA has a queue; other policies return `None`.
    pub(crate) fn ahead(&self, wait: Wait) -> Option<u64> {
        let PlanKind::Gcra { per_tick, per_unit, .. } = self.kind else { return None };
        let ticks = wait.max_wait().as_nanos() / (u128::from(self.tick_us) * 1_000);
        let drained = u64::try_from(ticks).unwrap_or(u64::MAX).saturating_mul(per_tick);
        Some(drained.min(wait.max_behind().saturating_mul(per_unit)))
    }

    /// The tick that contains a time.
    pub(crate) fn tick(&self, at_us: u64) -> u64 {
        at_us / self.tick_us
    }

    /// The beginning of a tick.
    pub(crate) fn micros(&self, tick: u64) -> u64 {
        tick.saturating_mul(self.tick_us)
    }

    /// The time in which `units` units come back, rounded up.
    pub(crate) fn drain_us(&self, units: u64) -> u64 {
        let quota = self.policy.quota();
        let drain_ns = u128::from(units) * quota.period().as_nanos() / u128::from(quota.count());
        u64::try_from(drain_ns.div_ceil(1_000)).unwrap_or(u64::MAX)
    }
}

/// The limit raised by `soft_bp` hundredths of a percent, rounded down.
fn softened(limit: u64, soft_bp: u16) -> Option<u64> {
    u64::try_from(u128::from(limit) * (10_000 + u128::from(soft_bp)) / 10_000).ok()
}

/// Chooses the finest tick at which the burst, in parts of a unit, does not exceed `LARGEST`.
fn gcra(policy: Policy, burst: u64) -> Option<(PlanKind, u64)> {
    let quota = policy.quota();
    let period_ns = u128::from(nanos(quota.period()));
    TICKS_US.into_iter().find_map(|tick_us| {
        let per_period = u128::from(quota.count()) * u128::from(tick_us) * 1_000;
        let divisor = common(per_period, period_ns);
        let (per_tick, per_unit) = (per_period / divisor, period_ns / divisor);
        let capacity = per_unit.checked_mul(u128::from(burst))?;
        // The number of parts that drain in one tick must be at most `LARGEST`, too.
        let exact = |number: u128| u64::try_from(number).ok().filter(|&number| number <= LARGEST);
        let (per_tick, per_unit) = (exact(per_tick)?, exact(per_unit)?);
        let capacity = exact(capacity)?;
        exact(largest_debt(policy, per_tick, per_unit, capacity, tick_us))?;
        Some((PlanKind::Gcra { per_tick, per_unit, capacity }, tick_us))
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

    fn plan(policy: &str) -> Result<ScriptPlan, RedisBuildError> {
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
        // 7 and 1,000,000 have no common divisor above 1.
        let kind = PlanKind::Gcra { per_tick: 7, per_unit: 1_000_000, capacity: 7_000_000 };
        assert_eq!(self::plan("7/s").unwrap().kind, kind);
    }

    #[test]
    fn ticks_grow_until_the_burst_fits_and_no_further() {
        // With ticks of 1 us the burst is 1,000,003 * 86.4e9 parts, which is above 2^53. With ticks of 10 us it is
        // 8.64e15, which fits.
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
        // 2^53 - 1 is the largest limit of a fixed window. For a sliding window it is the largest product of the limit
        // plus 1 and the window.
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
        assert_eq!(error, RedisBuildError::WindowTooFine { window: Duration::from_nanos(1_500) });
        let error = plan("segmented-window 2/1ms x16").unwrap_err();
        assert_eq!(error, RedisBuildError::WindowTooFine { window: Duration::from_nanos(62_500) });
        assert!(matches!(plan("1/d burst 200000000000"), Err(RedisBuildError::TooLarge { .. })));
        assert!(matches!(plan("sliding-log 5/1500ns"), Err(RedisBuildError::WindowTooFine { .. })));
        // The end of this penalty exceeds the largest number that the script can count.
        assert!(matches!(
            plan("1/s penalty 60000d after 1"),
            Err(RedisBuildError::TooLarge { .. })
        ));
    }

    #[test]
    fn what_a_denial_changes_is_in_the_mark() {
        let mark = |text| String::from_utf8(plan(text).unwrap().mark().to_vec()).unwrap();
        assert_eq!(mark("10/m burst 5 count-denied"), "9 1 1 6000000 30000000 54000000 0 0 0 ");
        assert_eq!(mark("10/m burst 5 count-denied 6s"), "9 1 1 6000000 30000000 30000000 0 0 0 ");
        let penalty = mark("fixed-window 5/m penalty 1h after 3 extended");
        assert_eq!(penalty, "10 1 60000000 5 0 0 3 3600000000 1 ");
        assert_eq!(
            mark("sliding-window 5/m exact count-denied soft 20%"),
            "12 1 60000000 6 0 12 0 0 0 "
        );
        assert_eq!(mark("sliding-window 5/m strict count-denied"), "12 1 60000000 5 2 5 0 0 0 ");
        // The debt that denials may cause must be countable, too. For this policy that takes a tick ten times as long.
        let tick_us = |text| plan(text).unwrap().tick_us;
        assert_eq!([tick_us("60001/d"), tick_us("60001/d count-denied")], [1, 10]);
    }

    #[test]
    fn two_policies_have_one_mark_if_they_are_the_same_limit_and_else_two() {
        let mark = |text| String::from_utf8(plan(text).unwrap().mark().to_vec()).unwrap();
        assert_eq!(mark("10/m burst 5"), "1 1 1 6000000 30000000 ");
        assert_eq!(mark("60/m"), mark("1/s burst 60"));
        assert_ne!(mark("60/m"), mark("1/s"));
        // The script computes with the softened limit. From the script's reply the node computes by how much the named
        // limit is exceeded.
        assert_eq!(mark("60/m soft 10%"), mark("60/m burst 66"));
        assert_eq!(mark("fixed-window 60/m soft 10%"), mark("fixed-window 66/m"));
        assert_eq!(mark("segmented-window 10/m x6"), "5 1 10000000 10 6 ");
        assert_eq!(mark("sliding-log 10/m"), "6 1 60000000 10 0 ");
        assert_eq!(mark("calendar-month 10"), "7 1 1 10 0 ");
        assert_eq!(mark("calendar-year 10"), "7 1 1 10 1 ");
        assert_eq!(mark("calendar-week 10"), "7 1 1 10 2 ");
        assert_eq!(mark("calendar-week 10 from-sunday"), "7 1 1 10 8 ");
        assert_eq!(mark("calendar-month 10 count-denied"), "15 1 1 10 0 10 0 0 0 ");
        // The mark has room for the largest numbers.
        assert_eq!(mark("1/d burst 104249"), "1 1 1 86400000000 9007113600000000 ");
        let longest = "13 1000000 9007199254740991 9007199254740991 9007199254740991 \
             9007199254740991 4294967295 9007199254740991 1 ";
        assert_eq!(longest.len(), LONGEST_MARK);
    }

    #[test]
    fn drain_times_are_rounded_up() {
        assert_eq!(plan("3/s").unwrap().drain_us(1), 333_334);
        assert_eq!(plan("3/s").unwrap().drain_us(3), 1_000_000);
    }
}
