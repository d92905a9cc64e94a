//! Properties of every public type: each can be shared between threads and printed, and every error implements `Error`.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use tollgate::entry::{AnyLimit, AnyLimiter, KeyCells, Limit, Store};
use tollgate::{
    Algorithm, BuildError, Clock, CoarseClock, Decision, Denial, Entry, KeyedLimiter, Lease,
    Limiter, ManualClock, Meter, Permit, Policy, PolicyError, Quota, SketchLimiter, SketchSize,
    Stats, StripedLimiter, Timestamp, Word, check_all,
};

fn shareable<T: Send + Sync + Debug + 'static>() {}
fn small_value<T>(most: usize) {
    assert!(size_of::<T>() <= most, "{} bytes", size_of::<T>());
}
fn error<T: Error + Send + Sync + 'static>() {}

#[test]
fn everything_is_send_and_sync() {
    shareable::<Limiter>();
    // An `Rc` cannot be sent to another thread, but that does not matter, because the limiter stores no key.
    shareable::<KeyedLimiter<std::rc::Rc<str>>>();
    shareable::<KeyedLimiter<str, std::hash::RandomState>>();
    shareable::<Meter>();
    shareable::<Clock>();
    shareable::<CoarseClock>();
    shareable::<StripedLimiter>();
    shareable::<SketchLimiter<std::rc::Rc<str>>>();
    shareable::<SketchSize>();
    shareable::<Lease<'static>>();
    shareable::<ManualClock>();
    shareable::<Policy>();
    shareable::<Algorithm>();
    shareable::<Quota>();
    shareable::<Stats>();
    shareable::<Timestamp>();
    shareable::<Word>();
    shareable::<Decision>();
}

#[test]
fn errors_are_errors() {
    error::<PolicyError>();
    error::<BuildError>();
    error::<Denial>();
}

#[test]
fn values_are_small() {
    small_value::<Word>(8);
    small_value::<Timestamp>(8);
    small_value::<Quota>(24);
    small_value::<Policy>(112);
    small_value::<Permit>(96);
    small_value::<Decision>(104);
}

#[test]
fn quotas_are_constants() {
    const QUOTA: Quota = Quota::per_second(100).burst(20);
    const REFUSED: Result<Quota, PolicyError> = Quota::try_per(0, Duration::from_secs(1));
    assert_eq!(QUOTA.to_string(), "100/s burst 20");
    let expected = "count 0 would admit nothing; it must be at least 1";
    assert_eq!(REFUSED.unwrap_err().to_string(), expected);
}

#[test]
fn a_limiter_has_its_cache_lines_to_itself() {
    assert!(align_of::<Limiter>() >= 64);
}

#[test]
fn what_is_printed_for_debugging_says_something() {
    assert_eq!(format!("{:?}", Word::from_bits(0xAB)), "Word(0x00000000000000ab)");
    let table =
        KeyedLimiter::<str>::builder(Quota::per_second(5)).clock(ManualClock::new()).build(5);
    let told = format!("{:?}", table.expect("it fits"));
    assert!(told.starts_with("KeyedLimiter { capacity: 5, bytes: "), "{told}");
    assert!(told.ends_with("clock: Clock(manual), .. }"), "{told}");
    let limiter = Limiter::builder(Quota::per_second(5)).clock(ManualClock::new()).build();
    let told = "Limiter { policy: Policy(gcra 5/s), clock: Clock(manual), .. }";
    assert_eq!(format!("{limiter:?}"), told);
    assert_eq!(format!("{:?}", limiter.entry()), format!("Entry({told})"));
    assert_eq!(
        format!("{:?}", limiter.entry().cost(3)),
        format!("Claim {{ limit: {told}, cost: 3, .. }}")
    );
    let keyed =
        KeyedLimiter::<str>::builder(Quota::per_second(5)).clock(ManualClock::new()).build(5);
    let told = format!("{:?}", keyed.expect("it fits").entry("alice").at(Timestamp::from_nanos(9)));
    assert_eq!(told, "Entry(Key { quota: 0, clock: Clock(manual), .. }, Timestamp(9))");
    let striped =
        StripedLimiter::builder(Quota::per_second(5)).stripes(2).clock(ManualClock::new()).build();
    let told = "StripedLimiter { policy: Policy(gcra 5/s), stripes: 2, clock: Clock(manual), .. }";
    assert_eq!(format!("{:?}", striped.expect("it fits")), told);
    let builder = SketchLimiter::<str>::builder(Quota::per_second(5)).clock(ManualClock::new());
    let told = "SketchBuilder { policy: Policy(gcra 5/s), clock: Some(Clock(manual)), .. }";
    assert_eq!(format!("{builder:?}"), told);
    let sketch = builder.build(SketchSize::new(2, 10).expect("20 cells")).expect("they fit");
    let told = "Entry(Key { clock: Clock(manual), .. })";
    assert_eq!(format!("{:?}", sketch.entry("alice")), told);
    let permit = limiter.check_n(2).into_result().expect("five are there");
    let told = "Permit { cost: 2, limit: 5, remaining: 3, reset_after: 400ms, is_over: false }";
    assert_eq!(format!("{permit:?}"), told);
}

