//! Tables of several quotas: the file names the quotas, and a restore with other quotas is refused.

use std::time::Duration;

use tollgate::{
    BuildError, ChangeError, Changeable, Changing, Clock, DenialReason, KeyedBuilder, KeyedLimiter,
    ManualClock, Policy, Quota, RestoreError, Timestamp,
};

use crate::common::{clock, on, policy};
use crate::snapshot::file::{HASHER, Times, WORDS_AT, at_wall, get, put, seal, wall};

type Table = KeyedLimiter<u64, Times>;

const TEXTS: [&str; 3] = ["gcra 1/m burst 3", "fixed-window 10/m", "sliding-window 20/h exact"];

type Builder = KeyedBuilder<u64, Changeable>;

fn tiers(texts: &[&str]) -> Builder {
    let first = KeyedLimiter::builder(policy(texts[0])).changing();
    texts[1..].iter().fold(first, |tiers, text| tiers.tier(policy(text)))
}

fn table() -> Changing<Table> {
    tiers(&TEXTS).clock(clock()).hasher(HASHER).build(20).unwrap()
}

fn saved(table: &Table) -> Vec<u8> {
    let mut file = Vec::new();
    let summary = table.snapshot(&mut file).unwrap();
    assert_eq!(summary.bytes, file.len() as u64);
    at_wall(file, wall(0))
}

fn restore(tiers: Builder, file: &[u8]) -> Result<Changing<Table>, RestoreError> {
    tiers.clock(clock()).hasher(HASHER).restore(file)
}

fn charged() -> Changing<Table> {
    let table = table();
    for key in 0..9 {
        let entry = table.entry(&key).tier(usize::try_from(key % 3).unwrap()).unwrap();
        assert!(entry.at(Timestamp::from_secs(key)).check_n(1 + key / 3).is_allowed());
    }
    table
}

/// An epoch this long cannot be doubled within the times of the clock, but the widths of fields still follow from it.
#[test]
fn quotas_of_years_are_restored_as_they_were_laid_out() {
    for text in ["fixed-window 3/365d", "gcra 1/365d burst 3", "sliding-window 3/365d exact"] {
        let table = tiers(&[text]).clock(clock()).hasher(HASHER).build(20).unwrap();
        assert!(table.check_n(&7, 3).is_allowed());
        let file = saved(&table);
        let restored = restore(tiers(&[text]), &file).unwrap();
        assert_eq!(saved(&restored), file, "{text}");
        assert!(!restored.check(&7).is_allowed(), "{text}");
    }
}

#[test]
fn a_restart_forgets_nothing_of_any_tier() {
    let table = charged();
    let file = saved(&table);
    let restored = restore(tiers(&TEXTS), &file).unwrap();
    assert_eq!(saved(&restored), file);
    assert_eq!(restored.policies(), table.policies());
    for tier in 0..3 {
        for key in 0..12 {
            for seconds in [9, 30, 70, 4_000] {
                let now = Timestamp::from_secs(seconds);
                let answers = [&table, &restored].map(|table| {
                    let answer = table.entry(&key).tier(tier).unwrap().at(now).peek(1);
                    (answer.limit(), answer.remaining())
                });
                assert_eq!(answers[1], answers[0], "tier {tier}, key {key} at {seconds} s");
            }
        }
    }
    assert_eq!(
        restored.entry(&6).tier(0).unwrap().at(Timestamp::from_secs(9)).peek(1).remaining(),
        0
    );
}

#[test]
fn a_limiter_with_seeds_of_its_own_finds_its_keys_again() {
    let quotas = || KeyedLimiter::builder(Quota::per_hour(2)).tier(Quota::per_hour(50));
    let table: Changing<KeyedLimiter<str>> = quotas().clock(ManualClock::new()).build(100).unwrap();
    assert!(table.entry("alice").tier(1).unwrap().check_n(50).is_allowed());
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let restored: Changing<KeyedLimiter<str>> =
        quotas().clock(ManualClock::new()).restore(&file[..]).unwrap();
    assert!(!restored.entry("alice").tier(1).unwrap().check().is_allowed());
    assert!(restored.check_n("alice", 2).is_allowed());
    // The restored table is saved with the same quotas again.
    let mut again = Vec::new();
    restored.snapshot(&mut again).unwrap();
    assert!(quotas().clock(ManualClock::new()).restore(&again[..]).is_ok());
}

