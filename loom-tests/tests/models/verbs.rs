//! Charges into debt, refunds, reservations and resets race with each other, on one word or on the word of a key.
//!
//! Properties: reserved places differ and follow one after the other, whichever thread cancels. The debt is exactly the
//! units that were charged and not given back. A reset forgives all charges before it and no charge after it. Drained
//! units are never given back, even if other calls have restored the bits of a word.
//!
//! These models are sufficient because each verb is one compare-and-swap loop on the word that a check charges. On the
//! word of a key these verbs also read the floor, so a refund also races with an advance of the floor.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{ModelKey, ModelTable, table};
use loom_tests::verdict::{ABOVE_BOUND, LOST_CHARGE};
use tollgate::control::Fault;
use tollgate::{Limiter, ManualClock, Permit, Quota, Reservation, Timestamp};

const NOW: Timestamp = Timestamp::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);
const KEY: ModelKey = ModelKey { first: 0, tag: 3 };

/// A limit of one unit a second.
pub(crate) fn limiter(burst: u64) -> Arc<Limiter> {
    Arc::new(Limiter::builder(Quota::per_second(1).burst(burst)).clock(ManualClock::new()).build())
}

/// Two threads reserve a place each. The first cancels its own place if it can. A third place is taken at the end. It
/// differs from every place that still stands, and comes after all of them.
fn places<L: Send + Sync + 'static>(
    limit: &Arc<L>,
    reserve: fn(&L) -> Reservation,
    cancel: fn(&L, Reservation) -> bool,
) {
    let other = Arc::clone(limit);
    let first = thread::spawn(move || {
        let place = reserve(&other);
        let ready = place.ready_at();
        if cancel(&other, place) { None } else { Some(ready) }
    });
    let second = reserve(limit).ready_at();
    let first = first.join().expect("the other thread");
    let last = reserve(limit).ready_at();
    let standing = 1 + u64::from(first.is_some());
    assert!(last != second && Some(last) != first, "{ABOVE_BOUND}: one place for two");
    // If the last place in the queue was cancelled, no gap remains.
    assert!(last >= NOW + Duration::from_secs(standing), "{ABOVE_BOUND}: {standing}, {last:?}");
}

/// Checks the order of the queue. One thread takes two places in a row, while the other takes a place and gives it up.
/// Places follow each other in the order in which they were taken. If a place is given up, it is free again if no place
/// was taken behind it. Otherwise it stays taken.
fn queue_order<L: Send + Sync + 'static>(
    limit: &Arc<L>,
    reserve: fn(&L) -> Reservation,
    cancel: fn(&L, Reservation) -> bool,
) {
    let turn = |n: u64| NOW + Duration::from_secs(n);
    let other = Arc::clone(limit);
    let waiting = thread::spawn(move || [0, 1].map(|_| reserve(&other).ready_at()));
    let given_up = reserve(limit);
    let left = given_up.ready_at();
    let is_back = cancel(limit, given_up);
    let [first, second] = waiting.join().expect("the other thread");
    let last = reserve(limit).ready_at();
    assert!(first < second, "{OUT_OF_ORDER}: {first:?} before {second:?}");
    let standing = if is_back { vec![first, second] } else { vec![first, second, left] };
    let turns = 0..standing.len() as u64;
    assert!(turns.map(turn).all(|turn| standing.contains(&turn)), "{ABOVE_BOUND}: {standing:?}");
    assert_eq!(last, turn(standing.len() as u64), "{ABOVE_BOUND}: {standing:?}");
    assert!(is_back || left < second, "{OUT_OF_ORDER}: no place was behind {left:?}");
}

const OUT_OF_ORDER: &str = "out of order";

fn queue_order_of_one() {
    let cancel = |limit: &Limiter, place| limit.entry().at(NOW).cancel(place);
    queue_order(
        &limiter(1),
        |limit| limit.entry().at(NOW).reserve(1, MINUTE).expect("a place"),
        cancel,
    );
}

fn queue_order_of_a_key() {
    let limit = table("gcra 1/s burst 3", 1, 2);
    assert!(limit.entry(&KEY).at(NOW).check_n(2).is_allowed());
    let cancel = |limit: &ModelTable, place| limit.entry(&KEY).at(NOW).cancel(place);
    queue_order(
        &limit,
        |limit| limit.entry(&KEY).at(NOW).reserve(1, MINUTE).expect("a place"),
        cancel,
    );
}

fn places_of_one() {
    let cancel = |limit: &Limiter, place| limit.entry().at(NOW).cancel(place);
    places(&limiter(1), |limit| limit.entry().at(NOW).reserve(1, MINUTE).expect("a place"), cancel);
}

/// The word of a key can hold a debt of twice the burst.
fn places_of_a_key() {
    let limit = table("gcra 1/s burst 3", 1, 2);
    assert!(limit.entry(&KEY).at(NOW).check_n(2).is_allowed());
    let cancel = |limit: &ModelTable, place| limit.entry(&KEY).at(NOW).cancel(place);
    places(&limit, |limit| limit.entry(&KEY).at(NOW).reserve(1, MINUTE).expect("a place"), cancel);
}

