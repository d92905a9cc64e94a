//! Denials that are charged: a client that keeps asking stays locked out, but no client is locked out for good.

use std::time::Duration;

use tollgate::{Changing, Decision, KeyedLimiter, Limiter, Meter, Timestamp, Word, check_all};

use super::{ALGORITHMS, secs};
use crate::common::{Engines, clock, decisions, every, new_clock, policy, together};

#[test]
fn vector_17_a_key_that_asks_too_much_for_ever_gets_nothing_while_denials_count() {
    // An hour with 12 requests a minute, where the limit admits 10 a minute.
    let hour = every(0, 5_000, 720);
    for text in ["gcra 10/60s", "sliding-window 10/60s exact", "sliding-window 10/60s"] {
        let counted = decisions(&format!("{text} count-denied"), &hour);
        let lockout = counted.find('D').unwrap();
        assert!(!counted[lockout..].contains('A'), "{text}: {counted}");
        // Without `count-denied`, nearly 10 of the 12 would be admitted in every minute.
        let passed = decisions(text, &hour).matches('A').count();
        assert!((540..=610).contains(&passed), "{text}: {passed}");
    }
}

#[test]
fn vector_17_each_further_call_extends_the_wait_up_to_the_stop() {
    let meter = Meter::new(policy("sliding-window 500/h exact count-denied")).unwrap();
    let now = Timestamp::from_secs(1_800);
    let mut word = meter.check(Word::UNUSED, now, 500).1;
    let mut last = Duration::ZERO;
    for call in 1..=600 {
        let (decision, next) = meter.check(word, now, 1);
        let wait = decision.into_result().unwrap_err().retry_after().unwrap();
        assert_eq!(wait > last, call <= 500, "call {call}");
        (word, last) = (next, wait);
    }
    // When 50.1 % of the next hour has passed, 1,000 units of the previous window weigh 499 at most.
    assert_eq!(last, Duration::from_millis(1_800_000 + 1_803_600));
}

#[test]
fn vector_54_a_capped_charge_of_denials_does_not_lock_out() {
    // These requests come at 60 % of the rate. Other limiters admit two of them and then deny for ever.
    let hits = every(0, 5_000, 100);
    for text in ["gcra 2/6s", "fixed-window 2/6s", "fixed-window 2/6s from-first"] {
        assert_eq!(decisions(&format!("{text} count-denied"), &hits), "A".repeat(100), "{text}");
    }
    // A sliding window with two counters denies one in six of these requests anyway. It denies no more of them when
    // those denials are counted.
    let plain = decisions("sliding-window 2/6s exact", &hits);
    assert_eq!(decisions("sliding-window 2/6s exact count-denied", &hits), plain);
    assert_eq!(plain.matches('D').count(), 16);
    // After a flood the wait for one unit is at most 6 s, and soon every request is admitted again.
    let flood = [together("0:00", 50), every(5_000, 5_000, 20)].concat();
    let told = decisions("gcra 2/6s count-denied", &flood);
    assert_eq!(told, format!("AA{}D{}", "D".repeat(48), "A".repeat(19)));
}

#[test]
fn a_denied_charge_is_cut_so_that_one_unit_waits_no_longer_than_told() {
    let mut engines = Engines::new("gcra 1/s burst 10 count-denied 4s");
    assert!(engines.check_ms(10, 0).is_allowed());
    // The first denials are charged in full, and later ones are cut: the debt stops at 10 - 1 + 4 units.
    let waits: Vec<_> = [1, 1, 1, 1, 1, 9]
        .map(|cost| {
            engines.denied(cost, 0);
            engines.meter.peek(engines.word, Timestamp::default(), 1).into_result().unwrap_err()
        })
        .map(|denial| denial.retry_after().unwrap().as_secs())
        .to_vec();
    assert_eq!(waits, [2, 3, 4, 4, 4, 4]);
    // The cut applies to the charge alone: units that were owed before stay owed.
    assert_eq!(engines.denied(10, 0).retry_after(), secs(13));
}

/// A policy whose unit drains in 4 ms. Denials can cause a wait of at most 1 s, in which 250 units drain. A charge that
/// is cut is written only if it adds at least a *granule*, a thousandth of this wait. That is 1 ms, or a quarter of a
/// unit. These times and [`STEP_NS`] are whole ticks.
const GRANULAR: &str = "gcra 250/s burst 2 count-denied 1s";
const GRANULE_NS: u64 = 1_000_000;
/// An eighth of the granule.
const STEP_NS: u64 = 125_000;
const START_NS: u64 = 7_000_000_000;

