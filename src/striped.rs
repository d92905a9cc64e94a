//! [`StripedLimiter`]: one limit that is split over several cache lines, so that threads do not contend for one line.

use std::fmt;

use crossbeam_utils::CachePadded;

use crate::algorithm::Kernel;
use crate::cell::Cell;
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::meter::Meter;
use crate::policy::{Algorithm, Policy, deciding, is_soft_at_most, of_one_word};
use crate::quota::Quota;
use crate::store::Store;
use crate::sync::{Fault, planted, thread_number};
use crate::verb::Verb;
use crate::verdict::{Mark, Verdict};
use crate::word::Word;

/// One limit for many threads, split into stripes with a cache line each.
///
/// A [`Limiter`](crate::Limiter) is one word. If several cores change one word, its cache line moves between the cores.
/// This takes tens of nanoseconds for each decision, no matter how fast the code is. Here each of n stripes has a share
/// of the burst, and the rate of the quota divided by n without rounding. Under a window, each stripe has a share of
/// the window's count. A request is decided by the stripe of its thread first. If that stripe denies, the other stripes
/// decide one after the other, all at the same `now`.
///
/// # What it guarantees
/// * All stripes together keep the bound of the policy. Under GCRA they admit at most `burst + floor(rate * W)` units,
///   plus n ticks, in any interval of length W.
/// * A denial means that each stripe had fewer units left than the cost at the moment when it decided, or that the cost
///   is above the [largest cost](StripedLimiter::largest_cost).
///
/// # What it gives up
/// * The refill of a stripe that is already full is lost, even if another stripe is empty. So all stripes together may
///   have fewer units left than a single bucket would have.
/// * A cost is charged to one stripe, so the largest cost that ever fits is the burst divided by n, rounded down, and
///   under a soft policy the soft share of that besides ([`largest_cost`](StripedLimiter::largest_cost)).
/// * [`limit`](Decision::limit), [`remaining`](Decision::remaining) and [`reset_after`](Decision::reset_after) describe
///   one stripe: after an admission the stripe that was charged, and after a denial the stripe that can admit the
///   request first, or under a window the stripe of the thread. Under a soft limit, a permit is marked as over the
///   limit if its stripe's share of the named limit would have denied it.
/// * With `from-first`, the window of each stripe opens with the first request that is charged to this stripe.
///
/// ```
/// use tollgate::{Quota, StripedLimiter};
/// let limiter = StripedLimiter::new(Quota::per_second(1_000_000))?;
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct StripedLimiter {
    policy: Policy,
    stripes: Box<[CachePadded<Cell>]>,
    /// The arithmetic of the first `larger` stripes, whose burst is one unit larger than that of the others.
    large: Meter,
    small: Meter,
    larger: usize,
    largest_cost: u64,
    /// 2^64 / n, rounded up. For one stripe this would be 2^64, which wraps to 0.
    inverse: u64,
    clock: Clock,
}

impl fmt::Debug for StripedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripedLimiter")
            .field("policy", &self.policy)
            .field("stripes", &self.stripes.len())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Builds a [`StripedLimiter`]. [`StripedLimiter::builder`] makes this builder, and [`build`](StripedBuilder::build)
/// makes the limiter.
///
/// ```
/// use tollgate::{Quota, StripedLimiter};
/// let limiter = StripedLimiter::builder(Quota::per_second(100)).stripes(4).build()?;
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct StripedBuilder {
    policy: Policy,
    stripes: Option<usize>,
    clock: Option<Clock>,
}

