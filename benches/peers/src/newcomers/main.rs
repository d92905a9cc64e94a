//! Measures new keys in a flood, with equal memory for all limiters: how many are refused although they have asked for
//! nothing before. Run it with `cargo bench --bench newcomers`.
//!
//! rate-net bounds its memory as Tollgate does, and remembers the keys that it has evicted. Its authors publish the
//! effect: after a flood of keys that spend their burst, 38 % of newcomers are denied if there are six times as many
//! keys as its cap, and 86 % at nine times. Here rate-net gets a cap, and its memory at that cap is counted at the
//! allocator. Tollgate gets as much memory and the same requests, all at one instant. A newcomer asks for one unit,
//! which any exact limiter admits.
//!
//! The run panics if Tollgate admits more than a key's burst, or if a table of Tollgate refuses a larger share of
//! newcomers than rate-net does. No time is measured.
//!
//! Tollgate's seeds are fixed, so its figures are the same in every run. rate-net draws its seeds from the system.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod contenders;
mod flood;

use allocation_counter::measure;
use clap::Parser;

use contenders::{Budget, contenders};
use flood::{FLOODS, Flood, FloodOutcome};

/// Floods, as multiples of rate-net's cap.
const TIMES: [u64; 7] = [1, 2, 3, 6, 9, 20, 100];

/// Measures newcomers in a flood, with equal memory for all limiters.
#[derive(Parser)]
struct NewcomersOptions {
    /// The cap of rate-net, in keys. rate-net takes the least memory if each of its 128 shards gets a power of two.
    #[arg(long, default_value_t = 16_384)]
    cap: usize,
    /// `cargo bench` passes this option, which has no effect.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = NewcomersOptions::parse();
    println!("rate-net's bytes a key, counted at the allocator:\n");
    println!("| cap | full | after a flood of 9 x |");
    println!("|--:|--:|--:|");
    for cap in [options.cap / 8, options.cap * 3 / 4, options.cap, options.cap * 8] {
        let Budget { full, flooded } = Budget::of(cap);
        let of_a_key = |bytes: u64| bytes as f64 / cap as f64;
        println!("| {cap} | {:.1} | {:.1} |", of_a_key(full), of_a_key(flooded));
    }
    let budget = Budget::of(options.cap);
    for flood in FLOODS {
        table(&flood, &options, &budget);
    }
}

/// Prints one row for each contender: the shares of newcomers that are refused during the flood, and after it.
fn table(flood: &Flood, options: &NewcomersOptions, budget: &Budget) {
    println!("\n{flood}:\n");
    let columns: Vec<String> = TIMES.iter().map(|times| format!("{times} x")).collect();
    println!("| | bytes | {} | units above the burst |", columns.join(" | "));
    println!("|---|--:|{}--:|", "--:|".repeat(TIMES.len()));
    let mut peers: Option<[f64; 7]> = None;
    for contender in contenders(flood, options.cap, budget) {
        let mut bytes = 0;
        let outcomes = TIMES.map(|times| {
            let keys = times * options.cap as u64;
            let mut outcome = FloodOutcome::default();
            let info = measure(|| {
                outcome = flood.run(&(contender.build)(), keys, options.cap as u64);
            });
            bytes = bytes.max(info.bytes_max);
            outcome
        });
        let shares: Vec<String> = outcomes.iter().map(FloodOutcome::to_string).collect();
        let above: u64 = outcomes.iter().map(|outcome| outcome.above_burst).sum();
        let name = contender.name;
        println!("| {name} | {:.1} MB | {} | {above} |", bytes as f64 / 1e6, shares.join(" | "));
        let refused = outcomes.each_ref().map(FloodOutcome::refused_after);
        let peers = *peers.get_or_insert(refused);
        if contender.is_table {
            // A difference of two hundredths may be chance: rate-net's seeds are random, and there are few newcomers.
            let is_better = refused.iter().zip(peers).all(|(own, peer)| *own <= peer + 0.02);
            assert!(is_better, "{name}: {refused:?} of the newcomers, beside {peers:?}");
        }
        if let Some(budget) = contender.budget {
            assert!(bytes <= budget, "{name}: {bytes} bytes of {budget}");
            assert_eq!(above, 0, "{name}: units above the burst");
        }
    }
}
