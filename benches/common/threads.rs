//! The option `--threads 1,2,8` gives the numbers of threads on which decisions are measured. Without it they are 1, 2,
//! 4 and so on, up to the number of threads that the machine runs at once.

use std::env;
use std::process::{Command, exit};

use criterion::Criterion;

use super::cores;

/// The environment variable in which a process passes the chosen numbers of threads to its child.
const CHOSEN: &str = "TOLLGATE_BENCH_THREADS";

/// The largest number of threads. No machine has more, and every limit of the benchmarks has more units.
const MAX: usize = 4_096;

/// Runs benchmarks under criterion, which refuses options that it does not know. If `--threads` is given, a child of
/// this process runs them without the option.
pub(crate) fn run(benches: impl FnOnce(&mut Criterion)) {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    if let Some(text) = take_option(&mut arguments) {
        if let Err(refused) = parse(&text) {
            eprintln!("{refused}");
            exit(2);
        }
        let myself = env::current_exe().expect("a path");
        let child = Command::new(myself).args(arguments).env(CHOSEN, text).status();
        exit(child.expect("a child process").code().unwrap_or(1));
    }
    let mut criterion = super::criterion();
    benches(&mut criterion);
    criterion.final_summary();
}

/// Removes `--threads COUNTS` or `--threads=COUNTS`. Returns the counts, or `None` for the option without counts.
fn take_option(arguments: &mut Vec<String>) -> Option<String> {
    let is_it = |argument: &String| argument.split('=').next() == Some("--threads");
    let place = arguments.iter().position(is_it)?;
    let option = arguments.remove(place);
    let counts = option.split_once('=').map(|(_, counts)| counts.to_owned());
    counts
        .or_else(|| (place < arguments.len()).then(|| arguments.remove(place)))
        .or_else(|| Some(String::new()))
}

fn parse(text: &str) -> Result<Vec<usize>, String> {
    text.split(',')
        .map(|count| match count.trim().parse() {
            Ok(threads @ 1..=MAX) => Ok(threads),
            _ => Err(format!(
                "--threads {text:?}: {count:?} is no number of threads; write numbers from 1 to {MAX}, as in 1,2,8"
            )),
        })
        .collect()
}

/// The numbers of threads that are measured, in order.
pub(crate) fn counts() -> Vec<usize> {
    match env::var(CHOSEN) {
        Ok(text) => parse(&text).unwrap_or_else(|refused| panic!("{refused}")),
        Err(_) => cores::counts(),
    }
}
