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

/// The time of a counter that read `raw`.
#[inline(always)]
fn counted(raw: u64, steps: &StepScale, offset_ns: u64) -> Timestamp {
    let elapsed_ns = if steps.is_short(raw) { steps.short_ns(raw) } else { steps.ns(raw) };
    // An offset is at most 2^63 ns (see `resumed_at`), so 292 years pass before the sum wraps.
    Timestamp(offset_ns.wrapping_add(elapsed_ns))
}

#[inline(never)]
fn unix_now(counter: &quanta::Clock, steps: &StepScale, follower: &WallFollower) -> Timestamp {
    // The counter is read first. A pointer that is kept over this call would take one more register.
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

/// The source of a limiter's own time.
///
/// # One reading for one request
/// A reading takes about 13 ns on a server's processor, a fifth of a keyed check. For a request under several limits of
/// one clock, [`now`](Clock::now) can be called once and handed to each of them by [`Entry::at`](crate::Entry::at). A
/// reading that is used late does not include what has drained since it was taken. So it may deny a request that a
/// fresh reading would admit, and never admits one that a fresh reading would deny. Bounds hold for the times that a
/// limit was given. Only a refund must not use an old reading, since it would give back too much:
/// [`refund`](crate::Entry::refund) and [`cancel`](crate::Entry::cancel) read the clock themselves unless they are
/// given a time.
///
/// ```
/// use tollgate::{Clock, Limiter, Quota};
/// let limiter = Limiter::builder(Quota::per_second(5)).clock(Clock::unix()).build();
/// assert!(limiter.check().is_allowed());
/// ```
#[derive(Clone)]
pub struct Clock(ClockSource);

// The enum has a tag of its own: a tag that is hidden in a field of quanta's costs four instructions more to read.
#[repr(u8)]
#[derive(Clone)]
enum ClockSource {
    /// The CPU's time stamp counter where it is steady, else the system's monotonic clock.
    Counter {
        counter: quanta::Clock,
        steps: StepScale,
        offset_ns: u64,
    },
    /// The same counter, corrected to follow the system's wall clock. All clones share one follower, and hold copies
    /// of the fields that do not change.
    Unix {
        counter: quanta::Clock,
        steps: StepScale,
        follower: Arc<CachePadded<WallFollower>>,
    },
    // The other sources are in an enum of their own: for four tags the compiler makes a jump table, which costs every
    // reading more.
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
    /// The fastest monotonic clock of the machine (`quanta`: the time stamp counter where the CPU keeps
    /// it steady across cores, else the system's clock). Its origin is this call. The default.
    ///
    /// The first such clock of a process takes up to 200 ms to calibrate.
    #[must_use]
    pub fn monotonic() -> Self {
        Self::counting(quanta::Clock::new(), 0)
    }

    /// Unix time: [`Clock::monotonic`], corrected to follow the system's wall clock. Aligned windows turn with the
    /// UTC clock: minutes at :00, days at midnight.
    ///
    /// Readings never run backward, whatever happens to the wall clock. So spent units stay spent:
    /// * *The wall clock is ahead* by up to a second: readings catch up, at most R = 1/1024 faster than they otherwise
    ///   are.
    /// * *It is ahead by more*, because the machine slept or the clock was set forward: the next reading jumps to the
    ///   wall clock's time. Every limit takes the skipped time as passed, so it gives back what drains in that time,
    ///   which is a full burst at most. The sum of all such steps is at most the time from the wall clock's first
    ///   reading to its latest.
    /// * *It was set back*, or repeats a leap second: readings go on from where they are, slower by R, until the wall
    ///   clock has caught up. Limits go on, at most R below their rate, but windows turn too early by `now() - wall()`:
    ///   see [`wall`](Clock::wall).
    ///
    /// *How far it is off.* Let P be 2^24 steps of the counter, 17 ms or less. The first reading in each P also reads
    /// the wall clock. There is no thread for this, and nothing waits for it. Let D be the relative error of the
    /// counter (some millionths; below R/2), and q the time that a thread takes between its readings of the two clocks
    /// (less than a microsecond, if it is not held up). Then, after the readings have caught up and while the clock is
    /// read in every P,
    ///
    /// ```text
    /// 0  <=  wall() - now()  <=  (R + D) P + q        17 us, and q
    /// ```
    ///
    /// and an error of s, by which the wall clock is set back, or forward by up to a second, lasts for s / (R - D): 17
    /// minutes for a second, 43 days for an hour. If the wall clock is set forward by more, the error lasts for P. Over
    /// any interval of W readings advance by at most (1 + R) (1 + D) (W + P), and those steps.
    ///
    /// All clones are one clock. A wall clock before 1970 is taken for 1970, one after 2099 for the end of 2099. Unix
    /// days have 86,400 s.
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

    /// A clock that follows a model's wall clock, in epochs of 2^24 steps, and the mock of its counter.
    #[cfg(loom)]
    #[doc(hidden)]
    #[must_use]
    pub fn modelled(wall: ManualClock) -> (Self, Arc<quanta::Mock>) {
        let (counter, mock) = quanta::Clock::mock();
        // This is more than the counters of cores may differ by.
        mock.increment(100_u64 << 24);
        let told = [wall, ManualClock::new()];
        (Self::following(WallFollower::told(counter, told)), mock)
    }

    /// A clock that reads `offset_ns` at this call.
    fn counting(counter: quanta::Clock, offset_ns: u64) -> Self {
        let steps = StepScale::new(counter.raw(), StepScale::scale_of(&counter));
        Self(ClockSource::Counter { counter, steps, offset_ns })
    }

    /// The reading of the wall clock: the system's, uncorrected, or a [`ManualClock`]'s own time. It may run
    /// backward, so no limit uses it.
    ///
    /// Use it for times on which several machines must agree, and to find the error of [`unix`](Clock::unix): `now()
    /// - wall()` is the time by which `unix` is ahead after the wall clock was set back, and zero if it is not ahead.
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

    /// The operating system's monotonic clock, for machines whose time stamp counter is not to be
    /// trusted. Costs about twice as much to read. Its origin is this call.
    #[must_use]
    pub fn system() -> Self {
        Self(ClockSource::Other(OtherSource::System { origin: Instant::now(), offset_ns: 0 }))
    }

    /// The same clock, which goes on from `reading`. A restored limiter uses it.
    ///
    /// A clock with an origin of its own ([`monotonic`](Clock::monotonic), [`system`](Clock::system)) reads exactly
    /// `reading` at this call. A clock of Unix time is put forward to `reading` if it reads less, and is never set
    /// back. A [`ManualClock`], and a clock of a [`CoarseClock`](crate::CoarseClock), stays as it is, since other code
    /// holds it, too. No clock is put forward beyond 2^63 ns.
    ///
    /// ```
    /// use tollgate::{Clock, Timestamp};
    /// let clock = Clock::monotonic().resumed_at(Timestamp::from_secs(3_600));
    /// assert!(clock.now() >= Timestamp::from_secs(3_600));
    /// ```
    #[must_use]
    pub fn resumed_at(self, reading: Timestamp) -> Self {
        // From this offset on, 292 years pass before the sum in `now` wraps.
        let offset_ns = reading.0.min(1 << 63);
        let is_behind = self.now().0 < offset_ns;
        match self.0 {
            // Its readings count from a call in this process, so they may begin anew at any number.
            ClockSource::Counter { counter, .. } => Self::counting(counter, offset_ns),
            // The clock reads less than before the restart, so it is put forward. It is never set back.
            ClockSource::Unix { follower, .. } if is_behind => {
                Self::following(follower.resumed_at(offset_ns))
            }
            ClockSource::Other(OtherSource::System { .. }) => {
                let origin = Instant::now();
                Self(ClockSource::Other(OtherSource::System { origin, offset_ns }))
            }
            // A clock that already reads more, or that others hold, stays as it is.
            other => Self(other),
        }
    }

    /// Tells whether the clock's readings tell the date. Readings of Unix time tell the date, and so do those of a
    /// clock that was resumed at a reading and those of a [`ManualClock`].
    pub(crate) fn tells_date(&self) -> bool {
        match &self.0 {
            ClockSource::Counter { offset_ns, .. }
            | ClockSource::Other(OtherSource::System { offset_ns, .. }) => *offset_ns > 0,
            ClockSource::Unix { .. } | ClockSource::Other(OtherSource::Manual(_)) => true,
        }
    }

    /// The origin that the readings count from.
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
    // Always inlined: the function is so large that the compiler would otherwise make a call, which costs a decision
    // ten instructions.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockSource::Counter { counter, steps, offset_ns } => {
                counted(counter.raw(), steps, *offset_ns)
            }
            // This arm is out of line. Inline, it would take registers from decisions whose time the caller gives.
            ClockSource::Unix { counter, steps, follower } => unix_now(counter, steps, follower),
            ClockSource::Other(OtherSource::Manual(manual)) => manual.now(),
            ClockSource::Other(OtherSource::System { origin, offset_ns }) => {
                system_now(*origin, *offset_ns)
            }
        }
    }
}

/// The origin of a clock's readings. Another process can find the same instant only for some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A call in this process. No other process can find that instant.
    Own,
    /// The beginning of 1970.
    Unix,
    /// The origin that the owner of a [`ManualClock`] counts from.
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
