//! What a full table does is the caller's choice. A restart and a builder keep that choice, and the statistics show it.

use std::time::Duration;

use tollgate::{
    BuildError, Clock, DenialReason, KeyedLimiter, ManualClock, RestoreError, Timestamp, WhenFull,
};

use crate::common::policy;
use crate::spill::crowd::{Table, drained, fill, seeds, table};

const START: Timestamp = Timestamp::from_secs(1_000_000);

fn restored(text: &str, file: &[u8]) -> Result<Table, RestoreError> {
    KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).hasher(seeds()).restore(file)
}

#[test]
fn a_restart_forgets_nothing_of_what_was_spilled() {
    for text in [
        "gcra 10/m burst 5",
        "fixed-window 5/m",
        "sliding-window 5/m exact",
        "segmented-window 5/m x4",
    ] {
        let table = table(text, 1);
        fill(&table, START);
        let now = drained(text, START) + Duration::from_micros(100);
        assert!(table.entry(&7).at(now).check_n(4).is_spilled(), "{text}");
        let mut file = Vec::new();
        table.snapshot(&mut file).unwrap();
        let restored = restored(text, &file).unwrap();
        let mut again = Vec::new();
        restored.snapshot(&mut again).unwrap();
        // The two files may differ in the readings of the wall clock, and so in the checksums.
        assert_eq!(again[336..again.len() - 8], file[336..file.len() - 8], "{text}");
        for (later, is_spilled) in [(now, true), (now + Duration::from_millis(9), false)] {
            let [old, new] = [&table, &restored].map(|table| table.entry(&7).at(later).peek(1));
            assert_eq!(new.remaining(), old.remaining(), "{text}");
            assert_eq!(new.remaining(), 1, "{text}");
            assert_eq!(new.is_spilled(), is_spilled, "{text}");
        }
        assert!(restored.entry(&7).at(now + Duration::from_millis(9)).check().is_allowed());
        assert!(!restored.entry(&7).at(now + Duration::from_millis(9)).check().is_allowed());
    }
}

#[test]
fn a_table_that_denies_is_restored_as_one_that_denies() {
    let table = table("gcra 1/h burst 5", 1).when_full(WhenFull::Deny).unwrap();
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let restored = restored("gcra 1/h burst 5", &file).unwrap();
    assert_eq!(restored.stats().spill_bytes, 0);
    assert_eq!(restored.stats().bytes, table.stats().bytes);
    // This is the opposite change: a table that denies gets a spill.
    let spilling = restored.when_full(WhenFull::Spill).unwrap();
    let (mut longer, bytes) = (Vec::new(), spilling.stats().spill_bytes);
    spilling.snapshot(&mut longer).unwrap();
    assert_eq!(longer.len(), file.len() + bytes);
}

#[test]
fn a_file_with_a_spill_that_is_cut_short_is_refused() {
    let table = table("gcra 1/h burst 5", 1);
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    for length in [file.len() - 1, file.len() - 8, file.len() - 1_024, 500] {
        let refused = restored("gcra 1/h burst 5", &file[..length]).map(|_| ());
        let told = refused.unwrap_err().to_string();
        assert!(told.starts_with("the snapshot ends after"), "{told}");
    }
    let at = file.len() - 100;
    file[at] ^= 1;
    let refused = restored("gcra 1/h burst 5", &file).map(|_| ());
    let told = refused.unwrap_err().to_string();
    assert!(told.starts_with("the file is damaged"), "{told}");
}

#[test]
fn windows_from_the_first_request_deny_and_say_why_they_cannot_spill() {
    let text = "fixed-window 5/h from-first";
    let from_first = || table(text, 1);
    assert_eq!(from_first().stats().spill_bytes, 0);
    let refused = from_first().when_full(WhenFull::Spill).map(|_| ()).unwrap_err();
    assert!(matches!(refused, BuildError::Policy(_)), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "a spill cannot keep the bound of fixed-window 5/h from-first, since its cells are shared; use \
         WhenFull::Deny, leave out from-first, or use gcra"
    );
    let denying = from_first().when_full(WhenFull::Deny).unwrap();
    let denied = (0..100).filter(|key| !denying.entry(key).at(START).check().is_allowed()).count();
    assert_eq!(denied as u64, denying.stats().full);
    assert!(denied > 50);
    assert_eq!(denying.stats().spilled, 0);
}

#[test]
fn every_request_that_finds_no_cell_is_counted_once() {
    let table = table("gcra 1/h burst 5", 1);
    fill(&table, START);
    for nth in 1..=7 {
        // Peeks are not counted.
        assert!(table.entry(&7).at(START).peek(1).is_spilled());
        assert!(table.entry(&7).at(START).peek(0).is_allowed());
        let decision = table.entry(&7).at(START).check();
        assert_eq!(decision.is_allowed(), nth <= 5);
        assert!(decision.is_spilled());
        assert_eq!(table.stats().spilled, nth);
    }
    // A cost above the limit never fits, and needs no cell.
    let never = table.entry(&7).at(START).check_n(6).into_result().unwrap_err();
    assert_eq!(never.reason(), DenialReason::NeverFits);
    let stats = table.stats();
    assert_eq!((stats.spilled, stats.full, stats.contended), (7, 0, 0));
}

#[test]
fn past_the_latest_time_no_key_spills() {
    let table = table("gcra 1/h burst 5", 1);
    // This time is after 2100, the latest that a word without a floor can hold.
    let late = Timestamp::from_secs(4_102_444_800 + 1_000);
    let denied =
        (0..100).filter(|key| !table.entry(key).at(late).check().is_allowed()).count() as u64;
    let stats = table.stats();
    assert_eq!((stats.spilled, stats.full), (0, denied));
    assert!(denied > 50);
}

#[test]
fn the_default_is_to_spill_with_every_way_to_build() {
    let quota = tollgate::Quota::per_second(5);
    let built = [
        KeyedLimiter::<str>::new(quota, 10).unwrap().stats(),
        KeyedLimiter::<str>::builder(quota).clock(Clock::monotonic()).build(10).unwrap().stats(),
    ];
    for stats in built {
        assert!(stats.spill_bytes >= 1_024);
        assert!(stats.spill_bytes < stats.bytes);
    }
}
