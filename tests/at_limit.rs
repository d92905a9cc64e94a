//! What happens at the limit: soft, count-denied and penalty, promise by promise.
//!
//! Each script runs through the pure function, the shared limiter and the keyed table at once.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::time::Duration;

use common::{decisions, every, policy, together};
use tollgate::{
    Decision, Denial, KeyedLimiter, Limiter, ManualClock, Meter, Permit, Policy, PolicyError,
    Quota, Timestamp, Word,
};

const SECOND_NS: u64 = 1_000_000_000;

/// Every algorithm at 4 units per 2 s.
const ALGORITHMS: [&str; 7] = [
    "gcra 4/2s",
    "fixed-window 4/2s",
    "fixed-window 4/2s from-first",
    "sliding-window 4/2s",
    "sliding-window 4/2s round-down",
    "sliding-window 4/2s strict",
    "segmented-window 4/2s x2",
];

/// One limit in all three engines, at times in milliseconds.
struct Engines {
    meter: Meter,
    word: Word,
    limiter: Limiter,
    keyed: KeyedLimiter<str>,
}

impl Engines {
    fn new(text: &str) -> Self {
        let policy = policy(text);
        Self {
            meter: Meter::new(policy),
            word: Word::UNUSED,
            limiter: Limiter::with_clock(policy, ManualClock::new()),
            keyed: KeyedLimiter::with_clock(policy, 10, ManualClock::new()).unwrap(),
        }
    }

    fn check(&mut self, cost: u64, now: Timestamp) -> Decision {
        let (pure, next) = self.meter.check(self.word, now, cost);
        self.word = next;
        let shared = self.limiter.entry().at(now).check(cost);
        let in_table = self.keyed.entry("key").at(now).check(cost);
        assert_eq!(format!("{pure:?}"), format!("{shared:?}"));
        // A keyed word may round times that are not whole ticks or quanta.
        assert_eq!(told(&pure), told(&in_table));
        pure
    }

    fn check_ms(&mut self, cost: u64, now_ms: u64) -> Decision {
        self.check(cost, Timestamp::from_millis(now_ms))
    }

    fn denied(&mut self, cost: u64, now_ms: u64) -> Denial {
        self.check_ms(cost, now_ms).into_result().unwrap_err()
    }

    fn admitted(&mut self, cost: u64, now_ms: u64) -> Permit {
        self.check_ms(cost, now_ms).into_result().unwrap()
    }
}

/// What a decision says, but for times: allowed, limit, remaining, and whether it is over or a penalty.
fn told(decision: &Decision) -> (bool, u64, u64, bool) {
    let marked = match decision {
        Decision::Allowed(permit) => permit.is_over(),
        Decision::Denied(denial) => denial.is_penalty(),
    };
    (decision.is_allowed(), decision.limit(), decision.remaining(), marked)
}

fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}

#[test]
fn soft_is_green_up_to_the_limit_then_yellow_then_red() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} soft 50%"));
        let told: Vec<_> = (0..8)
            .map(|_| match engines.check_ms(1, 100) {
                Decision::Allowed(permit) if permit.is_over() => ("yellow", permit.remaining()),
                Decision::Allowed(permit) => ("green", permit.remaining()),
                Decision::Denied(denial) => ("red", denial.remaining()),
            })
            .collect();
        let green = [("green", 3), ("green", 2), ("green", 1), ("green", 0)];
        let beyond = [("yellow", 0), ("yellow", 0), ("red", 0), ("red", 0)];
        assert_eq!(told, [green, beyond].concat(), "{text}");
        assert_eq!(engines.denied(1, 100).limit(), 4);
        // 7 never fits, 6 does at some time.
        assert!(engines.denied(7, 100).is_never());
        assert!(!engines.denied(6, 100).is_never());
    }
}

#[test]
fn soft_tells_the_wait_for_the_softened_limit_at_the_same_rate() {
    let mut engines = Engines::new("gcra 4/2s soft 50%");
    assert!(engines.admitted(6, 100).is_over());
    // A unit comes back every half second.
    let denial = engines.denied(2, 100);
    assert_eq!(denial.retry_after(), secs(1));
    assert_eq!(denial.reset_after(), Duration::from_secs(3));
    assert!(engines.admitted(2, 1_100).is_over());
    // Below the named limit again: 6 units at 1.1 s, 3 left of them at 2.6 s.
    let permit = engines.admitted(1, 2_600);
    assert_eq!((permit.is_over(), permit.remaining()), (false, 0));
}

