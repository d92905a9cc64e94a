//! The generic cell rate algorithm.

use num_bigint::BigUint;

use crate::definition::Definition;
use crate::ticks::Ticks;

/// One time, the theoretical arrival time, in the unit of its [`Scale`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gcra {
    scale: Scale,
    /// The time one unit takes to come back.
    interval: BigUint,
    /// How far the theoretical arrival time may be ahead of `now`.
    capacity: BigUint,
    tat: BigUint,
}

/// The unit in which times are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scale {
    /// Nanoseconds times `count`, so that the interval `period / count` is the integer `period`.
    Exact {
        count: BigUint,
    },
    Ticks(Ticks),
}

impl Scale {
    fn time(&self, now: &BigUint) -> BigUint {
        match self {
            Scale::Exact { count } => now * count,
            Scale::Ticks(ticks) => ticks.at(now),
        }
    }
}

impl Gcra {
    pub(crate) fn new(count: u64, period_ns: u64, burst: u64, tick: Option<u32>) -> Gcra {
        let (scale, interval) = match tick {
            None => (Scale::Exact { count: count.into() }, BigUint::from(period_ns)),
            Some(k) => {
                let ticks = Ticks::new(count, period_ns, k).expect("checked with the algorithm");
                (Scale::Ticks(ticks), BigUint::from(1u32) << k)
            }
        };
        let capacity = &interval * burst;
        Gcra { scale, interval, capacity, tat: BigUint::ZERO }
    }

    pub(crate) fn with_tolerance(interval_ns: u64, tolerance_ns: u64) -> Gcra {
        let interval = BigUint::from(interval_ns);
        let capacity = &interval + tolerance_ns;
        Gcra { scale: Scale::Exact { count: 1u32.into() }, interval, capacity, tat: BigUint::ZERO }
    }

    /// The whole units that fit into the capacity.
    pub(crate) fn burst(&self) -> BigUint {
        &self.capacity / &self.interval
    }

    /// `max(TAT, now) + cost`, all in the unit of the scale.
    fn arrival_after(&self, time: &BigUint, cost: &BigUint) -> BigUint {
        (&self.tat).max(time) + cost * &self.interval
    }
}

impl Definition for Gcra {
    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        let time = self.scale.time(now);
        self.arrival_after(&time, cost) - time <= self.capacity
    }

    fn charge(&mut self, now: &BigUint, cost: &BigUint) {
        self.tat = self.arrival_after(&self.scale.time(now), cost);
    }

    /// From TAT on, `max(TAT, now)` is `now`, as it is for a new state.
    fn is_idle(&self, now: &BigUint) -> bool {
        self.tat <= self.scale.time(now)
    }
}
