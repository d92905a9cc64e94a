//! Clocks, and the [`Timestamp`]s they give.

mod follow;
mod manual;
mod one_reading;
mod steps;
mod timestamp;

use std::fmt;
use std::time::{Instant, SystemTime};

use crossbeam_utils::CachePadded;

pub use manual::ManualClock;
pub(crate) use one_reading::OneReading;
pub(crate) use timestamp::LATEST_NS;
pub use timestamp::Timestamp;

use follow::WallFollower;
use steps::StepScale;
use timestamp::saturating_nanos;

use crate::sync::Arc;

/// The time for a reading `raw` of a counter.
#[inline(always)]
fn counted(raw: u64, steps: &StepScale, offset_ns: u64) -> Timestamp {
    let elapsed_ns = if steps.is_short(raw) { steps.short_ns(raw) } else { steps.ns(raw) };
    // An offset is at most 2^63 ns (see `resumed_at`), so the sum cannot wrap for 292 years.
    Timestamp(offset_ns.wrapping_add(elapsed_ns))
}

#[inline(never)]
fn unix_now(counter: &quanta::Clock, steps: &StepScale, follower: &WallFollower) -> Timestamp {
    // The counter is read before anything else. Each further pointer that has to survive this reading would take one
    // more register.
    let raw = counter.raw();
    unix_at(raw, steps, follower)
}

#[inline(always)]
fn unix_at(raw: u64, steps: &StepScale, follower: &WallFollower) -> Timestamp {
    Timestamp(follower.at(raw, steps))
}

#[inline(never)]
fn system_now(origin: Instant, offset_ns: u64) -> Timestamp {
    system_at(Instant::now(), origin, offset_ns)
}

fn system_at(now: Instant, origin: Instant, offset_ns: u64) -> Timestamp {
    Timestamp(saturating_nanos(now.saturating_duration_since(origin)).saturating_add(offset_ns))
}

/// The source of time for a limiter.
///
/// # One reading for one request
/// A reading takes about 13 ns on a server's processor, which is a fifth of the time of a keyed check. For a request
/// under several limits of one clock, [`now`](Clock::now) can be called once, and the reading given to each limit by
/// [`Entry::at`](crate::Entry::at). If a reading is used late, the units that have drained since the reading are not
/// available yet. So a late reading may deny a request that a fresh reading would admit, but it never admits a request
/// that a fresh reading would deny. The bounds of a limit hold in the times at which its requests are decided. Only a
/// refund must not use an old reading, since it would give back too much: [`refund`](crate::Entry::refund) and
/// [`cancel`](crate::Entry::cancel) read the clock themselves unless they are given a time.
///
/// ```
/// use tollgate::{Clock, Limiter, Quota};
/// let limiter = Limiter::builder(Quota::per_second(5)).clock(Clock::unix()).build();
/// assert!(limiter.check().is_allowed());
/// ```
#[derive(Clone)]
pub struct Clock(ClockSource);

// `repr(u8)` gives the enum a separate tag. Otherwise the compiler would store the tag in a field of `quanta`'s type,
// and reading it would take four more instructions.
#[repr(u8)]
#[derive(Clone)]
enum ClockSource {
    /// The CPU's time stamp counter if it is steady, else the system's monotonic clock.
    Counter {
        counter: quanta::Clock,
        steps: StepScale,
        offset_ns: u64,
    },
    /// The same counter, corrected to follow the system's wall clock. All clones share one follower. Each clone has its
    /// own copies of the fields that do not change.
    Unix {
        counter: quanta::Clock,
        steps: StepScale,
        follower: Arc<CachePadded<WallFollower>>,
    },
    // The other sources are in an enum of their own: with four variants in one enum, the compiler would make a jump
    // table, which would slow down every reading.
    Other(OtherSource),
}

#[derive(Clone)]
enum OtherSource {
    /// The operating system's monotonic clock.
    System {
        origin: Instant,
        offset_ns: u64,
    },
    Manual(ManualClock),
}

impl Clock {
    /// The fastest monotonic clock of the machine (`quanta`: the time stamp counter where the CPU keeps it steady
    /// across cores, else the system's clock). Its origin is the time of this call. This is the default clock.
    ///
    /// The first such clock of a process takes up to 200 ms to calibrate.
    #[must_use]
    pub fn monotonic() -> Self {
        Self::counting(quanta::Clock::new(), 0)
    }