#[test]
fn a_cost_that_the_named_limit_denies_is_over_also_from_rest_and_for_a_peek() {
    for text in ALGORITHMS {
        let meter = Meter::new(policy(&format!("{text} soft 25%")));
        let now = Timestamp::from_millis(100);
        for (cost, over) in [(4, false), (5, true)] {
            let peek = meter.peek(Word::UNUSED, now, cost).into_result().unwrap();
            let check = meter.check(Word::UNUSED, now, cost).0.into_result().unwrap();
            assert_eq!((peek.is_over(), check.is_over()), (over, over), "{text} {cost}");
            assert_eq!((peek.remaining(), check.remaining()), (4, 0));
        }
    }
}

#[test]
fn vector_17_a_key_that_asks_too_much_for_ever_gets_nothing_while_denials_count() {
    // 12 a minute of 10: an hour long.
    let hour = every(0, 5_000, 720);
    for text in ["gcra 10/60s", "sliding-window 10/60s", "sliding-window 10/60s round-down"] {
        let counted = decisions(&format!("{text} count-denied"), &hour);
        let lockout = counted.find('D').unwrap();
        assert!(!counted[lockout..].contains('A'), "{text}: {counted}");
        // Not counted, nearly 10 of 12 pass in every minute.
        let passed = decisions(text, &hour).matches('A').count();
        assert!((540..=610).contains(&passed), "{text}: {passed}");
    }
}

#[test]
fn vector_17_each_further_call_extends_the_wait_up_to_the_stop() {
    let meter = Meter::new(policy("sliding-window 500/h count-denied"));
    let now = Timestamp::from_secs(1_800);
    let mut word = meter.check(Word::UNUSED, now, 500).1;
    let mut last = Duration::ZERO;
    for call in 1..=600 {
        let (decision, next) = meter.check(word, now, 1);
        let wait = decision.into_result().unwrap_err().retry_after().unwrap();
        assert_eq!(wait > last, call <= 500, "call {call}");
        (word, last) = (next, wait);
    }
    // 1,000 counted weigh no more than 499 at 50.1 % of the next hour.
    assert_eq!(last, Duration::from_millis(1_800_000 + 1_803_600));
}

#[test]
fn vector_54_a_capped_charge_of_denials_does_not_lock_out() {
    // 40 % of the rate: others answer T T F F F ... for ever.
    let hits = every(0, 5_000, 100);
    for text in ["gcra 2/6s", "fixed-window 2/6s", "fixed-window 2/6s from-first"] {
        assert_eq!(decisions(&format!("{text} count-denied"), &hits), "A".repeat(100), "{text}");
    }
    // Two counters deny one in six of these anyway, and no more when that one counts.
    let plain = decisions("sliding-window 2/6s", &hits);
    assert_eq!(decisions("sliding-window 2/6s count-denied", &hits), plain);
    assert_eq!(plain.matches('D').count(), 16);
    // Also after a flood: the wait for one unit is at most 6 s, and soon every call passes again.
    let flood = [together("0:00", 50), every(5_000, 5_000, 20)].concat();
    let told = decisions("gcra 2/6s count-denied", &flood);
    assert_eq!(told, format!("AA{}D{}", "D".repeat(48), "A".repeat(19)));
}

#[test]
fn a_denied_charge_is_cut_so_that_one_unit_waits_no_longer_than_told() {
    let mut engines = Engines::new("gcra 1/s burst 10 count-denied 4s");
    assert!(engines.check_ms(10, 0).is_allowed());
    // In full at first, then cut: the level stops at 10 - 1 + 4.
    let waits: Vec<_> = [1, 1, 1, 1, 1, 9]
        .map(|cost| {
            engines.denied(cost, 0);
            engines.meter.peek(engines.word, Timestamp::default(), 1).into_result().unwrap_err()
        })
        .map(|denial| denial.retry_after().unwrap().as_secs())
        .to_vec();
    assert_eq!(waits, [2, 3, 4, 4, 4, 4]);
    // What was there before is not cut: a smaller C would lower it.
    assert_eq!(engines.denied(10, 0).retry_after(), secs(13));
}

#[test]
fn a_full_bucket_is_not_lowered_by_a_short_c() {
    let mut engines = Engines::new("gcra 1/s burst 10 count-denied 0s");
    assert!(engines.check_ms(10, 0).is_allowed());
    let word = engines.word;
    assert_eq!(engines.denied(5, 0).retry_after(), secs(5));
    assert_eq!(engines.word, word);
    // At 5 units a denied 6 fills it up to where one unit still fits.
    engines.denied(6, 5_000);
    assert_eq!(engines.meter.peek(engines.word, Timestamp::from_secs(5), 0).remaining(), 1);
}

