//! The oracle: one algorithm, one state, and every answer derived from the definition.

use num_bigint::BigUint;

use crate::Algorithm;
use crate::definition::Definition;
use crate::gcra::Gcra;
use crate::model::Model;
use crate::search::{greatest, least};

/// What becomes of a request.
///
/// ```
/// use tollgate_oracle::{Algorithm, Oracle, Verdict};
///
/// let mut oracle = Oracle::new(Algorithm::SlidingLog { limit: 10, window_ns: 60 });
/// let verdicts = [8, 5, 2, 11].map(|cost| oracle.check(0, cost));
/// assert_eq!(verdicts, [Verdict::Allowed, Verdict::Denied, Verdict::Allowed, Verdict::Never]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The cost fits.
    Allowed,
    /// The cost does not fit now; [`Oracle::retry_after`] says when it would.
    Denied,
    /// The cost exceeds the limit: it fits at no time, whatever the state.
    Never,
}

/// The exact reference model of one limit.
///
/// Two oracles are equal when they describe the same algorithm and were left in the same state;
/// states that differ only in what has expired are not equal.
///
/// ```
/// use tollgate_oracle::{Algorithm, Oracle, Verdict};
///
/// // A burst of 3, one unit back every 20 ns.
/// let algorithm = Algorithm::Gcra { count: 3, period_ns: 60, burst: 3, tick: None };
/// let mut oracle = Oracle::new(algorithm);
/// assert_eq!(oracle.check(0, 3), Verdict::Allowed);
/// assert_eq!(oracle.check(19, 1), Verdict::Denied);
/// assert_eq!(oracle.check(20, 1), Verdict::Allowed);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Oracle {
    model: Model,
    limit: u64,
}

