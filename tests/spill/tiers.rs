//! Keys without a cell in a table of several quotas, or in a table whose quota changes.

use std::time::Duration;

use ahash::RandomState;
use proptest::prelude::*;
use tollgate::{
    ChangeError, Changeable, Changing, DenialReason, KeyedBuilder, KeyedLimiter, Limiter,
    RestoreError, Timestamp, WhenFull,
};

use crate::common::{clock, new_clock, on, policy};
use crate::spill::crowd::{Table, entry, seeds};

/// 10 s after the start of a minute.
const START: Timestamp = Timestamp::from_secs(1_000_000 * 60 + 10);

/// One of these times is shorter than the time by which a floor is behind the clock, and the other is longer.
const SOON: Duration = Duration::from_micros(100);
const LATER: Duration = Duration::from_millis(9);

/// Every kind of policy, with quotas whose ticks differ.
const TEXTS: [&str; 8] = [
    "gcra 10/m burst 5",
    "gcra 100/s burst 20",
    "gcra 7/h burst 11",
    "fixed-window 5/m",
    "sliding-window 10/m exact",
    "sliding-window 10/m strict",
    "segmented-window 10/m x4",
    "segmented-window 31/m x6",
];

type Builder = KeyedBuilder<u64, Changeable>;

fn tiers(texts: &[&str]) -> Builder {
    let first = KeyedLimiter::builder(policy(texts[0])).changing();
    texts[1..].iter().fold(first, |tiers, text| tiers.tier(policy(text)))
}

fn built(tiers: Builder, capacity: usize) -> Changing<Table> {
    tiers.clock(new_clock()).hasher(seeds()).build(capacity).unwrap()
}

fn table(texts: &[&str], capacity: usize) -> Changing<Table> {
    built(tiers(texts), capacity)
}

/// Gives every cell of a table with one or two shards to a stranger of this tier, which asks for one unit.
fn fill(table: &Table, tier: usize, now: Timestamp) {
    on(now);
    let mut strangers = 1_000..;
    while table.stats().live < table.stats().cells {
        let stranger = entry(table, strangers.next().unwrap(), tier).at(now);
        if !stranger.peek(1).is_spilled() {
            assert!(stranger.check().is_allowed());
        }
    }
    assert_eq!(table.stats().spilled, 0);
}

/// The time at which a stranger's unit has drained.
fn drained(table: &Table, tier: usize) -> Timestamp {
    START + table.entry(&u64::MAX).tier(tier).unwrap().at(START).check().reset_after()
}

#[test]
fn newcomers_of_a_full_table_of_tiers_are_decided_and_never_above_their_quota() {
    let table = table(&["gcra 100/h", "fixed-window 100/h", "sliding-window 100/h exact"], 20_000);
    for stranger in 0..60_000_u64 {
        assert!(table.entry(&stranger).at(START).check().is_allowed());
    }
    on(START);
    let before = table.stats();
    assert_eq!((before.live, before.spilled), (before.cells, 60_000 - before.cells as u64));
    for tier in 0..3 {
        let newcomers = 1_000_000..1_000_500_u64;
        let admits = |key: &u64| entry(&table, *key, tier).at(START).check().is_allowed();
        assert_eq!(newcomers.clone().filter(admits).count(), 500);
        for key in newcomers.take(20) {
            // The first unit is the one that the key was charged above.
            let admitted = 1 + (0..110).filter(|_| admits(&key)).count();
            assert!((40..=100).contains(&admitted), "{admitted}");
        }
    }
    let after = table.stats();
    assert_eq!((after.full, after.contended), (0, 0));
    assert_eq!(after.spilled - before.spilled, 3 * (500 + 20 * 110));
}

