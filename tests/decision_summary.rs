//! Figures of decisions. A decision that is made from figures gives the same answers, but it refunds nothing, because
//! no limit made it. Figures that were written are read as the same figures.

use std::time::Duration;

use tollgate::{
    Decision, DecisionSummary, DenialReason, KeyedLimiter, Limiter, ManualClock, Percent, Policy,
    Quota, WhenFull,
};

const ADMITTED: DecisionSummary = DecisionSummary {
    denied: None,
    cost: 3,
    limit: 10,
    soft: Percent::new(0),
    remaining: 7,
    is_over: false,
    is_spilled: false,
    retry_after: None,
    reset_after: Duration::from_secs(3),
};

#[test]
fn a_decision_answers_what_it_was_told() {
    let permit = Decision::from(ADMITTED).into_result().unwrap();
    assert_eq!((permit.cost(), permit.limit(), permit.remaining()), (3, 10, 7));
    assert_eq!(permit.reset_after(), Duration::from_secs(3));
    let retry_after = Some(Duration::from_nanos(1_000_000_001));
    let denied =
        DecisionSummary { denied: Some(DenialReason::OverLimit), cost: 8, retry_after, ..ADMITTED };
    let denial = Decision::from(denied).into_result().unwrap_err();
    assert_eq!((denial.cost(), denial.retry_after()), (8, retry_after));
    assert_eq!(denial.retry_after_secs(), Some(2));
    assert_eq!(denial.reason(), DenialReason::OverLimit);
    let never = Decision::from(DecisionSummary { cost: 11, ..denied }).into_result().unwrap_err();
    assert_eq!((never.reason(), never.retry_after()), (DenialReason::NeverFits, None));
}

#[test]
fn no_limiter_gives_back_what_was_charged_elsewhere() {
    let elsewhere = || Decision::from(ADMITTED).into_result().unwrap();
    let limiter = Limiter::new(Quota::per_hour(10));
    assert!(limiter.check_n(5).is_allowed());
    assert_eq!(limiter.entry().refund(elsewhere()), 0);
    let log = Limiter::new(Policy::sliding_log(Quota::per_hour(10)).unwrap());
    assert!(log.check_n(5).is_allowed());
    assert_eq!(log.entry().refund(elsewhere()), 0);
    assert_eq!(log.entry().peek(1).remaining(), 5);
}

/// One decision of each kind, with its name.
fn decisions() -> Vec<(&'static str, Decision)> {
    let limiter = |text: &str| {
        Limiter::builder(text.parse::<Policy>().unwrap()).clock(ManualClock::new()).build()
    };
    let table = |full| {
        let table =
            KeyedLimiter::builder(Quota::per_hour(5)).clock(ManualClock::new()).build(1).unwrap();
        table.when_full(full).unwrap()
    };
    let newcomer = |table: &KeyedLimiter<u64>, found: &dyn Fn(&Decision) -> bool| {
        (0..1_000).map(|key| table.check_n(&key, 3)).find(found).unwrap()
    };
    let soft = limiter("20/m soft 50%");
    let [_, over, beyond] = [20, 4, 9].map(|cost| soft.check_n(cost));
    let penalised = limiter("2/m penalty 10m after 1");
    assert!(penalised.check_n(2).is_allowed());
    let spilling = table(WhenFull::Spill);
    let is_spilled = |decision: &Decision| decision.is_spilled() && decision.is_allowed();
    let is_refused = |decision: &Decision| decision.is_spilled() && decision.is_denied();
    vec![
        ("admitted", limiter("10/h").check_n(3)),
        ("asked", limiter("10/h").entry().peek(3)),
        ("over", over),
        ("over the limit", beyond),
        ("never", limiter("10/h").check_n(11)),
        ("penalty", penalised.check()),
        ("spilled", newcomer(&spilling, &is_spilled)),
        ("refused by the spill", newcomer(&spilling, &is_refused)),
        ("no cell", newcomer(&table(WhenFull::Deny), &Decision::is_denied)),
        ("a log", limiter("sliding-log 10/m").check_n(4)),
    ]
}

#[test]
fn a_decision_made_of_the_figures_of_another_answers_the_same() {
    for (kind, decision) in decisions() {
        let again = Decision::from(decision.summary());
        assert_eq!(again.summary(), decision.summary(), "{kind}");
        assert_eq!(again, decision, "{kind}");
        assert_eq!(again.retry_after(), decision.retry_after(), "{kind}");
    }
}

#[test]
fn decisions_are_equal_exactly_if_they_answer_the_same() {
    let clock = ManualClock::new();
    let [one, two] =
        [(); 2].map(|()| Limiter::builder(Quota::per_hour(10)).clock(clock.clone()).build());
    let first = one.check_n(4);
    // Decisions are compared by their content, whichever limiter made them, and at whatever time.
    clock.advance(Duration::from_secs(60));
    assert_eq!(first, two.check_n(4));
    assert_ne!(first, two.check_n(4));
    assert_ne!(one.check_n(9), one.check_n(8));
    assert_eq!(one.check_n(9), one.check_n(9));
}

#[test]
fn each_kind_of_denial_has_its_reason() {
    let reasons: Vec<_> = decisions().iter().map(|(_, it)| it.summary().denied).collect();
    use DenialReason::{NeverFits, OverLimit, Penalty, Spilled, TableFull};
    let denied = [OverLimit, NeverFits, Penalty, Spilled, TableFull].map(Some);
    let expected =
        [[None, None, None, denied[0], denied[1]], [denied[2], None, denied[3], denied[4], None]];
    assert_eq!(reasons, expected.concat());
}

#[cfg(feature = "serde")]
#[test]
fn decisions_and_their_figures_are_read_as_they_are_written() {
    for (kind, decision) in decisions() {
        let text = serde_json::to_string(&decision).unwrap();
        assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision, "{kind}: {text}");
        let summary = decision.summary();
        assert_eq!(serde_json::to_string(&summary).unwrap(), text, "{kind}");
        assert_eq!(serde_json::from_str::<DecisionSummary>(&text).unwrap(), summary, "{text}");
    }
    let over = decisions().swap_remove(3).1;
    let expected = r#"{"denied":"over_limit","cost":9,"limit":20,"soft":"50%","remaining":0,"is_over":false,"is_spilled":false,"retry_after":{"secs":9,"nanos":0},"reset_after":{"secs":72,"nanos":0}}"#;
    assert_eq!(serde_json::to_string(&over).unwrap(), expected);
    assert!(serde_json::from_str::<Decision>(r#"{"denied":"bored"}"#).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn a_share_is_read_as_it_is_written() {
    for (share, text) in [(0, "0%"), (25, "0.25%"), (1_250, "12.5%"), (u16::MAX, "655.35%")] {
        let share = Percent::from_hundredths(share);
        assert_eq!(serde_json::to_string(&share).unwrap(), format!("{text:?}"));
        assert_eq!(serde_json::from_str::<Percent>(&format!("{text:?}")).unwrap(), share);
    }
    for text in ["5", "\"5\"", "\"5.001%\"", "\"655.36%\"", "\"%\""] {
        assert!(serde_json::from_str::<Percent>(text).is_err(), "{text}");
    }
}
