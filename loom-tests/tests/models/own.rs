//! Callers bring quotas with their requests, while other threads make requests, bring quotas and free the places of
//! quotas.
//!
//! Properties: at one instant a key is admitted at most the largest burst of all quotas that its requests bring. Each
//! request is decided by the burst that it brings. A unit that has drained is never given back, even if
//! a quota reaches a key late or a permit is older than a change of quota. When all threads have ended, no word belongs
//! to a quota whose place another quota may take. A request is decided by its own quota alone, or denied. It is never
//! decided by another quota that has taken the place.
//!
//! These models are sufficient because threads change the use of a place by read-modify-writes alone. There are three
//! such threads: one that pins a place, one that passes over the table, and one that brings a quota. They meet in
//! pairs. So there are as few places as possible besides the place of the table's own quota: one, or the two in which a
//! quota may stand under loom.

use std::sync::Arc;

use loom::thread;
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, own_table};
use loom_tests::verdict::{ABOVE_BOUND, LOST_CHARGE, REFUSED};
use tollgate::control::{self, Fault};
use tollgate::{ChangeError, Decision, DenialReason, ManualClock, Quota, Timestamp, check_all};

/// The message for a decision by a quota that the request did not bring.
const OTHER_QUOTA: &str = "a request is decided by another quota than its own";
/// The message for a word that would be read with the numbers of another quota.
const WITHOUT_PLACE: &str = "a word is of a quota that has no place";
/// The message for units that are given back although they have drained.
const DRAINED: &str = "units are given back that have drained";

const NOW: Timestamp = Timestamp::from_secs(5);
/// By this time all charges of [`NOW`] have drained under [`fast`], and none under [`slow`].
const LATER: Timestamp = Timestamp::from_secs(10);

/// The quota that the tables are built with.
fn default() -> Quota {
    Quota::per_minute(1).burst(6)
}

fn slow() -> Quota {
    Quota::per_hour(1).burst(4)
}

fn fast() -> Quota {
    Quota::per_second(1).burst(5)
}

/// A table of one shard whose callers may bring `most` quotas, and a key.
fn table_of(most: usize) -> (Arc<ModelTable>, ModelKey) {
    table_with_clock(most, ManualClock::new())
}

/// Like [`table_of`], with a clock that the model sets.
fn table_with_clock(most: usize, clock: ManualClock) -> (Arc<ModelTable>, ModelKey) {
    // All times lie within one epoch, so headers need not record the floor that was read, which the models in `floor`
    // need.
    control::count_apart(true);
    control::mark_floors(false);
    let table = own_table(default(), most, &[slow(), fast()], 1, 1, clock);
    let key = key_in(&table, [0, 0], 1);
    (table, key)
}

fn is_gone(decision: &Decision) -> bool {
    matches!(decision, Decision::Denied(denial) if denial.reason() == DenialReason::TableFull)
}

/// The units that a key is admitted under a quota that already has a place in the table.
fn admitted(table: &ModelTable, key: ModelKey, quota: Quota, at: Timestamp, cost: u64) -> u64 {
    let decision = table.entry(&key).under(quota).expect("a place").at(at).check_n(cost);
    assert_eq!(decision.limit(), quota.max_burst(), "{OTHER_QUOTA}: {decision:?}");
    if decision.is_allowed() { cost } else { 0 }
}

/// The units of a key that are left at `at` under the fast quota.
fn left(table: &ModelTable, key: ModelKey, at: Timestamp) -> u64 {
    control::plant(None); // only what the race has left behind is checked
    table.entry(&key).under(fast()).expect("a place").at(at).peek(0).remaining()
}

/// 2 threads ask for one key, each under its own quota. If one thread is admitted its units, they leave no room for the
/// units of the other thread.
fn requests_under_two_quotas() {
    let (table, key) = table_of(2);
    assert_eq!(admitted(&table, key, slow(), NOW, 0), 0);
    assert_eq!(admitted(&table, key, fast(), NOW, 2), 2);
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || admitted(&other, key, slow(), NOW, 1));
    let own = admitted(&table, key, fast(), NOW, 3);
    let asked = asking.join().expect("the other thread");
    assert!(own + asked > 0, "{REFUSED}");
    let (units, left) = (2 + own + asked, left(&table, key, NOW));
    assert!(units + left <= 5, "{ABOVE_BOUND}: {units} admitted, {left} left");
    // Rounding up to a whole tick may cost one unit.
    assert!(units + left >= 4, "{LOST_CHARGE}: {units} admitted, {left} left");
}

