//! The fineness of time in a word, by the rules in the documentation, and the reference model of a policy with that
//! fineness. This is the only place that translates a policy for the model.

use tollgate::{Algorithm, AtLimit, CalendarUnit, CountDenied, Policy};
use tollgate_oracle::{Algorithm as Model, BigUint, CalendarSpan, Oracle, Rounding};
use tollgate_oracle::{AtLimit as Rules, CountDenied as Counted, Penalty};

use crate::plant::Plant;
use crate::policy::period_ns;
use crate::rules::{ceiling, penalty_ns};
use crate::step::nanos_of;

/// 2100-01-01: an un-keyed word cannot distinguish later instants.
pub const LATEST_NS: u64 = 4_102_444_800_000_000_000;

/// The latest time that an un-keyed word distinguishes from later ones. Windows of the calendar distinguish all times.
pub(crate) fn latest_ns(policy: Policy) -> u64 {
    if matches!(policy.algorithm(), Algorithm::Calendar(_)) { u64::MAX } else { LATEST_NS }
}

/// The fineness of time in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeFineness {
    /// Under GCRA, one unit is 2^`tick` ticks.
    pub tick: u32,
    /// Under from-first windows, the unit to which the start of a window is rounded up.
    pub quantum_ns: u64,
    /// Under other windows, the unit to which the end of a penalty is rounded up.
    pub end_quantum_ns: u64,
}

pub(crate) const PLAIN: TimeFineness = TimeFineness { tick: 0, quantum_ns: 1, end_quantum_ns: 1 };

impl TimeFineness {
    /// The fineness of an un-keyed word, by the rules in the documentation: the finest for which the word has room.
    #[must_use]
    pub fn unkeyed(policy: Policy) -> Self {
        match policy.algorithm() {
            Algorithm::Gcra => Self { tick: finest_tick(policy), ..PLAIN },
            Algorithm::FixedWindowFromFirst => {
                Self { quantum_ns: finest_quantum_ns(policy), ..PLAIN }
            }
            _ => Self { end_quantum_ns: finest_end_quantum_ns(policy), ..PLAIN },
        }
    }

    /// The finenesses that a keyed word may have. If the word has plenty of room, only the finest is possible.
    /// Otherwise several are, and one of them must fit all answers.
    #[must_use]
    pub fn keyed(policy: Policy) -> Vec<Self> {
        let (quota, window_ns) = (policy.quota(), period_ns(policy));
        let quanta = |n: u64| 10_u64.pow((window_ns / n).max(1).ilog10());
        let is_plain = policy.at_limit() == AtLimit::default();
        match policy.algorithm() {
            Algorithm::Gcra => {
                // Up to 4,096 units at once and 20,000 per second, the word has room for epochs of 4 s with the finest
                // tick.
                let roomy = quota.max_burst() <= 4_096 && quota.count() <= window_ns / 50_000;
                let ticks = if roomy && is_plain { 12..=12 } else { coarsest_tick(policy)..=12 };
                ticks.map(|tick| Self { tick, ..PLAIN }).collect()
            }
            Algorithm::FixedWindowFromFirst => {
                let roomy = quota.count() <= 256 && window_ns >= 1_000_000_000;
                let parts: &[u64] =
                    if roomy && is_plain { &[1 << 16] } else { &[1 << 16, 1 << 12] };
                parts.iter().map(|&n| Self { quantum_ns: quanta(n), ..PLAIN }).collect()
            }
            _ => vec![Self { end_quantum_ns: quanta(1 << 12), ..PLAIN }],
        }
    }

    /// The model of an unused limit.
    #[must_use]
    pub fn model(self, policy: Policy, plant: Plant) -> Oracle {
        let (quota, window_ns) = (policy.quota(), period_ns(policy));
        let more = u64::from(plant == Plant::Limit);
        let limit = quota.count().saturating_add(more);
        let sliding = |rounding| Model::SlidingWindow { limit, window_ns, rounding };
        let algorithm = match policy.algorithm() {
            Algorithm::Gcra => Model::Gcra {
                count: quota.count(),
                period_ns: window_ns,
                burst: quota.max_burst() + more,
                tick: Some(self.tick),
            },
            Algorithm::FixedWindow => Model::FixedWindow { limit, window_ns },
            Algorithm::Calendar(unit) => Model::Calendar { limit, unit: span_of(unit) },
            Algorithm::FixedWindowFromFirst => {
                Model::FixedWindowFromFirst { limit, window_ns, quantum_ns: self.quantum_ns }
            }
            Algorithm::SlidingWindow { rounding: tollgate::Rounding::Exact } => {
                sliding(Rounding::Exact)
            }
            Algorithm::SlidingWindow { rounding: tollgate::Rounding::Down } => {
                sliding(Rounding::Down)
            }
            Algorithm::SlidingWindow { rounding: tollgate::Rounding::Strict } => {
                sliding(Rounding::Strict)
            }
            Algorithm::SegmentedWindow { segments } => {
                Model::SegmentedWindow { limit, window_ns, segments: segments.into() }
            }
            Algorithm::SlidingLog => Model::SlidingLog { limit, window_ns },
            other => panic!("no model of {other:?}"),
        };
        Oracle::with_rules(algorithm, self.rules(policy))
    }

