//! [`WallFollower`]: how a clock follows the system's wall clock without ever running backward.
//!
//! ```text
//! reading = offset + counter * (1 - R)                     R = 1/1024, the slew
//! ```
//!
//! The counter alone runs slow, by R, and `offset` only grows. So a reading never runs backward, and the clock can be
//! made slower or faster than the counter by up to R: nothing is added while it is ahead of the wall clock, and up to
//! 2 R of what has passed is added while it is behind. Only where it is behind by more than a second (the machine slept,
//! or its clock was set forward) is all that is lacking added at once. The bounds that follow are at
//! [`Clock::unix`](super::Clock::unix).
//!
//! # Which thread asks the wall clock
//! No thread of its own: the first reading in each *epoch*, of 2^24 steps of the counter. `asked` is the last epoch in
//! which a thread asked, and a thread that reads the counter in a later one *claims* the time in between by one
//! compare-and-swap of `asked`. A thread that fails goes on with the offset that is there, which is late and so admits nothing
//! too much. No thread waits: a claimant that stops before it has corrected the offset keeps the clock late for as long as it
//! takes until the next claim, which is an epoch.
//!
//! # Why readings never run backward
//! For a thread the counter does not run back, and neither does the offset: it is changed by `fetch_max` alone, and of
//! two loads of which one happens before the other the later finds the same or a newer value (coherence), whatever their
//! memory ordering. So of two readings on any two threads, of which one has returned before the other begins *and the
//! second thread knows it*, the second is no less, as far as the counter itself agrees between cores. A claim and its
//! correction need not be seen together: `asked` without the new offset makes a reading late, the new offset without
//! `asked` makes a thread try a claim that fails.
//!
//! # Why the clock is never corrected twice for one time
//! Claims follow each other at `asked`, so the epochs that they cover do not overlap, and each is worth 2 R of itself
//! once. What is added at once, or up to the wall clock, is no sum: the target is `wall - counter`, the same in
//! every thread. The wall clock is read *before* the counter, so whatever holds a claimant up between the two makes its
//! target too low, never too high.
//!
//! # A counter that begins anew
//! Some machines lose their counter while they sleep: it is then before `asked` by far more than cores differ. That
//! is told apart from a thread that was held up after it had read the counter, by reading again. From then on the clock
//! counts by the system's monotonic clock, in the same way (`spare`). `asked` becomes [`LOST`], which no reading passes.
//! Before that the offset of the spare is raised to what no reading of the counter exceeds, so that time goes on from
//! there. A claimant that corrects the old offset after that may have read more: so no reading of the spare is below what
//! the old offset makes possible, as the thread that reads it finds that.

use std::time::{Instant, SystemTime};

#[cfg(any(test, loom))]
use super::manual::ManualClock;
use super::steps::{ONE_STEP_A_NS, StepScale};
use super::timestamp::{LATEST_NS, Timestamp, saturating_nanos};
use crate::sync::{AtomicU64, Fault, Ordering, planted};

/// An epoch in steps of the counter, as a power of two: 3 ms at 5 GHz, and 17 ms where a step is a nanosecond. To ask takes
/// up to a microsecond where it is a call of the system, which is three parts in ten thousand of the least; and R of
/// an epoch, 17 us, is how late a reading may be in between.
const EPOCH_BITS: u32 = 24;

/// R = 2^-10 = 977 parts in a million. Systems slew their clocks by up to 500, and counters are wrong by less than 100, so
/// there is as much left to catch up with.
const SLEW_BITS: u32 = 10;

/// A clock that would still be behind by more than this is set forward at once. Below it are leap seconds and what NTP slews.
const STEP_NS: u64 = 1_000_000_000;

/// By how much the counters of cores may differ. They do by microseconds.
const SKEW_NS: u64 = 1_000_000_000;

/// In place of an epoch: the counter has begun anew.
const LOST: u64 = u64::MAX;

