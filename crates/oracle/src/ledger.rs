//! A ledger of all admissions and of everything that was given back, with their times. It answers one question: does
//! any interval hold more than the bound?
//!
//! It does not depend on how a limiter decides, undoes or forgets; it only adds up units.

use std::fmt;

use num_bigint::{BigInt, BigUint};

/// A rate, a burst, and the resolution of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Units per period.
    pub count: u64,
    /// The period.
    pub period_ns: u64,
    /// The burst.
    pub burst: u64,
    /// The resolution of time. A tick is the time in which 2^-tick units come back. Each interval counts as one tick
    /// longer than it is.
    pub tick: u32,
}

/// An admission, less the units of it that were given back.
#[derive(Clone, Debug)]
struct Admission {
    /// The number that [`Ledger::add`] has returned.
    number: u64,
    at_ns: u64,
    /// Units that were not given back, scaled.
    units: BigInt,
    /// The units that have come back from time 0 until `at_ns`, scaled.
    passed: BigInt,
}

/// The admissions under one quota of GCRA, or under several successive ones. The ledger checks that every interval
/// keeps the bound:
///
/// *the units admitted in `[a, b]`, less those of them that were given back, are at most `burst + rate * (b - a)`,
/// where `b - a` may be a tick longer.*
///
/// Across changes of quota the bound is a sum of four terms: the last burst; for each change to a smaller burst, the
/// difference of the two bursts; the units that each rate gives during its own time; and a tick for each quota. All
/// integers are unbounded.
///
/// ```
/// use tollgate_oracle::{Ledger, Rate};
///
/// let mut ledger = Ledger::new(Rate { count: 1, period_ns: 10, burst: 2, tick: 8 });
/// let first = ledger.add(0, 2);
/// assert!(ledger.keeps(0).is_ok());
/// ledger.add(5, 1);
/// assert!(ledger.keeps(5).is_err());
/// // Had one of the two been given back, the bound would hold.
/// assert!(ledger.take_off(first, 1));
/// assert!(ledger.keeps(5).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Ledger {
    rate: Rate,
    /// The factor by which all numbers are multiplied, so that there are no fractions: the product of the periods and
    /// of 2^tick of all quotas.
    scale: BigInt,
    /// The time from which the current quota is in force.
    since_ns: u64,
    /// The units that had come back until `since_ns`, scaled.
    by_then: BigInt,
    /// The units that come back in a tick, summed over all quotas, scaled.
    ticks: BigInt,
    /// The units that come back in a nanosecond, scaled; 0 until there are places in the future, whose times are
    /// rounded to whole nanoseconds.
    rounding: BigInt,
    /// The maximum that may be admitted at once, if that is more than the burst.
    largest: u64,
    /// Additional units, scaled: see [`Ledger::allow`].
    allowed: BigInt,
    /// The admissions, in the order of time.
    entries: Vec<Admission>,
    numbers: u64,
}

/// An interval that holds too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Its first instant.
    pub from_ns: u64,
    /// Its last instant.
    pub to_ns: u64,
    /// The units admitted in the interval and not given back.
    pub units: BigUint,
    /// The number of units above the bound, rounded up.
    pub above: BigUint,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from_ns, to_ns, units, above } = self;
        write!(f, "excess: {units} units from {from_ns} ns to {to_ns} ns, {above} above the bound")
    }
}