impl StripedBuilder {
    /// The number of stripes, each with a cache line. The more stripes, the smaller is the
    /// [largest cost](StripedLimiter::largest_cost) that ever fits. By default there is one stripe for each thread that the machine can run at a time, but at most one for
    /// each unit of the burst.
    ///
    /// ```
    /// use tollgate::{DenialReason, Quota, StripedLimiter};
    /// let quota = Quota::per_second(100).burst(10);
    /// let limiter = StripedLimiter::builder(quota).stripes(4).build()?;
    /// assert!(limiter.check_n(2).is_allowed());
    /// assert_eq!(limiter.check_n(3).into_result().unwrap_err().reason(), DenialReason::NeverFits);
    /// assert!(StripedLimiter::builder(quota).stripes(11).build().is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn stripes(mut self, stripes: usize) -> Self {
        self.stripes = Some(stripes);
        self
    }

    /// The clock from which the limiter reads the time. By default this is the machine's fastest clock
    /// ([`Clock::monotonic`]), or [`Clock::unix`] if the policy needs the date.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, StripedLimiter, Timestamp};
    /// let limiter = StripedLimiter::builder(Quota::per_second(5)).clock(ManualClock::new()).build()?;
    /// assert_eq!(limiter.now(), Timestamp::default());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// The limiter.
    ///
    /// # Errors
    /// Returns an error if the number of stripes is 0 or larger than the number of units of the limit, if the policy
    /// has windows of the calendar and the clock does not give the date, or if [`new`](StripedLimiter::new) would
    /// refuse the policy.
    ///
    /// ```
    /// use tollgate::{Quota, StripedLimiter};
    /// let error = StripedLimiter::builder(Quota::per_second(5)).stripes(0).build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a burst of 5 cannot be divided between 0 stripes; use 1 to 5",
    /// );
    /// ```
    pub fn build(self) -> Result<StripedLimiter, BuildError> {
        let clock = self.clock.unwrap_or_else(|| Policy::clock_for([&self.policy]));
        let policy = of_one_word(self.policy)?;
        is_soft_at_most(policy, "a stripe sees a part of all denials", "Limiter")?;
        let clock = deciding(clock, &policy)?;
        let burst = policy.named_limit();
        let stripes = self.stripes.unwrap_or_else(|| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            threads.min(usize::try_from(burst).unwrap_or(usize::MAX))
        });
        let count = stripes as u64;
        // A stripe without a unit would deny every request.
        if stripes == 0 || count > burst {
            return Err(BuildError::stripe_count(stripes, burst));
        }
        let meter = |burst| StripedLimiter::share(policy, count, burst).and_then(Meter::new);
        // The first `extra` stripes have one unit more than the others, so that all shares sum to the burst.
        let (small, extra) = (burst / count, burst % count);
        let smaller = meter(small)?;
        Ok(StripedLimiter {
            policy,
            stripes: (0..stripes).map(|_| CachePadded::new(Cell::new(Word::UNUSED))).collect(),
            large: meter(small + u64::from(extra > 0))?,
            small: smaller,
            larger: usize::try_from(extra).unwrap_or(stripes),
            // The smaller stripes' limit, which is their share of the burst or, under a soft policy, that share
            // softened. So every accepted cost can fit in every stripe.
            largest_cost: smaller.kernel.limit(),
            inverse: (u64::MAX / count).wrapping_add(1),
            clock,
        })
    }
}

