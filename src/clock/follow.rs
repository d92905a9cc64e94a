//! [`WallFollower`]: how a clock follows the system's wall clock without ever running backward.
//!
//! ```text
//! reading = offset + counter * (1 - R)                     R = 1/1024, the slew
//! ```
//!
//! The counter is scaled to run too slowly by R, and `offset` only grows. So a reading never runs backward, and the
//! clock can be made slower or faster than the counter by up to R. While the clock is ahead of the wall clock, nothing
//! is added; while it is behind, up to 2 R of the time that has passed is added. Only if it is behind by more than a
//! second (the machine slept, or its clock was set forward), the whole difference is added at once.
//! [`Clock::unix`](super::Clock::unix) states the bounds that follow.
//!
//! # Which thread asks the wall clock
//! There is no thread for this: the first reading in each *epoch* of 2^24 steps of the counter asks. `asked` is the
//! last epoch in which a thread asked. A thread that reads the counter in a later epoch *claims* the time in between by
//! one compare-and-swap of `asked`. A thread whose claim fails goes on with the present offset, which is late and so
//! admits nothing too much. No thread waits: if a claimant stops before it has corrected the offset, the clock stays
//! late until the next claim, which is an epoch later.
//!
//! # Why readings never run backward
//! For a thread the counter does not run back, and neither does the offset. Only `fetch_max` changes the offset, and if
//! one load happens before another, the later load finds the same or a newer value (coherence), whatever their memory
//! ordering. Let one reading return before another begins, on any two threads, *and let the second thread know it*.
//! Then the second reading is no less, as far as the counter itself agrees between cores. A claim and its correction
//! need not be seen together: a thread that sees `asked` without the new offset reads a late time, and a thread that
//! sees the new offset without `asked` tries a claim that fails.
//!
//! # Why the clock is never corrected twice for one time
//! Claims follow each other at `asked`, so the epochs that they cover do not overlap, and each epoch adds at most 2 R
//! of its length, once. A step to the wall clock does not add up over threads: its target is `wall - counter`, the same
//! in every thread. The wall clock is read *before* the counter, so a delay between the two makes a claimant's target
//! too low, never too high.
//!
//! # A counter that begins anew
//! Some machines lose their counter while they sleep: it is then before `asked` by far more than cores differ. A second
//! reading distinguishes this from a thread that was held up after it had read the counter. From then on the clock
//! counts by the system's monotonic clock, in the same way (`spare`). `asked` becomes [`LOST`], which no reading
//! passes. Before that the offset of the spare is raised to a time that no reading of the counter exceeds, so that time
//! goes on from there. A claimant that corrects the old offset after that may have read a later time. So each reading
//! of the spare is raised to the latest time that is possible under the old offset, as the reading thread finds this
//! offset.

use std::time::{Instant, SystemTime};

#[cfg(any(test, loom))]
use super::manual::ManualClock;
use super::steps::{ONE_STEP_A_NS, StepScale};
use super::timestamp::{LATEST_NS, Timestamp, saturating_nanos};
use crate::sync::{AtomicU64, Fault, Ordering, planted};

/// An epoch in steps of the counter, as a power of two: 3 ms at 5 GHz, and 17 ms where a step is a nanosecond. Reading
/// the wall clock takes up to a microsecond if it is a system call, which is three parts in ten thousand of the
/// shortest epoch. In between a reading may be late by R of an epoch, 17 us.
const EPOCH_BITS: u32 = 24;

/// R = 2^-10 = 977 parts in a million. Systems slew their clocks by up to 500, and counters are wrong by less than
/// 100, so nearly 400 are left to catch up with.
const SLEW_BITS: u32 = 10;

/// A clock that would still be behind by more than this is set forward at once. Leap seconds, and errors that NTP
/// slews, are smaller.
const STEP_NS: u64 = 1_000_000_000;

/// The most by which the counters of cores may differ. In practice they differ by microseconds.
const SKEW_NS: u64 = 1_000_000_000;

