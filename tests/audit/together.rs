//! Several limits at once: each keeps its own bound, and each was charged for every request that all limits admitted.
//! If an undo meets another request, at most the cost of the undone request stays charged.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{
    Decision, KeyedLimiter, Limiter, ManualClock, SketchLimiter, SketchSize, StripedLimiter,
    Timestamp, check_all,
};

use crate::bound::excess;
use crate::common::policy;
use crate::run::{Admission, Random, rounds, run};

const PERIOD_NS: i128 = 1_000_000_000;

/// One limit for all clients, and one for each of 40 clients. Each limit denies some of the requests.
const ALL: &str = "gcra 100000/s burst 100";
const CLIENT: &str = "gcra 4000/s burst 12";

#[test]
fn requests_under_several_limits_keep_the_bound_of_each() {
    rounds(|count| {
        let all = Limiter::builder(policy(ALL)).clock(ManualClock::new()).build();
        let clients =
            KeyedLimiter::builder(policy(CLIENT)).clock(ManualClock::new()).build(100).unwrap();
        let denied = [AtomicU64::new(0), AtomicU64::new(0)];
        let check = |key, now_ns, cost| -> Decision {
            let now = Timestamp::from_nanos(now_ns);
            let mut claims =
                [all.entry().at(now).cost(cost), clients.entry(&key).at(now).cost(cost)];
            let joint = check_all(&mut claims);
            if let Some(index) = joint.denied_by() {
                denied[index].fetch_add(1, Relaxed);
            }
            joint.into_decision().unwrap()
        };
        let request = |random: &mut Random, n: u64| {
            let now_ns = 1_000_000_000 + n * 3_000 + random.below(2_000_000);
            (random.below(40), now_ns, random.below(3) + 1)
        };
        let mut admissions = run(count, u64::MAX, request, check);
        let above = excess(&mut admissions, 4_000, PERIOD_NS, 12);
        assert!(above <= PERIOD_NS / 256, "a client: {above} of {PERIOD_NS} of a unit above");
        let mut of_all: Vec<Admission> =
            admissions.iter().map(|&admission| Admission { key: 0, ..admission }).collect();
        let above = excess(&mut of_all, 100_000, PERIOD_NS, 100);
        assert!(above <= PERIOD_NS / 256, "all: {above} of {PERIOD_NS} of a unit above");
        assert!(denied.iter().all(|denied| denied.load(Relaxed) > 0), "{denied:?}");
        admissions.len()
    });
}

const NOW: Timestamp = Timestamp::from_secs(3_600);

/// At one instant nothing drains. The limit that is asked last is charged for exactly the admitted requests. The limit
/// before it may also stay charged for denied requests whose undo failed.
fn balances(count: u64, both: impl Fn(&Limiter, &Limiter, u64) -> Decision + Sync) -> usize {
    let burst = count / 2;
    let text = |burst: u64| format!("gcra 1/h burst {burst}");
    let first = Limiter::builder(policy(&text(burst))).clock(ManualClock::new()).build();
    let last = Limiter::builder(policy(&text(burst * 3 / 4))).clock(ManualClock::new()).build();
    let refused = AtomicU64::new(0);
    let check = |_, _, cost| {
        let decision = both(&first, &last, cost);
        if !decision.is_allowed() {
            refused.fetch_add(cost, Relaxed);
        }
        decision
    };
    let request = |random: &mut Random, _| (0, NOW.as_nanos(), random.below(3) + 1);
    let admissions = run(count, u64::MAX, request, check);
    let admitted: u64 = admissions.iter().map(|admission| admission.cost).sum();
    let owed = |limit: &Limiter, burst: u64| burst - limit.entry().at(NOW).peek(0).remaining();
    assert_eq!(owed(&last, burst * 3 / 4), admitted, "the last one was charged for more or less");
    // The last limit was used up except for less than the cost of one request.
    assert!(admitted > burst * 3 / 4 - 3, "{admitted}");
    let of_first = owed(&first, burst);
    let most = admitted + refused.into_inner();
    assert!((admitted..=most).contains(&of_first), "{of_first}, {admitted} admitted");
    admissions.len()
}

