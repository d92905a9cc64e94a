//! A quota that changes while other threads decide.
//!
//! Properties: every decision is made by one quota alone, so its limit, the units left and the times belong together.
//! At one instant at most the larger burst is admitted, since spent units stay spent. After the change has returned, no
//! word is counted in the old quota, no install writes such a word again, and every new decision is made by the new
//! quota. A key that moves between tiers is charged in one of the two at every moment. If another limit denies a
//! request, the charge is given back. If the quota has changed since the charge, the charge instead stays until it
//! drains.
//!
//! A word names its quota by an index. The tables have as few indices as possible, so the second change reuses the
//! index of the first quota. A thread that stalls with an old word then reads the numbers of a quota while they are
//! written, or the numbers of a third quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loom::thread;
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, tiers};
use loom_tests::verdict::{ABOVE_BOUND, LOST_CHARGE, REFUSED};
use tollgate::control::{self, Fault};
use tollgate::{Decision, DenialReason, Limiter, ManualClock, Policy, Timestamp, check_all};

/// The message for a decision whose numbers belong to different quotas.
const TORN: &str = "a decision of no quota";
/// The message for a word that the change has left in the old quota.
const LEFT_BEHIND: &str = "a word is counted in the old quota";
/// The message when units are missing: they were not admitted, and they are not left either.
const STAYED: &str = "a denied request stays charged";
/// The message when a request was admitted and not charged.
const UNCHARGED: &str = "an admission was not charged";
/// The message when the old quota decides after the change.
const OLD_QUOTA: &str = "the old quota decides after the change";

const NOW: Timestamp = Timestamp::from_secs(5);

/// Three quotas with different limits and rates.
const FIRST: &str = "gcra 1/s burst 2";
const SECOND: &str = "gcra 1/h burst 7";
const THIRD: &str = "gcra 1/m burst 4";

fn policy(text: &str) -> Policy {
    text.parse().expect("a policy")
}

fn changing(text: &str) -> Arc<Limiter> {
    Arc::new(
        Limiter::builder(policy(text))
            .clock(ManualClock::new())
            .changing()
            .build()
            .expect("it fits")
            .into_limiter(),
    )
}

/// True if the limit, the remaining units and the reset of a decision all belong to one quota, of which `spent` units
/// were spent just now.
fn is_of_one(decision: &Decision, spent: u64) -> bool {
    let quotas = [(2, 1), (7, 3_600), (4, 60)];
    // The time of the reset may be short by up to a tick, so 20 ms are added before it is cut to whole seconds.
    let reset_s = (decision.reset_after() + Duration::from_millis(20)).as_secs();
    let found = (decision.limit(), decision.remaining(), reset_s);
    quotas.into_iter().any(|(limit, each_s)| found == (limit, limit - spent, each_s * spent))
}

/// The quota changes twice while another thread peeks. The second change takes the index that became free in the first
/// change.
fn a_look_during_two_changes() {
    let limiter = changing(FIRST);
    assert!(limiter.entry().at(NOW).check().is_allowed());
    let other = Arc::clone(&limiter);
    let looking = thread::spawn(move || {
        let decision = other.entry().at(NOW).peek(1);
        assert!(is_of_one(&decision, 1), "{TORN}: {decision:?}");
    });
    limiter.set_quota_at(policy(SECOND), NOW).expect("the first change");
    limiter.set_quota_at(policy(THIRD), NOW).expect("the second change");
    looking.join().expect("the other thread");
    control::plant(None);
    assert_eq!(limiter.entry().at(NOW).peek(1).remaining(), 3, "{LOST_CHARGE}");
}

/// A burst of 2 is raised to 4 while another thread asks twice for two units.
fn charges_while_a_burst_is_raised() {
    let limiter = changing(FIRST);
    let other = Arc::clone(&limiter);
    let asking = thread::spawn(move || {
        (0..2).filter(|_| other.entry().at(NOW).check_n(2).is_allowed()).count() as u64
    });
    limiter.set_quota_at(policy(THIRD), NOW).expect("a change");
    let after = limiter.entry().at(NOW).check_n(2);
    assert_eq!(after.limit(), 4, "{OLD_QUOTA}");
    let admitted = 2 * (asking.join().expect("the other thread") + u64::from(after.is_allowed()));
    control::plant(None);
    let left = limiter.entry().at(NOW).peek(0).remaining();
    assert!(admitted + left <= 4, "{ABOVE_BOUND}: {admitted} admitted, {left} left");
    assert!(admitted + left >= 4, "{LOST_CHARGE}: {admitted} admitted, {left} left");
}

