//! The policies of sliding logs: how they are read and printed, the errors, and the limiters that do not accept them.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use tollgate::{
    Algorithm, BuildError, ChangeError, Clock, KeyedLimiter, Limiter, ManualClock, Meter, Policy,
    Quota, RestoreError, SketchLimiter, SketchSize, WhenFull,
};

#[test]
fn every_form_is_read_and_printed_in_one_way() {
    for (text, printed) in [
        ("sliding-log 100/m", "sliding-log 100/m"),
        ("log 100/m", "sliding-log 100/m"),
        ("  Sliding_Log   100/60s ", "sliding-log 100/m"),
        ("LOG 10/250ms", "sliding-log 10/250ms"),
        ("log 1048576/d", "sliding-log 1048576/d"),
        ("log 1/7ns", "sliding-log 1/7ns"),
        ("log 100/m count-denied soft 5%", "sliding-log 100/m soft 5% count-denied"),
        ("log 100/m wait 2s queue 5", "sliding-log 100/m queue 5 wait 2s"),
    ] {
        let policy: Policy = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(policy.to_string(), printed);
        assert_eq!(printed.parse::<Policy>().as_ref(), Ok(&policy));
        assert_eq!(policy.algorithm(), Algorithm::SlidingLog);
    }
}

#[test]
fn a_slip_is_told_where_it_is_and_what_would_be_right() {
    for (text, reason) in [
        ("sliding-log 100", "\"100\" has no period; write <count>/<period>, as in 100/s"),
        (
            "sliding-log -1/m",
            "count \"-1\" is not understood; write a number in digits, as in 10000, 10_000 or 10k",
        ),
        ("log 0/m", "count 0 would admit nothing; it must be at least 1"),
        ("log 1/0s", "period 0 would be an infinite rate; it must be at least 1ns"),
        (
            "sliding-log 100/m burst 100",
            "a sliding log admits its whole count of 100 at once and takes no burst of 100; leave \
             the burst out, or use gcra",
        ),
        ("sliding-log 100/m strict", "sliding-log has no option \"strict\"; it takes none"),
        (
            "sliding-log 100/m penalty 10m after 3",
            "a sliding log takes no penalty: an admission takes a slot, and could not see in the same step that \
             no penalty has begun; leave it out, or use segmented-window",
        ),
        (
            "log 1048577/m",
            "a sliding log keeps a time for each of its 1048577 units, and at most 1048576 are \
             accepted; use gcra or a window",
        ),
        ("log 18446744073709551616/m", "count 18446744073709551616 is above 18446744073709551615"),
    ] {
        let error = text.parse::<Policy>().expect_err(text);
        assert_eq!(error.to_string(), format!("in policy {text:?}: {reason}"));
    }
}

#[test]
fn what_keeps_a_word_refuses_a_log_by_its_name_and_says_what_it_would_take() {
    let log: Policy = "sliding-log 3/h".parse().unwrap();
    let words = "sliding-log 3/h has a slot for each unit, and one word is kept here; use gcra or a window, or a Limiter \
                 or KeyedLimiter of this policy alone";
    let clock = Clock::from(ManualClock::new());
    let refused = |error: Option<BuildError>| {
        assert_eq!(error, Some(BuildError::Policy(words.to_string())));
    };
    refused(Meter::new(log).err());
    let size = SketchSize::new(2, 100).unwrap();
    refused(SketchLimiter::<str>::new(log, size).err());
    let words = "sliding-log 3/h has a slot for each unit, and tiers share cells of one size; use gcra or a window, or a \
                 KeyedLimiter for each plan, and take_up_to there what a key that moves has spent";
    for tiers in [
        KeyedLimiter::<str>::builder(log).tier(Quota::per_hour(3)),
        KeyedLimiter::builder(Quota::per_hour(3)).headroom(log),
        KeyedLimiter::builder(log).changing(),
    ] {
        let refused = tiers.build(10).unwrap_err();
        assert_eq!(refused, BuildError::Policy(words.to_string()));
    }
    let changing = Limiter::builder(Quota::per_hour(3)).changing().build().unwrap();
    assert_eq!(changing.set_quota(log), Err(ChangeError::Log { policy: log }));
    let table = KeyedLimiter::<str>::builder(log).clock(clock.clone()).build(10).unwrap();
    assert!(matches!(table.when_full(WhenFull::Spill), Err(BuildError::Policy(_))));
    let restored = KeyedLimiter::<str>::builder(log).clock(clock.clone()).restore(&[][..]);
    assert!(restored.is_err());
    let mut file = Vec::new();
    Limiter::builder(Quota::per_hour(3)).clock(clock.clone()).build().snapshot(&mut file).unwrap();
    assert!(matches!(
        Limiter::builder(log).clock(clock).restore(&file[..]),
        Err(RestoreError::Policy(_))
    ));
}

#[test]
fn what_is_read_can_be_built() {
    let policy: Policy = "sliding-log 3/h".parse().unwrap();
    assert_eq!(policy, Policy::sliding_log(Quota::per_hour(3)).unwrap());
    let log = Limiter::new(policy);
    assert_eq!([log.check_n(3).is_allowed(), log.check().is_allowed()], [true, false]);
    assert_eq!(log.policy(), policy);
    let logs = KeyedLimiter::<str>::new(policy, 10).unwrap();
    assert_eq!((logs.policy(), logs.entry("alice").peek(1).remaining()), (policy, 3));
}

#[cfg(feature = "serde")]
#[test]
fn serde_reads_and_writes_the_text() {
    let policy: Policy = serde_json::from_str("\"log 10/m\"").expect("a log");
    assert_eq!(serde_json::to_string(&policy).expect("a text"), "\"sliding-log 10/m\"");
}