/// With an epoch of a counter whose steps are longer than a nanosecond: so none of its readings is in it, and each
/// takes the longer way.
const SLOW: u64 = 1 << 63;

/// A clock that follows the system's. One for all its clones.
pub(super) struct WallFollower {
    /// Of time by the counter.
    track: Track,
    /// Of time by the system's monotonic clock, since the counter is lost.
    spare: Track,
    counter: quanta::Clock,
    /// What `asked` was when the counter was lost.
    left: AtomicU64,
    outside: Outside,
}

/// Where a clock stands.
struct Track {
    /// The epoch of the last claim, or [`LOST`].
    asked: AtomicU64,
    offset: AtomicU64,
    steps: StepScale,
    /// The length of an epoch.
    bits: u32,
    /// [`SLOW`], or nothing.
    mark: u64,
    /// By so many epochs cores may differ.
    skew: u64,
}

impl Track {
    /// Of a counter of which 2^48 steps take so many nanoseconds.
    fn new(scale: u64) -> Self {
        // All that the counter has counted: to take off an origin would cost each reading two instructions.
        let steps = StepScale::new(0, scale - (scale >> SLEW_BITS));
        // Nanoseconds of a step, where it has more than one.
        let longer = scale / ONE_STEP_A_NS;
        let bits = EPOCH_BITS.saturating_sub(u64::BITS - longer.leading_zeros());
        // Slow ones take the longer way anyway, so their epochs may have a length of their own.
        let (bits, mark) = if steps.is_slow() { (bits, SLOW) } else { (EPOCH_BITS, 0) };
        let skew = SKEW_NS / steps.length_ns(1 << bits).max(1) + 1;
        let (asked, offset) = (AtomicU64::new(mark), AtomicU64::new(0));
        Self { asked, offset, steps, bits, mark, skew }
    }

    /// The same, which reads this time where the counter reads `raw`: or more, if the counter alone has counted more.
    fn begun_at(self, raw: u64, now_ns: u64) -> Self {
        let offset_ns = now_ns.saturating_sub(self.steps.ns(raw));
        let (asked, offset) = (raw >> self.bits | self.mark, AtomicU64::new(offset_ns));
        Self { asked: AtomicU64::new(asked), offset, ..self }
    }

    fn at(&self, raw: u64) -> u64 {
        // Relaxed: newer or older than `asked`, it only grows. See the head.
        self.offset.load(Ordering::Relaxed).wrapping_add(self.steps.ns(raw))
    }

    /// Claims the epochs since the last claim, until this one. An error is what another thread has written.
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

    /// Raises the offset, and returns what it then is.
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

/// What is read of the system.
enum Outside {
    System(Instant),
    /// What a test says: the wall clock, and the monotonic clock.
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
    /// One that follows the system's clock.
    pub(super) fn of_system() -> Self {
        Self::new(quanta::Clock::new(), Outside::System(Instant::now()), 0)
    }

    /// One whose counter, wall clock and monotonic clock are told.
    #[cfg(any(test, loom))]
    pub(super) fn told(counter: quanta::Clock, told: [ManualClock; 2]) -> Self {
        Self::new(counter, Outside::Told(told), 0)
    }

    /// One of the same sources that starts at a reading, if the wall clock reads less.
    pub(super) fn resumed_at(&self, reading_ns: u64) -> Self {
        let outside = match &self.outside {
            Outside::System(origin) => Outside::System(*origin),
            #[cfg(any(test, loom))]
            Outside::Told(told) => Outside::Told(told.clone()),
        };
        Self::new(self.counter.clone(), outside, reading_ns)
    }

    fn new(counter: quanta::Clock, outside: Outside, least_ns: u64) -> Self {
        // Cut, as every later target is: a clock that begins beyond the end of time would stay ahead for good.
        let now_ns = outside.wall_ns().min(LATEST_NS).max(least_ns);
        let track = Track::new(StepScale::scale_of(&counter)).begun_at(counter.raw(), now_ns);
        let (spare, left) = (Track::new(ONE_STEP_A_NS), AtomicU64::new(0));
        Self { track, spare, counter, left, outside }
    }