#[test]
fn at_one_instant_each_limit_has_been_charged_for_what_all_admitted() {
    rounds(|count| {
        balances(count, |first, last, cost| {
            let joint =
                check_all(&mut [first.entry().at(NOW).cost(cost), last.entry().at(NOW).cost(cost)]);
            joint.into_decision().unwrap()
        })
    });
}

/// At one instant a request names a sketch, stripes, a log, and a word that denies. The sketch and the log were charged
/// for exactly the admissions. The stripes may also stay charged for undos that failed.
#[test]
fn at_one_instant_a_sketch_in_any_place_has_been_charged_for_what_all_admitted() {
    rounds(|count| {
        let tight = count / 2;
        // A log has a slot for each unit, and the other limits have as many units.
        let text = |words: &str| policy(&format!("{words} {}/h", count * 4));
        let size = SketchSize::new(3, 1_000).unwrap();
        let sketch: SketchLimiter<u64> =
            SketchLimiter::builder(text("gcra")).clock(ManualClock::new()).build(size).unwrap();
        let stripes = StripedLimiter::builder(text("gcra"))
            .stripes(2)
            .clock(ManualClock::new())
            .build()
            .unwrap();
        let log_units = (count * 4).min(1 << 20);
        let log = policy(&format!("sliding-log {log_units}/h"));
        let log = Limiter::builder(log).clock(ManualClock::new()).build();
        let word = policy(&format!("gcra 1/h burst {tight}"));
        let word = Limiter::builder(word).clock(ManualClock::new()).build();
        let check = |_, _, cost| -> Decision {
            let mut claims = [
                sketch.entry(&1).at(NOW).cost(cost),
                word.entry().at(NOW).cost(cost),
                stripes.entry().at(NOW).cost(cost),
                // Each request charges the word twice, and the word has half as many units as are asked for. So it
                // sometimes denies after the other limits were charged.
                word.entry().at(NOW).cost(cost),
                log.entry().at(NOW).cost(cost),
            ];
            check_all(&mut claims).into_decision().unwrap()
        };
        let request = |random: &mut Random, _| (0, NOW.as_nanos(), random.below(3) + 1);
        let admissions = run(count, u64::MAX, request, check);
        let admitted: u64 = admissions.iter().map(|admission| admission.cost).sum();
        let owed = count * 4 - sketch.entry(&1).at(NOW).peek(0).remaining();
        assert_eq!(owed, admitted, "the sketch was charged for more or less");
        assert_eq!(log_units - log.entry().at(NOW).peek(0).remaining(), admitted);
        let of_word = tight - word.entry().at(NOW).peek(0).remaining();
        assert!(of_word >= 2 * admitted && admitted > tight / 4, "{of_word}, {admitted}");
        // Takes the units that the stripes have left one by one, and returns their number.
        let left = (0..).take_while(|_| stripes.entry().at(NOW).check().is_allowed()).count();
        assert!(count * 4 - left as u64 >= admitted);
        admissions.len()
    });
}

#[test]
fn a_request_that_is_charged_by_halves_is_caught() {
    // This mistake is planted: the last limit is charged before the first has decided.
    let halves = |first: &Limiter, last: &Limiter, cost| {
        let charged = last.entry().at(NOW).check_n(cost);
        if cost < 3 && charged.is_allowed() {
            first.entry().at(NOW).check_n(cost)
        } else {
            first.entry().at(NOW).peek(u64::MAX)
        }
    };
    let caught = std::panic::catch_unwind(|| balances(400_000, halves)).unwrap_err();
    let said = caught.downcast_ref::<String>().unwrap();
    assert!(said.contains("for more or less"), "{said}");
}