#[test]
fn a_table_tells_the_time_that_it_decides_at() {
    let clock = ManualClock::new();
    let table = KeyedLimiter::<str>::builder(Quota::per_second(5)).clock(clock.clone()).build(5);
    let table = table.expect("it fits");
    clock.set(Timestamp::from_millis(1_234));
    assert_eq!(table.now(), Timestamp::from_millis(1_234));
}

#[test]
fn a_coarse_clock_stands_between_ticks_and_goes_on_with_a_thread() {
    let coarse = CoarseClock::new();
    let clock = coarse.clock();
    let stands = clock.now();
    while coarse.clock().now() == stands {
        assert_eq!(clock.now(), stands);
        coarse.tick();
    }
    let coarse = coarse.start(Duration::from_millis(1)).unwrap();
    let before = clock.now();
    while clock.now() == before {
        std::thread::yield_now();
    }
    drop(coarse);
    assert_eq!(clock.now(), clock.now());
}

/// Every type in a public signature can be named, and stored in a field.
#[expect(dead_code, reason = "it is enough that it compiles")]
struct Entries<'a> {
    word: Entry<'a>,
    named: Entry<'a, Limit<'a>>,
    stripes: Entry<'a, &'a StripedLimiter>,
    cells: Entry<'a, KeyCells<'a>>,
    any: Entry<'a, AnyLimit<'a>>,
}

fn left<S: Store>(limit: &Entry<'_, S>) -> u64 {
    limit.peek(1).remaining()
}

#[test]
fn limiters_of_every_kind_are_asked_as_one() {
    let (quota, clock) = (Quota::per_hour(3), ManualClock::new());
    let size = SketchSize::new(2, 64).expect("a size");
    let limiters: [Box<dyn AnyLimiter<str>>; 4] = [
        Box::new(Limiter::builder(quota).clock(clock.clone()).build()),
        Box::new(
            StripedLimiter::builder(quota)
                .stripes(1)
                .clock(clock.clone())
                .build()
                .expect("stripes"),
        ),
        Box::new(
            KeyedLimiter::<str>::builder(quota).clock(clock.clone()).build(10).expect("a table"),
        ),
        Box::new(SketchLimiter::<str>::builder(quota).clock(clock).build(size).expect("a sketch")),
    ];
    for limiter in &limiters {
        let entry = limiter.any_entry("alice");
        assert_eq!(left(&entry), 3, "{entry:?}");
        assert!(entry.check_n(2).is_allowed(), "{entry:?}");
        assert!(check_all(&mut [entry.cost(1)]).is_allowed(), "{entry:?}");
        assert!(entry.check_or(1, |_, _| false).is_denied(), "{entry:?}");
        assert_eq!(entry.take_up_to(5).retry_after(), entry.peek(1).retry_after(), "{entry:?}");
        assert_eq!(left(&entry), 0, "{entry:?}");
    }
    // The keys of a table have separate limits; a limiter without keys has one limit for all.
    let lefts = limiters.each_ref().map(|limiter| left(&limiter.any_entry("bob")));
    assert_eq!(lefts[..3], [0, 0, 3]);
}
