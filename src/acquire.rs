//! Waiting for a turn. A [`Wait`] says how long a request may wait, and the caller's runtime does the sleeping.
//!
//! A request that has to wait takes a place in the word at once, if the word has room. There is no queue in memory, no
//! request has to be woken, and none can overtake another. The request only waits until its place begins. A caller that
//! gives up gives its place back, if no other request has a place behind it.
//!
//! Some requests find no place: a window has no later places, the word of a key has room for few, and a key without a
//! cell has no word at all. In these cases a request sleeps until it would be admitted, and tries again. Until then it
//! has charged nothing, so nothing has to be given back if it is dropped. Other requests may be admitted first.
//! [`WaitBudget`] keeps how much of the longest wait is left.

use std::time::Duration;

use crate::decision::{Decision, Denial, Permit};
use crate::entry::Entry;
use crate::reservation::Reservation;
use crate::store::Store;
use crate::sync::{Fault, planted};
use crate::verb::Verb;
use crate::wait::{Wait, WaitBudget};

/// The result of one step of a waiting request: see [`WaitBudget::step`].
#[derive(Debug)]
pub enum WaitStep {
    /// The request has its place. It may proceed at [`Reservation::ready_at`].
    Place(Reservation),
    /// The request has no place, and has to try again after this time.
    Later(Duration),
}

impl WaitBudget {
    /// Makes one step of [`acquire`](Entry::acquire), for code that does its own sleeping. Returns a place if there is
    /// one, else the time to sleep before the next step. The budget was made when the request came
    /// ([`wait_budget`](Entry::wait_budget)).
    ///
    /// # Errors
    /// Returns the denial if the request cannot get its turn within the wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Policy, Wait, WaitStep};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder("fixed-window 1/s".parse::<Policy>()?).clock(clock.clone()).build();
    /// assert!(limiter.check().is_allowed());
    /// let entry = limiter.entry();
    /// let mut budget = entry.wait_budget(Wait::at_most(Duration::from_secs(5)));
    /// let WaitStep::Later(pause) = budget.step(entry, 1)? else { panic!("the window is full") };
    /// clock.advance(pause);
    /// assert!(matches!(budget.step(entry, 1)?, WaitStep::Place(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn step(&mut self, entry: Entry<'_>, cost: u64) -> Result<WaitStep, Denial> {
        let limit = &entry.limit;
        let wait = self.left(entry.at.unwrap_or_else(|| limit.clock().now()));
        let ask = |counted| {
            let decision = limit.ask(entry.place(wait, counted), cost, entry.at, cost > 0);
            decision.into_result().map(|permit| WaitStep::Place(Reservation::new(permit)))
        };
        // If the policy counts denials, only the last denial of a request that waits is counted.
        let counts_denials = limit.counts_denials();
        let denial = match ask(!counts_denials) {
            // This happens only in a test that plants the fault.
            Err(denial) if self.has_slept() && planted(Fault::WaitedIsAdmitted) => {
                return Ok(WaitStep::Place(Reservation::new(denial.into_permit())));
            }
            Err(denial) => denial,
            place => return place,
        };
        // If the number of units ahead is bounded, the request does not try again: requests that wait without a place
        // are not recorded in any word, so they cannot be counted. A request that would never be admitted does not try
        // again, either.
        let [_, places] = limit.queue();
        let is_behind = wait.max_behind().min(places) < u64::MAX;
        let until = denial.retry_after().filter(|_| !is_behind);
        if let Some(pause) = until.and_then(|until| self.pause(until)) {
            return Ok(WaitStep::Later(pause));
        }
        // The request gives up. If the policy counts denials, it tries one last time, so that its denial is counted.
        // This last request may be admitted if units were given back meanwhile.
        if counts_denials { ask(true) } else { Err(denial) }
    }
}

/// A place that is given back if the caller stops waiting for it. Before its turn the whole place is given back. After
/// its turn, during the jitter, only the part that has not drained is given back. So the units of other requests are
/// never given back, even if later charges have left the word with the same bits.
struct Waiting<F: FnMut(Reservation) -> bool> {
    place: Option<Reservation>,
    permit: Permit,
    cancel: F,
}

impl<F: FnMut(Reservation) -> bool> Waiting<F> {
    fn new(place: Reservation, cancel: F) -> Self {
        Self { permit: place.permit().twin(), place: Some(place), cancel }
    }

