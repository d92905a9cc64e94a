//! [`WallFollower`]: lets a clock follow the system's wall clock without ever running backward.
//!
//! ```text
//! reading = offset + counter * (1 - R)                     R = 1/1024, the slew
//! ```
//!
//! The counter's steps are scaled so that the reading without corrections runs too slowly by R, and `offset` only
//! grows. So readings never run backward, and the clock can run up to R slower or faster than the counter. While the
//! clock is ahead of the wall clock, nothing is added to the offset. While the clock is behind, up to 2 R times the
//! passed time is added. If the clock is behind by more than a second, because the machine slept or its clock was set
//! forward, the whole difference is added at once. [`Clock::unix`](super::Clock::unix) states the resulting bounds.
//!
//! # Which thread reads the wall clock
//! No separate thread does this: the first reading in each *epoch* of 2^24 steps of the counter also reads the wall
//! clock. `asked` is the last epoch in which a thread has done so. A thread that reads the counter in a later epoch
//! *claims* the time in between by one compare-and-swap of `asked`. If another thread has claimed this epoch first, the
//! thread uses the present offset. Its reading may be too early a time, which never admits too much. No thread waits.
//! If a thread stops between its claim and its correction, the clock stays behind until later claims have caught up.
//!
//! # Why readings never run backward
//! Within a thread neither the counter nor the offset runs backward. Only `fetch_max` changes the offset. If one load
//! happens before another, the later load finds the same or a newer value, for any memory ordering (coherence). Now
//! take two readings in any two threads, where the first returns before the second begins *and the second thread has
//! synchronised with the first*. Then the second reading is no less than the first, up to the difference between the
//! counters of the two cores. Other threads need not see a claim and its correction together. A thread that sees the
//! new `asked` without the new offset reads too early a time. A thread that sees the new offset without the new `asked`
//! tries a claim that fails.
//!
//! # Why the clock is never corrected twice for one time
//! Each claim changes `asked`, so the epochs of two claims do not overlap. So each epoch adds at most 2 R of its
//! length, and only once. Jumps to the wall clock by several threads do not add up: their target is the offset `wall -
//! counter`, which is the same for every thread. The wall clock is read *before* the counter, so a delay between these
//! two readings makes the target too low, never too high.
//!
//! # A counter that begins anew
//! On some machines the counter starts again from 0 after the machine has slept. Its reading is then much further
//! behind `asked` than the counters of two cores can differ. A thread that was held up after it had read the counter
//! finds the same difference, so it reads the counter a second time to tell the two cases apart. When the counter is
//! lost, the clock uses the system's monotonic clock (`spare`) as its counter, in the same way. `asked` becomes
//! [`LOST`], which is above the epoch of every reading. Before `asked` is changed, the offset of the spare is raised so
//! far that no reading of the counter was later than the spare's time. After the change, a thread with an earlier claim
//! may still correct the old offset, and return a later time. So each reading of the spare loads the old offset again,
//! and is raised to the latest time that is possible with this offset.

use std::time::{Instant, SystemTime};

#[cfg(any(test, loom))]
use super::manual::ManualClock;
use super::steps::{ONE_STEP_A_NS, StepScale};
use super::timestamp::{LATEST_NS, Timestamp, saturating_nanos};
use crate::sync::{AtomicU64, Fault, Ordering, planted};

/// The number of steps in an epoch, as a power of two. An epoch is 3 ms at 5 GHz, and 17 ms if a step is a nanosecond.
/// Reading the wall clock takes up to a microsecond if it is a system call, which is three parts in ten thousand of the
/// shortest epoch. Within an epoch a reading may be late by R of the epoch's length: 17 us.
const EPOCH_BITS: u32 = 24;

/// R = 2^-10 = 977 parts in a million. Systems slew their clocks by up to 500 of these parts, and counters are wrong by
/// less than 100, so nearly 400 are left for catching up.
const SLEW_BITS: u32 = 10;

