//! Quotas and calls that are refused, with their error messages.

use tollgate::{
    BuildError, ChangeError, KeyedLimiter, Limiter, ManualClock, Quota, SnapshotError, WhenFull,
};

use super::{limiter, quota, started};

fn builder() -> tollgate::KeyedBuilder<u64> {
    KeyedLimiter::builder(Quota::per_minute(10)).clock(ManualClock::new())
}

#[test]
fn a_limiter_without_own_quotas_takes_none() {
    let own = Quota::per_minute(20);
    let clock = ManualClock::new();
    let one = Limiter::builder(Quota::per_minute(10)).clock(clock.clone()).build();
    let plain = builder().build(10).unwrap();
    let tiers = builder().tier(Quota::per_minute(50)).build(10).unwrap();
    let logs: KeyedLimiter<u64> =
        KeyedLimiter::builder("sliding-log 5/m".parse::<tollgate::Policy>().unwrap())
            .clock(clock)
            .build(10)
            .unwrap();
    let refused = [
        one.entry().under(own),
        plain.entry(&7).under(own),
        tiers.entry(&7).under(own),
        logs.entry(&7).under(own),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error, ChangeError::NoOwnQuotas);
        let said =
            "this limiter has no quotas for single keys; build it with KeyedBuilder::own_quotas";
        assert_eq!(error.to_string(), said);
    }
    assert_eq!(plain.entry(&7).peek(0).remaining(), 10);
}

#[test]
fn a_quota_that_does_not_fit_is_refused_and_takes_no_place() {
    let (limiter, _) = started(Quota::per_minute(10));
    let entry = limiter.entry(&7);
    for n in 0..100 {
        let error = entry.under(quota(1, 86_400, 1_000_000 + n)).unwrap_err();
        assert!(matches!(error, ChangeError::DoesNotFit { .. }), "{error:?}");
        assert!(error.to_string().contains("headroom"), "{error}");
    }
    assert_eq!(limiter.forget_quotas(), 0);
    assert!((1..=8).all(|burst| entry.under(quota(1, 60, burst)).is_ok()));
}

#[test]
fn a_new_quota_for_which_there_is_no_place_is_refused_until_one_is_forgotten() {
    let builder = builder().own_quotas(3, &[]);
    let limiter = builder.build(100).unwrap();
    let under = |key: u64, burst| limiter.entry(&key).under(quota(10, 60, burst));
    let taken = (1..).take_while(|&burst| under(burst, burst).is_ok());
    let taken: Vec<u64> =
        taken.inspect(|&key| assert!(under(key, key).unwrap().check().is_allowed())).collect();
    assert!(taken.len() >= 3, "{taken:?}");
    let refused = under(99, 9).unwrap_err();
    assert_eq!(refused, ChangeError::TooManyQuotas { most: taken.len() });
    assert!(refused.to_string().contains("forget_quotas"), "{refused}");
    assert_eq!(limiter.forget_quotas(), 0);
    limiter.entry(&1).reset();
    assert_eq!(limiter.forget_quotas(), 1);
    assert!(under(99, 9).unwrap().check().is_allowed());
}

#[test]
fn as_many_quotas_as_were_asked_for_find_a_place() {
    let like = [1, 4_096].map(|count| quota(count, 60_000, 5));
    for most in [1, 2, 3, 30, 1_000, 4_096] {
        let limiter = builder().own_quotas(most, &like).build(10).unwrap();
        for n in 0..u64::try_from(most).unwrap() {
            assert!(limiter.entry(&n).under(quota(1 + n, 60_000, 5)).is_ok(), "{n} of {most}");
        }
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let error = builder().own_quotas(4_097, &[]).build(10).unwrap_err();
    assert!(matches!(error, BuildError::OutOfRange(_)), "{error:?}");
    let said = "a table cannot have 4097 own quotas at a time; use 1 to 4096";
    assert_eq!(error.to_string(), said);
    for text in
        ["fixed-window 5/m", "gcra 5/m count-denied", "gcra 5/m soft 50%", "sliding-log 5/m"]
    {
        let policy: tollgate::Policy = text.parse().unwrap();
        let builder = KeyedLimiter::<u64>::builder(policy).clock(ManualClock::new());
        let error = builder.own_quotas(10, &[]).build(10).unwrap_err();
        assert!(matches!(error, BuildError::Policy(_)), "{error:?}");
        assert!(error.to_string().contains(text.split(' ').next().unwrap()), "{error}");
    }
    let [fast, slow] =
        [Quota::per_second(1_000_000).burst(1_000_000), Quota::per_day(1).burst(1_000)];
    let error = builder().own_quotas(4_096, &[fast, slow]).build(10).unwrap_err();
    assert!(matches!(error, BuildError::Policy(_)), "{error:?}");
}

#[test]
fn a_full_table_denies_and_is_refused_a_spill() {
    let error = builder().own_quotas(10, &[]).when_full(WhenFull::Spill).build(10).unwrap_err();
    assert!(error.to_string().contains("WhenFull::Deny"), "{error}");
    let limiter = builder().own_quotas(10, &[]).when_full(WhenFull::Deny).build(10).unwrap();
    let under = |key: u64| limiter.entry(&key).under(Quota::per_hour(9)).unwrap();
    let full =
        (0..10_000).map(|key| under(key).check()).find(tollgate::Decision::is_denied).unwrap();
    assert_eq!(full.denial().unwrap().reason(), tollgate::DenialReason::TableFull);
    assert_eq!(limiter.stats().spilled, 0);
}

#[test]
fn a_snapshot_is_refused() {
    let limiter = limiter(Quota::per_minute(10), ManualClock::new());
    let error = limiter.snapshot(std::io::sink()).unwrap_err();
    assert!(matches!(error, SnapshotError::OwnQuotas));
    assert_eq!(error.to_string(), "a KeyedLimiter with own_quotas has no snapshot");
}

#[test]
fn there_is_no_tier_beyond_the_first() {
    let (limiter, _) = started(Quota::per_minute(10));
    let own = limiter.entry(&7).under(Quota::per_minute(5)).unwrap();
    for entry in [limiter.entry(&7), own] {
        assert!(entry.tier(0).is_ok());
        for tier in [1, 7, 1 << 16] {
            let none = ChangeError::NoSuchTier { tier, tiers: 1 };
            assert_eq!(entry.tier(tier).unwrap_err(), none);
            assert_eq!(entry.move_to(tier), Err(none));
        }
    }
    assert_eq!(limiter.policies(), [Quota::per_minute(10).into()]);
}
