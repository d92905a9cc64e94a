//! Waiting where a request cannot take a place: in windows, in words that are full, and for keys without a cell. A
//! request sleeps until it would be admitted, and then asks again. Meanwhile it holds no place, and it never waits
//! longer than it may.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::policy;
use tollgate::{
    Denial, DenialReason, Entry, KeyedLimiter, Limiter, ManualClock, Permit, Policy, Timestamp,
    Wait, WhenFull,
};

/// 1 February 2025: the start of a month, and of every shorter window that the tests use.
const START: Timestamp = Timestamp::from_secs(1_738_368_000);
const SECOND: Duration = Duration::from_secs(1);

/// A simulated time that advances only when every task waits.
#[derive(Clone)]
struct Sim {
    clock: ManualClock,
    due: Rc<RefCell<Vec<Timestamp>>>,
}

impl Sim {
    fn new() -> Self {
        let clock = ManualClock::new();
        clock.set(START);
        Self { clock, due: Rc::default() }
    }

    fn sleep(&self, pause: Duration) -> Sleep {
        Sleep { until: self.clock.now() + pause, sim: self.clone() }
    }

    /// Runs the tasks until none of them waits. They are polled in their order.
    fn run(&self, tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
        let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
        loop {
            self.due.borrow_mut().clear();
            for slot in &mut tasks {
                if slot.as_mut().is_some_and(|task| is_ready(task.as_mut())) {
                    *slot = None;
                }
            }
            let next = self.due.borrow().iter().min().copied();
            let Some(next) = next else { return };
            self.clock.set(next);
        }
    }
}

fn is_ready(task: Pin<&mut (dyn Future<Output = ()> + '_)>) -> bool {
    task.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

struct Sleep {
    until: Timestamp,
    sim: Sim,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.sim.clock.now() >= self.until {
            return Poll::Ready(());
        }
        self.sim.due.borrow_mut().push(self.until);
        Poll::Pending
    }
}

/// The times, from the start, at which requests were admitted, in order; and the times of denied requests, with their
/// waits.
#[derive(Default)]
struct Left {
    admitted: RefCell<Vec<Duration>>,
    denied: RefCell<Vec<(Duration, Option<Duration>)>>,
    /// The longest total time that one request slept.
    slept: Cell<Duration>,
}

impl Left {
    fn note(&self, at: Duration, slept: Duration, result: &Result<Permit, Denial>) {
        match result {
            Ok(_) => self.admitted.borrow_mut().push(at),
            Err(denial) => self.denied.borrow_mut().push((at, denial.retry_after())),
        }
        self.slept.set(self.slept.get().max(slept));
    }
}

fn acquire_each<'a>(
    sim: &Sim,
    asked: usize,
    wait: Wait,
    entry: &(dyn Fn(usize) -> Entry<'a> + '_),
) -> Left {
    let left = Left::default();
    let tasks = (0..asked).map(|nth| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let left = &left;
        Box::pin(async move {
            let slept = Cell::new(Duration::ZERO);
            let sleep = |pause| {
                slept.set(slept.get() + pause);
                sim.sleep(pause)
            };
            let result = entry(nth).acquire(1, wait, sleep).await;
            let passed = sim.clock.now().as_nanos() - START.as_nanos();
            left.note(Duration::from_nanos(passed), slept.get(), &result);
        })
    });
    sim.run(tasks.collect());
    left
}

/// The earliest times at which `units` units can be admitted one by one.
fn earliest(policy: Policy, units: usize) -> Vec<Duration> {
    let (limiter, mut now) = (Limiter::builder(policy).clock(ManualClock::new()).build(), START);
    let mut admitted = Vec::new();
    while admitted.len() < units {
        match limiter.entry().at(now).check().into_result() {
            Ok(_) => admitted.push(Duration::from_nanos(now.as_nanos() - START.as_nanos())),
            Err(denial) => now = now + denial.retry_after().unwrap(),
        }
    }
    admitted
}

const POLICIES: [&str; 13] = [
    "gcra 2/s",
    "gcra 10/s burst 1",
    "fixed-window 2/s",
    "fixed-window 2/s from-first",
    "sliding-window 2/s",
    "sliding-window 2/s exact",
    "sliding-window 2/s strict",
    "segmented-window 4/s x4",
    "sliding-log 2/s",
    "calendar-month 2",
    "calendar-year 2",
    "calendar-week 2 from-sunday",
    "fixed-window 2/s soft 50%",
];