impl StripedLimiter {
    /// A limiter with the machine's fastest clock and one stripe for each thread that the machine can run at a time,
    /// but at most one for each unit of the burst. To choose the clock or the number of stripes, use a
    /// [`builder`](StripedLimiter::builder).
    ///
    /// # Errors
    /// Returns an error if the policy is a sliding log, if it has any option at its limit but `soft`, if its soft share
    /// is less than a unit in a stripe, or if it is GCRA and the period of its quota, multiplied by the number of
    /// stripes, is out of range. A stripe sees only a part of all denials, so it cannot count them.
    ///
    /// ```
    /// use tollgate::{Policy, StripedLimiter};
    /// let limiter = StripedLimiter::new("fixed-window 5/h".parse::<Policy>()?)?;
    /// assert_eq!((0..10).filter(|_| limiter.check().is_allowed()).count(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: impl Into<Policy>) -> Result<Self, BuildError> {
        Self::builder(policy).build()
    }

    /// Makes a builder for a limiter of this policy. Use it to choose the clock or the number of stripes.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, StripedLimiter};
    /// let quota = Quota::per_second(100);
    /// let limiter = StripedLimiter::builder(quota).stripes(4).clock(ManualClock::new()).build()?;
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn builder(policy: impl Into<Policy>) -> StripedBuilder {
        StripedBuilder { policy: policy.into(), stripes: None, clock: None }
    }

    /// The share of a stripe, with a burst of `units`. Under a window it is a part of the count. Under GCRA it is a
    /// rate of `count` units in n periods instead of one period, so that no rate is rounded.
    fn share(policy: Policy, stripes: u64, units: u64) -> Result<Policy, BuildError> {
        let quota = policy.quota();
        let refused = || BuildError::stripe_rate(quota, stripes);
        let share = if policy.algorithm() == Algorithm::Gcra {
            let period = u32::try_from(stripes).ok().and_then(|n| quota.period().checked_mul(n));
            Quota::try_per(quota.count(), period.ok_or_else(refused)?)
                .and_then(|quota| quota.try_burst(units))
        } else {
            Quota::try_per(units, quota.period())
        };
        let hard = share.and_then(|share| Policy::new(policy.algorithm(), share));
        let hard = hard.map_err(|_| refused())?;
        match policy.at_limit().soft {
            soft if soft.is_zero() => Ok(hard),
            soft => hard.soft(soft).map_err(|error| BuildError::stripe_soft(stripes, error)),
        }
    }

    /// The present reading of the limiter's clock.
    ///
    /// ```
    /// use tollgate::{Quota, StripedLimiter};
    /// let limiter = StripedLimiter::new(Quota::per_second(5))?;
    /// assert!(limiter.now() <= limiter.now());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The policy with which the limiter was built. Each stripe enforces a share of it.
    ///
    /// ```
    /// use tollgate::{Quota, StripedLimiter};
    /// let limiter = StripedLimiter::new(Quota::per_second(5))?;
    /// assert_eq!(limiter.policy(), Quota::per_second(5).into());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The number of stripes over which the limit is split.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, StripedLimiter};
    /// let quota = Quota::per_second(100);
    /// let limiter = StripedLimiter::builder(quota).stripes(4).clock(ManualClock::new()).build()?;
    /// assert_eq!(limiter.stripes(), 4);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn stripes(&self) -> usize {
        self.stripes.len()
    }

    /// The largest cost that ever fits: one stripe's share of the burst, to which a soft policy adds its soft share.
    ///
    /// ```
    /// use tollgate::{ManualClock, Quota, StripedLimiter};
    /// let quota = Quota::per_second(100).burst(10);
    /// let limiter = StripedLimiter::builder(quota).stripes(4).clock(ManualClock::new()).build()?;
    /// assert_eq!(limiter.largest_cost(), 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn largest_cost(&self) -> u64 {
        self.largest_cost
    }

    /// Decides a request of one unit now, and charges it if it is admitted: the short form of
    /// [`check_n`](StripedLimiter::check_n).
    ///
    /// ```
    /// use tollgate::{Quota, StripedLimiter};
    /// let limiter = StripedLimiter::new(Quota::per_hour(2))?;
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Decides a request of `cost` units now, and charges it to one stripe if it is admitted. A request of 0 units
    /// charges nothing. To decide without charging, use [`peek`](crate::Entry::peek).
    ///
    /// ```
    /// use tollgate::{Quota, StripedLimiter};
    /// let limiter = StripedLimiter::new(Quota::per_hour(2))?;
    /// assert!(limiter.check().is_allowed());
    /// assert!(limiter.check().is_allowed());
    /// assert!(!limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.decide(cost, None, true)
    }

    /// Decides with the thread's own stripe first. The other stripes decide only if that stripe denies, which is rare.
    #[inline(always)]
    fn visit(
        &self,
        cost: u64,
        now: Timestamp,
        charge: bool,
        mut ask: impl FnMut(usize) -> Decision,
    ) -> Decision {
        if cost > self.largest_cost {
            return self.never(cost, now);
        }
        let own = self.own();
        let decision = ask(own);
        if decision.is_allowed() || (charge && planted(Fault::OwnStripeOnly)) {
            return decision;
        }
        self.ask_others(own, decision, ask)
    }

    /// [`visit`](Self::visit), where each stripe decides with its share of the policy.
    #[inline(never)]
    fn ask_each(&self, cost: u64, now: Timestamp, charge: bool) -> Decision {
        self.visit(cost, now, charge, |stripe| {
            let (cell, meter) = self.stripe(stripe);
            if charge { cell.check(meter, now, cost) } else { cell.peek(meter, now, cost) }
        })
    }

    /// The rest of [`ask_each`](Self::ask_each), after the thread's own stripe has denied a charge.
    #[inline(never)]
    fn ask_others_to_charge(
        &self,
        own: usize,
        denied: Decision,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        if planted(Fault::OwnStripeOnly) {
            return denied;
        }
        self.ask_others(own, denied, |stripe| {
            let (cell, meter) = self.stripe(stripe);
            cell.check(meter, now, cost)
        })
    }

    /// Lets the other stripes decide one after the other, all at the same `now`, until one admits the request. If all
    /// deny, the answer is the denial with the shortest wait, or under a window the denial of the thread's own stripe.
    fn ask_others(
        &self,
        own: usize,
        mut answer: Decision,
        mut ask: impl FnMut(usize) -> Decision,
    ) -> Decision {
        for turn in 1..self.stripes.len() {
            if answer.is_allowed() {
                break;
            }
            let other = (own + turn) % self.stripes.len();
            let decision = ask(other);
            // The first admission ends the search. A denial replaces the answer if its wait is shorter; under windows
            // `shortage` is always 0.
            if decision.is_allowed() || decision.shortage() < answer.shortage() {
                answer = decision;
            }
        }
        answer
    }

    /// Decides a check. Also returns the stripe that answers, with its words before and after.
    pub(crate) fn check_traced(&self, now: Timestamp, cost: u64) -> (Decision, usize, [Word; 2]) {
        let (mut asked, mut words) = (0, [Word::UNUSED; 2]);
        // If the request is admitted, the stripe that decided last is the stripe that was charged.
        let decision = self.visit(cost, now, true, |stripe| {
            let (cell, meter) = self.stripe(stripe);
            let (decision, seen) = cell.check_traced(meter, now, cost);
            // Each stripe that decides overwrites these two values.
            (asked, words) = (stripe, seen);
            decision
        });
        (decision, asked, words)
    }

    /// Takes as much as fits from one stripe after the other. A charge then adds the rest to the debts of all stripes,
    /// in parts that differ by at most a unit.
    #[cold]
    fn gather(&self, verb: Verb, cost: u64, now: Timestamp) -> Decision {
        let (own, count) = (self.own(), self.stripes.len());
        let take = |turn: usize, verb, cost| {
            let (cell, meter) = self.stripe((own + turn) % count);
            cell.ask(meter, now, verb, cost, true)
        };
        // A charge of some stripe is over the limit.
        let mut is_over = false;
        let is_marked = |told: &Decision| told.is_allowed() && told.view().mark == Mark::Over;
        let mut answer = take(0, Verb::UpTo, cost);
        let mut taken = answer.charged();
        is_over |= is_marked(&answer);
        for turn in 1..count {
            if taken == cost {
                break;
            }
            let told = take(turn, Verb::UpTo, cost - taken);
            taken += told.charged();
            is_over |= is_marked(&told);
            // The answer comes from the last stripe that was charged. If no stripe was charged, it is chosen as in
            // `ask_others`.
            if told.is_allowed() || (taken == 0 && told.shortage() < answer.shortage()) {
                answer = told;
            }
        }
        if verb == Verb::Charge {
            // The parts are nearly equal, so that the debts drain in nearly the same time.
            let (part, more) = ((cost - taken) / count as u64, (cost - taken) % count as u64);
            for turn in 0..count {
                let told = take(turn, Verb::Charge, part + u64::from((turn as u64) < more));
                taken += told.charged();
                is_over |= is_marked(&told);
                answer = told;
            }
        }
        answer.charging(taken, if is_over { Mark::Over } else { Mark::None })
    }

    /// The denial of a cost that is above the limit of the smaller stripes. It is that of the thread's own stripe or, if
    /// that is a larger one, of the first smaller one.
    #[cold]
    fn never(&self, cost: u64, now: Timestamp) -> Decision {
        let (cell, meter) = self.stripe(self.own().max(self.larger));
        cell.peek(meter, now, cost)
    }

    /// This thread's stripe: its number modulo n, by two multiplications instead of a division (Lemire,
    /// Kaser, Kurz: Faster remainder by direct computation, 2019; exact for numbers of 32 bits).
    #[expect(clippy::cast_possible_truncation, reason = "below n, which is a usize")]
    #[inline]
    fn own(&self) -> usize {
        let fraction = self.inverse.wrapping_mul(u64::from(thread_number()));
        ((u128::from(fraction) * self.stripes.len() as u128) >> 64) as usize
    }

    #[inline]
    pub(crate) fn stripe(&self, stripe: usize) -> (&Cell, &Meter) {
        let meter = if stripe < self.larger { &self.large } else { &self.small };
        (&self.stripes[stripe], meter)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Store for &StripedLimiter {
    #[inline]
    fn ask(&self, verb: Verb, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision {
        let now = at.unwrap_or_else(|| self.clock.now());
        if verb != Verb::Check && charge {
            return self.gather(verb, cost, now);
        }
        // The common case is decided inline: plain GCRA, with room in the thread's own stripe.
        let own = self.own();
        let (cell, meter) = self.stripe(own);
        if let Some(gcra) = &meter.plain
            && charge
            && cost <= self.largest_cost
        {
            let (step, _) = cell.charge_plain(gcra, now, cost);
            if step.outcome.verdict == Verdict::Allowed {
                return step.decision(Kernel::Gcra(*gcra), 0);
            }
            return self.ask_others_to_charge(
                own,
                step.decision(Kernel::Gcra(*gcra), 0),
                now,
                cost,
            );
        }
        self.ask_each(cost, now, charge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[test]
    fn a_threads_stripe_is_its_number_modulo_theirs() {
        for stripes in [1_usize, 2, 3, 7, 64, 1_000] {
            let quota = Quota::per_hour(1_000);
            let limiter =
                StripedLimiter::builder(quota).stripes(stripes).clock(ManualClock::new()).build();
            let limiter = limiter.expect("stripes");
            let own = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..50)
                    .map(|_| scope.spawn(|| (thread_number() as usize % stripes, limiter.own())))
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("a pair")).collect::<Vec<_>>()
            });
            for (modulo, own) in own {
                assert_eq!(own, modulo, "{stripes} stripes");
            }
        }
    }
}