/// The time at which one unit would be admitted.
fn ready_ns(now_ns: u64, told: Decision) -> u64 {
    let wait = told.into_result().unwrap_err().retry_after().unwrap();
    now_ns + u64::try_from(wait.as_nanos()).unwrap()
}

#[test]
fn of_ten_thousand_denials_within_a_granule_of_a_full_debt_none_is_written() {
    let meter = Meter::new(policy(GRANULAR)).unwrap();
    let start = Timestamp::from_nanos(START_NS);
    let mut word = meter.check(Word::UNUSED, start, 2).1;
    for _ in 0..125 {
        word = meter.check(word, start, 2).1;
    }
    let full_ns = START_NS + 1_000_000_000;
    assert_eq!(ready_ns(START_NS, meter.peek(word, start, 1)), full_ns);
    for now_ns in (0..10_000).map(|n| START_NS + n * 100) {
        let now = Timestamp::from_nanos(now_ns);
        let (told, next) = meter.check(word, now, 1 + now_ns / 100 % 2);
        assert_eq!((told.is_allowed(), next), (false, word), "at {now_ns}");
    }
    // A denial fills the bucket up again one whole granule after it was full, and not before.
    for (late_ns, ready_after) in [(1, full_ns), (0, full_ns + GRANULE_NS)] {
        let now_ns = START_NS + GRANULE_NS - late_ns;
        let told = meter.check(word, Timestamp::from_nanos(now_ns), 1).0;
        assert_eq!(ready_ns(now_ns, told), ready_after);
    }
    // A denial that need not be cut is charged, however little room is left after it.
    let now = Timestamp::from_nanos(START_NS + 4 * GRANULE_NS);
    assert_ne!(meter.check(word, now, 1).1, word);
}

type Check<'a> = dyn Fn(Timestamp, u64) -> Decision + 'a;