/// The value of `asked` after the counter has begun anew.
const LOST: u64 = u64::MAX;

/// This is added to the epoch of a counter whose steps are longer than a nanosecond. So no reading is in the epoch, and
/// each reading takes the longer way.
const SLOW: u64 = 1 << 63;

/// A clock that follows the system's. All clones of a clock share one.
pub(super) struct WallFollower {
    /// Time by the counter.
    track: Track,
    /// Time by the system's monotonic clock, used once the counter is lost.
    spare: Track,
    counter: quanta::Clock,
    /// The value of `asked` when the counter was lost.
    left: AtomicU64,
    outside: Outside,
}

/// The state of a clock.
struct Track {
    /// The epoch of the last claim, or [`LOST`].
    asked: AtomicU64,
    offset: AtomicU64,
    steps: StepScale,
    /// The length of an epoch in steps, as a power of two.
    bits: u32,
    /// [`SLOW`], or nothing.
    mark: u64,
    /// The most epochs by which cores may differ.
    skew: u64,
}

impl Track {
    /// A track for a counter of which 2^48 steps take `scale` nanoseconds.
    fn new(scale: u64) -> Self {
        // The steps count from 0: subtracting an origin would cost each reading two instructions.
        let steps = StepScale::new(0, scale - (scale >> SLEW_BITS));
        // The length of a step in nanoseconds, rounded down.
        let longer = scale / ONE_STEP_A_NS;
        let bits = EPOCH_BITS.saturating_sub(u64::BITS - longer.leading_zeros());
        // Slow counters take the longer way anyway, so their epochs may have a length of their own.
        let (bits, mark) = if steps.is_slow() { (bits, SLOW) } else { (EPOCH_BITS, 0) };
        let skew = SKEW_NS / steps.length_ns(1 << bits).max(1) + 1;
        let (asked, offset) = (AtomicU64::new(mark), AtomicU64::new(0));
        Self { asked, offset, steps, bits, mark, skew }
    }

    /// The same track, set to read `now_ns` where the counter reads `raw`, or more if the counter alone gives more.
    fn begun_at(self, raw: u64, now_ns: u64) -> Self {
        let offset_ns = now_ns.saturating_sub(self.steps.ns(raw));
        let (asked, offset) = (raw >> self.bits | self.mark, AtomicU64::new(offset_ns));
        Self { asked: AtomicU64::new(asked), offset, ..self }
    }

    fn at(&self, raw: u64) -> u64 {
        // Relaxed: the offset may be newer or older than `asked`, but it only grows. See the head.
        self.offset.load(Ordering::Relaxed).wrapping_add(self.steps.ns(raw))
    }

    /// Claims the epochs since the last claim, until this one. The error is the value that another thread has written
    /// to `asked`.
    fn claim(&self, asked: u64, epoch: u64) -> Result<(), u64> {
        if planted(Fault::CorrectedByAll) {
            // Relaxed: planted, as below.
            self.asked.store(epoch, Ordering::Relaxed);
            return Ok(());
        }
        // Relaxed: a claim publishes nothing. Acquire where it fails: `LOST` may be found.
        let found = self.asked.compare_exchange(asked, epoch, Ordering::Relaxed, Ordering::Acquire);
        found.map(|_| ())
    }

    /// Raises the offset, and returns its new value.
    fn raise(&self, offset_ns: u64) -> u64 {
        if planted(Fault::CorrectionOverwritten) {
            // Relaxed: planted, as below.
            self.offset.store(offset_ns, Ordering::Relaxed);
            return offset_ns;
        }
        // Relaxed: it orders nothing but itself, and never falls.
        self.offset.fetch_max(offset_ns, Ordering::Relaxed).max(offset_ns)
    }
}