/// 2 threads. One thread's request is charged to the limit, denied by another limit, and undone; the other thread
/// changes the quota and charges the limit, too. All requests use the limits' own clock, which stands still. A charge
/// that is undone before the change comes back, except for the part that drains in about 1 ms. An undo allows for such
/// a difference between the clock readings of two threads. A charge that is undone after the change stays.
fn a_joint_charge_during_a_change() {
    let clock = ManualClock::new();
    clock.set(NOW);
    let limiter =
        Limiter::builder(policy(FIRST)).clock(clock.clone()).changing().build().expect("it fits");
    let limiter = Arc::new(limiter);
    let other = Arc::clone(&limiter);
    // This flag is not part of the model and orders nothing; it only records that the change has begun.
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let changing = thread::spawn(move || {
        begins.store(true, Ordering::Relaxed);
        other.set_quota_at(policy(THIRD), NOW).expect("a change");
        u64::from(other.entry().at(NOW).check().is_allowed())
    });
    // The request names this limit twice, and the limit has room for one unit, so it denies in every execution.
    let own = Limiter::builder(policy("gcra 1/s burst 1")).clock(clock).build();
    let [entry, once, again] = [limiter.entry(), own.entry(), own.entry()];
    let denied = check_all(&mut [entry.cost(2), once.cost(1), again.cost(1)]);
    assert_eq!(denied.denied_by(), Some(2));
    let lost = if begun.load(Ordering::Relaxed) { 2 } else { 1 };
    let admitted = changing.join().expect("the other thread");
    control::plant(None);
    let left = limiter.entry().at(NOW).peek(0).remaining();
    assert!(admitted + left <= 4, "{LOST_CHARGE}: {admitted} admitted, {left} left");
    assert!(admitted + left >= 4 - lost, "{STAYED}: {admitted} admitted, {left} left");
}

/// A thread installs a key while the quota changes.
fn an_install_during_a_change() {
    let table = tiers(&[FIRST, SECOND], 1, 2);
    let key = key_in(&table, [0, 0], 1);
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || {
        let decision = other.entry(&key).at(NOW).check();
        assert!(is_of_one(&decision, 1), "{TORN}: {decision:?}");
    });
    table.set_quota_at(0, policy(THIRD), NOW).expect("a change");
    asking.join().expect("the other thread");
    assert_eq!(table.retired_words(), 0, "{LEFT_BEHIND}");
    let after = table.entry(&key).at(NOW).peek(1);
    assert_eq!((after.limit(), after.remaining()), (4, 3), "{LOST_CHARGE}");
}

/// A thread installs a key with a cost that fits only under the new quota, while the quota changes. If it is admitted,
/// it is charged.
fn an_install_of_more_than_the_old_limit_during_a_change() {
    let table = tiers(&[FIRST, SECOND], 1, 2);
    let key = key_in(&table, [0, 0], 1);
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || other.entry(&key).at(NOW).check_n(3).is_allowed());
    table.set_quota_at(0, policy(THIRD), NOW).expect("a change");
    let admitted = asking.join().expect("the other thread");
    control::plant(None);
    let left = table.entry(&key).at(NOW).peek(0).remaining();
    assert_eq!(left, if admitted { 1 } else { 4 }, "{UNCHARGED}");
}

/// A thread charges a key that has a cell, while the quota changes.
fn a_charge_during_a_change() {
    let table = tiers(&[FIRST, SECOND], 1, 2);
    let key = key_in(&table, [0, 0], 1);
    assert!(table.entry(&key).at(NOW).check().is_allowed());
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || other.entry(&key).at(NOW).check().is_allowed());
    table.set_quota_at(0, policy(THIRD), NOW).expect("a change");
    let admitted = asking.join().expect("the other thread");
    assert!(admitted, "{REFUSED}");
    assert_eq!(table.retired_words(), 0, "{LEFT_BEHIND}");
    let after = table.entry(&key).at(NOW).peek(1);
    assert_eq!(after.limit(), 4, "{OLD_QUOTA}");
    assert!(after.remaining() <= 2, "{ABOVE_BOUND}: {after:?}");
    assert!(after.remaining() >= 2, "{LOST_CHARGE}: {after:?}");
}