/// A clock that is behind by more than this, even after its normal correction, is set forward at once. Leap seconds,
/// and errors that NTP slews, are smaller.
const STEP_NS: u64 = 1_000_000_000;

/// The largest difference between the counters of cores that is accepted. In practice they differ by microseconds.
const SKEW_NS: u64 = 1_000_000_000;

/// The value of `asked` after the counter has started again from 0.
const LOST: u64 = u64::MAX;

/// This is added to the `asked` of a counter whose steps, scaled by 1 - R, are a nanosecond or longer. So `asked` never
/// equals the epoch of a reading, and each reading takes the slow path.
const SLOW: u64 = 1 << 63;

/// The state of a clock that follows the system's wall clock. All clones of a clock share it.
pub(super) struct WallFollower {
    /// The time that is computed from the counter.
    track: Track,
    /// The time that is computed from the system's monotonic clock, which is used after the counter is lost.
    spare: Track,
    counter: quanta::Clock,
    /// The value that `asked` had when the counter was lost.
    left: AtomicU64,
    outside: Outside,
}

/// A counter's scale, and the offset that is added to it.
struct Track {
    /// The epoch of the last claim, or [`LOST`].
    asked: AtomicU64,
    offset: AtomicU64,
    steps: StepScale,
    /// The number of steps in an epoch, as a power of two.
    bits: u32,
    /// [`SLOW`] for a counter with such long steps, else 0.
    mark: u64,
    /// The largest number of epochs by which the counters of cores may differ.
    skew: u64,
}

impl Track {
    /// A track for a counter whose 2^48 steps take `scale` nanoseconds.
    fn new(scale: u64) -> Self {
        // The origin is 0, since subtracting another origin would cost each reading two instructions.
        let steps = StepScale::new(0, scale - (scale >> SLEW_BITS));
        // The length of a step in nanoseconds, rounded down.
        let longer = scale / ONE_STEP_A_NS;
        let bits = EPOCH_BITS.saturating_sub(u64::BITS - longer.leading_zeros());
        // Slow counters take the slow path anyway, so their epochs may have another number of steps.
        let (bits, mark) = if steps.is_slow() { (bits, SLOW) } else { (EPOCH_BITS, 0) };
        let skew = SKEW_NS / steps.length_ns(1 << bits).max(1) + 1;
        let (asked, offset) = (AtomicU64::new(mark), AtomicU64::new(0));
        Self { asked, offset, steps, bits, mark, skew }
    }

    /// The same track, with an offset so that the reading `raw` gives `now_ns`, or more if `raw` without an offset
    /// gives more.
    fn begun_at(self, raw: u64, now_ns: u64) -> Self {
        let offset_ns = now_ns.saturating_sub(self.steps.ns(raw));
        let (asked, offset) = (raw >> self.bits | self.mark, AtomicU64::new(offset_ns));
        Self { asked: AtomicU64::new(asked), offset, ..self }
    }

    fn at(&self, raw: u64) -> u64 {
        // Relaxed: the offset may be newer or older than `asked`, but it only grows. See the top of this file.
        self.offset.load(Ordering::Relaxed).wrapping_add(self.steps.ns(raw))
    }

    /// Claims the epochs from the last claim to this epoch. If this fails, it returns the value of `asked` that another
    /// thread has written.
    fn claim(&self, asked: u64, epoch: u64) -> Result<(), u64> {
        if planted(Fault::CorrectedByAll) {
            // Relaxed: this is a planted fault.
            self.asked.store(epoch, Ordering::Relaxed);
            return Ok(());
        }
        // Relaxed: a claim publishes nothing. Acquire on failure, since the value may be `LOST`.
        let found = self.asked.compare_exchange(asked, epoch, Ordering::Relaxed, Ordering::Acquire);
        found.map(|_| ())
    }

    /// Raises the offset, and returns its new value.
    fn raise(&self, offset_ns: u64) -> u64 {
        if planted(Fault::CorrectionOverwritten) {
            // Relaxed: this is a planted fault.
            self.offset.store(offset_ns, Ordering::Relaxed);
            return offset_ns;
        }
        // Relaxed: the offset orders no other memory, and it never falls.
        self.offset.fetch_max(offset_ns, Ordering::Relaxed).max(offset_ns)
    }
}