impl Oracle {
    /// A limit that was never used.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let oracle = Oracle::new(Algorithm::FixedWindow { limit: 5, window_ns: 60 });
    /// assert_eq!(oracle.remaining(0), 5);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if a count, period, burst, limit, window, quantum or number of segments is 0, if the
    /// segments do not divide the window, or if the ticks asked for have no factor below 2^64.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Oracle {
        algorithm.assert_meaningful();
        let limit = match algorithm {
            Algorithm::Gcra { burst, .. } => burst,
            Algorithm::FixedWindow { limit, .. }
            | Algorithm::FixedWindowFromFirst { limit, .. }
            | Algorithm::SlidingWindow { limit, .. }
            | Algorithm::SegmentedWindow { limit, .. }
            | Algorithm::SlidingLog { limit, .. } => limit,
        };
        Oracle { model: Model::new(algorithm), limit }
    }

    /// The generic cell rate algorithm in its own terms, GCRA(interval, tolerance): a request of
    /// one unit conforms iff `now >= TAT - tolerance`. That is [`Algorithm::Gcra`] in exact time
    /// with a capacity of `interval + tolerance`, which need not be a whole number of units:
    ///
    /// `max(TAT, now) + cost * interval - now <= interval + tolerance`.
    ///
    /// ```
    /// use tollgate_oracle::{Oracle, Verdict};
    ///
    /// let mut oracle = Oracle::with_tolerance(10, 3);
    /// assert_eq!(oracle.check(0, 1), Verdict::Allowed); // TAT is 10 now
    /// assert_eq!(oracle.check(6, 1), Verdict::Denied);
    /// assert_eq!(oracle.check(7, 1), Verdict::Allowed);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the interval is 0.
    #[must_use]
    pub fn with_tolerance(interval_ns: u64, tolerance_ns: u64) -> Oracle {
        assert!(interval_ns > 0, "interval must be at least 1 ns");
        let gcra = Gcra::with_tolerance(interval_ns, tolerance_ns);
        // 1 ns and the largest tolerance make 2^64 units, one more than a cost can ask for.
        let limit = u64::try_from(gcra.burst()).unwrap_or(u64::MAX);
        Oracle { model: Model::Gcra(gcra), limit }
    }

    /// Decides on a request and charges it if it is admitted. A denial changes nothing, and
    /// neither does a cost of 0.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle, Verdict};
    ///
    /// let mut oracle = Oracle::new(Algorithm::FixedWindow { limit: 1, window_ns: 60 });
    /// assert_eq!(oracle.check(59, 1), Verdict::Allowed);
    /// assert_eq!(oracle.check(59, 1), Verdict::Denied);
    /// assert_eq!(oracle.check(60, 1), Verdict::Allowed);
    /// ```
    pub fn check(&mut self, now_ns: u64, cost: u64) -> Verdict {
        let verdict = self.peek(now_ns, cost);
        if verdict == Verdict::Allowed && cost > 0 {
            self.model.charge(&now_ns.into(), &cost.into());
        }
        verdict
    }

    /// Decides without charging: [`Verdict::Never`] iff `cost > limit`, else by the formula of the
    /// [`Algorithm`], also for a cost of 0.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle, Verdict};
    ///
    /// let oracle = Oracle::new(Algorithm::FixedWindow { limit: 1, window_ns: 60 });
    /// assert_eq!(oracle.peek(0, 1), Verdict::Allowed);
    /// assert_eq!(oracle.peek(0, 1), Verdict::Allowed);
    /// assert_eq!(oracle.peek(0, 2), Verdict::Never);
    /// ```
    #[must_use]
    pub fn peek(&self, now_ns: u64, cost: u64) -> Verdict {
        if cost > self.limit {
            Verdict::Never
        } else if self.model.admits(&now_ns.into(), &cost.into()) {
            Verdict::Allowed
        } else {
            Verdict::Denied
        }
    }

    /// The least `n` for which this cost is admitted at `now + n`, if nothing happens between:
    /// `Some(0)` if it is admitted now, `None` if it never is.
    ///
    /// Found by search over the definition, so it costs some hundred decisions.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, BigUint, Oracle};
    ///
    /// let mut oracle = Oracle::new(Algorithm::SlidingLog { limit: 2, window_ns: 60 });
    /// oracle.check(10, 2);
    /// assert_eq!(oracle.retry_after(30, 1), Some(BigUint::from(40u32)));
    /// assert_eq!(oracle.retry_after(70, 1), Some(BigUint::ZERO));
    /// assert_eq!(oracle.retry_after(70, 3), None);
    /// ```
    #[must_use]
    pub fn retry_after(&self, now_ns: u64, cost: u64) -> Option<BigUint> {
        (cost <= self.limit).then(|| self.wait_for(now_ns, cost))
    }

    /// The largest cost that would be admitted now, from 0 up to the limit; 0 also where not even
    /// a cost of 0 is admitted.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let mut oracle = Oracle::new(Algorithm::FixedWindow { limit: 5, window_ns: 60 });
    /// oracle.check(0, 2);
    /// assert_eq!(oracle.remaining(59), 3);
    /// assert_eq!(oracle.remaining(60), 5);
    /// ```
    #[must_use]
    pub fn remaining(&self, now_ns: u64) -> u64 {
        let now = now_ns.into();
        greatest(self.limit, |cost| self.model.admits(&now, &cost.into()))
    }

    /// The least `n` for which the whole limit is admitted at `now + n`, if nothing happens
    /// between: 0 if it is admitted now.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, BigUint, Oracle};
    ///
    /// // A burst of 3, one unit back every 20 ns.
    /// let algorithm = Algorithm::Gcra { count: 3, period_ns: 60, burst: 3, tick: None };
    /// let mut oracle = Oracle::new(algorithm);
    /// assert_eq!(oracle.reset_after(0), BigUint::ZERO);
    /// oracle.check(0, 2);
    /// assert_eq!(oracle.reset_after(5), BigUint::from(35u32));
    /// ```
    #[must_use]
    pub fn reset_after(&self, now_ns: u64) -> BigUint {
        self.wait_for(now_ns, self.limit)
    }

    /// The most units that are ever admitted at one time: the burst, or the limit of a window.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let oracle = Oracle::new(Algorithm::SlidingLog { limit: 7, window_ns: 60 });
    /// assert_eq!(oracle.limit(), 7);
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether no request at `now` or later can tell this limit from one that was never used.
    ///
    /// The same as `remaining(now) == limit()`, except for a capacity that is not a whole number
    /// of units ([`Oracle::with_tolerance`]): there the last part of a unit drains unseen.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let mut oracle = Oracle::new(Algorithm::SlidingLog { limit: 7, window_ns: 60 });
    /// assert!(oracle.is_idle(0));
    /// oracle.check(10, 1);
    /// assert!(!oracle.is_idle(69));
    /// assert!(oracle.is_idle(70));
    /// ```
    #[must_use]
    pub fn is_idle(&self, now_ns: u64) -> bool {
        self.model.is_idle(&now_ns.into())
    }

    /// The least wait after which `cost`, at most the limit, is admitted. Every debt drains and
    /// every window passes, so there is one.
    fn wait_for(&self, now_ns: u64, cost: u64) -> BigUint {
        let cost = cost.into();
        least(|wait| self.model.admits(&(wait + now_ns), &cost))
    }
}
