//! The policies of sliding logs, and the limiters that do not accept these policies.

use tollgate::{
    BuildError, ChangeError, Clock, KeyedLimiter, Limiter, ManualClock, Meter, Policy, Quota,
    RestoreError, SketchLimiter, SketchSize, WhenFull,
};

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
