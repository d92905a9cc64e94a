//! Keys without a cell: the spill decides them, while other threads install them.
//!
//! Properties, in every model:
//! * By the callers' own times no key is admitted above its bound, whether it was decided in the spill, in its cell, or
//!   in both in turn.
//! * At the end no claim is left.
//!
//! A *spiller* is a thread that decides in the spill. These models are sufficient because a charge can be lost between
//! the spill and a cell in only one way: one spiller races with one installer of the same key. The spiller's charge,
//! its fence and its second look at the cells race with the installer's claim, its fence and its estimate. One shard
//! with one cell has all of these steps. Another key, a stranger, holds the cell at first, and is idle by the time of
//! later requests. In one more model a key gets the cell and loses it again, while a spiller looks at the cell. Two
//! spillers of one key meet in the sketch, which has its own models. Here they meet when a lost round leaves both
//! without a cell. In a table of several quotas there are two more steps: the spiller and the installer also read the
//! quota, and a change of quota converts the sketch's words.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::race::{ask, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, key_in, spilling_table, spilling_tiers};
use loom_tests::verdict::{
    ABOVE_BOUND, LOST_CHARGE, assert_admitted, assert_bound, assert_intervals, assert_no_claims,
};
use tollgate::control::{self, Fault};
use tollgate::{Policy, Timestamp};

/// The message for a word that the change has left in the old quota.
const LEFT_BEHIND: &str = "a word is counted in the old quota";

/// One shard with one cell, which a stranger holds until 11 s. Then each thread makes requests for a key or for a
/// second stranger. A request says whether it is for the key, its cost, and its time.
fn beside_a_stranger(rounds: usize, lists: &[&[(bool, u64, u64)]]) {
    // All times lie within one epoch, so headers need not record the floor that was read, which the models in `floor`
    // need.
    control::count_apart(true);
    control::mark_floors(false);
    control::use_rounds(rounds);
    let table = spilling_table("gcra 1/s burst 4", 1, 1);
    let [stranger, key, other] = [1, 2, 3].map(|nth| key_in(&table, [0, 0], nth));
    let setup = ask_all(&*table, &[ask(stranger, 1, 10_000)]);
    assert_admitted(&setup);
    let to_ask = |&(is_key, cost, now_ms): &(bool, u64, u64)| {
        ask(if is_key { key } else { other }, cost, now_ms)
    };
    let lists = lists.iter().map(|list| list.iter().map(to_ask).collect()).collect();
    let calls = race(&table, lists).concat();
    for key in [key, other] {
        assert_intervals(4, key, &[&setup, &calls]);
    }
    assert_no_claims(&table);
}

/// 2 threads ask for a key's whole burst: one when a stranger holds the cell, the other when the stranger is idle.
fn hand_over() {
    beside_a_stranger(2, &[&[(true, 4, 10_500)], &[(true, 4, 12_000)]]);
}

/// 2 threads as in [`hand_over`], but one asks twice for half the burst while the stranger holds the cell, and the
/// other asks for 3 units.
fn hand_over_in_parts() {
    beside_a_stranger(2, &[&[(true, 2, 10_500), (true, 2, 10_500)], &[(true, 3, 12_000)]]);
}

/// 2 threads: one asks while the cell is taken. The other thread's requests give the cell to the key, and later to
/// another stranger, when the key's charges in the cell have drained.
fn came_and_went() {
    beside_a_stranger(2, &[&[(true, 4, 10_500)], &[(true, 4, 12_000), (false, 1, 20_000)]]);
}

/// 2 threads install a new key in a vacant cell and disturb each other. An install ends after it has lost one round.
/// Here a spiller may meet a claim, and no floor tells the spiller that the claim is there.
fn both_in_the_way() {
    control::count_apart(true);
    control::mark_floors(false);
    control::use_rounds(1);
    let table = spilling_table("gcra 1/s burst 4", 1, 1);
    let key = key_in(&table, [0, 0], 1);
    let calls = race(&table, vec![vec![ask(key, 3, 10_000)]; 2]).concat();
    assert_bound(&table, 4, key, &[&calls]);
    assert_no_claims(&table);
}

/// 2 threads and two shards with one cell each, both held by strangers. One thread asks when both strangers are busy,
/// the other when both are idle.
fn two_shards() {
    control::count_apart(true);
    control::mark_floors(false);
    control::use_rounds(1);
    let table = spilling_table("gcra 1/s burst 4", 2, 1);
    let [one, other, key] = [1, 2, 3].map(|nth| key_in(&table, [0, 1], nth));
    let setup = ask_all(&*table, &[ask(one, 1, 10_000), ask(other, 1, 10_000)]);
    assert_admitted(&setup);
    let calls = race(&table, vec![vec![ask(key, 4, 10_500)], vec![ask(key, 4, 12_000)]]).concat();
    assert_intervals(4, key, &[&calls]);
    assert_no_claims(&table);
}

/// 2 threads both ask while the cell is taken.
fn two_spillers() {
    beside_a_stranger(1, &[&[(true, 3, 10_500)], &[(true, 3, 10_500)]]);
}