#[test]
fn what_was_changed_is_saved_as_it_was_changed() {
    let table = charged();
    let at = Timestamp::from_secs;
    let second = policy("fixed-window 12/m");
    on(at(10));
    table.set_tier_quota(1, second).unwrap();
    assert_eq!(table.policies()[1], second);
    let file = saved(&table);
    assert_eq!(
        restore(tiers(&TEXTS), &file).unwrap_err().to_string(),
        format!(
            "tier 1 was \"fixed-window 12/m\" when the snapshot was taken; only one that was {:?} is read",
            TEXTS[1]
        )
    );
    let restored = restore(tiers(&[TEXTS[0], "fixed-window 12/m", TEXTS[2]]), &file).unwrap();
    assert_eq!(saved(&restored), file);
    assert_eq!(restored.entry(&7).tier(1).unwrap().at(at(20)).peek(1).remaining(), 9);
    // The quotas of the restored table can be changed again, but not at a time before the last change.
    on(at(5));
    restored.set_tier_quota(1, policy(TEXTS[1])).unwrap();
    assert_eq!(restored.entry(&7).tier(1).unwrap().at(at(20)).peek(1).remaining(), 7);
    on(at(11));
    for _ in 0..20 {
        restored.set_tier_quota(2, policy("sliding-window 30/h exact")).unwrap();
        restored.set_tier_quota(2, policy(TEXTS[2])).unwrap();
    }
    assert_eq!(restored.entry(&8).tier(2).unwrap().at(at(20)).peek(1).remaining(), 17);
    assert_eq!(restored.entry(&6).tier(0).unwrap().at(at(9)).peek(1).remaining(), 0);
}

#[test]
fn other_tiers_are_refused_and_told() {
    let file = saved(&charged());
    let refused = |texts: &[&str]| restore(tiers(texts), &file).unwrap_err();
    let [one, two, three] = TEXTS;
    for (texts, number) in [(&[one, two][..], 2), (&[one, two, three, three][..], 4)] {
        let RestoreError::Policy(told) = refused(texts) else { panic!("{texts:?}") };
        assert_eq!(told, format!("the snapshot's number of tiers is 3; it must be {number}"));
    }
    let RestoreError::Policy(told) = refused(&[two, one, three]) else { panic!("the other order") };
    assert!(told.starts_with("tier 0 was"), "{told}");
    assert_eq!(
        refused(&["gcra 1/m burst 2", two, three]).to_string(),
        "tier 0 was \"gcra 1/m burst 3\" when the snapshot was taken; only one that was \
         \"gcra 1/m burst 2\" is read"
    );
    let soft = format!("{three} soft 50%");
    assert!(refused(&[one, two, &soft]).to_string().starts_with("tier 2 was"));
    assert!(matches!(
        refused(&[one, two, "sliding-log 100/m"]),
        RestoreError::Build(BuildError::Policy(_))
    ));
}

