//! The operations that change a limit, other than a check.

use num_bigint::BigUint;

use super::Oracle;
use crate::definition::Definition;

impl Oracle {
    /// Charges `units` whether they fit or not, because something other than a check has admitted them. Does nothing
    /// during a penalty.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, BigUint, Oracle};
    ///
    /// let algorithm = Algorithm::Gcra { count: 1, period_ns: 10, burst: 2, tick: None };
    /// let mut oracle = Oracle::new(algorithm);
    /// oracle.charge(0, 5);
    /// assert_eq!(oracle.retry_after(0, 1), Some(BigUint::from(40u32)));
    /// ```
    pub fn charge(&mut self, now_ns: u64, units: u64) {
        if units == 0 || self.is_penalised(now_ns) {
            return;
        }
        if self.end.take().is_some() {
            self.model = self.unused.clone();
        }
        self.denials = 0;
        self.model.charge(&now_ns.into(), &units.into());
    }

    /// Gives back the part of `units`, charged at `then`, that is still owed at `now`, and returns the number of units
    /// given back, rounded up. Units drain at the rate between the two times. If `now` is more than one burst before
    /// the end of the debt, the time one burst before that end is taken in place of `now`. Of windows, only the one
    /// that was charged last gives units back; callers check by [`Oracle::place`] that it counted the units. From the
    /// start of a penalty until the next admission nothing is given back.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let algorithm = Algorithm::Gcra { count: 1, period_ns: 10, burst: 5, tick: None };
    /// let mut oracle = Oracle::new(algorithm);
    /// oracle.check(0, 4);
    /// assert_eq!(oracle.give_back(15, 0, 3), 2);
    /// assert_eq!(oracle.remaining(15), 4);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the result exceeds 2^64 units, more than any request charges.
    pub fn give_back(&mut self, now_ns: u64, then_ns: u64, units: u64) -> u64 {
        if self.end.is_some() {
            return 0;
        }
        let back = self.model.give_back(&now_ns.into(), &then_ns.into(), &units.into());
        u64::try_from(back).expect("no more than were charged")
    }

    /// Like [`Oracle::give_back`], for the units that were charged last. A place in a queue drains from its turn on.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let algorithm = Algorithm::Gcra { count: 1, period_ns: 10, burst: 2, tick: None };
    /// let mut oracle = Oracle::new(algorithm);
    /// oracle.check(0, 2);
    /// oracle.charge(0, 2);
    /// assert_eq!(oracle.undo(15, 0, 2), 2);
    /// assert_eq!(oracle.remaining(15), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics as [`Oracle::give_back`] does.
    pub fn undo(&mut self, now_ns: u64, then_ns: u64, units: u64) -> u64 {
        if self.end.is_some() {
            return 0;
        }
        let back = self.model.undo(&now_ns.into(), &then_ns.into(), &units.into());
        u64::try_from(back).expect("no more than were charged")
    }

    /// Deletes every charge, denial and penalty. The state does not forget the time: a request with an earlier time
    /// than `now` gains nothing.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let algorithm = Algorithm::Gcra { count: 1, period_ns: 10, burst: 2, tick: None };
    /// let mut oracle = Oracle::new(algorithm);
    /// oracle.check(50, 2);
    /// oracle.reset(50);
    /// assert_eq!([50, 40, 30].map(|now_ns| oracle.remaining(now_ns)), [2, 1, 0]);
    /// ```
    pub fn reset(&mut self, now_ns: u64) {
        (self.denials, self.end) = (0, None);
        self.model.reset(&now_ns.into());
    }

    /// The window or segment in which a charge at `now` counts, as its number. GCRA has a single place.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let mut oracle = Oracle::new(Algorithm::FixedWindow { limit: 5, window_ns: 60 });
    /// oracle.check(130, 1);
    /// assert_eq!(oracle.place(10), oracle.place(179));
    /// assert_ne!(oracle.place(10), oracle.place(180));
    /// ```
    #[must_use]
    pub fn place(&self, now_ns: u64) -> BigUint {
        self.model.place(&now_ns.into())
    }
}
