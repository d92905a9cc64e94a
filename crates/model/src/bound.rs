//! Checks that a key was admitted no more than its bound in any interval, whatever the order of the times.

use tollgate::{Algorithm, CalendarUnit, Policy};
use tollgate_oracle::BigUint;

use crate::policy::period_ns;
use crate::rules::ceiling;

/// An admitted request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) now_ns: u64,
    /// The latest time that the table had been given when it admitted the request.
    pub(crate) high_ns: u64,
    pub(crate) cost: u64,
}

/// Returns an error if an interval holds more than the policy allows when its burst or limit is `most`. `admitted` is
/// in the order of the decisions.
pub(crate) fn is_kept(
    policy: Policy,
    most: u64,
    tick: u32,
    admitted: &[Admitted],
) -> Result<(), String> {
    if policy.algorithm() == Algorithm::Gcra {
        gcra_is_kept(policy, most, tick, admitted)
    } else {
        window_is_kept(policy, most, admitted)
    }
}

/// In any interval of length W of the callers' times, the bound is burst + rate * W, plus one tick because a time may
/// be rounded.
fn gcra_is_kept(
    policy: Policy,
    burst: u64,
    tick: u32,
    admitted: &[Admitted],
) -> Result<(), String> {
    let (count, period) = (BigUint::from(policy.quota().count()), BigUint::from(period_ns(policy)));
    let mut in_time = admitted.to_vec();
    in_time.sort_by_key(|admitted| admitted.now_ns);
    let (Some(first), Some(last)) = (in_time.first(), in_time.last()) else { return Ok(()) };
    // The rate is exact to 2^-63, so its error grows with the interval: allow one tick, and one more for every 2^62
    // ticks.
    let ticks = ((&count * (last.now_ns - first.now_ns)) << tick) / &period;
    let slack = (((ticks >> 62_u32) + 1_u32) * &period) >> tick;
    let left = |at_ns: u64| &count * (u64::MAX - at_ns);
    let mut account = IntervalBound::new(period.clone(), &period * burst + slack);
    in_time.iter().try_for_each(|admitted| {
        let now = left(admitted.now_ns);
        account.add(admitted, &now, &now)
    })
}

/// Between two decisions the bound is one limit for each window that may have begun between them.
///
/// A late request counts in the window in force, which cannot be seen from outside. But windows do not overlap, and no
/// window begins after the latest time that the limiter was given. Take a request at time t and any later request. T is
/// the latest time that the limiter was given up to the later one. From the first to the later one, at most
/// `(T - t) / window + spare` windows gave units.
fn window_is_kept(policy: Policy, most: u64, admitted: &[Admitted]) -> Result<(), String> {
    let window_ns = period_ns(policy);
    // If the windows follow a grid of the clock, grid steps are counted.
    let (grid_ns, grids_per_window, spare) = match policy.algorithm() {
        Algorithm::SegmentedWindow { segments } => {
            (window_ns / u64::from(segments), u64::from(segments), 1_u64)
        }
        Algorithm::FixedWindowFromFirst => (1, window_ns, 2),
        // Months and years differ in length. So they are counted as if all had the length of the shortest, plus one
        // that the grid cuts.
        Algorithm::Calendar(unit) => {
            let days = match unit {
                CalendarUnit::Month => 28,
                CalendarUnit::Year => 365,
                _ => 7,
            };
            (days * 86_400_000_000_000, 1, 2)
        }
        _ => (window_ns, 1, 1),
    };
    let limit = BigUint::from(ceiling(policy));
    let left = |at_ns: u64| &limit * (u64::MAX / grid_ns - at_ns / grid_ns);
    let scale = BigUint::from(grids_per_window);
    let mut account = IntervalBound::new(scale.clone(), scale * most * spare);
    admitted.iter().try_for_each(|admitted| {
        account.add(admitted, &left(admitted.now_ns), &left(admitted.high_ns))
    })
}

/// Checks all intervals at once. Let r be the rate, and let P and S be the units admitted before and after a request at
/// time t. No `S - r * t` may exceed the `P - r * t` of the same or an earlier request by more than `room`. So it
/// suffices to compare each `S - r * t` with the least `P - r * t` so far.
///
/// All numbers are scaled so that they are whole. The time that is left until 2^64 ns takes the place of t, so that no
/// number is negative.
#[derive(Debug)]
struct IntervalBound {
    scale: BigUint,
    room: BigUint,
    sum: BigUint,
    least: Option<BigUint>,
}

impl IntervalBound {
    fn new(scale: BigUint, room: BigUint) -> Self {
        Self { scale, room, sum: BigUint::ZERO, least: None }
    }

    /// Adds a request. The two numbers are the units that the rate gives in the time that is left: one for intervals
    /// that begin with this request, one for intervals that end with it.
    fn add(
        &mut self,
        admitted: &Admitted,
        left_at_begin: &BigUint,
        left_at_end: &BigUint,
    ) -> Result<(), String> {
        let before = &self.sum * &self.scale + left_at_begin;
        let least = self.least.take().map_or(before.clone(), |least| least.min(before));
        self.sum += admitted.cost;
        let after = &self.sum * &self.scale + left_at_end;
        let kept = after <= &least + &self.room;
        self.least = Some(least);
        if kept { Ok(()) } else { Err(format!("more than its bound up to {admitted:?}")) }
    }
}
