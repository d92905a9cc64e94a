//! A simulation of many nodes on one store. It runs discrete events in one thread, and the same seed gives the same
//! events.
//!
//! The nodes run the code of the library: holdings of leases, shares, isolation clocks, backoff. The rest of the world
//! is simulated: a server that computes the same as the script, late and lost messages, partitions, pauses, and crashes
//! of nodes and of the server. The bound on admitted units (`docs/failures.md`) is checked at every admission.
//!
//! `TOLLGATE_SEEDS=10000 cargo test --release -p tollgate-redis simulation` runs that many worlds.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod audit;
mod changing;
mod cluster;
mod counting;
mod node;
mod parts;
mod returning;
mod scale;
mod server;
pub(crate) mod states;
mod world;

use world::{LeaseFlaw, LeaseOutcome, Setup, run};

/// The number of worlds in a run of the tests: a few, or as many as the variable `TOLLGATE_SEEDS` says.
fn seeds() -> u64 {
    std::env::var("TOLLGATE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

fn all(setup: impl Fn(u64) -> Setup) -> Vec<LeaseOutcome> {
    (0..seeds()).map(|seed| run(setup(seed))).collect()
}

fn sum(outcomes: &[LeaseOutcome], of: impl Fn(&LeaseOutcome) -> u64) -> u64 {
    outcomes.iter().map(of).sum()
}

#[test]
fn bad_input_38_bound_d1_holds_in_every_world() {
    let outcomes = all(Setup::stormy);
    for (seed, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
    // Checks that the faults did happen, since worlds without faults would not test the bound.
    let worlds = outcomes.len();
    println!(
        "{worlds} worlds, {} nodes, {} requests, {} admitted ({} by shares), {} calls, \
         {} losses of state, {} crashes of nodes, {} partitions, {} late replies",
        sum(&outcomes, |o| o.nodes),
        sum(&outcomes, |o| o.requests),
        sum(&outcomes, |o| o.admitted),
        sum(&outcomes, |o| o.by_shares),
        sum(&outcomes, |o| o.calls),
        sum(&outcomes, |o| o.losses),
        sum(&outcomes, |o| o.crashes),
        sum(&outcomes, |o| o.partitions),
        sum(&outcomes, |o| o.late),
    );
    for (kind, count) in [
        ("shares", sum(&outcomes, |o| o.by_shares)),
        ("losses", sum(&outcomes, |o| o.losses)),
        ("crashes", sum(&outcomes, |o| o.crashes)),
        ("partitions", sum(&outcomes, |o| o.partitions)),
        ("late replies", sum(&outcomes, |o| o.late)),
    ] {
        assert!(count >= outcomes.len() as u64 / 10, "{kind}: {count} in {worlds} worlds");
    }
}

/// Without faults, leases add to any interval at most the units that were in leases when the interval began.
#[test]
fn without_faults_nothing_is_added_but_the_units_in_leases() {
    let outcomes = all(Setup::calm);
    for (seed, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert_eq!((outcome.by_shares, outcome.losses), (0, 0), "seed {seed}");
    }
}

/// When the nodes ask for four times the limit, at least 99 % of the limit is admitted.
#[test]
fn without_faults_the_limit_is_used_up() {
    let outcomes = all(Setup::saturated);
    for (seed, outcome) in outcomes.iter().enumerate() {
        let LeaseOutcome { admitted, bound, held, nodes, .. } = outcome;
        // One charged unit may still be on its way to each node.
        let used = admitted + held + nodes;
        assert!(used * 100 >= bound * 99, "seed {seed}: {used} of {bound}, {nodes} nodes");
    }
    println!("{} of {}", sum(&outcomes, |o| o.admitted), sum(&outcomes, |o| o.bound));
}

#[test]
fn every_planted_mistake_is_caught() {
    for flaw in [
        LeaseFlaw::ReplyTwice,
        LeaseFlaw::ShareRefilled,
        LeaseFlaw::SpentBeforeCharged,
        LeaseFlaw::SilentLoss,
    ] {
        let caught = (0..200).any(|seed| run(Setup::stormy(seed).flawed(flaw)).violation.is_some());
        assert!(caught, "{flaw:?} breaks nothing that is looked at");
    }
}