#[test]
fn counting_denials_decides_as_before_where_the_window_is_full_anyway() {
    for text in ["fixed-window 4/2s", "sliding-window 4/2s strict", "segmented-window 4/2s x2"] {
        let requests: Vec<_> = every(0, 170, 200);
        let counted = decisions(&format!("{text} count-denied"), &requests);
        assert!(counted.contains('A') && counted.contains('D'));
        if text.starts_with("fixed") {
            assert_eq!(counted, decisions(text, &requests), "{text}");
        } else {
            // There denials that were counted weigh on later windows: no more is admitted than without them.
            let admitted = |told: &str| told.matches('A').count();
            assert!(admitted(&counted) <= admitted(&decisions(text, &requests)), "{text}");
        }
    }
}

#[test]
fn a_denied_request_for_the_whole_limit_is_counted() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 1"));
        assert!(engines.check_ms(1, 1_000).is_allowed());
        assert!(engines.denied(4, 1_000).is_penalty(), "{text}");
        assert!(engines.denied(1, 1_000).is_penalty(), "{text}");
    }
}

#[test]
fn a_penalty_is_half_open_and_then_the_limit_is_as_never_used() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 3"));
        assert!(engines.check_ms(4, 1_000).is_allowed());
        assert!(!engines.denied(1, 1_000).is_penalty());
        assert!(!engines.denied(1, 1_000).is_penalty());
        let third = engines.denied(1, 1_000);
        assert!(third.is_penalty(), "{text}");
        assert_eq!((third.retry_after(), third.reset_after()), (secs(10), Duration::from_secs(10)));
        assert_eq!((third.remaining(), third.limit()), (0, 4));
        let word = engines.word;
        let end_ns = 11 * SECOND_NS;
        for now_ns in [SECOND_NS, 6 * SECOND_NS, end_ns - 1] {
            let denial = engines.check(1, Timestamp::from_nanos(now_ns)).into_result().unwrap_err();
            assert!(denial.is_penalty(), "{text} at {now_ns}");
            let wait = Duration::from_nanos(end_ns - now_ns);
            assert_eq!(denial.retry_after(), Some(wait));
            assert!(denial.to_string().contains("refused for a while"), "{denial}");
        }
        assert_eq!(engines.word, word, "{text}: a denial during a penalty wrote");
        let end = Timestamp::from_nanos(end_ns);
        assert_eq!(engines.meter.peek(engines.word, end, 0).remaining(), 4, "{text}");
        assert!(engines.check(4, end).is_allowed(), "{text}");
        // And the count of denials in a row begins anew.
        assert!(!engines.denied(1, 11_000).is_penalty());
        assert!(!engines.denied(1, 11_000).is_penalty());
        assert!(engines.denied(1, 11_000).is_penalty(), "{text}");
    }
}

#[test]
fn an_admission_ends_the_row_of_denials_and_what_asks_for_nothing_or_too_much_is_not_in_it() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 2"));
        assert!(engines.check_ms(3, 1_000).is_allowed());
        assert!(!engines.denied(2, 1_000).is_penalty());
        assert!(engines.check_ms(1, 1_000).is_allowed());
        assert!(!engines.denied(2, 1_000).is_penalty());
        let word = engines.word;
        for _ in 0..5 {
            let _ = engines.check_ms(0, 1_000);
            assert!(engines.denied(5, 1_000).is_never());
            let _ = engines.limiter.entry().at(Timestamp::from_secs(1)).peek(1);
            let _ = engines.keyed.entry("key").at(Timestamp::from_secs(1)).peek(1);
        }
        assert_eq!(engines.word, word, "{text}");
        assert!(engines.denied(1, 1_000).is_penalty(), "{text}");
    }
}

#[test]
fn during_a_penalty_also_a_peek_and_what_never_fits_are_told_of_it() {
    let mut engines = Engines::new("gcra 4/2s penalty 10s after 1");
    assert!(engines.check_ms(4, 0).is_allowed());
    engines.denied(1, 0);
    for cost in [0, 1, 4] {
        let peek = engines.meter.peek(engines.word, Timestamp::from_secs(4), cost);
        let denial = peek.into_result().unwrap_err();
        assert_eq!((denial.is_penalty(), denial.retry_after()), (true, secs(6)));
    }
    let never = engines.denied(5, 4_000);
    assert!(never.is_never() && never.is_penalty());
    assert_eq!((never.retry_after(), never.remaining()), (None, 0));
}

