//! Instructions per request. Each contender runs in its own process under valgrind's callgrind.
//!
//! Each contender runs twice, with different numbers of requests. The difference between the two counts is the cost of
//! the additional requests, without the start and the end of the process. These counts hardly depend on what else the
//! machine does.

use std::env;
use std::error::Error;
use std::process::Command;

use crate::contender::HttpContender;

/// With either number of requests, each client makes at least one.
const FEWER: u64 = 20_000;
const MORE: u64 = 120_000;

/// Prints the instructions of each contender, the instructions that its limit adds, and these as a share of what
/// tower_governor adds.
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