/// 5 units are charged into debt on a burst of 4, while the other thread asks for two single units. The admitted units
/// are owed in addition.
fn into_debt() {
    let limit = limiter(4);
    let other = Arc::clone(&limit);
    let charging = thread::spawn(move || other.entry().at(NOW).charge(5));
    let admitted = (0..2).filter(|_| limit.entry().at(NOW).check().is_allowed()).count() as u64;
    let uncharged = charging.join().expect("the other thread");
    let owed = 5 - uncharged + admitted;
    let later = NOW + Duration::from_secs(owed);
    assert_eq!(limit.entry().at(later).peek(1).remaining(), 4, "more than {owed} is owed");
    let before = NOW + Duration::from_secs(owed - 1);
    assert!(
        limit.entry().at(before).peek(1).remaining() < 4,
        "{LOST_CHARGE}: less than {owed} is owed"
    );
}

/// 7 units are charged to a key with a burst of 2, whose policy remembers debts of up to four times the burst beyond
/// the burst. Meanwhile the other thread asks for a single unit. If that unit was admitted, it is owed in addition.
fn into_named_debt_of_a_key() {
    let limit = table("gcra 1/s burst 2 debt 4x", 1, 2);
    let other = Arc::clone(&limit);
    let charging = thread::spawn(move || other.entry(&KEY).at(NOW).charge(7));
    let admitted = u64::from(limit.entry(&KEY).at(NOW).check().is_allowed());
    let uncharged = charging.join().expect("the other thread");
    assert_eq!(uncharged, 0, "{LOST_CHARGE}: there is room for 10 units");
    let owed = 7 + admitted;
    let left = |owed| limit.entry(&KEY).at(NOW + Duration::from_secs(owed)).peek(1).remaining();
    assert_eq!(left(owed), 2, "more than {owed} is owed");
    assert!(left(owed - 1) < 2, "{LOST_CHARGE}: less than {owed} is owed");
}

/// 2 of 3 units of a key are given back while another thread asks for single units.
fn refund_of_a_key() {
    let limit = table("gcra 1/s burst 3", 1, 2);
    let permit = limit.entry(&KEY).at(NOW).check_n(2).into_result().expect("the first");
    let other = Arc::clone(&limit);
    let refunding = thread::spawn(move || other.entry(&KEY).at(NOW).refund(permit));
    let admitted = (0..2).filter(|_| limit.entry(&KEY).at(NOW).check().is_allowed()).count() as u64;
    let refunded = refunding.join().expect("the other thread");
    let left = limit.entry(&KEY).at(NOW).peek(1).remaining();
    assert!(admitted + left <= 1 + refunded, "{ABOVE_BOUND}: {admitted} admitted, {left} left");
    assert!(admitted + left > refunded, "{LOST_CHARGE}: {admitted} admitted, {left} left");
}

/// 2 units are refunded a second after they were charged, while another thread is minutes ahead and makes the floor
/// advance. A drained unit does not come back, and no key is locked out afterwards.
fn refund_across_a_floor() {
    let limit = table("gcra 1/s burst 3", 1, 2);
    let permit = limit.entry(&KEY).at(NOW).check_n(2).into_result().expect("the first");
    let other = Arc::clone(&limit);
    let at = NOW + Duration::from_secs(1);
    let refunding = thread::spawn(move || other.entry(&KEY).at(at).refund(permit));
    let far = NOW + Duration::from_secs(600);
    let admitted = limit.entry(&KEY).at(far).check().is_allowed();
    let refunded = refunding.join().expect("the other thread");
    assert!(admitted, "{LOST_CHARGE}: locked out");
    assert!(refunded <= 1, "{ABOVE_BOUND}: {refunded} given back");
    let left = limit.entry(&KEY).at(far).peek(1).remaining();
    assert!(left <= 2, "{ABOVE_BOUND}: another's unit is forgiven");
    assert!(left >= 2, "{LOST_CHARGE}: {left} left");
}

/// The verbs of a limit with a burst of two units and one unit a second, at times that the caller gives.
struct Asked<L> {
    check: fn(&L, Timestamp) -> Option<Permit>,
    reserve: fn(&L, Timestamp) -> Reservation,
    refund: fn(&L, Permit, Timestamp) -> u64,
    cancel: fn(&L, Reservation, Timestamp) -> bool,
    left: fn(&L, Timestamp) -> u64,
}

/// One thread refunds a unit, and charges another a second later. After that the word has the same bits as after the
/// reservation, which was made before the refund. Another thread cancels that reservation at the later time, when
/// nothing of it is owed any more.
fn restored_bits<L: Send + Sync + 'static>(limit: &Arc<L>, asked: &Asked<L>) {
    let later = NOW + Duration::from_secs(1);
    let permit = (asked.check)(limit, NOW).expect("the first");
    let place = (asked.reserve)(limit, NOW);
    let (other, refund, check) = (Arc::clone(limit), asked.refund, asked.check);
    let restoring = thread::spawn(move || {
        refund(&other, permit, NOW);
        check(&other, later).is_some()
    });
    (asked.cancel)(limit, place, later);
    let admitted = u64::from(restoring.join().expect("the other thread"));
    let left = (asked.left)(limit, later);
    assert!(admitted + left <= 2, "{ABOVE_BOUND}: {admitted} admitted, {left} left");
}

