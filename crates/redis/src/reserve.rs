//! Reserves units that fit only later, and waits for them. A place in the queue is a debt in the store. One call
//! charges it and returns the wait.

use std::time::Duration;

use tokio::runtime::Handle;
use tollgate::{Decision, Denial, Reservation, Timestamp, Wait, WaitBudget};

use crate::decision::{RedisDecision, RedisPermit, Source};
use crate::entry::RedisEntry;
use crate::error::Fault;
use crate::leased::holding::Glance;
use crate::script::{ScriptVerb, Units};
use crate::settings::OnError;

/// Units that are already charged, and may be used once the wait is over.
///
/// ```
/// use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use tollgate_redis::{Fault, RedisLimiter, Settings, Store};
/// # let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = RedisLimiter::new(&store, Settings::new("5/s burst 1".parse()?))?;
/// let alice = limiter.entry("alice");
/// let place = alice.reserve(1, Duration::from_secs(1)).await?;
/// assert_eq!((place.wait(), place.fault()), (Duration::ZERO, Some(Fault::Unreachable)));
/// assert_eq!(alice.cancel(place).await, Ok(true));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the units are charged; cancel it if they are not wanted"]
pub struct RedisReservation {
    permit: RedisPermit,
    wait: Duration,
    fault: Option<Fault>,
    place: Place,
}

/// The place where the units are charged.
#[derive(Debug)]
enum Place {
    /// In the store. `left` is the newest count (see `StateView::newest`) after the charge, and `stamp` is the stamp of
    /// the charge.
    Stored {
        left: u64,
        stamp: u64,
        cost: u64,
    },
    Share(Reservation),
    /// Nowhere: nothing was charged, because [`OnError`] alone decided, or the request was denied.
    Ruled,
}

impl RedisReservation {
    /// The wait, counted from the moment at which the reservation was returned. The store computed the wait a little
    /// earlier, so the units are never used too early.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The permit for the charge of the reservation. It can be refunded even if other requests have queued up behind
    /// it, but the refund may give back fewer units than [`cancel`](RedisEntry::cancel), because a refund treats debt
    /// beyond the burst as drained.
    #[must_use]
    pub fn permit(&self) -> &RedisPermit {
        &self.permit
    }

    /// The permit, by value, to refund units that are not used. After this the reservation can no longer be cancelled.
    #[must_use = "what is not refunded stays charged"]
    pub fn into_permit(self) -> RedisPermit {
        self.permit
    }

    /// Why the store did not decide, if it failed.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }
}

