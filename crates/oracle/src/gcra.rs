//! The generic cell rate algorithm.

use num_bigint::BigUint;
use num_integer::Integer;

use crate::definition::Definition;
use crate::search::least;
use crate::ticks::Ticks;

/// The theoretical arrival time, in the unit of its [`Scale`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GcraState {
    scale: Scale,
    /// The time that one unit takes to come back.
    interval: BigUint,
    /// The maximum time by which the theoretical arrival time may be ahead of `now`.
    capacity: BigUint,
    tat: BigUint,
}

/// The unit of times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scale {
    /// Nanoseconds times `count`, so that the interval `period / count` is the integer `period`.
    Exact { count: BigUint },
    Ticks {
        ticks: Ticks,
        /// The number of units in a period, and the period.
        per_period: BigUint,
        period: BigUint,
    },
}

impl Scale {
    fn time(&self, now: &BigUint) -> BigUint {
        match self {
            Scale::Exact { count } => now * count,
            Scale::Ticks { ticks, .. } => ticks.at(now),
        }
    }

    /// The length of this many nanoseconds in the scale, rounded down.
    fn length(&self, ns: &BigUint) -> BigUint {
        match self {
            Scale::Exact { count } => ns * count,
            Scale::Ticks { per_period, period, .. } => ns * per_period / period,
        }
    }
}

impl GcraState {
    pub(crate) fn new(count: u64, period_ns: u64, burst: u64, tick: Option<u32>) -> GcraState {
        let (scale, interval) = match tick {
            None => (Scale::Exact { count: count.into() }, BigUint::from(period_ns)),
            Some(k) => {
                let ticks = Ticks::new(count, period_ns, k).expect("checked with the algorithm");
                let interval = BigUint::from(1u32) << k;
                let (per_period, period) = (&interval * count, period_ns.into());
                (Scale::Ticks { ticks, per_period, period }, interval)
            }
        };
        let capacity = &interval * burst;
        GcraState { scale, interval, capacity, tat: BigUint::ZERO }
    }

    pub(crate) fn with_tolerance(interval_ns: u64, tolerance_ns: u64) -> GcraState {
        let interval = BigUint::from(interval_ns);
        let capacity = &interval + tolerance_ns;
        GcraState {
            scale: Scale::Exact { count: 1u32.into() },
            interval,
            capacity,
            tat: BigUint::ZERO,
        }
    }

    /// The whole units that fit into the capacity.
    pub(crate) fn burst(&self) -> BigUint {
        &self.capacity / &self.interval
    }

    /// The first instant from `end` on at which a new tick begins. Without ticks it is `end`.
    pub(crate) fn round_up(&self, end: &BigUint) -> BigUint {
        match &self.scale {
            Scale::Exact { .. } => end.clone(),
            Scale::Ticks { ticks, .. } => {
                let before = ticks.at(&(end - 1u32));
                end + least(|more| ticks.at(&(end + more)) > before)
            }
        }
    }

    /// Gives back the part of a charge that has not drained between `since` and `until`, but no more than the whole
    /// debt.
    fn take_back(
        &mut self,
        now: &BigUint,
        units: &BigUint,
        until: &BigUint,
        since: &BigUint,
    ) -> BigUint {
        let less = |much: &BigUint, little: &BigUint| much.max(little) - little;
        let undrained = less(&(units * &self.interval), &less(until, since));
        let owed = undrained.min(less(&self.tat, &self.scale.time(now)));
        self.tat -= &owed;
        owed.div_ceil(&self.interval)
    }

    /// `max(TAT, now) + cost`, all in the unit of the scale.
    fn arrival_after(&self, time: &BigUint, cost: &BigUint) -> BigUint {
        (&self.tat).max(time) + cost * &self.interval
    }
}

impl Definition for GcraState {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        let time = self.scale.time(now);
        self.arrival_after(&time, cost) - time <= self.capacity
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        self.tat = self.arrival_after(&self.scale.time(now), cost);
    }

    fn charge_denied(&mut self, now: &BigUint, cost: &BigUint, wait: Option<&BigUint>) {
        let time = self.scale.time(now);
        let wait = wait.map_or(self.capacity.clone(), |wait| self.scale.length(wait));
        let stop = &time + &self.capacity - &self.interval + &wait;
        let before = (&self.tat).max(&time).clone();
        let charged = self.arrival_after(&time, cost).min(stop).max(before.clone());
        let raised = &charged - &before;
        // The TAT moves only if it rises by at least a unit or by at least a thousandth of C.
        if raised >= self.interval || raised * 1_000u32 >= wait {
            self.tat = charged;
        }
    }

    /// Units that have drained since `then` are no longer owed. If `now` is more than one burst before the TAT, the
    /// time one burst before the TAT is taken in place of `now`.
    fn give_back(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint {
        let until = (&self.tat).max(&self.capacity) - &self.capacity;
        let until = until.max(self.scale.time(now));
        self.take_back(now, units, &until, &self.scale.time(now.min(then)))
    }

    /// A place in a queue drains from its turn on.
    fn undo(&mut self, now: &BigUint, then: &BigUint, units: &BigUint) -> BigUint {
        let ahead = (units * &self.interval).max(self.capacity.clone());
        let turn = (&self.tat).max(&ahead) - &ahead;
        let turn = turn.max(self.scale.time(then));
        self.take_back(now, units, &self.scale.time(now), &turn)
    }

    fn place(&self, _: &BigUint) -> BigUint {
        BigUint::ZERO
    }

    fn reset(&mut self, now: &BigUint) {
        self.tat = self.scale.time(now);
    }

    fn set_limit(&mut self, limit: &BigUint) {
        self.capacity = &self.interval * limit;
    }

    /// From TAT on, `max(TAT, now)` is `now`, as it is for a new state.
    fn is_idle(&self, now: &BigUint) -> bool {
        self.tat <= self.scale.time(now)
    }
}