#[test]
fn an_extended_penalty_ends_its_length_after_the_last_denial() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} penalty 10s after 1 extended"));
        assert!(engines.check_ms(4, 0).is_allowed());
        for (now_ms, wait) in [(0, 10), (5_000, 10), (14_000, 10), (23_000, 10)] {
            assert_eq!(engines.denied(1, now_ms).retry_after(), secs(wait), "{text} at {now_ms}");
        }
        // A late denial, and requests that are not counted, leave the end where it is.
        assert_eq!(engines.denied(1, 13_000).retry_after(), secs(20), "{text}");
        assert!(engines.denied(5, 30_000).is_never());
        assert!(!engines.check_ms(0, 30_000).is_allowed());
        assert!(!engines.check(1, Timestamp::from_nanos(33 * SECOND_NS - 1)).is_allowed());
        let mut after = Engines::new(&format!("{text} penalty 10s after 1 extended"));
        assert!(after.check_ms(4, 0).is_allowed());
        after.denied(1, 0);
        assert!(after.check_ms(4, 10_000).is_allowed(), "{text}");
    }
}

#[test]
fn a_late_denial_starts_a_penalty_that_forgives_nothing() {
    for text in ALGORITHMS {
        let meter = Meter::new(policy(&format!("{text} penalty 4s after 1")));
        let spent = meter.check(Word::UNUSED, Timestamp::from_secs(20), 4).1;
        // Ten seconds late: four seconds from the request's time would end before what was admitted has drained.
        let (decision, penalised) = meter.check(spent, Timestamp::from_secs(10), 1);
        let denial = decision.into_result().unwrap_err();
        assert!(denial.is_penalty(), "{text}");
        let end = Timestamp::from_secs(10) + denial.retry_after().unwrap();
        assert!(end > Timestamp::from_secs(20), "{text}");
        let free = Meter::new(policy(text));
        let word = free.check(Word::UNUSED, Timestamp::from_secs(20), 4).1;
        assert!(free.peek(word, end, 4).is_allowed(), "{text}");
        assert!(meter.peek(penalised, end, 4).is_allowed(), "{text}");
    }
}

#[test]
fn with_count_denied_the_charge_comes_before_the_count() {
    // The third denial charges up to 2 units and 2 seconds more, and then begins the penalty.
    let mut engines = Engines::new("gcra 1/s burst 2 count-denied 2s penalty 4s after 3");
    assert!(engines.check_ms(2, 0).is_allowed());
    assert_eq!(engines.denied(1, 0).retry_after(), secs(2));
    assert_eq!(engines.denied(1, 0).retry_after(), secs(2));
    let third = engines.denied(1, 0);
    assert_eq!((third.is_penalty(), third.retry_after()), (true, secs(4)));
    assert!(engines.check_ms(2, 4_000).is_allowed());
}

#[test]
fn a_penalty_and_soft_are_one_policy() {
    let mut engines = Engines::new("fixed-window 4/2s soft 50% count-denied penalty 6s after 2");
    assert!(!engines.admitted(4, 0).is_over());
    assert!(engines.admitted(1, 0).is_over());
    assert!(!engines.denied(2, 0).is_penalty());
    // The denied request for 2 units was counted, and has filled what was left.
    assert!(engines.denied(1, 0).is_penalty());
    assert!(engines.check_ms(6, 6_000).is_allowed());
}

#[test]
fn a_penalised_key_keeps_its_cell_in_a_full_table_and_over_many_epochs() {
    let policy = policy("gcra 1/s burst 1 penalty 30d after 1");
    let table = KeyedLimiter::with_clock(policy, 8, ManualClock::new()).unwrap();
    assert!(table.entry(&0).at(Timestamp::from_secs(1)).check(1).is_allowed());
    assert!(!table.entry(&0).at(Timestamp::from_secs(1)).check(1).is_allowed());
    let epoch = table.stats().epoch;
    let month_s = 30 * 86_400;
    // A flood of others at every epoch, and every hour.
    let step_s = epoch.as_secs().clamp(1, 3_600);
    for second in (2..=month_s).step_by(usize::try_from(step_s).unwrap()) {
        let now = Timestamp::from_secs(second);
        for key in 1..40 {
            let _ = table.entry(&key).at(now).check(1);
        }
        let denial = table.entry(&0).at(now).peek(1).into_result().unwrap_err();
        assert_eq!(denial.retry_after(), Some(Duration::from_secs(month_s + 1 - second)));
    }
    assert!(table.entry(&0).at(Timestamp::from_secs(month_s + 1)).check(1).is_allowed());
}