/// True if two lists of times are equal, except for the rounding of times in a table.
fn nearly_equal(one: &[Duration], other: &[Duration], tolerance: Duration) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.abs_diff(*other) <= tolerance)
}

/// Each request may wait long enough, so all are admitted, each as soon as the limit admits another unit.
#[test]
fn twenty_that_wait_for_one_window_are_all_admitted_in_turn() {
    let wait = Wait::at_most(Duration::from_secs(86_400 * 4_000));
    for text in POLICIES {
        let policy = policy(text);
        let expected = earliest(policy, 20);
        let sim = Sim::new();
        let one = Limiter::builder(policy).clock(sim.clock.clone()).build();
        let left = acquire_each(&sim, 20, wait, &|_| one.entry());
        assert_eq!(
            (left.admitted.take(), left.denied.take()),
            (expected.clone(), vec![]),
            "{text}"
        );
        let sim = Sim::new();
        let keyed =
            KeyedLimiter::<str>::builder(policy).clock(sim.clock.clone()).build(100).unwrap();
        let left = acquire_each(&sim, 20, wait, &|_| keyed.entry("alice"));
        let admitted = left.admitted.take();
        let tolerance = Duration::from_millis(30);
        assert!(nearly_equal(&admitted, &expected, tolerance), "{text}: {admitted:?}");
        let sim = Sim::new();
        if let Ok(changing) = Limiter::builder(policy).clock(sim.clock.clone()).changing().build() {
            let left = acquire_each(&sim, 20, wait, &|_| changing.entry());
            let admitted = left.admitted.take();
            assert!(nearly_equal(&admitted, &expected, tolerance), "{text}: {admitted:?}");
        }
        let sim = Sim::new();
        let tiers = KeyedLimiter::builder(policy).tier(Policy::from(tollgate::Quota::per_hour(1)));
        if let Ok(tiers) = tiers.clock(sim.clock.clone()).build(100) {
            let left = acquire_each(&sim, 20, wait, &|_| tiers.entry("alice"));
            let admitted = left.admitted.take();
            assert!(nearly_equal(&admitted, &expected, tolerance), "{text}: {admitted:?}");
        }
    }
}

/// The third call in a window waits. Calls for one key are all served in turn, although its word remembers only one
/// place.
#[test]
fn the_third_of_two_a_second_waits_for_the_next_and_a_key_of_burst_one_serves_all() {
    let sim = Sim::new();
    let one = Limiter::builder(policy("fixed-window 2/s")).clock(sim.clock.clone()).build();
    let left = acquire_each(&sim, 3, Wait::at_most(3 * SECOND), &|_| one.entry());
    assert_eq!(left.admitted.take(), [Duration::ZERO, Duration::ZERO, SECOND]);
    let sim = Sim::new();
    let keyed = KeyedLimiter::<str>::builder(policy("10/s burst 1"))
        .clock(sim.clock.clone())
        .build(100)
        .unwrap();
    let left = acquire_each(&sim, 20, Wait::at_most(2 * SECOND), &|_| keyed.entry("alice"));
    let tenths: Vec<_> = (0..20).map(|tenth| tenth * SECOND / 10).collect();
    assert_eq!((left.admitted.take(), left.denied.take()), (tenths, vec![]));
}

