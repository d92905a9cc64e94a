//! A lease that is returned while other threads charge the same word.
//!
//! Properties: the units spent from the lease and the units that others were admitted are together at most the burst
//! plus what has drained. Units that were neither spent nor drained are given back exactly.
//!
//! These models are sufficient because a return is one compare-and-swap loop on the limiter's word, like a charge.
//! Another thread's charge can come before the return, after it, or between its load and its compare-and-swap.

use std::sync::Arc;

use loom::thread;
use loom_tests::suite::{Bound, Model};
use loom_tests::verdict::{ABOVE_BOUND, LOST_CHARGE};
use tollgate::Timestamp;
use tollgate::control::Fault;

use super::verbs::limiter;

const TAKEN: Timestamp = Timestamp::from_secs(5);

/// One unit per second. Takes a lease of 2 of the 3 units, spends `spent` of them and returns the rest at `returned`,
/// while another thread asks for `asks` single units. Returns the number of units that the other thread was admitted,
/// and the units left.
fn race(spent: u64, returned: Timestamp, asks: usize) -> (u64, u64) {
    let limiter = limiter(3);
    let mut lease = limiter.entry().at(TAKEN).lease(2).expect("an unused limit");
    let other = Arc::clone(&limiter);
    let admitted = thread::spawn(move || {
        (0..asks).filter(|_| other.entry().at(returned).check().is_allowed()).count() as u64
    });
    assert!(lease.spend(spent));
    limiter.entry().at(returned).refund(lease.into_unspent());
    let admitted = admitted.join().expect("the other thread");
    (admitted, limiter.entry().at(returned).peek(0).remaining())
}

/// The rest is returned at once. The spent, admitted and left units add up to the burst.
fn at_once() {
    let (admitted, left) = race(1, TAKEN, 2);
    assert!(1 + admitted + left <= 3, "{ABOVE_BOUND}: {admitted} admitted, {left} left");
    assert!(1 + admitted + left >= 3, "{LOST_CHARGE}: {admitted} admitted, {left} left");
}

/// The rest is returned a second later. One of the two units has drained by then, so only the other one is given back.
fn after_a_while() {
    let (admitted, left) = race(0, TAKEN + std::time::Duration::from_secs(1), 3);
    assert!(admitted + left <= 3, "{ABOVE_BOUND}: {admitted} admitted, {left} left");
    assert!(admitted + left >= 3, "{LOST_CHARGE}: {admitted} admitted, {left} left");
}

pub(crate) fn models() -> Vec<Model> {
    vec![
        Model::new("returned_at_once", Bound::None, at_once)
            .control("a_double_return_is_caught", Fault::ReturnTwice, ABOVE_BOUND)
            .control("a_return_over_a_charge_is_caught", Fault::PlainStoreForCas, ABOVE_BOUND),
        Model::new("returned_after_a_while", Bound::None, after_a_while).control(
            "a_return_of_what_drained_is_caught",
            Fault::ReturnWhatDrained,
            ABOVE_BOUND,
        ),
    ]
}
