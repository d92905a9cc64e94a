//! The `tollgate` command: look before you limit.
//!
//! Each subcommand is a module with its own arguments, and answers with a [`Failure`] whose text
//! says what would have been right.

mod check;
mod failure;
mod output;
mod plot;
mod replay;
mod rules;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod serve_redis;
mod simulate;
mod spans;
mod tables;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// See what a rate limit would do before it does it to anyone.
#[derive(Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Replay(replay::Args),
    Simulate(simulate::Args),
    Check(check::Args),
    Rules(rules::Args),
    #[cfg(unix)]
    Serve(Box<serve::Args>), // more flags than all the others together
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Replay(args) => replay::run(&args),
        Command::Simulate(args) => simulate::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Rules(args) => rules::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(unix)]
        Command::Serve(args) => serve::run(&args).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        // Whoever reads the output (`head`, a pager) has seen enough: that is no failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            // Where standard error is closed there is nobody left to tell.
            let _ = writeln!(io::stderr(), "tollgate: {failure}");
            ExitCode::from(Failure::EXIT_CODE)
        }
    }
}