#[test]
fn a_flood_in_one_tier_takes_nothing_from_another() {
    let table = table(&["gcra 5/h", "gcra 5/h burst 5"], 10_000);
    for stranger in 0..60_000_u64 {
        let _ = table.entry(&stranger).at(START).check();
    }
    let newcomers = 1_000_000..1_000_200_u64;
    let served = |tier: usize| {
        let admits = |key: &u64| entry(&table, *key, tier).at(START).check().is_allowed();
        newcomers.clone().filter(admits).count()
    };
    assert_eq!([served(0), served(1)], [0, 200]);
}

#[test]
fn the_spill_of_tiers_takes_an_eighth_of_the_tables_memory() {
    for count in [1, 2, 3, 16] {
        let texts = &["gcra 5/h"; 16][..count];
        for capacity in [1, 100, 10_000, 1_000_000] {
            let spilling = table(texts, capacity).stats();
            let denying = built(tiers(texts).when_full(WhenFull::Deny), capacity).stats();
            assert_eq!(spilling.bytes, denying.bytes + spilling.spill_bytes);
            assert_eq!((denying.spill_bytes, denying.cells), (0, spilling.cells));
            let shards = denying.bytes / 64;
            let most = (8 * shards).max(1_024) + 8 * shards.div_ceil(64);
            // A table of tiers has a smaller spill only because it leaves out the cells that cannot be divided among
            // the tiers.
            let rest = 16 * (count - 1);
            assert!((most - rest - 8..=most).contains(&spilling.spill_bytes), "{count} {capacity}");
        }
    }
}

#[test]
fn a_key_takes_what_it_owes_to_its_cell_in_the_ticks_of_its_tier() {
    for (first, text) in TEXTS.iter().enumerate() {
        let other = TEXTS[(first + 3) % TEXTS.len()];
        for (texts, tier) in [([*text, other], 0), ([other, *text], 1)] {
            let (table, own) = (table(&texts, 1), table(&texts, 100));
            let idle = drained(&own, 0);
            fill(&table, 0, START);
            let [here, there] = [&table, &own].map(|table| entry(table, 7, tier));
            let limit = there.peek(0).limit();
            let cost = limit * 3 / 5;
            let spilled = here.at(idle + SOON).check_n(cost);
            assert!(spilled.is_spilled() && spilled.is_allowed(), "{text}: {spilled:?}");
            assert_eq!(spilled.limit(), limit);
            assert!(there.at(idle + SOON).check_n(cost).is_allowed());
            // Now cells are free.
            for now in [LATER, LATER, 2 * LATER, 3 * LATER].map(|on| idle + on) {
                let [one, two] = [here, there].map(|entry| entry.at(now).peek(1));
                assert_eq!(one.remaining(), two.remaining(), "{text} beside {other}");
                assert_eq!(one.reset_after(), two.reset_after(), "{text} beside {other}");
                let [one, two] = [here, there].map(|entry| entry.at(now).check());
                assert_eq!(one.is_allowed(), two.is_allowed(), "{text} beside {other}");
                assert!(!one.is_spilled());
            }
            // The key has used nothing in the other tier.
            let other = entry(&table, 7, 1 - tier).at(idle + LATER).peek(1);
            assert_eq!(other.remaining(), other.limit());
        }
    }
}

#[test]
fn ticks_of_a_tier_that_do_not_fit_beside_the_index_are_rounded_up() {
    // Here a keyed word has finer ticks than there is room for beside an index of five bits.
    let texts = ["gcra 1000000/s burst 50000"; 16];
    let (table, own) = (table(&texts, 1), table(&texts, 100));
    let idle = drained(&own, 0);
    fill(&table, 0, START);
    let [here, there] = [&table, &own].map(|table| entry(table, 7, 15));
    assert!(here.at(idle + SOON).check_n(50_000).is_spilled());
    assert!(there.at(idle + SOON).check_n(50_000).is_allowed());
    let left = [here, there].map(|entry| entry.at(idle + LATER).peek(1));
    assert!(!left[0].is_spilled());
    let [here, there] = left.map(|decision| decision.remaining());
    assert_eq!(there, 8_900); // back after 8.9 ms
    assert!(here == there || here == there - 1, "{here}");
}