impl Ledger {
    /// An empty ledger.
    ///
    /// ```
    /// use tollgate_oracle::{Ledger, Rate};
    /// let ledger = Ledger::new(Rate { count: 1, period_ns: 1, burst: 1, tick: 0 });
    /// assert!(ledger.keeps(0).is_ok());
    /// ```
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        let scale = BigInt::from(rate.period_ns) << rate.tick;
        let ticks = BigInt::from(rate.period_ns);
        Self {
            rate,
            scale,
            since_ns: 0,
            by_then: BigInt::ZERO,
            ticks,
            rounding: BigInt::ZERO,
            largest: 0,
            allowed: BigInt::ZERO,
            entries: Vec::new(),
            numbers: 0,
        }
    }

    /// Records that `units` are admitted at `at_ns`, and returns a number for this admission. This does not check the
    /// bound: see [`Ledger::keeps`].
    ///
    /// ```
    /// use tollgate_oracle::{Ledger, Rate};
    /// let mut ledger = Ledger::new(Rate { count: 1, period_ns: 1, burst: 1, tick: 0 });
    /// assert_ne!(ledger.add(0, 1), ledger.add(9, 1));
    /// ```
    pub fn add(&mut self, at_ns: u64, units: u64) -> u64 {
        self.numbers += 1;
        let passed = self.passed(at_ns);
        let entry = Admission { number: self.numbers, at_ns, units: &self.scale * units, passed };
        let place = self.entries.partition_point(|earlier| earlier.at_ns <= at_ns);
        self.entries.insert(place, entry);
        self.numbers
    }

    /// Records that `units` of the admission with this number are given back, and returns whether the admission had as
    /// many left. For an admission that has been forgotten any number of units is accepted.
    #[must_use = "more is given back than was admitted"]
    pub fn take_off(&mut self, number: u64, units: u64) -> bool {
        let scaled = &self.scale * units;
        let found = self.entries.iter_mut().find(|entry| entry.number == number);
        found.is_none_or(|entry| {
            let is_there = entry.units >= scaled;
            entry.units = (&entry.units - scaled).max(BigInt::ZERO);
            is_there
        })
    }

    /// Permits this many units at once from now on, if they are more than the burst. A place in the future may cost
    /// that much.
    ///
    /// ```
    /// use tollgate_oracle::{Ledger, Rate};
    /// let mut ledger = Ledger::new(Rate { count: 1, period_ns: 10, burst: 2, tick: 8 });
    /// ledger.place(5);
    /// ledger.add(30, 5);
    /// assert!(ledger.keeps(30).is_ok());
    /// ```
    pub fn place(&mut self, units: u64) {
        self.largest = self.largest.max(units);
        let nanosecond = &self.scale * self.rate.count / self.rate.period_ns;
        self.rounding = nanosecond.max(std::mem::take(&mut self.rounding));
    }

    /// Permits this many more units in every interval. It is for units that were given back for an unknown admission.
    pub fn allow(&mut self, units: u64) {
        self.allowed += &self.scale * units;
    }

    /// Deletes all admissions.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.largest = 0;
    }

    /// Puts another quota in force from `at_ns` on. After this call, do not add admissions before that time. Admissions
    /// that were added for a later time are left out, since a place in the future was given at the old rate.
    ///
    /// ```
    /// use tollgate_oracle::{Ledger, Rate};
    /// let slow = Rate { count: 1, period_ns: 1_000, burst: 2, tick: 8 };
    /// let mut ledger = Ledger::new(slow);
    /// ledger.add(0, 2);
    /// // The burst is raised by one; then a unit comes back in 10 ns.
    /// ledger.change(0, Rate { period_ns: 10, burst: 3, ..slow });
    /// ledger.add(0, 1);
    /// assert!(ledger.keeps(0).is_ok());
    /// ledger.add(20, 2);
    /// assert!(ledger.keeps(20).is_ok());
    /// ledger.add(20, 1);
    /// assert!(ledger.keeps(20).is_err());
    /// ```
    pub fn change(&mut self, at_ns: u64, rate: Rate) {
        self.entries.retain(|entry| entry.at_ns <= at_ns);
        let cut = self.rate.burst.saturating_sub(rate.burst);
        let mut by_then = self.passed(at_ns) + &self.scale * cut;
        let more = BigInt::from(rate.period_ns) << rate.tick;
        for entry in &mut self.entries {
            entry.units *= &more;
            entry.passed *= &more;
        }
        by_then *= &more;
        self.scale *= &more;
        self.allowed *= &more;
        self.rounding *= &more;
        self.ticks = &self.ticks * &more + (&self.scale >> rate.tick);
        (self.since_ns, self.by_then) = (at_ns, by_then);
        self.rate = rate;
        self.largest = 0;
    }

    /// The units that have come back by `at_ns`, scaled.
    fn passed(&self, at_ns: u64) -> BigInt {
        let Rate { count, period_ns, .. } = self.rate;
        let span = BigInt::from(at_ns) - self.since_ns;
        &self.by_then + span * count * &self.scale / period_ns
    }

    /// Checks that every interval that contains `at_ns` keeps the bound.
    ///
    /// # Errors
    ///
    /// Returns the worst interval if some interval does not keep the bound.
    pub fn keeps(&self, at_ns: u64) -> Result<(), Excess> {
        let now = self.entries.partition_point(|entry| entry.at_ns <= at_ns);
        let burst = BigInt::from(self.rate.burst.max(self.largest)) * &self.scale;
        let room = burst + &self.ticks + &self.rounding + &self.allowed;
        // From the earliest time to the latest, sums the admitted units less those that come back.
        let (mut sum, mut before, mut from) = (BigInt::ZERO, BigInt::ZERO, None);
        let here = self.passed(at_ns);
        for entry in self.entries[..now].iter().rev() {
            sum += &entry.units;
            let level = &sum - (&here - &entry.passed);
            if from.is_none() || level > before {
                (before, from) = (level, Some(entry.at_ns));
            }
        }
        let (mut sum, mut after, mut to) = (BigInt::ZERO, BigInt::ZERO, at_ns);
        for entry in &self.entries[now..] {
            sum += &entry.units;
            let level = &sum - (&entry.passed - &here);
            if level > after {
                (after, to) = (level, entry.at_ns);
            }
        }
        let mut above = before + after - room;
        let Some(from_ns) = from.filter(|_| above > BigInt::ZERO) else { return Ok(()) };
        // The rate of a limiter is exact to 2^-63, so allow an excess of one part in 2^62 of the units that came back.
        let passed = self.passed(to) - self.passed(from_ns);
        above -= passed >> 62_u32;
        if above <= BigInt::ZERO {
            return Ok(());
        }
        let inside = self.entries.iter().filter(|entry| (from_ns..=to).contains(&entry.at_ns));
        let units = inside.map(|entry| &entry.units).sum::<BigInt>() / &self.scale;
        let above: BigInt = (above + &self.scale - 1) / &self.scale;
        let [units, above] = [units, above].map(|number| number.magnitude().clone());
        Err(Excess { from_ns, to_ns: to, units, above })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { count: 1, period_ns: 1_000, burst: 10, tick: 8 };

    #[test]
    fn every_interval_is_looked_at_whatever_the_order_of_the_times() {
        let mut ledger = Ledger::new(RATE);
        ledger.add(5_000, 10);
        ledger.add(9_000, 4);
        assert_eq!(ledger.keeps(9_000), Ok(()));
        // With this late admission the interval from 5 to 9 s holds 15 units, one above the bound.
        ledger.add(7_000, 1);
        let excess = ledger.keeps(7_000).expect_err("too much");
        assert_eq!((excess.from_ns, excess.to_ns), (5_000, 9_000));
        assert_eq!((excess.units, excess.above), (15_u32.into(), 1_u32.into()));
    }

    #[test]
    fn what_was_admitted_before_an_interval_and_is_given_back_in_it_makes_no_room() {
        // Twice 5 units are admitted at 0, and the first 5 are given back. At 4.99 s 5 units are admitted, the other 5
        // are given back, and 9 more are admitted.
        let mut ledger = Ledger::new(RATE);
        let first = ledger.add(0, 5);
        let place = ledger.add(0, 5);
        assert!(ledger.take_off(first, 5));
        ledger.add(4_990, 5);
        assert_eq!(ledger.keeps(4_990), Ok(()));
        assert!(ledger.take_off(place, 5));
        ledger.add(4_990, 9);
        let excess = ledger.keeps(4_990).expect_err("14 at one instant");
        assert_eq!((excess.units, excess.above), (14_u32.into(), 4_u32.into()));
    }

    #[test]
    fn a_tick_and_no_more_is_let_pass() {
        // A tick is a 256th of 1,000 ns, so 3 ns are within it and 4 ns are not.
        for (early_ns, is_kept) in [(3, true), (4, false)] {
            let mut ledger = Ledger::new(RATE);
            ledger.add(0, 10);
            ledger.add(1_000 - early_ns, 1);
            assert_eq!(ledger.keeps(1_000 - early_ns).is_ok(), is_kept, "{early_ns} ns");
        }
    }

    #[test]
    fn no_more_is_given_back_than_was_admitted() {
        let mut ledger = Ledger::new(RATE);
        let number = ledger.add(0, 2);
        assert!(ledger.take_off(number, 1));
        assert!(!ledger.take_off(number, 2));
    }

    #[test]
    fn numbers_at_both_ends_are_without_bounds() {
        let rate = Rate { count: 1 << 62, period_ns: u64::MAX, burst: u64::MAX, tick: 0 };
        let mut ledger = Ledger::new(rate);
        ledger.add(0, u64::MAX);
        ledger.add(u64::MAX, 1 << 62);
        assert_eq!(ledger.keeps(u64::MAX), Ok(()));
        ledger.add(u64::MAX, 3);
        assert!(ledger.keeps(u64::MAX).is_err());
        assert!(ledger.keeps(0).is_err());
    }
}