fn restored_bits_of_one() {
    let asked = Asked::<Limiter> {
        check: |limit, now| limit.entry().at(now).check().into_result().ok(),
        reserve: |limit, now| limit.entry().at(now).reserve(1, MINUTE).expect("a place"),
        refund: |limit, permit, now| limit.entry().at(now).refund(permit),
        cancel: |limit, place, now| limit.entry().at(now).cancel(place),
        left: |limit, now| limit.entry().at(now).peek(1).remaining(),
    };
    restored_bits(&limiter(2), &asked);
}

fn restored_bits_of_a_key() {
    let asked = Asked::<ModelTable> {
        check: |limit, now| limit.entry(&KEY).at(now).check().into_result().ok(),
        reserve: |limit, now| limit.entry(&KEY).at(now).reserve(1, MINUTE).expect("a place"),
        refund: |limit, permit, now| limit.entry(&KEY).at(now).refund(permit),
        cancel: |limit, place, now| limit.entry(&KEY).at(now).cancel(place),
        left: |limit, now| limit.entry(&KEY).at(now).peek(1).remaining(),
    };
    restored_bits(&table("gcra 1/s burst 2", 1, 2), &asked);
}

const FORGAVE_NOTHING: &str = "a reset forgave nothing";

/// A key that was charged one of its two units is reset, while another thread asks for a unit. The earlier charge is
/// forgiven, in either order.
fn reset_of_a_key() {
    let limit = table("gcra 1/s burst 2", 1, 2);
    assert!(limit.entry(&KEY).at(NOW).check().is_allowed());
    let other = Arc::clone(&limit);
    let resetting = thread::spawn(move || other.entry(&KEY).at(NOW).reset());
    assert!(limit.entry(&KEY).at(NOW).check().is_allowed(), "{LOST_CHARGE}: two units were there");
    resetting.join().expect("the other thread");
    assert!(limit.entry(&KEY).at(NOW).peek(1).is_allowed(), "{FORGAVE_NOTHING}");
}

pub(crate) fn models() -> Vec<Model> {
    vec![
        Model::new("places_of_one", Bound::None, places_of_one).control(
            "an_undo_over_a_reservation_is_caught",
            Fault::UndoWhatChanged,
            ABOVE_BOUND,
        ),
        Model::new("places_of_a_key", Bound::None, places_of_a_key).control(
            "an_undo_over_a_keys_reservation_is_caught",
            Fault::UndoWhatChanged,
            ABOVE_BOUND,
        ),
        Model::new("queue_order_of_one", Bound::None, queue_order_of_one)
            .control(
                "queue_order_one_place_given_twice_is_caught",
                Fault::PlainStoreForCas,
                ABOVE_BOUND,
            )
            .control(
                "queue_order_a_place_given_back_from_the_middle_is_caught",
                Fault::UndoWhatChanged,
                ABOVE_BOUND,
            ),
        Model::new("queue_order_of_a_key", Bound::None, queue_order_of_a_key).control(
            "queue_order_a_keys_place_given_back_from_the_middle_is_caught",
            Fault::UndoWhatChanged,
            ABOVE_BOUND,
        ),
        Model::new("into_debt", Bound::None, into_debt)
            .control("a_forgotten_charge_is_caught", Fault::ChargeForgotten, LOST_CHARGE)
            .control("a_charge_over_a_charge_is_caught", Fault::PlainStoreForCas, LOST_CHARGE),
        Model::new("into_named_debt_of_a_key", Bound::Preemptions(3), into_named_debt_of_a_key)
            .control(
                "a_debt_that_stops_where_none_is_named_is_caught",
                Fault::DebtStopsAtLimit,
                LOST_CHARGE,
            ),
        Model::new("refund_of_a_key", Bound::None, refund_of_a_key).control(
            "a_refund_over_a_charge_is_caught",
            Fault::PlainStoreForCas,
            LOST_CHARGE,
        ),
        Model::new("refund_across_a_floor", Bound::Preemptions(3), refund_across_a_floor).control(
            "a_keys_refund_of_what_drained_is_caught",
            Fault::ReturnWhatDrained,
            ABOVE_BOUND,
        ),
        Model::new("restored_bits_of_one", Bound::None, restored_bits_of_one).control(
            "a_cancellation_of_what_drained_is_caught",
            Fault::UndoWhatDrained,
            ABOVE_BOUND,
        ),
        Model::new("restored_bits_of_a_key", Bound::None, restored_bits_of_a_key).control(
            "a_keys_cancellation_of_what_drained_is_caught",
            Fault::UndoWhatDrained,
            ABOVE_BOUND,
        ),
        Model::new("reset_of_a_key", Bound::None, reset_of_a_key).control(
            "a_reset_that_was_not_written_is_caught",
            Fault::FailureTakenForSuccess,
            FORGAVE_NOTHING,
        ),
    ]
}
