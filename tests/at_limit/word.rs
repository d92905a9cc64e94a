//! What a word has room for, and what is refused because it has not.

use std::time::Duration;

use tollgate::{KeyedLimiter, Meter, Policy, PolicyError, Quota, Timestamp, Word};

use super::common::policy;

#[test]
fn what_a_word_cannot_carry_out_is_refused_when_it_is_built() {
    let gcra = Policy::from(Quota::per_minute(10));
    let window = policy("sliding-window 10/m");
    let minute = Duration::from_secs(60);
    let short = Duration::from_nanos(59_999_999_999);
    for (share_bp, refused) in [
        (0, PolicyError::SoftShare { share_bp: 0 }),
        (10_001, PolicyError::SoftShare { share_bp: 10_001 }),
        (999, PolicyError::SoftAddsNothing { limit: 10, share_bp: 999 }),
    ] {
        assert_eq!(gcra.soft(share_bp), Err(refused));
    }
    assert!(gcra.soft(1_000).is_ok() && gcra.soft(10_000).is_ok());
    assert_eq!(window.count_denied(Some(minute)), Err(PolicyError::DeniedWaitOnWindow));
    assert_eq!(gcra.penalty(minute, 0), Err(PolicyError::PenaltyAfterNone));
    let too_short = |length, least| Err(PolicyError::PenaltyTooShort { length, least });
    assert_eq!(gcra.penalty(short, 1), too_short(short, minute));
    assert!(gcra.penalty(minute, 1).is_ok());
    assert_eq!(window.penalty(minute, 1), too_short(minute, 2 * minute));
    assert!(window.penalty(2 * minute, 1).is_ok());
    // With `soft`, and with `count-denied 1m`, a debt may reach further ahead, and so must a penalty.
    let soft = gcra.soft(5_000).unwrap();
    assert_eq!(soft.penalty(minute, 1), too_short(minute, 3 * minute / 2));
    let counted = gcra.count_denied(Some(minute)).unwrap();
    assert_eq!(counted.penalty(minute, 1), too_short(minute, 2 * minute));
    // The same words are refused in the other order, too.
    assert_eq!(gcra.penalty(minute, 1).unwrap().soft(5_000), too_short(minute, 3 * minute / 2));
    let century = Duration::from_secs(100 * 365 * 86_400);
    let wide = policy("fixed-window 2000000000/s").penalty(century, u32::MAX);
    assert!(matches!(wide, Err(PolicyError::DoesNotFit { .. })), "{wide:?}");
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