#[test]
fn a_change_of_quota_gives_a_spilled_key_nothing_and_takes_nothing() {
    let at = |seconds: u64| START + Duration::from_secs(seconds);
    // The quota changes to slower and faster rates, to larger and smaller bursts, and to other algorithms and back.
    let texts = [
        "gcra 1/s burst 40",
        "gcra 1/m burst 40",
        "gcra 1/m burst 90",
        "gcra 2/s burst 30",
        "fixed-window 50/m",
        "fixed-window 80/m",
        "sliding-window 60/m exact",
        "gcra 1/h burst 40",
    ];
    let headroom =
        |tiers: Builder| texts.iter().fold(tiers, |tiers, text| tiers.headroom(policy(text)));
    let table = built(headroom(tiers(&[texts[0], "gcra 1/d burst 1"])), 1);
    let own = Limiter::builder(policy(texts[0])).clock(clock()).changing().build().unwrap();
    fill(&table, 1, START);
    assert!(
        table.entry(&7).at(at(0)).check_n(30).is_spilled()
            && own.entry().at(at(0)).check_n(30).is_allowed()
    );
    for (second, text) in (1..).zip(texts.iter().cycle().skip(1).take(40)) {
        on(at(second));
        table.set_quota(policy(text)).unwrap();
        own.set_quota(policy(text)).unwrap();
        let [here, there] =
            [table.entry(&7).at(at(second)).peek(0), own.entry().at(at(second)).peek(0)];
        assert!(here.is_spilled());
        assert_eq!((here.limit(), here.remaining()), (there.limit(), there.remaining()), "{text}");
        let here = table.entry(&7).at(at(second)).check_n(3);
        assert_eq!(here.is_allowed(), own.entry().at(at(second)).check_n(3).is_allowed(), "{text}");
    }
    // A key that made no request before the changes has the whole quota.
    let whole = table.entry(&8).at(at(41)).peek(0);
    assert_eq!(whole.remaining(), whole.limit());
    // The debt is still there in the cell that the key gets at last, a day later and under the slowest quota.
    on(at(50));
    table.set_quota(policy("gcra 1/h burst 40")).unwrap();
    let taken = table.entry(&7).at(at(50)).take_up_to(40);
    assert!(taken.is_spilled());
    // 40 units were owed, of which nearly 24 have come back.
    let day = at(86_400);
    assert!(
        !table.entry(&7).at(day).check_n(24).is_allowed()
            && !table.entry(&7).at(day).peek(0).is_spilled()
    );
    assert_eq!(table.entry(&7).at(day).peek(0).remaining(), 23);
}

#[test]
fn a_debt_outlasts_a_change_to_a_slower_rate_also_for_the_cell_that_the_key_gets() {
    let texts = ["gcra 1/s burst 10", "gcra 1/m burst 1"];
    let slow = policy("gcra 1/m burst 10");
    let table = built(tiers(&texts).headroom(slow), 1);
    fill(&table, 1, START);
    assert!(table.entry(&7).at(START).check_n(10).is_spilled());
    on(START + Duration::from_secs(1));
    table.set_quota(slow).unwrap();
    // The strangers' minute is over, and one of the nine units that were owed at the change has come back.
    let now = START + Duration::from_secs(61) + LATER;
    let here = table.entry(&7).at(now).check();
    assert!(!here.is_spilled() && here.is_allowed());
    assert_eq!(here.remaining(), 1);
}

