//! The bits in a word, and the policies that are refused because they need more bits.

use std::time::Duration;

use tollgate::{KeyedLimiter, Meter, Percent, Policy, PolicyError, Quota, Timestamp, Word};

use crate::common::policy;

#[test]
fn what_a_word_cannot_carry_out_is_refused_when_it_is_built() {
    let gcra = Policy::from(Quota::per_minute(10));
    let window = policy("sliding-window 10/m exact");
    let minute = Duration::from_secs(60);
    let short = Duration::from_nanos(59_999_999_999);
    let told = |refused: Result<Policy, PolicyError>| refused.unwrap_err().to_string();
    for (share_bp, refused) in [
        (0, "0% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%"),
        (10_001, "100.01% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%"),
        (999, "9.99% of a limit of 10 is not one unit; use at least 10%"),
    ] {
        assert_eq!(told(gcra.soft(Percent::from_hundredths(share_bp))), refused);
    }
    assert!(gcra.soft(Percent::new(10)).is_ok() && gcra.soft(Percent::new(100)).is_ok());
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
    // With `soft`, and with `count-denied 1m`, debts may last longer, so penalties have to as well.
    let soft = gcra.soft(Percent::new(50)).unwrap();
    assert_eq!(told(soft.penalty(minute, 1)), too_short(minute, 3 * minute / 2));
    let counted = gcra.count_denied(Some(minute)).unwrap();
    assert_eq!(told(counted.penalty(minute, 1)), too_short(minute, 2 * minute));
    // If the options are named in the opposite order, they are refused, too.
    let reversed = gcra.penalty(minute, 1).unwrap().soft(Percent::new(50));
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
    // A penalty that is a million times as long as the burst takes to drain. The coarsest ticks are 2^-8 units long.
    let error = table("gcra 1000/s penalty 365d after 1000").unwrap_err().to_string();
    assert!(error.starts_with("one key's state needs "), "{error}");
}

#[test]
fn a_word_of_any_bits_is_some_state_and_no_reason_to_panic() {
    // The words come from the SplitMix64 generator.
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    for text in ["gcra 4/2s", "fixed-window 4/2s", "fixed-window 4/2s from-first"] {
        let words = "soft 50% count-denied penalty 10s after 3 extended";
        let meter = Meter::new(policy(&format!("{text} {words}"))).unwrap();
        for _ in 0..3_000 {
            let mut word = Word::from_bits(random() >> (random() % 64));
            let now = Timestamp::from_nanos(random() >> (random() % 64));
            for cost in [1, 6, 0, 7, u64::MAX] {
                let (decision, next) = meter.check(word, now, cost);
                // Every word gives an answer, and a cost that never fits writes no word.
                assert!(decision.remaining() <= 4, "{text}: {decision:?}");
                assert!(cost <= 6 || next == word, "{text}");
                let _ = format!("{:?}", meter.peek(next, now, cost));
                word = next;
            }
        }
    }
}
