//! A limit that is split into stripes. A request asks its own stripe first, then the others.
//!
//! Properties: at most the whole burst is admitted, whichever stripes its units come from. As long as the stripes
//! together have enough single units left, no request is denied.
//!
//! These models are sufficient because a stripe is a `Limiter`'s word, which has models in `limiter`, and requests that
//! visit stripes share nothing but those words. With two stripes every visit can be the first or the last. With a
//! second request a thread comes back to a stripe from which others have taken units. With three threads, two can meet
//! in the stripe of the third.

use std::sync::Arc;

use loom_tests::race::{Call, RaceRequest, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::verdict::{ABOVE_BOUND, REFUSED, assert_admitted};
use tollgate::control::Fault;
use tollgate::{ManualClock, Quota, StripedLimiter};

use crate::limiter::ask;

/// One unit per second, over all stripes.
fn striped(burst: u64, stripes: usize) -> Arc<StripedLimiter> {
    let quota = Quota::per_second(1).burst(burst);
    Arc::new(
        StripedLimiter::builder(quota)
            .stripes(stripes)
            .clock(ManualClock::new())
            .build()
            .expect("stripes"),
    )
}

fn admitted(calls: &[Call]) -> u64 {
    calls.iter().filter(|call| call.allowed).map(|call| call.ask.cost).sum()
}

/// Races lists of single units at one instant: as many requests are admitted as the burst has units.
fn share(burst: u64, stripes: usize, lists: Vec<Vec<RaceRequest>>) {
    let limiter = striped(burst, stripes);
    let calls = race(&limiter, lists).concat();
    let asked = calls.len() as u64;
    assert!(admitted(&calls) <= burst, "{ABOVE_BOUND}: {calls:?}");
    assert!(admitted(&calls) >= burst.min(asked), "{REFUSED}: {calls:?}");
}

/// 2 threads make 2 requests each, to 2 stripes of 1 unit each.
fn two_by_two() {
    share(2, 2, vec![vec![ask(1, 5_000); 2]; 2]);
}

/// 2 threads make 3 requests and 1 request, to 2 stripes of 2 units each. The first thread's third request takes a unit
/// from the other thread's stripe.
fn one_takes_more() {
    share(4, 2, vec![vec![ask(1, 5_000); 3], vec![ask(1, 5_000)]]);
}

/// 3 threads: one makes 2 requests, the others make 1 each, to 4 stripes of 1 unit each.
fn three_threads() {
    share(4, 4, vec![vec![ask(1, 5_000); 2], vec![ask(1, 5_000)], vec![ask(1, 5_000)]]);
}

/// 2 threads make requests after the burst was spent, one of them with an old time. 2 seconds later each stripe has a
/// unit.
fn late() {
    let limiter = striped(2, 2);
    assert_admitted(&ask_all(&*limiter, &[ask(1, 1_000), ask(1, 1_000)]));
    let lists = vec![vec![ask(1, 1_000), ask(1, 3_000)], vec![ask(1, 3_000)]];
    let calls = race(&limiter, lists).concat();
    assert_eq!(admitted(&calls), 2, "{ABOVE_BOUND} or {REFUSED}: {calls:?}");
    assert!(!calls[0].allowed, "{ABOVE_BOUND}: {calls:?}");
}

pub(crate) fn models() -> Vec<Model> {
    vec![
        Model::new("two_by_two", Bound::None, two_by_two).control(
            "striped_plain_store_is_caught",
            Fault::PlainStoreForCas,
            ABOVE_BOUND,
        ),
        Model::new("one_takes_more", Bound::None, one_takes_more).control(
            "own_stripe_only_is_caught",
            Fault::OwnStripeOnly,
            REFUSED,
        ),
        Model::new("three_threads", Bound::Preemptions(3), three_threads).control(
            "three_in_own_stripes_only_is_caught",
            Fault::OwnStripeOnly,
            REFUSED,
        ),
        Model::new("late_in_one_stripe", Bound::None, late).control(
            "late_in_own_stripes_only_is_caught",
            Fault::OwnStripeOnly,
            REFUSED,
        ),
    ]
}
