//! Counts the instructions of decisions: a bench that runs itself under valgrind's callgrind, once for each row.

use std::env;
use std::error::Error;
use std::process::{Command, ExitCode};

/// A row is a function that builds its limiter, makes the decisions, and returns how many went as expected.
pub(crate) type Row = (&'static str, fn() -> u64);

/// Callgrind counts the instructions of this function by its name, [`COUNTED`].
#[inline(never)]
pub(crate) fn count(turns: u64, decision: impl Fn(u64) -> bool) -> u64 {
    (0..turns).map(|n| u64::from(decision(n))).sum()
}

/// The name of the function [`count`], as a pattern for callgrind.
const COUNTED: &str = "*callgrind::count*";

/// The argument with which the bench runs itself to make the decisions of one row. The row's name is the next argument.
const ROW: &str = "--row";

/// The main function of a bench with these rows. Each row makes this number of decisions.
pub(crate) fn run(rows: &[Row], turns: u64) -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [first, name, ..] = &args[..]
        && first == ROW
    {
        decide(rows, turns, name);
        return Ok(ExitCode::SUCCESS);
    }
    // Cargo passes `--bench` to ask for figures, and `--test` to ask for a test run without figures. In a run without
    // figures each row runs once, only for its assertions.
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if !has("--bench") || has("--test") {
        for (name, _) in rows {
            decide(rows, turns, name);
            println!("Testing instructions/{name}\nSuccess");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed here: no instructions were counted");
        return Ok(ExitCode::SUCCESS);
    }
    let wanted: Vec<_> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    println!("instructions of a decision, and of the loop around it");
    for (name, _) in rows {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(*part)) {
            println!("{name:<48} {:>6}", counted(name)? / turns);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn decide(rows: &[Row], turns: u64, name: &str) {
    let (_, row) = rows.iter().find(|(row, _)| *row == name).expect("a row of this name");
    assert_eq!(row(), turns, "{name}");
}

/// The number of instructions of all decisions of a row.
fn counted(name: &str) -> Result<u64, Box<dyn Error>> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(format!("--toggle-collect={COUNTED}")).arg(env::current_exe()?);
    let output = valgrind.args([ROW, name]).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    let collected =
        told.split("Collected :").nth(1).and_then(|rest| rest.split_whitespace().next());
    match collected {
        // There is no count, because no function has the name that is counted.
        Some(number) if output.status.success() && number != "0" => {
            Ok(number.replace(',', "").parse()?)
        }
        _ => Err(format!("{name}: valgrind says {told}").into()),
    }
}