    /// Unix time: [`Clock::monotonic`], corrected to follow the system's wall clock. Aligned windows begin as in UTC:
    /// minutes at :00, days at midnight.
    ///
    /// Readings never run backward, no matter what happens to the wall clock. So spent units stay spent:
    /// * *The wall clock is ahead* by up to a second: readings run faster than normal by at most R = 1/1024, until they
    ///   have caught up.
    /// * *The wall clock is ahead by more*, because the machine slept or the clock was set forward: readings jump to
    ///   the wall clock's time when the wall clock is read next. For every limit this is time that has passed, so the
    ///   units that drain in it come back, at most a full burst. All such jumps together are at most as long as the
    ///   time from the wall clock's first reading to its highest.
    /// * *The wall clock was set back*, or repeats a leap second: readings go on from the present reading, slower by R,
    ///   until the wall clock has caught up. Until then units come back at most R more slowly than the rate of the
    ///   limit, but windows begin too early by `now() - wall()`: see [`wall`](Clock::wall).
    ///
    /// *The error of a reading.* Let P be 2^24 steps of the counter, or fewer if its steps are longer than a
    /// nanosecond: 17 ms at most. The first reading in each P also reads the wall clock. There is no separate thread
    /// for this, and no thread waits for it. Let D be the relative error of the counter (a few millionths, and below
    /// R/2). Let q be the time that a thread takes between its readings of the two clocks (less than a microsecond, if
    /// the thread is not interrupted). Then the following bound holds after the readings have caught up, as long as the
    /// clock is read in every P:
    ///
    /// ```text
    /// 0  <=  wall() - now()  <=  (R + D) P + q        17 us, and q
    /// ```
    ///
    /// If the wall clock is set back by s, the error lasts for s / (R - D): 17 minutes for a second, 43 days for an
    /// hour. The same is true if it is set forward by s, up to a second. If the wall clock is set forward by more, the
    /// error lasts for P. In any interval of length W, readings advance by at most (1 + R) (1 + D) (W + P), plus the
    /// jumps to the wall clock.
    ///
    /// All clones of a clock are the same clock. A wall clock before 1970 is treated as the beginning of 1970, and a
    /// wall clock after 2099 as the end of 2099. Unix days have 86,400 s.
    ///
    /// ```
    /// use tollgate::{Clock, Timestamp};
    /// let clock = Clock::unix();
    /// let (before, wall) = (clock.now(), clock.wall());
    /// assert!(before > Timestamp::from_secs(1_577_836_800) && wall > Timestamp::from_secs(1_577_836_800));
    /// assert!(clock.clone().now() >= before);
    /// ```
    #[must_use]
    pub fn unix() -> Self {
        Self::following(WallFollower::of_system())
    }

    fn following(follower: WallFollower) -> Self {
        let (counter, steps) = follower.counter();
        let follower = Arc::new(CachePadded::new(follower));
        Self(ClockSource::Unix { counter, steps, follower })
    }

    /// Returns a clock for models, and the mock of its counter. The clock follows the given wall clock in epochs of
    /// 2^24 steps.
    #[cfg(loom)]
    #[doc(hidden)]
    #[must_use]
    pub fn modelled(wall: ManualClock) -> (Self, Arc<quanta::Mock>) {
        let (counter, mock) = quanta::Clock::mock();
        // The counter begins at more than the largest difference between the counters of two cores.
        mock.increment(100_u64 << 24);
        let told = [wall, ManualClock::new()];
        (Self::following(WallFollower::told(counter, told)), mock)
    }

    /// A clock that reads `offset_ns` at the time of this call.
    fn counting(counter: quanta::Clock, offset_ns: u64) -> Self {
        let steps = StepScale::new(counter.raw(), StepScale::scale_of(&counter));
        Self(ClockSource::Counter { counter, steps, offset_ns })
    }