#[test]
fn a_tier_whose_windows_open_with_the_first_request_denies_and_others_are_spilled() {
    let texts = ["fixed-window 5/h from-first", "gcra 5/h"];
    let table = table(&texts, 1);
    fill(&table, 1, START);
    let [first, second] = [0, 1].map(|tier| entry(&table, 7, tier).at(START));
    assert_eq!(first.check().into_result().unwrap_err().reason(), DenialReason::TableFull);
    assert!(second.check().is_spilled());
    assert_eq!((table.stats().full, table.stats().spilled), (1, 1));
    // The charge in the spill stays owed under a window that starts at the first request, and after the change back.
    for text in [texts[0], texts[1]] {
        table.set_tier_quota(1, policy(text)).unwrap();
    }
    assert_eq!(second.peek(0).remaining(), 4);
    // If the caller demands a spill, the error names the tier that cannot have one.
    let refused = built(tiers(&texts), 1).when_full(WhenFull::Spill).map(|_| ()).unwrap_err();
    let named = format!("a spill cannot keep the bound of {}, since", policy(texts[0]));
    assert!(refused.to_string().starts_with(&named), "{refused}");
    let alone = built(tiers(&texts[..1]), 1);
    assert_eq!(alone.stats().spill_bytes, 0);
}

#[test]
fn a_quota_whose_counts_have_no_room_in_the_spill_is_not_changed_to() {
    let wide = policy("sliding-window 40000/s exact");
    let quotas = || tiers(&["sliding-window 10/s exact"]).headroom(wide);
    let spilling = built(quotas(), 1);
    assert!(matches!(spilling.set_quota(wide), Err(ChangeError::DoesNotFit { .. })));
    let denying = built(quotas().when_full(WhenFull::Deny), 1);
    assert_eq!(denying.set_quota(wide), Ok(()));
    // A table that is built with that quota has no spill.
    assert_eq!(built(KeyedLimiter::builder(wide).changing(), 1).stats().spill_bytes, 0);
}

#[test]
fn a_key_that_moves_takes_along_what_it_owes_in_the_spill() {
    let table = table(&["gcra 6/h", "gcra 60/h"], 1);
    fill(&table, 0, START);
    assert!(table.entry(&7).at(START).check_n(5).is_spilled());
    assert_eq!(table.entry(&7).at(START).move_to(1), Ok(5));
    let paid = table.entry(&7).tier(1).unwrap().at(START).peek(0);
    assert!(paid.is_spilled());
    assert_eq!(paid.remaining(), 55);
    assert_eq!(table.entry(&8).at(START).move_to(1), Ok(0));
}

fn saved(table: &Table) -> Vec<u8> {
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    file
}

fn restored(texts: &[&str], file: &[u8]) -> Result<Changing<Table>, RestoreError> {
    tiers(texts).clock(clock()).hasher(seeds()).restore(file)
}

#[test]
fn a_restart_forgets_nothing_of_what_was_spilled_in_any_tier() {
    let texts = ["gcra 10/m burst 5", "fixed-window 5/h", "sliding-window 5/h exact"];
    let table = table(&texts, 1);
    fill(&table, 1, START);
    for tier in 0..3 {
        assert!(
            table.entry(&7).tier(tier).unwrap().at(START).check_n(2 + tier as u64).is_spilled()
        );
    }
    // This also holds for a tier whose quota was changed.
    table.set_tier_quota(2, policy("sliding-window 9/h exact")).unwrap();
    let (texts, file) = ([texts[0], texts[1], "sliding-window 9/h exact"], saved(&table));
    let restored_table = restored(&texts, &file).unwrap();
    let again = saved(&restored_table);
    // The two files may differ in the readings of the wall clock, and so in the checksums.
    assert_eq!(again[336..again.len() - 8], file[336..file.len() - 8]);
    for (tier, left) in [(0, 3), (1, 2), (2, 5)] {
        let answer = restored_table.entry(&7).tier(tier).unwrap().at(START).peek(0);
        assert!(answer.is_spilled());
        assert_eq!(answer.remaining(), left, "tier {tier}");
    }
    // A table that denies is restored as a table that denies.
    let denying = saved(&table.when_full(WhenFull::Deny).unwrap());
    assert_eq!(restored(&texts, &denying).unwrap().stats().spill_bytes, 0);
}