impl RedisEntry<'_> {
    /// Charges `cost` now, and returns how long to wait until the units may be used, if the wait is at most `max_wait`:
    /// the short form of [`queue`](RedisEntry::queue).
    ///
    /// # Errors
    /// As [`queue`](RedisEntry::queue).
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{Mode, RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("5/s burst 1 queue 50".parse()?))?;
    /// let place = limiter.entry("alice").reserve(1, Duration::from_secs(2)).await?;
    /// tokio::time::sleep(place.wait()).await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve(self, cost: u64, max_wait: Duration) -> Result<RedisReservation, Denial> {
        self.queue(cost, Wait::at_most(max_wait)).await
    }

    /// Takes the next place in the queue of the key: charges `cost` even if it fits only later, and returns how long to
    /// wait. As with [`Entry::queue`](tollgate::Entry::queue), a request is denied at once, and not charged, if its
    /// wait would be longer than `wait` or the policy's own queue allows. Only GCRA has a queue: under a window or a
    /// log, units are charged only if they fit now.
    ///
    /// The store is asked in every mode, so the places of all nodes are in one order. Units in leases were charged
    /// before this place, and may be spent before its turn. In mode `Async`, nodes that have not yet heard of the place
    /// may go on admitting, within that mode's bound.
    ///
    /// If the store fails, [`OnError`](crate::OnError) decides: the request takes a place in this node's share, or is
    /// admitted without a wait, or is denied.
    ///
    /// # Errors
    /// Returns the [`Denial`] if the wait would be too long.
    pub async fn queue(self, cost: u64, wait: Wait) -> Result<RedisReservation, Denial> {
        let (inner, key) = (self.inner(), self.key);
        let wait = inner.plan.bounded(wait);
        let (verb, asked) = Units::place(&inner.plan, cost, wait);
        inner.report_before_asking(key, Some(inner.terms.era)).await;
        let due = inner.due();
        if let Some(held) = self.held() {
            // The store counts units of this node's leases as charged. They are given back first, since the place would
            // otherwise wait for units that this node has.
            held.return_all(due).await;
        }
        let reply = inner.ask(verb, key, asked, due).await;
        let found = reply.and_then(|reply| {
            let view = inner.view(&reply)?;
            let told = view.told(reply.admitted, cost);
            let decision = RedisDecision::new(told, Source::Store, view.stamp());
            let place = Place::Stored { left: view.newest(), stamp: view.stamp(), cost };
            Ok((decision, Duration::from_micros(view.turn_us()), place))
        });
        let (decision, wait, place) =
            found.unwrap_or_else(|fault| self.without_store(cost, wait, fault));
        inner.counters().decision(decision.source(), decision.is_allowed());
        let fault = decision.fault();
        let permit = decision.into_result()?;
        if let (Some(held), Place::Stored { .. }) = (self.held(), &place) {
            held.after(Glance::default(), cost);
        }
        Ok(RedisReservation { permit, wait, fault, place })
    }

    /// Gives a place back if nothing was charged to the key after it, and returns whether the place was given back.
    /// Before the turn of the place, all of its units come back. After the turn, only the units come back that have not
    /// drained since. If something was charged after the place, the place stays charged, because the waits of later
    /// places depend on it. [`Entry::cancel`](tollgate::Entry::cancel) does the same.
    ///
    /// # Errors
    /// Says why the store did not confirm the call. The store may have carried out the call nevertheless, so it is not
    /// repeated.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("1/s burst 1".parse()?))?;
    /// let (alice, minute) = (limiter.entry("alice"), Duration::from_secs(60));
    /// let [first, second] = [alice.reserve(1, minute).await?, alice.reserve(1, minute).await?];
    /// assert!(!alice.cancel(first).await?); // the second stands behind it
    /// assert!(alice.cancel(second).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel(self, reservation: RedisReservation) -> Result<bool, Fault> {
        self.give_up(reservation.place).await
    }

    /// Waits for a turn on tokio's timer: calls [`queue`](RedisEntry::queue), and sleeps for the returned wait and the
    /// jitter of `wait`. Windows and logs have no queue. For these it sleeps for the denial's
    /// [`retry_after`](Denial::retry_after) and asks again, as long as the total wait stays within `wait`. Callers then
    /// get their turns in no particular order, as with [`Entry::acquire`](tollgate::Entry::acquire), and each attempt
    /// is one call of the store. It asks only once in two cases: if the policy counts denials, since the store would
    /// count each attempt, and if `wait` bounds the units ahead of the caller (`Wait::behind`).
    ///
    /// It sleeps no longer than `wait` allows. Each call of the store adds at most the store's deadline. If the future
    /// is dropped before its turn, a separate task gives the place back as [`cancel`](RedisEntry::cancel) does. If the
    /// future is dropped before the store has answered, the charge stays.
    ///
    /// # Errors
    /// The [`Denial`], as from [`queue`](RedisEntry::queue). The denial comes at once if the turn would come too late,
    /// and after the last sleep if other callers took the units each time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Wait;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = RedisLimiter::new(&store, Settings::new("5/s burst 1".parse()?))?;
    /// let permit = limiter.entry("alice").acquire(1, Wait::at_most(Duration::from_secs(1))).await?;
    /// assert_eq!(permit.permit().cost(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(self, cost: u64, wait: Wait) -> Result<RedisPermit, Denial> {
        let plan = &self.inner().plan;
        let wait = plan.bounded(wait);
        let asks_again = plan.asks_again(wait);
        let began = tokio::time::Instant::now();
        let now = || Timestamp::default() + began.elapsed();
        let mut budget = WaitBudget::new(wait, now());
        let place = loop {
            let denial = match self.queue(cost, budget.left(now())).await {
                Ok(place) => break place,
                Err(denial) => denial,
            };
            budget.left(now());
            let pause = denial.retry_after().filter(|_| asks_again);
            let Some(pause) = pause.and_then(|until| budget.pause(until)) else {
                return Err(denial);
            };
            tokio::time::sleep(pause).await;
        };
        let pause = budget.spread(place.wait());
        let RedisReservation { permit, place, .. } = place;
        let mut waiting = Waiting { entry: self, place: Some(place) };
        // A wait of zero skips the timer, since the timer may round it up.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        waiting.place = None;
        Ok(permit)
    }

    /// Gives a place back.
    async fn give_up(self, place: Place) -> Result<bool, Fault> {
        let inner = self.inner();
        match place {
            Place::Share(place) => Ok(inner.share.entry(self.key, self.isolated()).cancel(place)),
            Place::Stored { left, stamp, cost } => {
                let units = Units { share: left, stamp, ..Units::owed(cost) };
                let reply = inner.ask(ScriptVerb::Cancel, self.key, units, inner.due()).await?;
                if let Some(held) = self.held() {
                    held.returned();
                }
                Ok(reply.parts.first().is_some_and(|seen| seen.units > 0))
            }
            Place::Ruled => Ok(false),
        }
    }

    /// Decides by [`OnError`] whether the request gets a place while the store fails.
    fn without_store(
        self,
        cost: u64,
        wait: Wait,
        fault: Fault,
    ) -> (RedisDecision, Duration, Place) {
        let inner = self.inner();
        if inner.on_error != OnError::Local {
            let decision = inner.fall_back(self.key, Units::exactly(cost), fault);
            return (decision, Duration::ZERO, Place::Ruled);
        }
        let share = &inner.share;
        let degraded = |decision: &Decision| {
            RedisDecision::degraded(share.told(decision, cost), Source::Share, fault)
        };
        match share.entry(self.key, self.isolated()).queue(share.counted(cost), wait) {
            Ok(place) => {
                let decision = degraded(&place.permit().summary().into());
                (decision, place.wait(), Place::Share(place))
            }
            Err(denial) => (degraded(&Decision::Denied(denial)), Duration::ZERO, Place::Ruled),
        }
    }
}

/// The place of a waiting caller. If the caller stops waiting and drops this, the place is given back.
struct Waiting<'a> {
    entry: RedisEntry<'a>,
    place: Option<Place>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let (Some(place), Ok(runtime)) = (self.place.take(), Handle::try_current()) else { return };
        let RedisEntry { limiter, key } = self.entry;
        let (limiter, key) = (limiter.clone(), key.to_vec());
        runtime.spawn(async move { limiter.entry(&key).give_up(place).await });
    }
}