/// The readings of the system's clocks.
enum Outside {
    System(Instant),
    /// The readings of a wall clock and a monotonic clock that a test sets.
    #[cfg(any(test, loom))]
    Told([ManualClock; 2]),
}

impl Outside {
    fn wall_ns(&self) -> u64 {
        match self {
            Self::System(_) => Timestamp::from(SystemTime::now()).as_nanos(),
            #[cfg(any(test, loom))]
            Self::Told([wall, _]) => wall.now().as_nanos(),
        }
    }

    fn monotonic_ns(&self) -> u64 {
        match self {
            Self::System(origin) => saturating_nanos(origin.elapsed()),
            #[cfg(any(test, loom))]
            Self::Told([_, monotonic]) => monotonic.now().as_nanos(),
        }
    }
}

impl WallFollower {
    /// A follower of the system's clock.
    pub(super) fn of_system() -> Self {
        Self::new(quanta::Clock::new(), Outside::System(Instant::now()), 0)
    }

    /// A follower whose counter, wall clock and monotonic clock a test sets.
    #[cfg(any(test, loom))]
    pub(super) fn told(counter: quanta::Clock, told: [ManualClock; 2]) -> Self {
        Self::new(counter, Outside::Told(told), 0)
    }

    /// A follower of the same sources, which starts at `reading_ns` if the wall clock reads less.
    pub(super) fn resumed_at(&self, reading_ns: u64) -> Self {
        let outside = match &self.outside {
            Outside::System(origin) => Outside::System(*origin),
            #[cfg(any(test, loom))]
            Outside::Told(told) => Outside::Told(told.clone()),
        };
        Self::new(self.counter.clone(), outside, reading_ns)
    }

    fn new(counter: quanta::Clock, outside: Outside, least_ns: u64) -> Self {
        // The first reading is cut to the latest time, as every later target is. Otherwise a clock that begins after
        // the latest time would always stay ahead.
        let now_ns = outside.wall_ns().min(LATEST_NS).max(least_ns);
        let track = Track::new(StepScale::scale_of(&counter)).begun_at(counter.raw(), now_ns);
        let (spare, left) = (Track::new(ONE_STEP_A_NS), AtomicU64::new(0));
        Self { track, spare, counter, left, outside }
    }

    /// The counter of this follower, and the scale of its steps.
    pub(super) fn counter(&self) -> (quanta::Clock, StepScale) {
        (self.counter.clone(), self.track.steps)
    }

    /// The present reading of the wall clock, which may be less than an earlier one.
    pub(super) fn wall_ns(&self) -> u64 {
        self.outside.wall_ns()
    }

    /// The time of a reading `raw` of the counter.
    #[inline(always)]
    pub(super) fn at(&self, raw: u64, steps: &StepScale) -> u64 {
        // Relaxed: `asked` need not be as new as the offset that is loaded below. See the top of this file.
        if raw >> EPOCH_BITS != self.track.asked.load(Ordering::Relaxed) {
            return self.ask_at(raw);
        }
        // Relaxed: as in `Track::at`.
        self.track.offset.load(Ordering::Relaxed).wrapping_add(steps.all_ns(raw))
    }

    #[cold]
    #[inline(never)]
    fn ask_at(&self, raw: u64) -> u64 {
        self.read(&self.track, raw, || self.counter.raw()).unwrap_or_else(|| {
            let clock = || self.outside.monotonic_ns();
            let spare_ns = self.read(&self.spare, clock(), clock);
            // The reading is `None` only if the monotonic clock is lost as well. Then time stands still.
            let spare_ns = spare_ns.unwrap_or(0);
            if planted(Fault::SpareBelowCounter) { spare_ns } else { spare_ns.max(self.max_ns()) }
        })
    }