#[test]
fn a_flood_is_written_once_a_granule_wherever_the_limit_is_kept() {
    new_clock();
    let policy = policy(GRANULAR);
    let shared = Limiter::builder(policy).clock(clock()).build();
    let changing = Limiter::builder(policy).clock(clock()).changing().build().unwrap();
    let keyed = KeyedLimiter::<str>::builder(policy).clock(clock()).build(10).unwrap();
    let tiers = KeyedLimiter::builder(crate::common::policy("gcra 9/h")).tier(policy);
    let tiered: Changing<KeyedLimiter<str>> = tiers.clock(clock()).build(10).unwrap();
    let [joint, wide] = [policy, crate::common::policy("gcra 1000000/s")]
        .map(|policy| Limiter::builder(policy).clock(clock()).build());
    let homes: [(&str, &Check<'_>); 5] = [
        ("shared", &|now, cost| shared.entry().at(now).check_n(cost)),
        ("changing", &|now, cost| changing.entry().at(now).check_n(cost)),
        ("keyed", &|now, cost| keyed.entry("key").at(now).check_n(cost)),
        ("tiered", &|now, cost| tiered.entry("key").tier(1).unwrap().at(now).check_n(cost)),
        ("joint", &|now, cost| {
            let limits = [joint.entry().at(now).cost(cost), wide.entry().at(now).cost(cost)];
            check_all(&mut { limits }).into_decision().unwrap()
        }),
    ];
    for (home, check) in homes {
        let start = Timestamp::from_nanos(START_NS);
        assert!(check(start, 2).is_allowed(), "{home}");
        for _ in 0..125 {
            assert!(!check(start, 2).is_allowed(), "{home}");
        }
        let mut ready = vec![START_NS + 1_000_000_000];
        for now_ns in (0..=800).map(|n| START_NS + n * STEP_NS) {
            let ready_ns = ready_ns(now_ns, check(Timestamp::from_nanos(now_ns), 1));
            // One unit always waits for a second, or for up to one granule less.
            assert!(ready_ns <= now_ns + 1_000_000_000, "{home}");
            assert!(ready_ns + GRANULE_NS > now_ns + 1_000_000_000, "{home}");
            ready.push(ready_ns);
        }
        ready.dedup();
        // In 100 granules the bucket was filled up 100 times.
        assert_eq!(ready.len(), 1 + 100, "{home}");
    }
}

/// A model of [`GRANULAR`] that charges every denial, with its debt in nanoseconds.
#[derive(Default)]
struct EachIsCharged {
    tat_ns: u64,
}

impl EachIsCharged {
    fn check(&mut self, now_ns: u64, cost: u64) -> bool {
        let (unit_ns, max_ns) = (4 * GRANULE_NS, 1_004 * GRANULE_NS);
        let debt_ns = self.tat_ns.saturating_sub(now_ns);
        let charged_ns = debt_ns + cost * unit_ns;
        let is_allowed = charged_ns <= 2 * unit_ns;
        let charged_ns = if is_allowed { charged_ns } else { charged_ns.min(max_ns) };
        self.tat_ns = now_ns + charged_ns.max(debt_ns);
        is_allowed
    }
}

#[test]
fn what_is_not_charged_is_always_less_than_a_granule_in_all() {
    let meter = Meter::new(policy(GRANULAR)).unwrap();
    let (mut longest_ns, mut apart) = (0, 0);
    for seed in 1..=300_u64 {
        let mut random = seed;
        let (mut word, mut model, mut now_ns) = (Word::UNUSED, EachIsCharged::default(), START_NS);
        for _ in 0..400 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [kind, size] = [random >> 56, random >> 40 & 0xffff];
            // The next request comes at once, after a while, or exactly when one unit fits.
            now_ns += match kind {
                0 => {
                    let told = meter.peek(word, Timestamp::from_nanos(now_ns), 1);
                    if told.is_allowed() { 0 } else { ready_ns(now_ns, told) - now_ns }
                }
                1..=32 => STEP_NS * (size % 40),
                _ => STEP_NS * (size % 3),
            };
            let (now, cost) = (Timestamp::from_nanos(now_ns), 1 + size % 2);
            let (told, next) = meter.check(word, now, cost);
            apart += u64::from(told.is_allowed() != model.check(now_ns, cost));
            word = next;
            let drained = meter.peek(word, now, 0).reset_after().as_nanos();
            let tat_ns = now_ns + u64::try_from(drained).unwrap();
            let missing_ns =
                model.tat_ns.max(now_ns).checked_sub(tat_ns).expect("no more than all");
            assert!(missing_ns < GRANULE_NS, "{missing_ns} ns, seed {seed}");
            longest_ns = longest_ns.max(missing_ns);
        }
    }
    // The largest difference between the limiter and the model is one step short of the granule. It does not grow when
    // one of the two admits a request and the other denies it.
    assert_eq!(longest_ns, GRANULE_NS - STEP_NS);
    assert!(apart > 0);
}

#[test]
fn a_model_that_charges_every_denial_is_caught() {
    let meter = Meter::new(policy(GRANULAR)).unwrap();
    let last_ns = START_NS + GRANULE_NS - STEP_NS;
    let flood = [START_NS; 126].into_iter().chain([last_ns]).map(|now_ns| (now_ns, 2));
    // The limiter counts its wait for a unit from the start of the flood, and the model from the last denial.
    let ends = [START_NS, last_ns].map(|now_ns| (now_ns + 1_000 * GRANULE_NS, 1));
    let (mut word, mut model) = (Word::UNUSED, EachIsCharged::default());
    let told: Vec<_> = flood
        .chain(ends)
        .map(|(now_ns, cost)| {
            let (told, next) = meter.check(word, Timestamp::from_nanos(now_ns), cost);
            word = next;
            (told.is_allowed(), model.check(now_ns, cost))
        })
        .collect();
    assert_eq!(told.iter().position(|(told, model)| told != model), Some(127));
    assert_eq!(told[127], (true, false));
}

#[test]
fn a_window_that_is_full_of_denials_is_not_written() {
    for text in &ALGORITHMS[1..] {
        let mut engines = Engines::new(&format!("{text} count-denied"));
        assert!(engines.check_ms(3, 100).is_allowed());
        // A denied request fills the window. In policies of two windows a denied request fills it up to twice the
        // limit.
        for _ in 0..5 {
            engines.denied(2, 100);
        }
        let word = engines.word;
        for now_ms in 100..1_000 {
            engines.denied(1 + now_ms % 4, now_ms);
            assert_eq!(engines.word, word, "{text}");
        }
    }
}
