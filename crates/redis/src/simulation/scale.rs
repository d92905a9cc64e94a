//! Computes what a limit with many nodes costs the store. The figures in docs/scale.md come from this test.
//!
//! `cargo test --release -p tollgate-redis simulation::scale -- --nocapture` prints them.

use super::world::{LeaseOutcome, Setup, WorldSize, run};

/// The length of every world in simulated time.
const SECONDS: u64 = 2;

fn world(nodes: u64, rate: u64, load: u64) -> LeaseOutcome {
    let outcome = run(Setup::scaled(1, WorldSize { nodes, rate, load }));
    assert_eq!(outcome.violation, None);
    outcome
}

/// Computes how many calls all nodes together make for one key.
#[test]
fn bad_input_117_one_hot_key_costs_each_node_at_most_a_call_in_a_few_milliseconds() {
    println!("nodes  rate/s  asked/s  admitted/s  calls/s  calls per ask  in leases at the end");
    for (nodes, rate) in [(3, 10_000), (50, 10_000), (1_000, 10_000)] {
        for load in [5, 20] {
            let LeaseOutcome { requests, admitted, calls, held, bound, .. } =
                world(nodes, rate, load);
            let per_mille = calls * 1_000 / requests.max(1);
            println!(
                "{nodes:>5}  {rate:>6}  {:>7}  {:>10}  {:>7}  {:>9}.{:03}  {held:>20}",
                requests / SECONDS,
                admitted / SECONDS,
                calls / SECONDS,
                per_mille / 1_000,
                per_mille % 1_000,
            );
            assert!(admitted <= bound);
            // A node makes at most one call in each poll interval of 10 ms, and one more for each lease that it got.
            // Each lease had at least one unit.
            let most = nodes * SECONDS * 101 + admitted + held;
            assert!(calls <= most, "{calls} calls, {most} at most");
            // All nodes together hold at most half of a burst, or one unit each if that is more.
            assert!(held <= (rate / 2).max(nodes), "{held} units in leases");
        }
    }
}
