//! Instructions per request. Each contender runs in a process of its own, under valgrind's callgrind.
//!
//! Two processes differ only in the number of requests that they serve: the difference between their counts is the cost
//! of these requests, without start and end. A count hardly depends on what else the machine does.

use std::env;
use std::error::Error;
use std::process::Command;

use crate::contender::HttpContender;

/// After either number of requests every client is known.
const FEWER: u64 = 20_000;
const MORE: u64 = 120_000;

/// Prints the instructions of each contender, those that the limits add, and these as a share of what tower_governor
/// adds.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let counts = HttpContender::ALL.map(per_request).into_iter().collect::<Result<Vec<_>, _>>()?;
    let bare = counts[HttpContender::Bare as usize];
    let theirs = counts[HttpContender::Theirs as usize] - bare;
    println!("instructions per request, of {} requests\n", MORE - FEWER);
    println!("{:<22} {:>8} {:>8} {:>16}", "", "all", "added", "share of theirs");
    for (who, all) in HttpContender::ALL.into_iter().zip(counts) {
        let (added, name) = (all - bare, who.name());
        println!("{name:<22} {all:>8} {added:>8} {:>14} %", added * 100 / theirs);
    }
    Ok(())
}

fn per_request(who: HttpContender) -> Result<u64, Box<dyn Error>> {
    Ok((collected(who, MORE)? - collected(who, FEWER)?) / (MORE - FEWER))
}

/// The instructions that callgrind counts in one process.
fn collected(who: HttpContender, requests: u64) -> Result<u64, Box<dyn Error>> {
    let requests = requests.to_string();
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["--one", &who.word(), "--requests", &requests])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let told = String::from_utf8_lossy(&run.stderr);
    let line = told.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = line.ok_or_else(|| format!("valgrind says no count:\n{told}"))?;
    Ok(count.trim().parse()?)
}
