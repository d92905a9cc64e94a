//! Waiting for a place: a [`Wait`] says how long, and the sleep of the caller's runtime does it.
//!
//! A waiting request has its place in the limit's own word, from the moment at which it asks: there is
//! no queue in memory, nothing to wake, and no request can overtake. What it waits for is only that its time
//! comes. A caller that gives up gives the place back, if it is the last.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::decision::{Decision, Denial, Permit};
use crate::entry::Entry;
use crate::reservation::Reservation;
use crate::store::Store;
use crate::verb::Verb;
use crate::wait::Wait;

/// From now until a place's turn, and what the jitter adds.
fn pause(wait: Wait, place: &Reservation, now: Timestamp) -> Duration {
    let until = place.ready_at().as_nanos().saturating_sub(now.as_nanos());
    wait.spread(Duration::from_nanos(until))
}

/// A place that is given back if the caller that waits for it gives up: whole before its turn, and after it (a
/// jitter goes on) less what has drained. So it forgives no other charge, even if one has restored the bits that
/// it left.
struct Waiting<F: FnMut(Reservation) -> bool> {
    place: Option<Reservation>,
    permit: Permit,
    cancel: F,
}

impl<F: FnMut(Reservation) -> bool> Waiting<F> {
    fn new(place: Reservation, cancel: F) -> Self {
        Self { permit: *place.permit(), place: Some(place), cancel }
    }

    /// Dropped while it sleeps, it gives the place back.
    async fn until_its_turn<S: Future<Output = ()>>(
        mut self,
        pause: Duration,
        sleep: impl FnOnce(Duration) -> S,
    ) -> Permit {
        // At once otherwise: a timer may round a wait of zero up.
        if !pause.is_zero() {
            sleep(pause).await;
        }
        // Its turn has come: from here on a drop gives nothing back.
        self.place = None;
        self.permit
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
    /// Charges `cost` now and says from when on it may be used, if that is no later than `max_wait`.
    ///
    /// Under GCRA the request takes the next place in the queue: it is admitted iff the debt with it is
    /// at most `burst + rate * max_wait`, so also a cost above the burst may be. In any interval of
    /// length W units become usable at most `rate * W` times and once the burst, or once the first
    /// request's cost if that is larger. Under a window there is no future to reserve: it fits now or is
    /// denied. A keyed word remembers a debt of no more than twice the burst, however long a request would wait; under a
    /// policy with a queue ([`Policy::queue`](crate::Policy::queue)) it has room for all of that queue, and no
    /// place is beyond it. A key without a cell gets a place only if it can be used at once. A change of quota that cuts the debt lets places of before and after it
    /// overlap, by what was cut.
    ///
    /// # Errors
    /// The denial, as a check's. Its wait is that until a *check* of this cost is admitted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_second(10).burst(1), ManualClock::new());
    /// let reserve = || limiter.entry().reserve(1, Duration::from_millis(250));
    /// let waits = [reserve()?, reserve()?, reserve()?].map(|reservation| reservation.wait());
    /// assert_eq!(waits, [0, 100, 200].map(Duration::from_millis));
    /// assert!(reserve().is_err());
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn reserve(&self, cost: u64, max_wait: Duration) -> Result<Reservation, Denial> {
        self.queue(cost, Wait::at_most(max_wait))
    }

    /// Takes the next place in the queue, if its turn comes soon enough. Says when that is and does not
    /// wait for it: [`reserve`](Entry::reserve), with the bounds of a [`Wait`].
    ///
    /// # Errors
    /// The denial, as [`reserve`](Entry::reserve)'s.
    pub fn queue(&self, cost: u64, wait: Wait) -> Result<Reservation, Denial> {
        let decision = self.limit.ask(self.place(wait), cost, self.at, cost > 0);
        decision.into_result().map(Reservation::new)
    }

    /// Whether [`queue`](Entry::queue) would give a place now. Takes none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota, Wait};
    /// let limiter = Limiter::with_clock(Quota::per_second(1).burst(1), ManualClock::new());
    /// let wait = Wait::at_most(Duration::from_secs(1));
    /// assert!(limiter.entry().peek_queue(2, wait).is_allowed());
    /// assert!(limiter.entry().queue(2, wait).is_ok());
    /// assert!(!limiter.entry().peek_queue(1, wait).is_allowed());
    /// ```
    pub fn peek_queue(&self, cost: u64, wait: Wait) -> Decision {
        self.limit.ask(self.place(wait), cost, self.at, false)
    }

    /// The verb for the next place, within the bounds of both the caller and the policy.
    fn place(&self, wait: Wait) -> Verb {
        let ([wait_ns, behind], [max_ns, places]) = (wait.bounds(), self.limit.queue());
        Verb::Reserve { wait_ns: wait_ns.min(max_ns), behind: behind.min(places) }
    }

    /// Waits for its turn, and is then admitted: traffic leaves at the quota's rate, in the order in which
    /// it came. A leaky bucket as a queue, a shaper.
    ///
    /// `sleep` is that of the caller's runtime, such as `tokio::time::sleep`: what it gives completes after the time
    /// that it was asked for, no earlier. It is called if the turn is not now.
    ///
    /// The place is taken when the future is first polled. Dropping the future gives it back, if no request
    /// has queued up behind it; otherwise it stays charged, since the places behind it are promised. The
    /// limiter's clock must be one that advances by itself, or with the sleep; a time given by [`at`](Entry::at) must
    /// be one of that clock.
    ///
    /// # Errors
    /// The denial, at once, if its turn would come too late.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::Denial> {
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota, Wait};
    /// let limiter = Limiter::with_clock(Quota::per_second(4).burst(1), ManualClock::new());
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
        sleep: impl FnOnce(Duration) -> S,
    ) -> Result<Permit, Denial> {
        let place = self.queue(cost, wait)?;
        let pause = pause(wait, &place, self.limit.clock().now());
        // Given up it goes back at the clock's time: one that was given may lie before that of another charge.
        let entry = Self { at: None, ..self };
        Ok(Waiting::new(place, |place| entry.cancel(place)).until_its_turn(pause, sleep).await)
    }

    /// [`acquire`](Entry::acquire) for threads: sleeps until its turn has come.
    ///
    /// # Errors
    /// The denial, at once, if its turn would come too late.
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
        let place = self.queue(cost, wait)?;
        let pause = pause(wait, &place, self.limit.clock().now());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        Ok(*place.permit())
    }
}