/// A thread reads the clock and then stalls. Meanwhile the key is charged under a slow quota; then the stalled thread
/// asks under a fast quota. The charge drains from its own time on, not from the stalled thread's earlier time on.
fn a_faster_quota_beside_a_later_charge(is_joint: bool) {
    let clock = ManualClock::new();
    clock.set(NOW);
    let (table, key) = table_with_clock(2, clock.clone());
    assert_eq!(admitted(&table, key, fast(), NOW, 0), 0);
    assert_eq!(admitted(&table, key, slow(), NOW, 1), 1);
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || {
        let entry = other.entry(&key).under(fast()).expect("a place");
        if is_joint {
            let _ = check_all(&mut [entry.cost(1)]);
        } else {
            let _ = entry.check();
        }
    });
    clock.set(LATER);
    let units = admitted(&table, key, slow(), LATER, 3);
    asking.join().expect("the other thread");
    let left = left(&table, key, LATER);
    assert!(units + left <= 5, "{ABOVE_BOUND}: {units} admitted, {left} left");
}

/// A key goes from a slow quota to a fast one, drains there, and goes back to the slow quota and then to the fast one.
/// A permit of the first slow quota gives nothing back, whenever it is refunded.
fn a_permit_beside_a_faster_quota() {
    let (table, key) = table_of(2);
    let slow_now = table.entry(&key).under(slow()).expect("a place").at(NOW);
    let permit = slow_now.check().into_result().expect("it fits");
    assert_eq!(admitted(&table, key, fast(), NOW, 3), 3);
    let other = Arc::clone(&table);
    let refunding = thread::spawn(move || other.entry(&key).at(LATER).refund(permit));
    assert_eq!(admitted(&table, key, slow(), LATER, 1), 1, "{REFUSED}");
    assert_eq!(admitted(&table, key, fast(), LATER, 1), 1, "{REFUSED}");
    assert_eq!(refunding.join().expect("the other thread"), 0, "{DRAINED}");
    let left = left(&table, key, LATER);
    assert!(left <= 3, "{ABOVE_BOUND}: {left} left of 5 and 2 admitted");
    // Rounding up to a whole tick may cost one unit.
    assert!(left >= 2, "{LOST_CHARGE}: {left} left of 5 and 2 admitted");
}

/// A pass over the table frees the place of a quota to which no key belongs, while a key goes to that quota. The key is
/// new, or belonged to the quota with which the table was built.
fn a_pass_beside_a_key_that_comes(is_new: bool) {
    let (table, key) = table_of(1);
    assert_eq!(admitted(&table, key, fast(), NOW, 0), 0);
    if !is_new {
        assert!(table.entry(&key).at(NOW).check().is_allowed());
    }
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || admitted(&other, key, fast(), NOW, 1));
    let freed = table.forget_quotas_at(NOW);
    assert_eq!(asking.join().expect("the other thread"), 1, "{REFUSED}");
    assert!(freed <= 1, "there is one quota");
    assert_eq!(table.words_without_place(), 0, "{WITHOUT_PLACE}");
}

/// A key goes to another quota, the place of its first quota is freed, and a third quota is written there. Meanwhile a
/// thread that may still hold the key's first word asks how many units the key has left.
fn a_look_while_a_place_changes_hands() {
    let (table, key) = table_of(1);
    assert_eq!(admitted(&table, key, slow(), NOW, 1), 1);
    let other = Arc::clone(&table);
    let looking = thread::spawn(move || {
        let decision = other.entry(&key).at(NOW).peek(1);
        // The key owes one unit or two, and rounding up to a whole tick may cost one more.
        let is_own = decision.limit() == 6 && (3..=5).contains(&decision.remaining());
        assert!(is_own, "{OTHER_QUOTA}: {decision:?}");
    });
    assert!(table.entry(&key).at(NOW).check().is_allowed());
    assert_eq!(table.forget_quotas_at(NOW), 1);
    let _ = table.entry(&key).under(fast()).expect("a free place");
    looking.join().expect("the other thread");
}

/// Makes a request under a quota that the caller brings. Returns true for a decision by that quota, and false if there
/// is no place for it.
fn told(table: &ModelTable, key: ModelKey, quota: Quota) -> bool {
    match table.entry(&key).under(quota) {
        Ok(entry) => {
            let decision = entry.at(NOW).peek(1);
            let found = (decision.limit(), decision.is_allowed());
            assert_eq!(found, (quota.max_burst(), true), "{OTHER_QUOTA}: {decision:?}");
            true
        }
        Err(error) => {
            assert_eq!(error, ChangeError::TooManyQuotas { most: 1 }, "{OTHER_QUOTA}");
            false
        }
    }
}

/// 2 threads bring one quota each, and there is one place left.
fn two_quotas_for_the_last_place(quotas: [Quota; 2]) {
    let (table, key) = table_of(1);
    let other = Arc::clone(&table);
    let bringing = thread::spawn(move || told(&other, key, quotas[0]));
    let told = [told(&table, key, quotas[1]), bringing.join().expect("the other thread")];
    let is_one = quotas[0] == quotas[1];
    assert!(told.contains(&true), "{REFUSED}");
    assert!(is_one || told.contains(&false), "{OTHER_QUOTA}: both have the place");
}

