//! A clock that follows the wall clock, read by several threads while it is corrected.
//!
//! Properties: once a thread has seen a reading, it never reads an earlier time, whatever happens to the wall clock or
//! the counter. The clock is corrected only once in each epoch, so it never runs faster than the slew allows.
//!
//! These models are sufficient because threads share only two words, `asked` and the offset (see
//! `src/clock/follow.rs`). Each reading loads each word once and changes each word at most once: its claim changes
//! `asked`, and its correction changes the offset. So two threads with two readings each cover every order of the two
//! threads' claims and corrections. If the counter is lost, a reading also uses a third and a fourth word, each of
//! which one thread writes once.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use loom_tests::suite::{Bound, Model};
use tollgate::control::Fault;
use tollgate::{Clock, ManualClock, Timestamp};

const BACKWARD: &str = "a clock ran backward";
const TOO_FAST: &str = "a clock was corrected twice for one time";

/// The length of an epoch in nanoseconds of the counter. The slew is a thousandth of an epoch.
const EPOCH_NS: u64 = 1 << 24;
const SLEW_NS: u64 = EPOCH_NS >> 10;
const START: Timestamp = Timestamp::from_secs(1_790_000_000);

/// A clock whose wall clock is set ahead after it is made, and the latest reading that any thread has published.
struct World {
    clock: Clock,
    wall: ManualClock,
    told: AtomicU64,
}

impl World {
    /// Starts threads that read the clock. Each first runs its function in `before`.
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
        // The most time that can have passed. It is an epoch with its slew for each of the two epochs that were
        // counted, and for one more that may have been claimed ahead.
        let passed = Duration::from_nanos(3 * (EPOCH_NS + SLEW_NS));
        let last = Timestamp::from_nanos(world.told.load(Ordering::Acquire));
        // A difference of more than that is corrected at once.
        if world.wall.now() - START < Duration::from_secs(1) {
            assert!(last <= START + passed, "{TOO_FAST}: {:?}", last - START);
        }
    }

    fn read(&self) {
        // Acquire pairs with the release below: a thread that finds a published reading has seen that reading.
        let told = self.told.load(Ordering::Acquire);
        let now = self.clock.now().as_nanos();
        assert!(now >= told, "{BACKWARD}: {now} after {told}");
        self.told.fetch_max(now, Ordering::Release);
    }
}

/// Moves the counter by this many nanoseconds, or restarts it.
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

/// 2 threads: one reads in the next epoch, the other twice in the epoch after it, while the clock is behind by half a
/// second.
fn slew() {
    World::race(Duration::from_millis(500), [one_epoch, two_epochs], [1, 2]);
}

/// Like [`slew`], while the clock is behind by an hour. Each thread may set the clock forward, and meanwhile the wall
/// clock is set once more.
fn step() {
    World::race(Duration::from_secs(3_600), [one_epoch, set_forward], [1, 2]);
}

/// 2 threads: one finds that the counter has restarted, while the other may be about to correct the clock.
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
