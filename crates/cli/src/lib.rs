#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # The code
//! Each subcommand is a module with its own arguments. It fails with a `Failure` whose text says what would have been
//! right. Without the feature `serve` the commands `serve` and `rules` print how to get them.

mod check;
mod delays;
mod failure;
mod health;
mod output;
mod plot;
mod replay;
#[cfg(feature = "serve")]
mod rules;
#[cfg(all(unix, feature = "serve"))]
mod serve;
#[cfg(feature = "serve")]
mod serve_redis;
mod simulate;
mod spans;
mod tables;
mod texts;
mod traffic;
#[cfg(not(feature = "serve"))]
mod without_service;
mod written;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

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
    Replay(replay::ReplayArgs),
    Simulate(simulate::SimulateArgs),
    Check(check::CheckArgs),
    Health(health::HealthArgs),
    #[cfg(feature = "serve")]
    Rules(rules::RulesArgs),
    #[cfg(all(unix, feature = "serve"))]
    Serve(Box<serve::ServeArgs>), // boxed: it has more flags than all other commands together
    #[cfg(not(feature = "serve"))]
    Rules(without_service::UnavailableArgs),
    #[cfg(not(feature = "serve"))]
    Serve(without_service::UnavailableArgs),
}

/// The arguments, and those of them that are not read. Under the name of envoyproxy/ratelimit's program, as Envoy Gateway
/// starts it, the command is `serve`, and as there the environment says everything: Envoy AI Gateway has an argument that
/// means nothing. What asks for something else than a service, such as a probe by `health`, gets it under this name, too.
fn arguments(
    given: impl Iterator<Item = OsString>,
    command: &clap::Command,
) -> (Vec<OsString>, Vec<OsString>) {
    let mut given: Vec<OsString> = given.collect();
    let name = given.first().and_then(|program| Path::new(program).file_name());
    if name.is_none_or(|name| name != "ratelimit") {
        return (given, Vec::new());
    }
    let is_command = |word: &OsString| {
        word == "help" || command.get_subcommands().any(|other| *word == other.get_name())
    };
    let is_serve = given.get(1).is_some_and(|word| word == "serve");
    if !is_serve && given.get(1).is_some_and(is_command) {
        return (given, Vec::new());
    }
    let mut unread = given.split_off(if is_serve { 2 } else { 1 });
    let asks = |names: &[&str]| unread.iter().any(|word| names.iter().any(|name| word == name));
    if asks(&["--version", "-V"]) {
        return (vec![given.swap_remove(0), "--version".into()], Vec::new());
    }
    if asks(&["--help", "-h"]) {
        given.push("--help".into());
        return (given, Vec::new());
    }
    if !is_serve {
        given.push("serve".into());
    }
    if asks(&[PRINT_CONFIG]) {
        given.push(PRINT_CONFIG.into());
        unread.retain(|word| word != PRINT_CONFIG);
    }
    (given, unread)
}

/// The one flag of `serve` that is read under the name of envoyproxy/ratelimit's program.
const PRINT_CONFIG: &str = "--print-config";

/// Runs the command line, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let command = Cli::command();
    #[cfg(all(unix, feature = "serve"))]
    let command = command.mut_subcommand("serve", serve::with_names);
    let (arguments, unread) = arguments(std::env::args_os(), &command);
    let matches = command.get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match cli.command {
        Command::Replay(args) => replay::run(&args),
        Command::Simulate(args) => simulate::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Health(args) => health::run(&args),
        #[cfg(feature = "serve")]
        Command::Rules(args) => rules::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(all(unix, feature = "serve"))]
        Command::Serve(args) => {
            let flags = matches.subcommand().map(|(_, flags)| flags.clone()).unwrap_or_default();
            serve::run(&args, flags, &unread)
        }
        #[cfg(not(feature = "serve"))]
        Command::Rules(_) => Err(Failure::WithoutService { what: "`tollgate rules`" }),
        #[cfg(not(feature = "serve"))]
        Command::Serve(_) => {
            drop(unread);
            Err(Failure::WithoutService { what: "`tollgate serve`" })
        }
    };
    match outcome {
        Ok(code) => code,
        // The reader of the output (`head`, a pager) has read enough: that is no failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            // An error means that standard error is closed.
            let _ = writeln!(io::stderr(), "tollgate: {failure}");
            ExitCode::from(Failure::EXIT_CODE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_the_name_of_ratelimit_only_what_asks_for_no_service_is_read() {
        let split = |line: &str| -> Vec<OsString> { line.split(' ').map(Into::into).collect() };
        for (given, read, unread) in [
            ("/bin/ratelimit", "/bin/ratelimit serve", ""),
            ("ratelimit --a=b health", "ratelimit serve", "--a=b health"),
            ("ratelimit serve --rules x", "ratelimit serve", "--rules x"),
            ("ratelimit health [::1]:80", "ratelimit health [::1]:80", ""),
            ("ratelimit check rules", "ratelimit check rules", ""),
            ("ratelimit help serve", "ratelimit help serve", ""),
            ("ratelimit --a -V", "ratelimit --version", ""),
            ("ratelimit serve --version", "ratelimit --version", ""),
            ("ratelimit --help", "ratelimit --help", ""),
            ("ratelimit serve -h", "ratelimit serve --help", ""),
            ("ratelimit --print-config --a", "ratelimit serve --print-config", "--a"),
            ("ratelimit serve --print-config", "ratelimit serve --print-config", ""),
            ("tollgate health", "tollgate health", ""),
        ] {
            let found = arguments(split(given).into_iter(), &Cli::command());
            let unread = if unread.is_empty() { Vec::new() } else { split(unread) };
            assert_eq!(found, (split(read), unread), "{given}");
        }
    }
}