    /// A time that no reading of the lost counter exceeds. Each such reading was in an epoch no later than the value of
    /// `asked` when the counter was lost. Its offset is no larger than the offset here, if this thread has synchronised
    /// with the thread of the reading.
    fn max_ns(&self) -> u64 {
        // Relaxed: `LOST` publishes this value, and this thread has found `LOST` or is about to write it.
        let end = (self.left.load(Ordering::Relaxed) + 1) << self.track.bits;
        self.track.at(end)
    }

    /// Reads a clock, and corrects it if no thread has corrected it in this epoch. `None` if its counter is lost.
    fn read(&self, track: &Track, mut raw: u64, counter: impl Fn() -> u64) -> Option<u64> {
        // Acquire pairs with the release of `LOST`: a thread that finds `LOST` also finds the offset of the spare.
        let mut asked = track.asked.load(Ordering::Acquire);
        // The loop repeats only if another thread has changed `asked` meanwhile.
        while asked != LOST {
            let last = asked & !track.mark;
            if raw >> track.bits < last {
                // This thread may have been held up after it had read the counter, while other threads made claims. A
                // second reading of the counter is not before those claims.
                raw = counter();
            }
            let epoch = raw >> track.bits;
            // If the counter is far behind, it has started again from 0. If it is in a later epoch, this thread tries
            // to claim that epoch. Otherwise the offset is used as it is.
            let outcome = if last.saturating_sub(epoch) > track.skew {
                self.leave_counter(asked).map(|()| None)
            } else if epoch > last {
                let claimed = track.claim(asked, epoch | track.mark);
                claimed.map(|()| Some(self.correct(track, epoch - last, raw, &counter)))
            } else {
                // A thread has already read the wall clock in this epoch, or the counter of this core is a little
                // behind the counter of another core.
                Ok(Some(track.at(raw)))
            };
            match outcome {
                Ok(reading_ns) => return reading_ns,
                Err(found) => asked = found,
            }
        }
        None
    }

    /// Corrects the offset by the wall clock, for the epochs that this thread has claimed, and reads the clock.
    fn correct(&self, track: &Track, epochs: u64, raw: u64, counter: impl Fn() -> u64) -> u64 {
        let wall_ns = self.outside.wall_ns().min(LATEST_NS);
        // If the counter has started again from 0 since the claim, the reading `raw` of the claim is used.
        let target_ns = wall_ns.saturating_sub(track.steps.ns(counter().max(raw)));
        let slew_ns = track.steps.length_ns(epochs << track.bits) >> (SLEW_BITS - 1);
        // Relaxed: the offset that is loaded may be old and so too small. Then the new offset is too small as well, but
        // `raise` never lowers the offset.
        let found_ns = track.offset.load(Ordering::Relaxed);
        let behind_ns = target_ns.saturating_sub(found_ns);
        // A smaller difference may come from a leap second or from an error that NTP slews, so it is not added at once.
        let is_far = behind_ns.saturating_sub(slew_ns) > STEP_NS;
        let more_ns = if is_far { behind_ns } else { behind_ns.min(slew_ns) };
        track.raise(found_ns.saturating_add(more_ns)).wrapping_add(track.steps.ns(raw))
    }

    /// Switches from the counter to the spare. If this fails, it returns the value of `asked` that another thread has
    /// written meanwhile.
    fn leave_counter(&self, asked: u64) -> Result<(), u64> {
        let (track, spare) = (&self.track, &self.spare);
        // The three updates are Relaxed, since the exchange below publishes them.
        self.left.fetch_max(asked & !track.mark, Ordering::Relaxed);
        let now_ns = self.outside.monotonic_ns();
        spare.asked.fetch_max(now_ns >> spare.bits, Ordering::Relaxed);
        let offset_ns = self.max_ns().saturating_sub(spare.steps.ns(now_ns));
        spare.offset.fetch_max(offset_ns, Ordering::Relaxed);
        // Release pairs with the acquire in `read`: threads that find `LOST` find the spare ready.
        let found = track.asked.compare_exchange(asked, LOST, Ordering::Release, Ordering::Acquire);
        found.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
