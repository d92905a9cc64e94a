//! The oracle: one algorithm, one state, and every answer derived from the definition.

mod amend;

use num_bigint::BigUint;

use crate::definition::Definition;
use crate::gcra::GcraState;
use crate::model::AlgorithmState;
use crate::search::{greatest, least};
use crate::{Algorithm, AtLimit};

/// The decision about a request.
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
    /// The cost exceeds the limit: it never fits, whatever the state.
    Never,
}

/// The exact reference model of one limit.
///
/// Two oracles are equal if they describe the same algorithm and are in the same state. States that differ only in
/// expired units are not equal.
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
    model: AlgorithmState,
    /// The nominal limit.
    limit: u64,
    /// The limit of the test: the limit itself, or more under a soft policy.
    most: u64,
    at_limit: AtLimit,
    /// The number of consecutive denials.
    denials: u64,
    /// The end of the penalty, if one has started since the last admission.
    end: Option<BigUint>,
    /// The state of an unused limit.
    unused: AlgorithmState,
}

impl Oracle {
    /// An unused limit.
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
    /// segments do not divide the window, or if there is no factor below 2^64 for the ticks.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Oracle {
        algorithm.assert_meaningful();
        let limit = match algorithm {
            Algorithm::Gcra { burst, .. } => burst,
            Algorithm::FixedWindow { limit, .. }
            | Algorithm::Calendar { limit, .. }
            | Algorithm::FixedWindowFromFirst { limit, .. }
            | Algorithm::SlidingWindow { limit, .. }
            | Algorithm::SegmentedWindow { limit, .. }
            | Algorithm::SlidingLog { limit, .. } => limit,
        };
        Oracle::of(AlgorithmState::new(algorithm), limit, AtLimit::default())
    }

    /// An unused limit with these effects at the limit.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, AtLimit, Oracle};
    ///
    /// let algorithm = Algorithm::FixedWindow { limit: 500, window_ns: 60 };
    /// let oracle = Oracle::with_rules(algorithm, AtLimit { soft_bp: 500, ..AtLimit::default() });
    /// assert_eq!((oracle.limit(), oracle.most()), (500, 525));
    /// ```
    #[must_use]
    pub fn with_rules(algorithm: Algorithm, at_limit: AtLimit) -> Oracle {
        let Oracle { model, limit, .. } = Oracle::new(algorithm);
        Oracle::of(model, limit, at_limit)
    }

    fn of(mut model: AlgorithmState, limit: u64, at_limit: AtLimit) -> Oracle {
        let mut most = limit;
        if at_limit.soft_bp > 0 {
            let soft = BigUint::from(limit) * (at_limit.soft_bp + 10_000) / 10_000u32;
            model.set_limit(&soft);
            most = u64::try_from(soft).expect("the softened limit is below 2^64");
        }
        let unused = model.clone();
        Oracle { model, limit, most, at_limit, denials: 0, end: None, unused }
    }

    /// The generic cell rate algorithm in its own terms, GCRA(interval, tolerance): a request of
    /// one unit conforms iff `now >= TAT - tolerance`. This equals [`Algorithm::Gcra`] in exact time with a capacity of
    /// `interval + tolerance`, which need not be a whole number of units:
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
        let gcra = GcraState::with_tolerance(interval_ns, tolerance_ns);
        // An interval of 1 ns and the largest tolerance make 2^64 units, one more than the largest cost.
        let limit = u64::try_from(gcra.burst()).unwrap_or(u64::MAX);
        Oracle::of(AlgorithmState::Gcra(gcra), limit, AtLimit::default())
    }

    /// Decides a request and charges it if it is admitted. A denial changes nothing, unless [`AtLimit`] says so;
    /// costs that never fit and costs of 0 never change anything.
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
            if self.end.take().is_some() {
                self.model = self.unused.clone();
            }
            self.denials = 0;
            self.model.charge(&now_ns.into(), &cost.into());
        } else if verdict == Verdict::Denied && cost > 0 {
            self.deny(&now_ns.into(), &cost.into());
        }
        verdict
    }

    /// Applies the effects of a denial.
    fn deny(&mut self, now: &BigUint, cost: &BigUint) {
        let AtLimit { count_denied, penalty, .. } = self.at_limit;
        if let Some(end) = &self.end {
            // The penalty is in force, since otherwise the request would not be denied.
            if let Some(penalty) = penalty.filter(|penalty| penalty.extended) {
                let later = now + penalty.length_ns;
                // The end does not move if the extension would move it by less than a thousandth of the length.
                if (end + penalty.length_ns.div_ceil(1_000)) <= later {
                    self.end = Some(self.round_up(&later));
                }
            }
            return;
        }
        if let Some(counted) = count_denied {
            self.model.charge_denied(now, cost, counted.wait_ns.map(BigUint::from).as_ref());
        }
        let Some(penalty) = penalty else { return };
        self.denials += 1;
        if self.denials >= penalty.after {
            let drained = now + least(|wait| self.model.is_idle(&(now + wait)));
            self.end = Some(self.round_up(&drained.max(now + penalty.length_ns)));
            self.denials = 0;
        }
    }

    /// The end of a penalty, rounded up to the resolution of a limiter's word.
    fn round_up(&self, end: &BigUint) -> BigUint {
        match (&self.model, &self.at_limit.penalty) {
            (AlgorithmState::Gcra(gcra), _) => gcra.round_up(end),
            (_, Some(penalty)) => penalty.round_up(end),
            (_, None) => end.clone(),
        }
    }

    /// The state at this time, or `None` during a penalty.
    fn state(&self, now: &BigUint) -> Option<&AlgorithmState> {
        match &self.end {
            Some(end) if now < end => None,
            Some(_) => Some(&self.unused),
            None => Some(&self.model),
        }
    }

    fn admits(&self, now: &BigUint, cost: &BigUint) -> bool {
        self.state(now).is_some_and(|model| model.admits(now, cost))
    }

    /// Whether the nominal limit would admit the cost.
    fn admits_unsoftened(&self, now: &BigUint, cost: &BigUint) -> bool {
        self.state(now).is_some_and(|model| {
            if self.most == self.limit {
                return model.admits(now, cost);
            }
            let mut model = model.clone();
            model.set_limit(&self.limit.into());
            model.admits(now, cost)
        })
    }

    /// Whether this cost would be admitted now, although the nominal limit would deny it.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, AtLimit, Oracle};
    ///
    /// let algorithm = Algorithm::FixedWindow { limit: 10, window_ns: 60 };
    /// let oracle = Oracle::with_rules(algorithm, AtLimit { soft_bp: 1_000, ..AtLimit::default() });
    /// assert!(!oracle.is_over(0, 10));
    /// assert!(oracle.is_over(0, 11));
    /// assert!(!oracle.is_over(0, 12));
    /// ```
    #[must_use]
    pub fn is_over(&self, now_ns: u64, cost: u64) -> bool {
        self.peek(now_ns, cost) == Verdict::Allowed
            && !self.admits_unsoftened(&now_ns.into(), &cost.into())
    }

    /// Whether a penalty is in force, so that every request is denied.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let oracle = Oracle::new(Algorithm::FixedWindow { limit: 10, window_ns: 60 });
    /// assert!(!oracle.is_penalised(0));
    /// ```
    #[must_use]
    pub fn is_penalised(&self, now_ns: u64) -> bool {
        self.state(&now_ns.into()).is_none()
    }

    /// Decides without charging: [`Verdict::Never`] iff `cost > most`, else by the formula of the
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
        if cost > self.most {
            Verdict::Never
        } else if self.admits(&now_ns.into(), &cost.into()) {
            Verdict::Allowed
        } else {
            Verdict::Denied
        }
    }

    /// The least `n` for which this cost is admitted at `now + n`, if no other request comes in between: `Some(0)` if
    /// it is admitted now, `None` if it never is.
    ///
    /// A search over the definition finds it, with about a hundred decisions.
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
        let cost_units = cost.into();
        (cost <= self.most).then(|| least(|wait| self.admits(&(wait + now_ns), &cost_units)))
    }

    /// The maximum cost that would be admitted now, from 0 up to the limit; also 0 if not even a cost of 0 is
    /// admitted.
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
        greatest(self.limit, |cost| self.admits_unsoftened(&now, &cost.into()))
    }

    /// The least `n` for which the whole limit is admitted at `now + n`, if no other request comes in between: 0 if
    /// it is admitted now.
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
        let limit = self.limit.into();
        least(|wait| self.admits_unsoftened(&(wait + now_ns), &limit))
    }

    /// The maximum number of units that are ever admitted at one time: the burst, or the limit of a window.
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

    /// The maximum number of units that the test ever admits at one time: the limit itself, or more under a soft
    /// policy.
    ///
    /// ```
    /// use tollgate_oracle::{Algorithm, Oracle};
    ///
    /// let oracle = Oracle::new(Algorithm::SlidingLog { limit: 7, window_ns: 60 });
    /// assert_eq!(oracle.most(), oracle.limit());
    /// ```
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Whether no request at `now` or later can distinguish this limit from an unused one.
    ///
    /// This equals `remaining(now) == limit()`. The exception is a capacity that is not a whole number of units
    /// ([`Oracle::with_tolerance`]): its last fraction of a unit drains without an effect on `remaining`.
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
        let now = now_ns.into();
        self.state(&now).is_some_and(|model| model.is_idle(&now))
    }
}
