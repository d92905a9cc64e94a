//! Measures memory. Each figure comes from its own process, so that no contender inherits the heap of another.

use std::process::Command;

use crate::contender::{Contender, RunPace};
use crate::options::PeersOptions;
use crate::report::{PeersReport, WorkloadRow};
use crate::stream::BenchKey;
use crate::workloads::{FEW, few};

/// How the child is called: `--child CONTENDER TYPE ROOM KEYS`.
pub(crate) const CHILD: &str = "--child";

const M: u64 = 1_000_000;

/// Runs in the child: fills a limiter, built for `room` keys, with `keys` keys, and prints the growth in bytes.
pub(crate) fn child(arguments: &[String]) {
    let [name, kind, room, keys] = arguments else { panic!("{CHILD} CONTENDER TYPE ROOM KEYS") };
    let [room, keys] = [room, keys].map(|number| number.parse().expect("a number"));
    let bytes = match kind.as_str() {
        "u64" => growth::<u64>(|| few(name, room).expect("a contender"), keys),
        _ => growth::<String>(|| few(name, room).expect("a contender"), keys),
    };
    println!("{bytes}");
}

fn growth<K: BenchKey>(build: impl Fn() -> Box<dyn Contender<K> + Sync>, keys: u64) -> u64 {
    let resident = || memory_stats::memory_stats().expect("this system tells").physical_mem as u64;
    // The memory of a process and a limiter before there is any key.
    let before = resident();
    let contender = build();
    // The keys are made one at a time, so that no list of keys is counted.
    let mut admitted = 0;
    for number in 0..keys {
        admitted += contender.decide(&[K::nth(number)], RunPace::BackToBack);
    }
    let after = resident();
    // One of 100,000 new keys may find all of its shards full.
    assert!(keys - admitted <= keys / 1_000, "{admitted} of {keys} were admitted");
    after.saturating_sub(before)
}

fn ask(name: &str, kind: &str, room: u64, keys: u64) -> f64 {
    let myself = std::env::current_exe().expect("a path");
    let numbers = [room, keys].map(|number| number.to_string());
    let output = Command::new(myself).arg(CHILD).args([name, kind]).args(numbers).output();
    let output = output.expect("a child process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of bytes")
}

pub(crate) fn run(options: &PeersOptions, report: &mut PeersReport) {
    let many = if options.full { vec![M, 10 * M] } else { vec![M] };
    for kind in ["u64", "String"] {
        for &keys in &many {
            let name = format!("bytes per key, {} M {kind}", keys / M);
            compare(&name, |name| ask(name, kind, keys, keys) / keys as f64, options, report);
        }
    }
    let flood = if options.full { 20 * M } else { 4 * M };
    let name = format!("bytes after a flood of {} M one-shot keys", flood / M);
    compare(&name, |name| ask(name, "u64", M, flood), options, report);
}

fn compare(
    name: &str,
    bytes: impl Fn(&str) -> f64,
    options: &PeersOptions,
    report: &mut PeersReport,
) {
    if !options.wants(name) {
        return;
    }
    let governor = bytes(FEW[0]);
    for contender in FEW {
        let own = if contender == FEW[0] { governor } else { bytes(contender) };
        report.add(WorkloadRow {
            workload: name.to_owned(),
            contender: contender.to_owned(),
            threads: 1,
            median_ns: own,
            ratio_to_governor: governor / own,
            shares: None,
        });
    }
}
