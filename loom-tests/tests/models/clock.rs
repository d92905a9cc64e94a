//! A clock that follows the wall clock, read by several threads while it is corrected.
//!
//! Properties: a thread that knows of a reading reads no less, whatever becomes of the wall clock or
//! of the counter; and the clock is corrected once for each time, so it is no faster than the slew.
//!
//! Enough, because all that threads share is two words, `asked` and the offset, of which a reading loads each once and
//! changes each at most once: two threads with two readings each show every order of a claim, its correction and
//! another's. Where the counter is lost, a third and a fourth word join them, written by one thread for good.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use loom_tests::suite::{Bound, Model};
use tollgate::control::Fault;
use tollgate::{Clock, ManualClock, Timestamp};

const BACKWARD: &str = "a clock ran backward";
const TOO_FAST: &str = "a clock was corrected twice for one time";

/// Of a counter of nanoseconds. A thousandth of it is the slew.
const EPOCH_NS: u64 = 1 << 24;
const SLEW_NS: u64 = EPOCH_NS >> 10;
const START: Timestamp = Timestamp::from_secs(1_790_000_000);

/// A clock whose wall clock is set ahead after it is made, and the latest reading that threads have told each other.
struct World {
    clock: Clock,
    wall: ManualClock,
    told: AtomicU64,
}

impl World {
    /// Makes threads that read, after what each of them does before.
    fn race(ahead: Duration, before: [fn(&World, &Counter); 2], readings: [usize; 2]) {
        let wall = ManualClock::new();
        wall.set(START);
        let (clock, counter) = Clock::modelled(wall.clone());
        wall.advance(ahead);
        let world = Arc::new(Self { clock, wall, told: AtomicU64::new(START.as_nanos()) });
        let counter = Counter(Arc::new(move |ns| match ns {
            Some(ns) => counter.increment(ns),
            None => counter.decrement(counter.value()),
        }));
        let threads = [0, 1].map(|n| {
            let (world, counter) = (Arc::clone(&world), counter.clone());
            let (before, readings) = (before[n], readings[n]);
            move || {
                before(&world, &counter);
                for _ in 0..readings {
                    world.read();
                }
            }
        });
        let [one, two] = threads;
        let other = thread::spawn(two);
        one();
        other.join().expect("a thread that read");
        world.read();
        // At most: what the counter has counted, slower by R, and twice R of it; one epoch may have been claimed ahead.
        let passed = Duration::from_nanos(3 * (EPOCH_NS + SLEW_NS));
        let last = Timestamp::from_nanos(world.told.load(Ordering::Acquire));
        // More is made up for at once.
        if world.wall.now() - START < Duration::from_secs(1) {
            assert!(last <= START + passed, "{TOO_FAST}: {:?}", last - START);
        }
    }

    fn read(&self) {
        // Acquire, with the release below: a thread that finds a reading knows of it.
        let told = self.told.load(Ordering::Acquire);
        let now = self.clock.now().as_nanos();
        assert!(now >= told, "{BACKWARD}: {now} after {told}");
        self.told.fetch_max(now, Ordering::Release);
    }
}

/// Moves the counter, or lets it begin anew.
#[derive(Clone)]
struct Counter(Arc<dyn Fn(Option<u64>) + Send + Sync>);

fn one_epoch(_: &World, counter: &Counter) {
    counter.0(Some(EPOCH_NS));
}

fn two_epochs(_: &World, counter: &Counter) {
    counter.0(Some(2 * EPOCH_NS));
}

fn set_forward(world: &World, counter: &Counter) {
    world.wall.advance(Duration::from_secs(7_200));
    two_epochs(world, counter);
}

/// The machine sleeps for an hour and loses its counter.
fn sleep(world: &World, counter: &Counter) {
    world.wall.advance(Duration::from_secs(3_600));
    counter.0(None);
}

/// 2 threads: one reads in the next epoch, the other twice in the third, while the clock is behind by less than a second.
fn slew() {
    World::race(Duration::from_millis(500), [one_epoch, two_epochs], [1, 2]);
}

/// The same, while it is behind by more: each may set it forward, and the wall clock is set once more meanwhile.
fn step() {
    World::race(Duration::from_secs(3_600), [one_epoch, set_forward], [1, 2]);
}

/// 2 threads, one of which finds that the counter has begun anew, while the other may be about to correct it.
fn lost() {
    World::race(Duration::ZERO, [one_epoch, sleep], [1, 2]);
}

pub(crate) fn models() -> Vec<Model> {
    vec![
        Model::new("slew", Bound::None, slew)
            .control("an_overwritten_correction_is_caught", Fault::CorrectionOverwritten, BACKWARD)
            .control("a_correction_by_all_is_caught", Fault::CorrectedByAll, TOO_FAST),
        Model::new("step", Bound::None, step).control(
            "an_overwritten_step_is_caught",
            Fault::CorrectionOverwritten,
            BACKWARD,
        ),
        Model::new("lost", Bound::None, lost).control(
            "a_spare_below_the_counter_is_caught",
            Fault::SpareBelowCounter,
            BACKWARD,
        ),
    ]
}
