//! A newcomer could get a cell, but is denied because of other keys' charges in the spill.

use tollgate::{Decision, DenialReason, Timestamp};

use crate::spill::crowd::{Table, drained, fill, table};

const NOW: Timestamp = Timestamp::from_secs(999_990);
const POLICY: &str = "gcra 10/m burst 10";

/// A table whose cells are free again, while its spill still holds the charges of many keys.
fn crowded() -> (Table, Timestamp) {
    let table = table(POLICY, 1);
    fill(&table, NOW);
    for key in 0..400 {
        let _ = table.entry(&key).at(NOW).check_n(10);
    }
    (table, drained(POLICY, NOW))
}

/// Each denial gives its real reason, because no newcomer owes anything itself.
#[test]
fn a_newcomer_that_is_denied_for_what_others_owe_is_told_so() {
    let (table, later) = crowded();
    let before = table.stats();
    let (mut denied, mut spilled) = (0, 0);
    for key in 50_000..50_200 {
        let asked = table.entry(&key).at(later).peek(1);
        let decision = table.entry(&key).at(later).check();
        assert_eq!(asked.is_spilled(), decision.is_spilled(), "{key}");
        spilled += u64::from(decision.is_spilled());
        if let Decision::Denied(denial) = decision {
            denied += 1;
            assert_eq!(denial.reason(), DenialReason::Spilled, "{key}: {denial:?}");
            let told = denial.to_string();
            assert!(told.starts_with("no cell of its own, and the spill has no room"), "{told}");
            assert!(denial.remaining() == 0 && denial.retry_after() == asked.retry_after());
            // After the wait in the denial the newcomer is admitted, if nothing else happens.
            let ready = denial.ready_at().unwrap();
            assert!(table.entry(&key).at(ready).peek(1).is_allowed(), "{key}");
        }
    }
    assert!(denied > 20, "{denied}");
    let stats = table.stats();
    assert_eq!((stats.spilled - before.spilled, stats.full), (spilled, before.full));
}

/// A cost that never fits is denied as such, whatever the spill holds.
#[test]
fn what_never_fits_is_not_told_as_the_spills() {
    let (table, later) = crowded();
    for key in 50_000..50_200 {
        let denial = table.entry(&key).at(later).check_n(11).into_result().unwrap_err();
        assert_eq!(denial.reason(), DenialReason::NeverFits);
    }
}