/// The readings of the system.
enum Outside {
    System(Instant),
    /// The readings that a test sets: the wall clock, and the monotonic clock.
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
        // The reading is cut, as every later target is. Otherwise a clock that begins beyond the latest time would stay
        // ahead for ever.
        let now_ns = outside.wall_ns().min(LATEST_NS).max(least_ns);
        let track = Track::new(StepScale::scale_of(&counter)).begun_at(counter.raw(), now_ns);
        let (spare, left) = (Track::new(ONE_STEP_A_NS), AtomicU64::new(0));
        Self { track, spare, counter, left, outside }
    }

    /// The counter that it reads, and the scale of its steps.
    pub(super) fn counter(&self) -> (quanta::Clock, StepScale) {
        (self.counter.clone(), self.track.steps)
    }

    /// The wall clock's reading at this moment, which may be less than before.
    pub(super) fn wall_ns(&self) -> u64 {
        self.outside.wall_ns()
    }

    /// The time of a reading `raw` of the counter.
    #[inline(always)]
    pub(super) fn at(&self, raw: u64, steps: &StepScale) -> u64 {
        // Relaxed: `asked` is compared with nothing else that this thread has loaded. See the head.
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
            // It would be `None` only if the monotonic clock were lost, too. Then time stands still.
            let spare_ns = spare_ns.unwrap_or(0);
            if planted(Fault::SpareBelowCounter) { spare_ns } else { spare_ns.max(self.max_ns()) }
        })
    }

    /// A time that no reading of the lost counter exceeds. Each reading was in no later epoch than the `asked` that
    /// it found, and used an offset that this thread finds, too, if it knows of the reading.
    fn max_ns(&self) -> u64 {
        // Relaxed: published by `LOST`, which this thread has found or is about to write.
        let end = (self.left.load(Ordering::Relaxed) + 1) << self.track.bits;
        self.track.at(end)
    }

    /// Reads a clock, and corrects it if no thread has in this epoch. `None` if its counter is lost.
    fn read(&self, track: &Track, mut raw: u64, counter: impl Fn() -> u64) -> Option<u64> {
        // Acquire pairs with the release of `LOST`: a thread that finds `LOST` also finds the offset of the spare.
        let mut asked = track.asked.load(Ordering::Acquire);
        // The loop repeats only if another thread has claimed in between.
        while asked != LOST {
            let last = asked & !track.mark;
            if raw >> track.bits < last {
                // This thread may have been held up after it had read the counter, while others claimed. A second
                // reading is not before their claims.
                raw = counter();
            }
            let epoch = raw >> track.bits;
            // If the counter is far behind, it has begun anew. If it is in a later epoch, this thread may ask the wall
            // clock. Otherwise the offset is good.
            let outcome = if last.saturating_sub(epoch) > track.skew {
                self.leave_counter(asked).map(|()| None)
            } else if epoch > last {
                let claimed = track.claim(asked, epoch | track.mark);
                claimed.map(|()| Some(self.correct(track, epoch - last, raw, &counter)))
            } else {
                // A thread has asked in this epoch, or this core's counter is a little behind another's.
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
        // If the counter has begun anew since the claim, the claim's own reading is the best one.
        let target_ns = wall_ns.saturating_sub(track.steps.ns(counter().max(raw)));
        let slew_ns = track.steps.length_ns(epochs << track.bits) >> (SLEW_BITS - 1);
        // Relaxed: a stale offset is smaller, and so is the new one that follows from it, which `raise` then drops.
        let found_ns = track.offset.load(Ordering::Relaxed);
        let behind_ns = target_ns.saturating_sub(found_ns);
        // A smaller difference is a leap second or an error that NTP is about to slew, not time that the machine
        // slept.
        let is_far = behind_ns.saturating_sub(slew_ns) > STEP_NS;
        let more_ns = if is_far { behind_ns } else { behind_ns.min(slew_ns) };
        track.raise(found_ns.saturating_add(more_ns)).wrapping_add(track.steps.ns(raw))
    }

    /// Goes over to the spare. The error is the value that another thread has written to `asked` meanwhile.
    fn leave_counter(&self, asked: u64) -> Result<(), u64> {
        let (track, spare) = (&self.track, &self.spare);
        // These three are Relaxed, since the exchange below publishes them.
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