/// A key that is idle under the new quota loses its cell to another key, while a thread charges the first key under the
/// old quota.
fn a_reclaim_by_the_new_quota_during_an_old_decision() {
    control::count_apart(true);
    let table = tiers(&["gcra 1/m burst 2", SECOND], 1, 1);
    let [key, stranger] = [1, 2].map(|nth| key_in(&table, [0, 0], nth));
    assert!(table.entry(&key).at(NOW).check().is_allowed());
    let later = NOW + Duration::from_secs(20);
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || other.entry(&key).at(later).check_n(2).is_allowed());
    table.set_quota_at(0, policy("gcra 1/s burst 2"), NOW).expect("a change");
    let _ = table.entry(&stranger).at(later).check();
    let admitted = asking.join().expect("the other thread");
    control::plant(None);
    // Under the old quota the key owes 2/3 of a unit and is denied; under the new quota it owes nothing and is
    // admitted. Once the key is admitted its cell is busy, and no other key may take the cell.
    let seen = table.entry(&key).at(later).peek(0);
    let is_gone =
        matches!(&seen, Decision::Denied(denial) if denial.reason() == DenialReason::TableFull);
    assert!(!admitted || (seen.remaining() == 0 && !is_gone), "{ABOVE_BOUND}: {seen:?}");
    assert_eq!(table.retired_words(), 0, "{LEFT_BEHIND}");
}

/// If a thread finds that a key has left its old tier, it finds the key's debt in the new tier.
fn a_key_that_moves() {
    let table: Arc<ModelTable> = tiers(&["gcra 1/h burst 1", "gcra 1/h burst 1", SECOND], 1, 2);
    let key: ModelKey = key_in(&table, [0, 0], 1);
    assert!(table.entry(&key).at(NOW).check().is_allowed());
    let other = Arc::clone(&table);
    let asking = thread::spawn(move || {
        let cleared = other.entry(&key).at(NOW).peek(1).is_allowed();
        let there = other.entry(&key).tier(1).expect("a tier");
        cleared && there.at(NOW).check().is_allowed()
    });
    let moved = table.entry(&key).at(NOW).move_to(1);
    let found_nowhere = asking.join().expect("the other thread");
    assert!(!found_nowhere, "{ABOVE_BOUND}");
    assert_eq!(moved, Ok(1), "{LOST_CHARGE}");
    control::plant(None);
    assert_eq!(
        table.entry(&key).tier(1).expect("a tier").at(NOW).peek(0).remaining(),
        0,
        "{LOST_CHARGE}"
    );
}

pub(crate) fn models() -> Vec<Model> {
    vec![
        Model::new("a_look_during_two_changes", Bound::Preemptions(1), a_look_during_two_changes)
            .control("a_torn_reading_is_caught", Fault::QuotaReadTorn, TORN)
            .found_within(2)
            .control("a_quota_overwritten_in_use_is_caught", Fault::QuotaWrittenInPlace, TORN)
            .found_within(2),
        Model::new(
            "charges_while_a_burst_is_raised",
            Bound::Preemptions(3),
            charges_while_a_burst_is_raised,
        )
        .control("a_change_that_forgets_is_caught", Fault::RebaseForgets, ABOVE_BOUND)
        .control("a_word_in_foreign_ticks_is_caught", Fault::RebaseReadsOldTicks, ABOVE_BOUND)
        .control(
            "a_charge_over_the_change_is_caught",
            Fault::PlainStoreForCas,
            ABOVE_BOUND,
        ),
        Model::new(
            "a_joint_charge_during_a_change",
            Bound::Preemptions(2),
            a_joint_charge_during_a_change,
        )
        .control("an_undo_left_out_at_a_change_is_caught", Fault::UndoLeftOut, STAYED),
        Model::new("an_install_during_a_change", Bound::Preemptions(3), an_install_during_a_change)
            .control("a_claim_that_is_spared_is_caught", Fault::ChangeSparesClaims, LEFT_BEHIND)
            .control("an_install_without_a_fence_is_caught", Fault::NoFence, LEFT_BEHIND),
        Model::new(
            "an_install_of_more_than_the_old_limit_during_a_change",
            Bound::Preemptions(3),
            an_install_of_more_than_the_old_limit_during_a_change,
        )
        .control(
            "an_admission_without_a_charge_is_caught",
            Fault::RaisedWithoutCharge,
            UNCHARGED,
        ),
        Model::new("a_charge_during_a_change", Bound::Preemptions(3), a_charge_during_a_change)
            .control("a_word_left_in_old_ticks_is_caught", Fault::OldTicksLeft, LEFT_BEHIND)
            .control("a_keyed_change_that_forgets_is_caught", Fault::RebaseForgets, ABOVE_BOUND),
        Model::new(
            "a_reclaim_by_the_new_quota_during_an_old_decision",
            Bound::Preemptions(2),
            a_reclaim_by_the_new_quota_during_an_old_decision,
        )
        .control(
            "a_reclaim_of_what_changed_is_caught",
            Fault::ReclaimWithoutExactWord,
            ABOVE_BOUND,
        ),
        Model::new("a_key_that_moves", Bound::Preemptions(3), a_key_that_moves).control(
            "a_key_cleared_first_is_caught",
            Fault::MoveClearsFirst,
            ABOVE_BOUND,
        ),
    ]
}