/// Requests may wait for three seconds, and as many of them are admitted as there are units in that time. The others
/// are denied as soon as it is known that they cannot be admitted, and none sleeps longer than it may.
#[test]
fn no_request_waits_longer_than_it_may() {
    let wait = Wait::at_most(3 * SECOND);
    for (text, admitted) in [
        ("fixed-window 2/s", 8),
        ("sliding-log 2/s", 8),
        ("gcra 2/s", 8),
        ("sliding-window 2/s strict", 4),
    ] {
        let in_time = |left: &&Duration| **left <= 3 * SECOND;
        assert_eq!(earliest(policy(text), 20).iter().filter(in_time).count(), admitted, "{text}");
        let sim = Sim::new();
        let keyed =
            KeyedLimiter::<str>::builder(policy(text)).clock(sim.clock.clone()).build(100).unwrap();
        let left = acquire_each(&sim, 20, wait, &|_| keyed.entry("alice"));
        assert_eq!(left.admitted.take().len(), admitted, "{text}");
        let denied = left.denied.take();
        assert_eq!(denied.len(), 20 - admitted);
        assert!(denied.iter().all(|(at, _)| *at <= 3 * SECOND), "{text}: {denied:?}");
        assert!(left.slept.get() <= 3 * SECOND, "{text}: {:?}", left.slept.get());
    }
    // With a jitter, no request sleeps longer than its wait and one jitter.
    let (sim, jitter) = (Sim::new(), Duration::from_millis(700));
    let one = Limiter::builder(policy("fixed-window 2/s")).clock(sim.clock.clone()).build();
    let left = acquire_each(&sim, 200, wait.jitter(jitter), &|_| one.entry());
    assert!(left.slept.get() <= 3 * SECOND + jitter, "{:?}", left.slept.get());
    assert!(left.slept.get() > 2 * SECOND);
}

#[test]
fn what_cannot_pass_within_the_wait_is_denied_at_once_with_its_reason() {
    let sim = Sim::new();
    let no_sleep = |_| -> std::future::Ready<()> { panic!("it sleeps") };
    let ask = |limiter: &Limiter, cost, wait| {
        let asked = pin!(limiter.entry().acquire(cost, wait, no_sleep));
        match asked.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.unwrap_err(),
            Poll::Pending => panic!("it waits"),
        }
    };
    for text in ["fixed-window 2/h", "sliding-window 2/h", "sliding-log 2/h", "2/h"] {
        let limiter = Limiter::builder(policy(text)).clock(sim.clock.clone()).build();
        assert!(limiter.check_n(2).is_allowed());
        let retry = limiter.check_n(2).retry_after().unwrap();
        let short = Wait::at_most(retry - Duration::from_nanos(1));
        assert_eq!(ask(&limiter, 2, short).retry_after(), Some(retry), "{text}");
        if text != "2/h" {
            assert!(
                ask(&limiter, 3, Wait::at_most(Duration::MAX)).reason() == DenialReason::NeverFits,
                "{text}"
            );
        }
        // A request that asks again holds no place, so in a window it cannot be placed behind a number of units.
        let behind = Wait::at_most(Duration::MAX).behind(1);
        assert_ne!(ask(&limiter, 2, behind).reason(), DenialReason::NeverFits, "{text}");
        assert_eq!(limiter.entry().peek(0).remaining(), 0);
    }
    let penalised =
        Limiter::builder(policy("fixed-window 1/s penalty 1h after 1")).clock(sim.clock).build();
    assert!(penalised.check().is_allowed() && !penalised.check().is_allowed());
    assert!(ask(&penalised, 1, Wait::at_most(60 * SECOND)).reason() == DenialReason::Penalty);
}

/// A future is dropped after any number of polls, at any time. Only admitted units are charged.
#[test]
fn a_future_that_is_dropped_at_any_time_leaves_nothing_owed() {
    let wait = Wait::at_most(60 * SECOND);
    for text in
        ["fixed-window 2/s", "sliding-window 2/s", "segmented-window 2/s x2", "sliding-log 2/s"]
    {
        for polls in 0..9_u32 {
            let sim = Sim::new();
            let one = Limiter::builder(policy(text)).clock(sim.clock.clone()).build();
            let keyed = KeyedLimiter::<str>::builder(policy(text))
                .clock(sim.clock.clone())
                .build(9)
                .unwrap();
            for entry in [one.entry(), keyed.entry("alice")] {
                sim.clock.set(sim.clock.now() + 60 * SECOND);
                assert!(entry.check_n(2).is_allowed());
                {
                    let mut futures: Vec<_> = (0..4)
                        .map(|_| Box::pin(entry.acquire(1, wait, |pause| sim.sleep(pause))))
                        .collect();
                    for step in 0..polls {
                        for future in &mut futures {
                            let mut context = Context::from_waker(Waker::noop());
                            assert!(future.as_mut().poll(&mut context).is_pending());
                        }
                        // No task is polled at the moment when its window begins.
                        sim.clock.advance(SECOND / 100 * (step % 2));
                    }
                }
                sim.clock.set(sim.clock.now() + 10 * SECOND);
                assert_eq!(entry.peek(0).remaining(), 2, "{text} after {polls}");
            }
        }
    }
}