    /// The counter that it reads, and what its steps are.
    pub(super) fn counter(&self) -> (quanta::Clock, StepScale) {
        (self.counter.clone(), self.track.steps)
    }

    /// What the wall clock reads at this moment, which may be less than before.
    pub(super) fn wall_ns(&self) -> u64 {
        self.outside.wall_ns()
    }

    /// The time at which the counter, whose steps are these, was read.
    #[inline(always)]
    pub(super) fn at(&self, raw: u64, steps: &StepScale) -> u64 {
        // Relaxed: what is read is compared with nothing else that this thread has read. See the head.
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
            // `None` if the monotonic clock were lost, too: then time stands still.
            let spare_ns = spare_ns.unwrap_or(0);
            if planted(Fault::SpareBelowCounter) { spare_ns } else { spare_ns.max(self.max_ns()) }
        })
    }

    /// What no reading of the lost counter exceeds: each was in no later epoch than the `asked` that it found, and is of
    /// an offset that this thread finds, too, if it knows of the reading.
    fn max_ns(&self) -> u64 {
        // Relaxed: published by `LOST`, which this thread has found or is about to write.
        let end = (self.left.load(Ordering::Relaxed) + 1) << self.track.bits;
        self.track.at(end)
    }

    /// Reads a clock, and corrects it if no thread has in this epoch. `None` if its counter is lost.
    fn read(&self, track: &Track, mut raw: u64, counter: impl Fn() -> u64) -> Option<u64> {
        // Acquire, with the release of `LOST`: a thread that finds that also finds the offset of the spare.
        let mut asked = track.asked.load(Ordering::Acquire);
        // Goes round again only where another thread has claimed in between.
        while asked != LOST {
            let last = asked & !track.mark;
            if raw >> track.bits < last {
                // Held up after it had read the counter, while others claimed: what it reads now is not before that.
                raw = counter();
            }
            let epoch = raw >> track.bits;
            // Far behind: the counter is another one. In a later epoch: this thread may ask. Else the offset is good.
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
        // A counter that has begun anew since the claim: the claim's own reading is the best that there is.
        let target_ns = wall_ns.saturating_sub(track.steps.ns(counter().max(raw)));
        let slew_ns = track.steps.length_ns(epochs << track.bits) >> (SLEW_BITS - 1);
        // Relaxed: a stale one is less, and so is what is then written, which `raise` drops.
        let found_ns = track.offset.load(Ordering::Relaxed);
        let behind_ns = target_ns.saturating_sub(found_ns);
        // Less is a leap second, or what NTP is about to slew: time that nothing has slept through.
        let is_far = behind_ns.saturating_sub(slew_ns) > STEP_NS;
        let more_ns = if is_far { behind_ns } else { behind_ns.min(slew_ns) };
        track.raise(found_ns.saturating_add(more_ns)).wrapping_add(track.steps.ns(raw))
    }

    /// Goes over to the spare. An error is what another thread has written to `asked` meanwhile.
    fn leave_counter(&self, asked: u64) -> Result<(), u64> {
        let (track, spare) = (&self.track, &self.spare);
        // Relaxed, these three: published by the exchange below.
        self.left.fetch_max(asked & !track.mark, Ordering::Relaxed);
        let now_ns = self.outside.monotonic_ns();
        spare.asked.fetch_max(now_ns >> spare.bits, Ordering::Relaxed);
        let offset_ns = self.max_ns().saturating_sub(spare.steps.ns(now_ns));
        spare.offset.fetch_max(offset_ns, Ordering::Relaxed);
        // Release, with the acquire in `read`: the spare is there for the threads that find this.
        let found = track.asked.compare_exchange(asked, LOST, Ordering::Release, Ordering::Acquire);
        found.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