/// An event in a world of two tiers: the seconds that pass, a tier, a key, and the cost of the key's request in fifths
/// of the limit. At 8 or 9 fifths there is no request. Instead the quota of the tier changes, to its first or second
/// choice.
type Event = (u64, usize, u64, u64);

const CHOICES: [[&str; 2]; 2] =
    [["gcra 60/m burst 10", "gcra 15/m burst 20"], ["fixed-window 10/m", "gcra 30/m burst 5"]];

fn events() -> impl Strategy<Value = Vec<Event>> {
    let on = prop_oneof![6 => Just(0), 4 => 0_u64..3, 1 => 0_u64..100];
    prop::collection::vec((on, 0..2_usize, 0..30_u64, 0..10_u64), 1..300)
}

/// Checks that no key is admitted more than a separate limit whose quota changes at the same times. First `more` units
/// of each separate limit are taken.
fn world(capacity: usize, events: &[Event], more: u64) -> Result<u64, TestCaseError> {
    let all = CHOICES.iter().flatten();
    let tiers =
        all.fold(tiers(&[CHOICES[0][0], CHOICES[1][0]]), |t, text| t.headroom(policy(text)));
    let table: Changing<KeyedLimiter<u64, RandomState>> = built(tiers, capacity);
    let live =
        |text: &str| Limiter::builder(policy(text)).clock(clock()).changing().build().unwrap();
    let own = CHOICES.map(|[text, _]| (0..30).map(|_| live(text)).collect::<Vec<_>>());
    let mut now = START;
    own.iter()
        .flatten()
        .for_each(|own| assert!(more == 0 || own.entry().at(now).check_n(more).is_allowed()));
    for &(passed, tier, key, fifths) in events {
        // Whole seconds are whole ticks of each of these quotas.
        now = now + Duration::from_secs(passed);
        let own = (&own[tier], CHOICES[tier]);
        if let Some(choice) = fifths.checked_sub(8) {
            let quota = policy(own.1[usize::try_from(choice).unwrap()]);
            on(now);
            table.set_tier_quota(tier, quota).unwrap();
            own.0.iter().for_each(|own| own.set_quota(quota).unwrap());
            continue;
        }
        let own = &own.0[usize::try_from(key).unwrap()];
        let entry = entry(&table, key, tier).at(now);
        let cost = (entry.peek(0).limit() * fifths / 5).max(1);
        let decision = entry.check_n(cost);
        if decision.is_allowed() {
            prop_assert!(
                own.entry().at(now).check_n(cost).is_allowed(),
                "{key} {cost} {decision:?}"
            );
        }
        prop_assert!(
            decision.remaining() <= own.entry().at(now).peek(0).remaining(),
            "{key} {decision:?}"
        );
    }
    Ok(table.stats().spilled)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_key_of_any_tier_gets_more_than_a_limit_of_its_own_across_changes(
        capacity in 1_usize..12,
        events in events(),
    ) {
        world(capacity, &events, 0)?;
    }
}

/// Thirty keys of both tiers make requests again and again, and a quota changes now and then.
fn greedy() -> Vec<Event> {
    let event = |n: u64| {
        (
            n % 3,
            usize::from(n.is_multiple_of(2)),
            n * 7 % 30,
            if n % 97 == 5 { 8 + n % 2 } else { n % 6 },
        )
    };
    (0..4_000).map(event).collect()
}

#[test]
fn keys_of_tiers_come_and_go_between_the_table_and_the_spill() {
    let spilled = world(1, &greedy(), 0).unwrap();
    assert!((100..3_900).contains(&spilled), "{spilled}");
}

#[test]
fn a_table_of_tiers_that_grants_one_unit_more_is_caught() {
    assert!(world(1, &greedy(), 1).is_err());
}