/// One shard with one cell, and two tiers whose ticks differ. A stranger of the second tier holds the cell.
fn tiers_beside_a_stranger(slower: &str) -> (Arc<ModelTable>, ModelKey) {
    control::count_apart(true);
    control::mark_floors(false);
    control::use_rounds(2);
    let table = spilling_tiers(&["gcra 1/s burst 4", "gcra 20/m burst 2", slower], 1, 1);
    let [stranger, key] = [1, 2].map(|nth| key_in(&table, [0, 0], nth));
    let stranger = table.entry(&stranger).tier(1).expect("a tier");
    assert!(stranger.at(Timestamp::from_secs(10)).check().is_allowed());
    (table, key)
}

/// 2 threads ask for the whole burst of a key in the first tier: one while a stranger holds the cell, the other when
/// the stranger is idle.
fn hand_over_in_a_tier() {
    let (table, key) = tiers_beside_a_stranger("gcra 1/s burst 4");
    let calls = race(&table, vec![vec![ask(key, 4, 10_500)], vec![ask(key, 4, 14_000)]]).concat();
    assert_intervals(4, key, &[&calls]);
    assert_no_claims(&table);
}

/// A key is charged half of its burst twice in the spill: before its quota becomes slower, and while it does.
fn a_spill_during_a_change() {
    let slower = "gcra 1/m burst 4";
    let (table, key) = tiers_beside_a_stranger(slower);
    let now = Timestamp::from_millis(10_500);
    let spilled = table.entry(&key).at(now).check_n(2);
    assert!(spilled.is_spilled(), "{spilled:?}");
    let other = Arc::clone(&table);
    let asking =
        thread::spawn(move || 2 * u64::from(other.entry(&key).at(now).check_n(2).is_allowed()));
    table.set_quota_at(0, slower.parse::<Policy>().expect("a policy"), now).expect("a change");
    let admitted = 2 + asking.join().expect("the other thread");
    assert_eq!(table.retired_words(), 0, "{LEFT_BEHIND}");
    control::plant(None);
    let left = table.entry(&key).at(now).peek(0);
    assert!(admitted + left.remaining() <= 4, "{ABOVE_BOUND}: {admitted} admitted, {left:?}");
    // No other thread makes requests, so the request loses no round. But if the quota changes when the request has
    // charged only one of its two cells in the spill, the units stay in that cell.
    assert!(admitted + left.remaining() >= 2, "{LOST_CHARGE}: {admitted} admitted, {left:?}");
    // The debt stays in the cell that the key then gets, although the ticks of that cell have another length.
    let later = now + Duration::from_secs(4);
    let left =
        table.entry(&key).at(later).take_up_to(4).into_result().map_or(0, |permit| permit.cost());
    assert!(admitted + left <= 4, "{ABOVE_BOUND}: {admitted} admitted, and {left} later");
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("hand_over", Whole, hand_over)
            .control("a_spiller_that_does_not_look_is_caught", Fault::SpillUnscanned, ABOVE_BOUND)
            .control("a_spiller_without_fence_is_caught", Fault::SpillWithoutFence, ABOVE_BOUND)
            .control("an_installer_without_fence_is_caught", Fault::NoFence, ABOVE_BOUND)
            .control("no_estimate_is_caught", Fault::EstimateLeftOut, ABOVE_BOUND)
            .control("an_early_estimate_is_caught", Fault::EstimateBeforeClaim, ABOVE_BOUND)
            .control("no_mark_is_caught", Fault::SpillUnmarked, ABOVE_BOUND),
        Model::new("hand_over_in_parts", Preemptions(3), hand_over_in_parts).control(
            "an_early_estimate_of_parts_is_caught",
            Fault::EstimateBeforeClaim,
            ABOVE_BOUND,
        ),
        Model::new("came_and_went", Preemptions(3), came_and_went).control(
            "a_floor_that_passed_is_caught",
            Fault::SpillFloorsReadOnce,
            ABOVE_BOUND,
        ),
        Model::new("both_in_the_way", Preemptions(3), both_in_the_way)
            .control(
                "a_claim_in_the_way_left_standing_is_caught",
                Fault::SpillIgnoresClaims,
                ABOVE_BOUND,
            )
            .control(
                "a_spiller_in_the_way_that_does_not_look_is_caught",
                Fault::SpillUnscanned,
                ABOVE_BOUND,
            ),
        Model::new("two_shards", Preemptions(3), two_shards).control(
            "a_spiller_of_two_shards_that_does_not_look_is_caught",
            Fault::SpillUnscanned,
            ABOVE_BOUND,
        ),
        Model::new("hand_over_in_a_tier", Preemptions(3), hand_over_in_a_tier)
            .control(
                "a_spiller_of_a_tier_that_does_not_look_is_caught",
                Fault::SpillUnscanned,
                ABOVE_BOUND,
            )
            .control("no_estimate_of_a_tier_is_caught", Fault::EstimateLeftOut, ABOVE_BOUND)
            .control(
                "an_early_estimate_of_a_tier_is_caught",
                Fault::EstimateBeforeClaim,
                ABOVE_BOUND,
            )
            .control("no_mark_of_a_tier_is_caught", Fault::SpillUnmarked, ABOVE_BOUND),
        Model::new("a_spill_during_a_change", Preemptions(3), a_spill_during_a_change)
            .control("a_spill_that_a_change_forgets_is_caught", Fault::RebaseForgets, ABOVE_BOUND)
            .control("a_spill_left_in_old_ticks_is_caught", Fault::OldTicksLeft, LEFT_BEHIND),
        Model::new("two_spillers", Whole, two_spillers).control(
            "a_sketch_charged_late_is_caught",
            Fault::OthersChargedLate,
            ABOVE_BOUND,
        ),
    ]
}