    /// The reading of the wall clock: the uncorrected time of the system, or the time of a [`ManualClock`]. It may run
    /// backward, so no limit uses it.
    ///
    /// Use it for times on which several machines must agree, and to find the error of [`unix`](Clock::unix). The
    /// difference `now() - wall()` is the time by which `unix` is ahead after the wall clock was set back, and zero if
    /// it is not ahead.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Clock;
    /// let clock = Clock::unix();
    /// assert!(clock.now() - clock.wall() < Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        match &self.0 {
            ClockSource::Unix { follower, .. } => Timestamp(follower.wall_ns()),
            ClockSource::Other(OtherSource::Manual(manual)) => manual.now(),
            ClockSource::Counter { .. } | ClockSource::Other(OtherSource::System { .. }) => {
                SystemTime::now().into()
            }
        }
    }

    /// The operating system's monotonic clock, for machines whose time stamp counter cannot be trusted. A reading takes
    /// about twice as long. Its origin is the time of this call.
    #[must_use]
    pub fn system() -> Self {
        Self(ClockSource::Other(OtherSource::System { origin: Instant::now(), offset_ns: 0 }))
    }

    /// The same clock, continued from `reading`. Use it for a restored limiter.
    ///
    /// A clock with an origin of its own ([`monotonic`](Clock::monotonic), [`system`](Clock::system)) reads exactly
    /// `reading` at this call. A clock of Unix time is put forward to `reading` if it reads less, and is never set
    /// back. A [`ManualClock`], and a clock of a [`CoarseClock`](crate::CoarseClock), stays as it is, since other code
    /// uses it, too. No clock is put forward beyond 2^63 ns.
    ///
    /// ```
    /// use tollgate::{Clock, Timestamp};
    /// let clock = Clock::monotonic().resumed_at(Timestamp::from_secs(3_600));
    /// assert!(clock.now() >= Timestamp::from_secs(3_600));
    /// ```
    #[must_use]
    pub fn resumed_at(self, reading: Timestamp) -> Self {
        // With this largest offset, 292 years pass before the sum in `now` wraps.
        let offset_ns = reading.0.min(1 << 63);
        let is_behind = self.now().0 < offset_ns;
        match self.0 {
            // The readings of this clock count from a call in this process, so they can continue from any number.
            ClockSource::Counter { counter, .. } => Self::counting(counter, offset_ns),
            // The clock reads less than before the restart, so it is put forward. It is never set back.
            ClockSource::Unix { follower, .. } if is_behind => {
                Self::following(follower.resumed_at(offset_ns))
            }
            ClockSource::Other(OtherSource::System { .. }) => {
                let origin = Instant::now();
                Self(ClockSource::Other(OtherSource::System { origin, offset_ns }))
            }
            // A clock stays as it is if it already reads more, or if other code uses it.
            other => Self(other),
        }
    }

    /// True if the clock's readings are taken for Unix time, so that they give the date: for a clock of Unix time, for
    /// a clock that was resumed at a reading above 0, and for a [`ManualClock`].
    pub(crate) fn tells_date(&self) -> bool {
        match &self.0 {
            ClockSource::Counter { offset_ns, .. }
            | ClockSource::Other(OtherSource::System { offset_ns, .. }) => *offset_ns > 0,
            ClockSource::Unix { .. } | ClockSource::Other(OtherSource::Manual(_)) => true,
        }
    }

    /// The origin from which the readings count.
    pub(crate) fn origin(&self) -> Origin {
        match &self.0 {
            ClockSource::Unix { .. } => Origin::Unix,
            ClockSource::Counter { .. } | ClockSource::Other(OtherSource::System { .. }) => {
                Origin::Own
            }
            ClockSource::Other(OtherSource::Manual(_)) => Origin::Told,
        }
    }

    /// Reads the clock.
    // This function is so large that the compiler would otherwise make a call, which would cost a decision ten
    // instructions.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockSource::Counter { counter, steps, offset_ns } => {
                counted(counter.raw(), steps, *offset_ns)
            }
            // This arm calls a function. Inline code would take registers from decisions whose time the caller gives.
            ClockSource::Unix { counter, steps, follower } => unix_now(counter, steps, follower),
            ClockSource::Other(OtherSource::Manual(manual)) => manual.now(),
            ClockSource::Other(OtherSource::System { origin, offset_ns }) => {
                system_now(*origin, *offset_ns)
            }
        }
    }
}

/// The kind of origin of a clock's readings. Not every origin is an instant that another process can find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The time of a call in this process, which no other process can find.
    Own,
    /// The beginning of 1970.
    Unix,
    /// The origin that the owner of a [`ManualClock`] has chosen.
    Told,
}

impl Default for Clock {
    fn default() -> Self {
        Self::monotonic()
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self(ClockSource::Other(OtherSource::Manual(manual)))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            ClockSource::Counter { .. } => "counter",
            ClockSource::Unix { .. } => "unix",
            ClockSource::Other(OtherSource::System { .. }) => "system",
            ClockSource::Other(OtherSource::Manual(_)) => "manual",
        };
        write!(f, "Clock({name})")
    }
}