    fn rules(self, policy: Policy) -> Rules {
        let at_limit = policy.at_limit();
        let window_ns = period_ns(policy);
        let (unit_ns, quantum_ns) = match policy.algorithm() {
            Algorithm::Gcra => (1, 1),
            Algorithm::FixedWindowFromFirst => (self.quantum_ns, self.quantum_ns),
            Algorithm::SegmentedWindow { segments } => {
                (window_ns / u64::from(segments), self.end_quantum_ns)
            }
            _ => (window_ns, self.end_quantum_ns),
        };
        let wait_ns = match at_limit.count_denied {
            CountDenied::UpTo(wait) => Some(nanos_of(wait)),
            _ => None,
        };
        Rules {
            soft_bp: at_limit.soft.hundredths().into(),
            count_denied: (at_limit.count_denied != CountDenied::No).then_some(Counted { wait_ns }),
            penalty: at_limit.penalty.map(|penalty| Penalty {
                length_ns: penalty_ns(policy),
                after: penalty.after.into(),
                extended: penalty.extended,
                unit_ns,
                quantum_ns,
            }),
        }
    }
}

fn span_of(unit: CalendarUnit) -> CalendarSpan {
    match unit {
        CalendarUnit::Month => CalendarSpan::Month,
        CalendarUnit::Year => CalendarSpan::Year,
        CalendarUnit::Week(begins) => CalendarSpan::Week { begins: begins as u8 },
        other => panic!("no model of {other:?}"),
    }
}

/// The coarsest tick of a keyed word. It is a 256th of a unit, or a larger part, up to a 16th, if that part is 1 to 15
/// whole nanoseconds long.
pub(crate) fn coarsest_tick(policy: Policy) -> u32 {
    let unit_ns = period_ns(policy) / policy.quota().count();
    (4..8).find(|tick| (1..16).contains(&(unit_ns >> tick))).unwrap_or(8)
}

/// The bits that hold a count of consecutive denials, up to the number that starts a penalty.
fn denial_bits(policy: Policy) -> u64 {
    policy.at_limit().penalty.map_or(0, |penalty| BigUint::from(penalty.after).bits())
}

/// Under GCRA, the largest k for which a word has room if a unit is 2^k ticks. Two numbers must fit: the ticks until
/// 2100, and the ticks of the largest debt or penalty. Each must fit beside the count of consecutive denials, with one
/// bit to spare.
fn finest_tick(policy: Policy) -> u32 {
    let (quota, at_limit) = (policy.quota(), policy.at_limit());
    let ticks = |ns: BigUint, k: u32| ((ns * quota.count()) << k) / period_ns(policy);
    let fits = |k: &u32| {
        let burst = BigUint::from(ceiling(policy)) << *k;
        let less = &burst - (BigUint::from(1_u32) << *k);
        let denied = match at_limit.count_denied {
            CountDenied::No => BigUint::ZERO,
            CountDenied::Yes => less + &burst,
            CountDenied::UpTo(wait) => less + ticks(wait.as_nanos().into(), *k),
        };
        let end = at_limit
            .penalty
            .map_or(BigUint::ZERO, |_| ticks(penalty_ns(policy).into(), *k) + 2_u32);
        let most = ticks(LATEST_NS.into(), *k).max(burst).max(denied).max(end);
        most.bits() + 1 + denial_bits(policy) <= 64
    };
    (0..=62).rev().find(fits).expect("the policy was accepted")
}

/// Under from-first windows, the least power of ten nanoseconds that leaves room for the count and the denials.
fn finest_quantum_ns(policy: Policy) -> u64 {
    let latest = LATEST_NS.saturating_add(penalty_ns(policy));
    let counts = BigUint::from(ceiling(policy)).bits() + denial_bits(policy);
    let fits = |quantum: &u64| counts + (BigUint::from(latest / quantum) + 1_u32).bits() <= 64;
    (0..19).map(|power| 10_u64.pow(power)).find(fits).expect("the policy was accepted")
}

/// Under other windows, the least power of ten nanoseconds, up to a thousandth of the window, that leaves room for the
/// window's number and the denials.
fn finest_end_quantum_ns(policy: Policy) -> u64 {
    let window_ns = period_ns(policy);
    let counts = policy.at_limit().count_denied != CountDenied::No;
    let (parts, counters) = match policy.algorithm() {
        Algorithm::SegmentedWindow { segments } => (u64::from(segments), u64::from(segments)),
        Algorithm::FixedWindow => (1, 1),
        _ => (1, 2),
    };
    let doubled = matches!(policy.algorithm(), Algorithm::SlidingWindow { rounding } if rounding != tollgate::Rounding::Strict);
    let most = ceiling(policy).saturating_mul(if counts && doubled { 2 } else { 1 });
    let unit_ns = window_ns / parts;
    let latest = LATEST_NS.saturating_add(penalty_ns(policy)) / unit_ns;
    let rounded_up = u32::from(policy.at_limit().penalty.is_some());
    let time_bits = (BigUint::from(latest) + rounded_up).bits();
    let fits = |own: u64, quantum_ns: u64| {
        let into = BigUint::from((unit_ns - 1) / quantum_ns).bits();
        let beside = own.max(into) + denial_bits(policy);
        beside + time_bits <= 64 && beside < 64
    };
    // The counts are stored side by side. If they do not fit so, they are stored as one number.
    let side_by_side = counters * BigUint::from(most).bits();
    let rings =
        (1..=counters).fold(BigUint::from(1_u32), |rings, n| rings * (BigUint::from(most) + n) / n);
    let ring = (parts > 1 && !counts).then(|| (rings - 1_u32).bits());
    let coarsest_ns = (window_ns / 1_000).clamp(1, unit_ns);
    let powers = || (0..19).map(|power| 10_u64.pow(power)).take_while(|&ns| ns <= coarsest_ns);
    let widths = [Some(side_by_side), ring];
    let found = widths.into_iter().flatten().find_map(|own| powers().find(|&ns| fits(own, ns)));
    found.unwrap_or(1)
}