#[test]
fn what_a_word_cannot_carry_out_is_refused_when_it_is_built() {
    let gcra = Policy::from(Quota::per_minute(10));
    let window = policy("sliding-window 10/m");
    let minute = Duration::from_secs(60);
    let short = Duration::from_nanos(59_999_999_999);
    let told = |refused: Result<Policy, PolicyError>| refused.unwrap_err().to_string();
    for (share_bp, refused) in [
        (0, "0% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%"),
        (10_001, "100.01% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%"),
        (999, "9.99% of a limit of 10 is not one unit; use at least 10%"),
    ] {
        assert_eq!(told(gcra.soft(share_bp)), refused);
    }
    assert!(gcra.soft(1_000).is_ok() && gcra.soft(10_000).is_ok());
    let no_wait = told(window.count_denied(Some(minute)));
    assert!(no_wait.starts_with("a window has no longest wait for denied requests"), "{no_wait}");
    assert!(told(gcra.penalty(minute, 0)).ends_with("would refuse everything; use at least 1"));
    let too_short = |length: Duration, least: Duration| {
        format!(
            "a penalty of {length:?} would end before what was admitted has ceased to count; \
             use at least {least:?}"
        )
    };
    assert_eq!(told(gcra.penalty(short, 1)), too_short(short, minute));
    assert!(gcra.penalty(minute, 1).is_ok());
    assert_eq!(told(window.penalty(minute, 1)), too_short(minute, 2 * minute));
    assert!(window.penalty(2 * minute, 1).is_ok());
    // With `soft`, and with `count-denied 1m`, a debt may reach further ahead, and so must a penalty.
    let soft = gcra.soft(5_000).unwrap();
    assert_eq!(told(soft.penalty(minute, 1)), too_short(minute, 3 * minute / 2));
    let counted = gcra.count_denied(Some(minute)).unwrap();
    assert_eq!(told(counted.penalty(minute, 1)), too_short(minute, 2 * minute));
    // The same words are refused in the other order, too.
    let reversed = gcra.penalty(minute, 1).unwrap().soft(5_000);
    assert_eq!(told(reversed), too_short(minute, 3 * minute / 2));
    let century = Duration::from_secs(100 * 365 * 86_400);
    let wide = policy("fixed-window 2000000000/s").penalty(century, u32::MAX);
    assert!(told(wide).starts_with("the counts and the window number need"));
}

#[test]
fn a_keyed_word_has_room_for_the_end_of_a_penalty_or_is_refused() {
    let table = |text: &str| KeyedLimiter::<str>::new(policy(text), 10).map(|table| table.stats());
    let plain = table("gcra 10/m").unwrap();
    let penalised = table("gcra 10/m penalty 1h after 5").unwrap();
    assert!(penalised.state_bits > plain.state_bits || penalised.epoch < plain.epoch);
    // A penalty a million times as long as the burst takes to drain, in ticks of 2^-8 units at the coarsest.
    let error = table("gcra 1000/s penalty 365d after 1000").unwrap_err().to_string();
    assert!(error.starts_with("one key's state needs "), "{error}");
}

#[test]
fn a_word_of_any_bits_is_some_state_and_no_reason_to_panic() {
    // SplitMix64.
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    for text in ["gcra 4/2s", "fixed-window 4/2s", "fixed-window 4/2s from-first"] {
        let words = "soft 50% count-denied penalty 10s after 3 extended";
        let meter = Meter::new(policy(&format!("{text} {words}")));
        for _ in 0..3_000 {
            let mut word = Word::from_bits(random() >> (random() % 64));
            let now = Timestamp::from_nanos(random() >> (random() % 64));
            for cost in [1, 6, 0, 7, u64::MAX] {
                let (decision, next) = meter.check(word, now, cost);
                // Every word gives an answer, and a cost that never fits writes nothing.
                assert!(decision.remaining() <= 4, "{text}: {decision:?}");
                assert!(cost <= 6 || next == word, "{text}");
                let _ = format!("{:?}", meter.peek(next, now, cost));
                word = next;
            }
        }
    }
}