/// 2 threads bring one new quota for one key. The quota may get two places, but the key is still counted only once.
fn one_quota_in_two_places() {
    let (table, key) = table_of(2);
    assert!(table.entry(&key).at(NOW).check().is_allowed());
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || admitted(&other, key, fast(), NOW, 3));
    let own = admitted(&table, key, fast(), NOW, 3);
    let units = own + asking.join().expect("the other thread");
    assert_eq!(units, 3, "{ABOVE_BOUND}");
}

/// The place of a quota is freed and given to another quota, while a caller makes a request through an entry under the
/// first quota.
fn an_entry_whose_place_is_taken() {
    let (table, key) = table_of(1);
    let entry = table.entry(&key).under(slow()).expect("a place").at(NOW);
    let other = Arc::clone(&table);
    let taking = thread::spawn(move || {
        let _ = other.forget_quotas_at(NOW);
        // An error means that there is no place for this quota, because the first quota still has its place, or has it
        // again.
        let Ok(entry) = other.entry(&key).under(fast()) else { return 0 };
        let decision = entry.at(NOW).check_n(4);
        let is_own = decision.limit() == 5 || is_gone(&decision);
        assert!(is_own, "{OTHER_QUOTA}: {decision:?}");
        if decision.is_allowed() { 4 } else { 0 }
    });
    let decision = entry.check_n(4);
    let is_own = decision.limit() == 4 || is_gone(&decision);
    assert!(is_own, "{OTHER_QUOTA}: {decision:?}");
    let own = if decision.is_allowed() { 4 } else { 0 };
    let units = own + taking.join().expect("the other thread");
    assert_eq!(units, 4, "{ABOVE_BOUND}");
    assert_eq!(table.words_without_place(), 0, "{WITHOUT_PLACE}");
}

pub(crate) fn models() -> Vec<Model> {
    let later = |name, is_joint| {
        Model::new(name, Bound::None, move || a_faster_quota_beside_a_later_charge(is_joint))
    };
    let coming = |name, is_new| {
        Model::new(name, Bound::None, move || a_pass_beside_a_key_that_comes(is_new))
    };
    let last = |name, quotas| {
        Model::new(name, Bound::Preemptions(3), move || two_quotas_for_the_last_place(quotas))
    };
    vec![
        Model::new("requests_under_two_quotas", Bound::None, requests_under_two_quotas)
            .control("a_carried_word_without_cas_is_caught", Fault::PlainStoreForCas, ABOVE_BOUND)
            .control("a_debt_carried_as_time_is_caught", Fault::CarriedAsTime, ABOVE_BOUND)
            .control("an_asked_quota_ignored_is_caught", Fault::AskedQuotaIgnored, OTHER_QUOTA),
        later("a_faster_quota_beside_a_later_charge", false).control(
            "a_charge_that_drains_before_is_caught",
            Fault::CarriedBeforeCharge,
            ABOVE_BOUND,
        ),
        later("a_joint_request_beside_a_later_charge", true).control(
            "a_joint_request_from_before_is_caught",
            Fault::CarriedBeforeCharge,
            ABOVE_BOUND,
        ),
        Model::new("a_permit_beside_a_faster_quota", Bound::None, a_permit_beside_a_faster_quota)
            .control("a_permit_that_outlives_it_is_caught", Fault::PermitOutlivesQuota, DRAINED),
        coming("a_pass_beside_a_new_key", true)
            .control("a_mark_left_at_an_install_is_caught", Fault::PinLeavesMark, WITHOUT_PLACE)
            .control("a_new_word_unseen_is_caught", Fault::FreedUnseen, WITHOUT_PLACE),
        coming("a_pass_beside_a_carried_word", false)
            .control("a_mark_left_at_a_carried_word_is_caught", Fault::PinLeavesMark, WITHOUT_PLACE)
            .control("a_carried_word_unseen_is_caught", Fault::FreedUnseen, WITHOUT_PLACE),
        Model::new(
            "a_look_while_a_place_changes_hands",
            Bound::Preemptions(2),
            a_look_while_a_place_changes_hands,
        )
        .control("a_torn_quota_is_caught", Fault::QuotaReadTorn, OTHER_QUOTA),
        last("one_quota_for_the_last_place", [fast(), fast()]).control(
            "a_taken_place_found_is_caught",
            Fault::TakenPlaceFound,
            OTHER_QUOTA,
        ),
        last("two_quotas_for_the_last_place", [fast(), slow()]).control(
            "a_place_taken_twice_is_caught",
            Fault::PlaceTakenInUse,
            OTHER_QUOTA,
        ),
        Model::new("one_quota_in_two_places", Bound::Preemptions(3), one_quota_in_two_places)
            .control("a_place_found_too_early_is_caught", Fault::TakenPlaceFound, OTHER_QUOTA),
        Model::new("an_entry_whose_place_is_taken", Bound::None, an_entry_whose_place_is_taken)
            .control("a_version_unchecked_is_caught", Fault::VersionUnchecked, OTHER_QUOTA)
            .control("a_place_given_early_is_caught", Fault::PlaceGivenEarly, OTHER_QUOTA),
    ]
}