    /// Sleeps until the turn. If this is dropped meanwhile, the place is given back.
    async fn until_its_turn<S: Future<Output = ()>>(
        mut self,
        pause: Duration,
        mut sleep: impl FnMut(Duration) -> S,
    ) -> Permit {
        // A wait of zero needs no sleep: a timer may round it up.
        if !pause.is_zero() {
            sleep(pause).await;
        }
        // The turn of the request has come: from here on a drop gives nothing back.
        self.place = None;
        self.permit.twin()
    }
}

impl<F: FnMut(Reservation) -> bool> Drop for Waiting<F> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            (self.cancel)(place);
        }
    }
}

impl Entry<'_> {
    /// Charges `cost` now and returns the instant from which it may be used, if that instant is at most `max_wait`
    /// away.
    ///
    /// Under GCRA the request takes the next place in the queue. It is admitted if and only if the debt, its own cost
    /// included, is at most `burst + rate * max_wait`. So even a cost above the burst may be admitted. In any interval
    /// of length W at most `burst + rate * W` units become usable. If the first request of the interval costs more than
    /// the burst, its cost takes the place of `burst` in this bound. Under a window no later place can be reserved: the
    /// request fits now or is denied. The word of a key may have room only for a debt of twice the burst, even if
    /// `max_wait` is longer. If the policy has a queue ([`Policy::queue`](crate::Policy::queue)) or names a debt
    /// ([`Policy::debt`](crate::Policy::debt)), the word has room for the whole queue and the whole debt. A key without
    /// a cell gets a place only if the place can be used at once. If a change of quota cuts the debt, places from
    /// before and after the change overlap by the part that was cut.
    ///
    /// # Errors
    /// Returns the same denial as a check. Its wait ends when a *check* of this cost would be admitted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(10).burst(1)).clock(ManualClock::new()).build();
    /// let reserve = || limiter.entry().reserve(1, Duration::from_millis(250));
    /// let waits = [reserve()?, reserve()?, reserve()?].map(|reservation| reservation.wait());
    /// assert_eq!(waits, [0, 100, 200].map(Duration::from_millis));
    /// assert!(reserve().is_err());
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn reserve(&self, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        self.queue(cost, Wait::at_most(max_wait))
    }

    /// Takes the next place in the queue if its turn comes soon enough. Returns at once, without waiting for the turn.
    /// This is [`reserve`](Entry::reserve) with the bounds of a [`Wait`].
    ///
    /// # Errors
    /// Returns the same denial as [`reserve`](Entry::reserve).
    pub fn queue(&self, cost: u64, wait: Wait) -> Result<Reservation, Denial> {
        let decision = self.limit.ask(self.place(wait, true), cost, self.at, cost > 0);
        decision.into_result().map(Reservation::new)
    }

    /// The answer that [`queue`](Entry::queue) would give now, without taking a place.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota, Wait};
    /// let limiter = Limiter::builder(Quota::per_second(1).burst(1)).clock(ManualClock::new()).build();
    /// let wait = Wait::at_most(Duration::from_secs(1));
    /// assert!(limiter.entry().peek_queue(2, wait).is_allowed());
    /// assert!(limiter.entry().queue(2, wait).is_ok());
    /// assert!(!limiter.entry().peek_queue(1, wait).is_allowed());
    /// ```
    pub fn peek_queue(&self, cost: u64, wait: Wait) -> Decision {
        self.limit.ask(self.place(wait, true), cost, self.at, false)
    }

    /// The verb that takes the next place within the bounds of both the caller and the policy.
    fn place(&self, wait: Wait, counted: bool) -> Verb {
        let ([wait_ns, behind], [max_ns, places]) = (wait.bounds(), self.limit.queue());
        Verb::Reserve { wait_ns: wait_ns.min(max_ns), behind: behind.min(places), counted }
    }

    /// Begins the wait of a request at the entry's time, or else now, within the bounds of both the caller and the
    /// policy. [`WaitBudget::step`] makes the steps of the wait.
    #[must_use]
    pub fn wait_budget(&self, wait: Wait) -> WaitBudget {
        let [max_ns, _] = self.limit.queue();
        let max = wait.max_wait().min(Duration::from_nanos(max_ns));
        // `u64::MAX` means that the policy has no bound.
        let max = if max_ns == u64::MAX { wait.max_wait() } else { max };
        let now = self.at.unwrap_or_else(|| self.limit.clock().now());
        WaitBudget::new(Wait { max, ..wait }, now)
    }

    /// Waits until the turn of the request has come. So the admitted traffic proceeds at the rate of the limit. Under
    /// GCRA and in a sliding log, requests proceed in the order in which they came. Under GCRA waiting requests also
    /// proceed evenly, as from a leaky bucket used as a queue (a shaper).
    ///
    /// `sleep` is the sleep of the caller's runtime, such as `tokio::time::sleep`. The future that `sleep` returns must
    /// not complete before the requested time has passed. `sleep` is called only if the turn has not come yet, and all
    /// sleeps together are no longer than the [`Wait`] plus one jitter. The limiter's clock must advance by itself or
    /// with the sleep. A time given by [`at`](Entry::at) must be a time of that clock.
    ///
    /// The place is taken when the future is first polled. Dropping the future gives the place back if no request has
    /// queued up behind it. Otherwise the place stays charged, since the places behind it are promised.
    ///
    /// # Where there is no place to take
    /// There are three reasons why a request may find no place. A window has no later place. The word of a key may have
    /// room only for a debt of twice the burst, unless its policy has a queue or names a debt. A key without a cell has
    /// no word. In these cases the future sleeps for the [`retry_after`](Denial::retry_after) of the denial and tries
    /// again, as long as this time lies within the wait. Meanwhile the request has charged nothing, so dropping it
    /// gives nothing back. Such requests have no order: the first request that tries after units have become free is
    /// admitted, even if it has only just arrived. So a request may be denied at the end of its wait although later
    /// requests were admitted. If many requests wait for the same instant, they all try again at once; a
    /// [`jitter`](Wait::jitter) spreads these attempts. With a bound of units ([`Wait::behind`], or places of the
    /// policy's queue) a request does not try again, since waiting requests without a place are not counted anywhere. A
    /// cost above the limit takes a place at once or is denied.
    ///
    /// If the policy counts denials ([`AtLimit`](crate::AtLimit)), a request that waits is counted at most once: when
    /// it is denied in the end.
    ///
    /// # Errors
    /// Returns the denial if no turn comes within the wait. The denial comes at once if it is known at once that no
    /// turn will come in time. It comes after the last sleep if other requests were faster each time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::Denial> {
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota, Wait};
    /// let limiter = Limiter::builder(Quota::per_second(4).burst(1)).clock(ManualClock::new()).build();
    /// let start = tokio::time::Instant::now();
    /// limiter.entry().acquire(1, Wait::at_most(Duration::from_secs(1)), tokio::time::sleep).await?;
    /// limiter.entry().acquire(1, Wait::at_most(Duration::from_secs(1)), tokio::time::sleep).await?;
    /// assert_eq!(start.elapsed(), Duration::from_millis(250));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire<S: Future<Output = ()>>(
        self,
        cost: u64,
        wait: Wait,
        mut sleep: impl FnMut(Duration) -> S,
    ) -> Result<Permit, Denial> {
        let mut budget = self.wait_budget(wait);
        // After the sleep, further attempts and a cancellation use the clock's time. A time that the caller gave is
        // from before the sleep, and may be earlier than the time of another charge.
        let later = Self { at: None, ..self };
        let mut entry = self;
        let place = loop {
            match budget.step(entry, cost)? {
                // The request may still have to sleep. If it is dropped during that sleep, it gives the place back.
                WaitStep::Place(place) => break place,
                // The request has charged nothing, so a drop during this sleep gives nothing back.
                WaitStep::Later(pause) => sleep(pause).await,
            }
            entry = later;
        };
        let pause = budget.until(&place, self.limit.clock().now());
        Ok(Waiting::new(place, |place| later.cancel(place)).until_its_turn(pause, sleep).await)
    }

    /// [`acquire`](Entry::acquire) for threads: the thread sleeps until the turn of the request has come.
    ///
    /// # Errors
    /// As [`acquire`](Entry::acquire).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, Wait};
    /// let limiter = Limiter::new(Quota::per_second(1_000).burst(1));
    /// for _ in 0..3 {
    ///     limiter.entry().acquire_blocking(1, Wait::at_most(Duration::from_secs(1)))?;
    /// }
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn acquire_blocking(&self, cost: u64, wait: Wait) -> Result<Permit, Denial> {
        let mut budget = self.wait_budget(wait);
        let mut entry = *self;
        let place = loop {
            match budget.step(entry, cost)? {
                WaitStep::Place(place) => break place,
                WaitStep::Later(pause) => std::thread::sleep(pause),
            }
            entry.at = None;
        };
        let pause = budget.until(&place, self.limit.clock().now());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        Ok(place.into_permit())
    }
}
