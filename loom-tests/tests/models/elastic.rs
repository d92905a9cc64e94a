//! Elastic limits: clients that borrow from one pool while the server reports the pool's headroom.
//!
//! Properties: each client is always admitted its own burst. All clients together borrow at most the pool's burst times
//! the largest headroom that was in force. If the headroom does not change, they can borrow exactly that much.
//!
//! These models are sufficient because a loan is one compare-and-swap loop on the pool's word, like a charge on a
//! limiter's word (see `limiter`). A report writes a word that no loan writes, and each loan reads that word before the
//! report or after it. Threads share nothing else.

use std::sync::Arc;

use loom::thread;
use loom_tests::suite::{Bound, Model};
use loom_tests::verdict::{ABOVE_BOUND, REFUSED};
use tollgate::control::Fault;
use tollgate::{Limiter, ManualClock, Quota, Timestamp};
use tollgate_elastic::{ElasticDecision, SparePool};

const NOW: Timestamp = Timestamp::from_secs(10);

/// One unit per second.
fn pool(burst: u64, headroom: f64) -> Arc<SparePool> {
    let pool = SparePool::with_clock(Quota::per_second(1).burst(burst), ManualClock::new());
    pool.report_headroom(headroom).expect("a headroom");
    Arc::new(pool)
}

/// Makes `requests` requests of a client with one unit of its own. Returns how many were admitted by that unit, and how
/// many were borrowed.
fn ask(pool: &SparePool, requests: usize) -> (u64, u64) {
    let client = Limiter::builder(Quota::per_second(1).burst(1)).clock(pool.clock()).build();
    let own = client.entry().at(NOW);
    let answers: Vec<_> = (0..requests).map(|_| pool.check(own, 1)).collect();
    let count = |is: fn(&ElasticDecision) -> bool| {
        answers.iter().filter(|answer| is(answer)).count() as u64
    };
    (count(|answer| answer.is_allowed()), count(|answer| answer.is_borrowed()))
}

/// 2 threads, each with one unit of its own and 2 more requests, share a pool of 3 units.
fn two_clients() {
    let pool = pool(3, 1.0);
    let others = Arc::clone(&pool);
    let other = thread::spawn(move || ask(&others, 3));
    let own = ask(&pool, 3);
    let other = other.join().expect("the other thread");
    for (admitted, borrowed) in [own, other] {
        assert_eq!(admitted - borrowed, 1, "{REFUSED} or {ABOVE_BOUND}: its own");
    }
    let borrowed = own.1 + other.1;
    assert!(borrowed <= 3, "{ABOVE_BOUND}: {borrowed} borrowed");
    assert!(borrowed >= 3, "{REFUSED}: {borrowed} borrowed");
}

/// 2 threads: a client that borrows, and a server that reports a new headroom and then borrows a unit itself.
fn a_report(from: f64, to: f64, least: u64, most: u64) {
    let pool = pool(4, from);
    let server = Arc::clone(&pool);
    let other = thread::spawn(move || {
        server.report_headroom(to).expect("a headroom");
        ask(&server, 2).1
    });
    let borrowed = ask(&pool, 5).1 + other.join().expect("the other thread");
    assert!(borrowed <= most, "{ABOVE_BOUND}: {borrowed} borrowed");
    assert!(borrowed >= least, "{REFUSED}: {borrowed} borrowed");
}

pub(crate) fn models() -> Vec<Model> {
    use Fault::{FailureTakenForSuccess, PlainStoreForCas, ReportPricesAnew};
    vec![
        Model::new("two_clients_of_a_pool", Bound::None, two_clients)
            .control("a_loan_over_a_loan_is_caught", PlainStoreForCas, ABOVE_BOUND)
            .control("an_unwritten_loan_is_caught", FailureTakenForSuccess, ABOVE_BOUND),
        // At a headroom of a half 2 units of 4 can be borrowed. After the report each loan costs half as many units.
        Model::new("headroom_rises", Bound::None, || a_report(0.5, 1.0, 2, 4)).control(
            "a_loan_over_a_loan_while_it_rises_is_caught",
            PlainStoreForCas,
            ABOVE_BOUND,
        ),
        Model::new("headroom_sinks", Bound::None, || a_report(1.0, 0.5, 2, 4)).control(
            "what_was_lent_priced_anew_is_caught",
            ReportPricesAnew,
            ABOVE_BOUND,
        ),
    ]
}