#[test]
fn headroom_may_be_another_if_it_fits() {
    let file = saved(&charged());
    let near: Policy = policy("gcra 2/m burst 4");
    assert!(restore(tiers(&TEXTS).headroom(near), &file).is_ok());
    let far = policy("gcra 1000000/s burst 1000000");
    match restore(tiers(&TEXTS).headroom(far), &file).unwrap_err() {
        RestoreError::Policy(told) => {
            let expected = format!("{:?} does not fit in the snapshot's words; ", far.to_string());
            assert!(told.starts_with(&expected), "{told}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_table_of_one_quota_is_none_of_tiers_and_the_other_way_round() {
    let one = policy(TEXTS[0]);
    let plain = KeyedLimiter::<u64>::builder(one)
        .clock(ManualClock::new())
        .hasher(HASHER)
        .build(20)
        .unwrap();
    let refused =
        restore(KeyedLimiter::<u64>::builder(one).changing(), &saved(&plain)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this is the snapshot of a KeyedLimiter; one of a KeyedLimiter with tiers is needed"
    );
    let tiered = KeyedLimiter::<u64>::builder(one)
        .changing()
        .clock(ManualClock::new())
        .hasher(HASHER)
        .build(20)
        .unwrap();
    let file: Vec<u8> = saved(&tiered);
    let refused = KeyedLimiter::<u64>::builder(one)
        .clock(ManualClock::new())
        .hasher(HASHER)
        .restore(&file[..]);
    let told = refused.unwrap_err().to_string();
    assert!(told.starts_with("this is the snapshot of a KeyedLimiter with tiers;"), "{told}");
    let refused =
        KeyedLimiter::<u64>::builder(one).changing().clock(ManualClock::new()).restore(&file[..]);
    let told = refused.unwrap_err().to_string();
    assert!(told.starts_with("the snapshot carries no seeds"), "{told}");
    let clock = Clock::monotonic();
    let refused =
        KeyedLimiter::<u64>::builder(one).changing().clock(clock).hasher(HASHER).restore(&file[..]);
    let told = refused.unwrap_err().to_string();
    assert!(told.starts_with("the snapshot's times count from wherever its owner does"), "{told}");
}

#[test]
fn every_byte_that_is_changed_is_noticed() {
    let file = saved(&charged());
    for at in 0..file.len() {
        let mut other = file.clone();
        other[at] ^= 0x41;
        assert!(restore(tiers(&TEXTS), &other).is_err(), "byte {at}");
    }
    for length in 0..file.len() {
        assert!(restore(tiers(&TEXTS), &file[..length]).is_err(), "{length} bytes");
    }
}

/// The offset in the file of a tier's entry. An entry consists of 33 numbers: an index, ten numbers of its policy, nine
/// of its words, and others.
fn entry(tier: usize) -> usize {
    WORDS_AT + tier * 33 * 8
}

#[test]
fn numbers_that_no_table_of_these_tiers_has_are_refused_although_sealed() {
    let file = saved(&charged());
    let changed = |at: usize, number: u64| {
        let mut other = file.clone();
        put(&mut other, at, number);
        seal(&mut other);
        restore(tiers(&TEXTS), &other).expect_err(&format!("{number} at {at}")).to_string()
    };
    assert_eq!([get(&file, entry(0)), get(&file, entry(1))], [0, 1]);
    // The first of these indices belongs to another tier, and the others do not exist.
    for index in [0, 8, u64::MAX] {
        assert!(changed(entry(1), index).starts_with("the snapshot's index of a tier is"));
    }
    // First a policy that no tier has, then a number that stands for no policy.
    assert!(changed(entry(0) + 16, 2).starts_with("tier 0 was"));
    assert!(changed(entry(0) + 8, 99).starts_with("tier 0 was \"of no policy\" when"));
    for nth in 11..20 {
        let at = entry(2) + 8 * nth;
        let told = changed(at, get(&file, at) ^ 1);
        assert!(told.starts_with("the snapshot's words are laid out as"), "{nth}: {told}");
    }
    // These fields are the layout of words (cells, granule, index, time, tag), the number of tiers and the epoch.
    for at in 56..61 {
        let mut other = file.clone();
        other[at] ^= 1;
        seal(&mut other);
        assert!(restore(tiers(&TEXTS), &other).is_err(), "byte {at}");
    }
    assert!(changed(64, 4).starts_with("the snapshot's number of tiers is"));
    for epoch in [0, 1, 2 * get(&file, 72), 1 << 60, u64::MAX] {
        assert!(!changed(72, epoch).contains("checksum"), "{epoch}");
    }
}

#[test]
fn a_word_of_a_quota_that_is_not_in_the_file_is_refused() {
    let file = saved(&charged());
    let spill = entry(3) + 64 * usize::try_from(get(&file, 48)).unwrap();
    let words = (entry(3)..spill).step_by(8);
    let index_shift = 63 - u32::from(file[60]) - u32::from(file[58]);
    let live: Vec<usize> =
        words.filter(|at| !(*at - entry(3)).is_multiple_of(64) && get(&file, *at) != 0).collect();
    assert_eq!(live.len(), 9);
    for at in live {
        let mut other = file.clone();
        // Indices 3 to 7 belong to no tier, so the word is refused.
        put(&mut other, at, get(&file, at) | 7 << index_shift);
        seal(&mut other);
        let told = restore(tiers(&TEXTS), &other).unwrap_err().to_string();
        assert!(told.contains(&format!(" at byte {at} is no snapshot's; ")), "{told}");
        assert!(told.ends_with("must be vacant, or counted in a quota of the file's"), "{told}");
    }
}

#[test]
fn a_word_of_the_spill_that_is_counted_in_another_tiers_quota_is_refused() {
    let file = saved(&charged());
    let shards = usize::try_from(get(&file, 48)).unwrap();
    let marks = shards.div_ceil(64);
    let cells = entry(3) + 64 * shards + 8 * marks;
    // The top three bits of a word are its index. Each tier has one third of the cells.
    let words: Vec<usize> = (cells..file.len() - 8).step_by(8).collect();
    let part = words.len() / 3;
    for (nth, at) in words.iter().enumerate() {
        assert_eq!(get(&file, *at) >> 61, (nth / part) as u64);
    }
    for at in [words[0], words[part], words[3 * part - 1]] {
        let mut other = file.clone();
        put(&mut other, at, get(&file, at) ^ 3 << 61);
        seal(&mut other);
        let told = restore(tiers(&TEXTS), &other).unwrap_err().to_string();
        assert!(told.contains(&format!(" at byte {at} is no snapshot's; ")), "{told}");
        assert!(told.ends_with("must be counted in its tier's quota"), "{told}");
    }
}

#[test]
fn no_quota_changes_while_a_table_is_copied_and_none_waits() {
    // The writer is first called when the copy is complete and quotas may be changed again.
    on(Timestamp::from_secs(1));
    let table = table();
    struct Changes<'a>(&'a Changing<Table>, Vec<Result<(), ChangeError>>);
    impl std::io::Write for Changes<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1.push(self.0.set_quota(policy(TEXTS[0])));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut changes = Changes(&table, Vec::new());
    table.snapshot(&mut changes).unwrap();
    assert!(!changes.1.is_empty() && changes.1.iter().all(Result::is_ok));
    assert_eq!(
        table.entry(&1).at(Timestamp::default() + Duration::from_secs(2)).peek(1).remaining(),
        3
    );
}

/// The file keeps a count of denials in a row and a penalty, like the file of a table with one policy.
#[test]
fn what_happens_at_the_limit_of_a_tier_goes_on_after_a_restart() {
    on(Timestamp::from_secs(100));
    let texts =
        ["gcra 5/m", "gcra 2/m penalty 10m after 2", "fixed-window 2/m soft 50% count-denied"];
    let table = tiers(&texts).clock(clock()).build(40).unwrap();
    let check = |table: &KeyedLimiter<u64>, key: u64, tier| {
        table.entry(&key).tier(tier).unwrap().check().into_result()
    };
    for (key, denials) in [(1, 1), (2, 2)] {
        assert!((0..2).all(|_| check(&table, key, 1).is_ok()));
        assert!((0..denials).all(|_| check(&table, key, 1).is_err()));
    }
    assert!((0..3).all(|_| check(&table, 3, 2).is_ok()));
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let again: Changing<KeyedLimiter<u64>> =
        tiers(&texts).clock(clock()).restore(&file[..]).unwrap();
    assert!(check(&again, 2, 1).unwrap_err().reason() == DenialReason::Penalty);
    let first = check(&again, 1, 1).unwrap_err();
    assert!(first.retry_after().unwrap() >= Duration::from_secs(599));
    assert!(check(&again, 3, 2).is_err());
}
