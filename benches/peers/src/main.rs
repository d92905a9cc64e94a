//! Measures Tollgate beside other limiters, in one process with interleaved rounds: `cargo bench --bench peers`.
//!
//! The table shows nanoseconds per decision of each thread, and how many times as fast as governor a contender is. The
//! latter is the median of the ratios within each round. Figures can be compared only within a workload and a number of
//! threads; rows of the same code differ by noise. For Tollgate's tables it also shows the shares of hits and other
//! decisions.
//!
//! The run panics if a contender's decisions are not those that the workload demands. Without this check the time of a
//! wrong answer would count, and a half-full table could pass for a full one.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod contender;
#[path = "../../common/cores.rs"]
mod cores;
mod drive;
mod growth;
mod latency;
mod limiters;
#[path = "../../common/machine.rs"]
mod machine;
mod memory;
mod newkeys;
mod options;
mod pace;
mod report;
mod shares;
mod stream;
mod workloads;

use clap::Parser;

use options::PeersOptions;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, child, rest @ ..] = arguments.as_slice()
        && child == memory::CHILD
    {
        return memory::child(rest);
    }
    let options = PeersOptions::parse();
    if options.workloads.iter().any(|name| name == "growth") {
        let svg = report::target().expect("a target folder").join("growth.svg");
        return growth::run(&options, &svg).expect("a drawing");
    }
    let mut report = report::PeersReport::default();
    workloads::run(&options, &mut report);
    newkeys::throughput(&options, &mut report);
    latency::checks(&options, &mut report);
    latency::inserts(&options, &mut report);
    memory::run(&options, &mut report);
    assert!(!report.is_empty(), "no workload's name contains any of {:?}", options.workloads);
    match report.write() {
        Ok(path) => println!("\nwritten to {}", path.display()),
        Err(error) => panic!("the table could not be written: {error}"),
    }
}