/// The limiter's clock is not the clock of the sleep. Still the wait ends, and nothing is admitted.
#[test]
fn a_clock_that_stands_still_ends_the_wait() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(policy("fixed-window 1/s")).clock(clock).build();
    assert!(limiter.check().is_allowed());
    for max in [3 * SECOND, Duration::MAX] {
        let sleeps = Cell::new(0);
        let sleep = |_| {
            sleeps.set(sleeps.get() + 1);
            ready(())
        };
        let asked = pin!(limiter.entry().acquire(1, Wait::at_most(max), sleep));
        let Poll::Ready(result) = asked.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it is ready")
        };
        assert_eq!(result.unwrap_err().retry_after(), Some(SECOND));
        assert!(sleeps.get() <= 64, "{}", sleeps.get());
    }
}

/// If a policy counts denials, a waiting request does not count as several denials in a row. It counts as one denial if
/// it is denied in the end.
#[test]
fn a_request_that_waited_is_counted_as_denied_at_most_once() {
    for text in
        ["fixed-window 2/s penalty 1h after 3", "sliding-window 2/s exact penalty 1h after 3"]
    {
        let sim = Sim::new();
        let one = Limiter::builder(policy(text)).clock(sim.clock.clone()).build();
        let left = acquire_each(&sim, 12, Wait::at_most(60 * SECOND), &|_| one.entry());
        assert_eq!((left.admitted.take().len(), left.denied.take().len()), (12, 0), "{text}");
        assert!(!one.check().is_allowed() && !one.check().is_allowed());
        // The third denial in a row comes from a request that would have to wait too long.
        let short = Wait::at_most(Duration::from_nanos(1));
        let third = acquire_each(&sim, 1, short, &|_| one.entry());
        assert_eq!(third.denied.take().len(), 1);
        assert_eq!(
            one.check().into_result().unwrap_err().reason(),
            DenialReason::Penalty,
            "{text}"
        );
    }
    let counted = policy("sliding-log 2/s count-denied");
    let sim = Sim::new();
    let log = Limiter::builder(counted).clock(sim.clock.clone()).build();
    let left = acquire_each(&sim, 10, Wait::at_most(60 * SECOND), &|_| log.entry());
    assert_eq!(left.admitted.take().len(), 10);
}

/// A key without a cell waits until the spill admits it, or until it gets a cell.
#[test]
fn a_key_without_a_cell_waits_as_any_other() {
    for full in [WhenFull::Spill, WhenFull::Deny] {
        let sim = Sim::new();
        let table = KeyedLimiter::<u64>::builder(policy("fixed-window 2/m"))
            .clock(sim.clock.clone())
            .build(1)
            .unwrap()
            .when_full(full)
            .unwrap();
        let fill = (0..2_000_u64).filter(|key| !table.entry(key).check_n(2).is_allowed()).count();
        assert!(fill > 0, "{full:?}");
        let wait = Wait::at_most(600 * SECOND);
        let left = acquire_each(&sim, 12, wait, &|_| table.entry(&9_999));
        let (admitted, denied) = (left.admitted.take(), left.denied.take());
        assert_eq!((admitted.len(), denied.len()), (12, 0), "{full:?}");
        // Each window of the clock admits at most two requests.
        for window in admitted.chunk_by(|one, other| one.as_secs() / 60 == other.as_secs() / 60) {
            assert!(window.len() <= 2, "{full:?}: {admitted:?}");
        }
    }
}

/// If the quota is lowered meanwhile, the lower quota applies to all waiting requests.
#[test]
fn a_change_of_quota_holds_for_those_that_wait() {
    let sim = Sim::new();
    let limiter = Limiter::builder(policy("fixed-window 4/s"))
        .clock(sim.clock.clone())
        .changing()
        .build()
        .unwrap();
    assert!(limiter.check_n(4).is_allowed());
    limiter.set_quota(policy("fixed-window 1/s")).unwrap();
    let left = acquire_each(&sim, 5, Wait::at_most(60 * SECOND), &|_| limiter.entry());
    let admitted = left.admitted.take();
    assert_eq!(admitted.len(), 5);
    assert!(admitted.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{admitted:?}");
}
