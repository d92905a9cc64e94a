#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # The code
//! Each subcommand is a module with its own arguments. It fails with a `Failure` whose text says what would be
//! accepted. Without the feature `serve` the commands `serve`, `rules` and `health` print how to get them.

mod bounds;
mod check;
mod delays;
mod failure;
#[cfg(all(unix, feature = "serve"))]
mod health;
mod manual;
mod output;
mod plot;
mod policies;
mod replay;
#[cfg(feature = "serve")]
mod rules;
mod schema;
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
    Policies(policies::PoliciesArgs),
    Schema(schema::SchemaArgs),
    #[cfg(all(unix, feature = "serve"))]
    Health(health::HealthArgs),
    #[cfg(feature = "serve")]
    Rules(rules::RulesArgs),
    #[cfg(all(unix, feature = "serve"))]
    Serve(Box<serve::ServeArgs>), // boxed: it has more flags than all other commands together
    #[cfg(not(feature = "serve"))]
    Health(without_service::UnavailableArgs),
    #[cfg(not(feature = "serve"))]
    Rules(without_service::UnavailableArgs),
    #[cfg(not(feature = "serve"))]
    Serve(without_service::UnavailableArgs),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

/// The only flags of `tollgate serve` that are read if the program is started under the name of envoyproxy/ratelimit's
/// program.
const READ_AS_RATELIMIT: [&str; 3] = ["--print-config", "--help", "-h"];

/// Returns the arguments to parse, and those that are not read.
///
/// Envoy Gateway starts the program under the name of envoyproxy/ratelimit's program. Then the program acts as
/// `tollgate serve`, with all settings from the environment. Most arguments are not read, because Envoy AI Gateway
/// passes an argument that has no meaning in envoyproxy/ratelimit either. But another command, such as the `health` of
/// a probe, is run, because it must not start a second service.
fn arguments(
    given: impl Iterator<Item = OsString>,
    command: &clap::Command,
) -> (Vec<OsString>, Vec<OsString>) {
    let mut given: Vec<OsString> = given.collect();
    let name = given.first().and_then(|program| Path::new(program).file_name());
    let is_ratelimit = name.is_some_and(|name| name == "ratelimit");
    let asks_no_service = given.get(1).is_some_and(|word| {
        let of_all = ["help", "--help", "-h", "--version", "-V"];
        let others = command.get_subcommands().map(clap::Command::get_name);
        of_all.into_iter().chain(others).any(|other| other != "serve" && word == other)
    });
    if !is_ratelimit || asks_no_service {
        return (given, Vec::new());
    }
    let rest = given.split_off(1).into_iter().filter(|word| word != "serve");
    let (read, unread): (Vec<_>, Vec<_>) =
        rest.partition(|word| READ_AS_RATELIMIT.iter().any(|flag| word == flag));
    given.push("serve".into());
    given.extend(read);
    (given, unread)
}

/// Returns the command line with its help texts. It is public only for tests: they make pages from it.
#[doc(hidden)]
#[must_use]
pub fn command() -> clap::Command {
    let command = Cli::command();
    #[cfg(all(unix, feature = "serve"))]
    let command = command.mut_subcommand("serve", serve::with_names);
    command
}

/// Runs the command line, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let command = command();
    let (arguments, unread) = arguments(std::env::args_os(), &command);
    let matches = command.clone().get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match cli.command {
        Command::Replay(args) => replay::run(&args),
        Command::Simulate(args) => simulate::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => {
            #[cfg(feature = "serve")]
            let whole =
                matches.subcommand().map_or(Ok(()), |(_, flags)| serve_redis::refuse_halves(flags));
            #[cfg(not(feature = "serve"))]
            let whole = Ok(());
            whole.and_then(|()| check::run(&args)).map(|()| ExitCode::SUCCESS)
        }
        Command::Policies(args) => policies::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => {
            manual::completions(&args, command).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(args) => manual::pages(&args, command).map(|()| ExitCode::SUCCESS),
        Command::Schema(_) => schema::run().map(|()| ExitCode::SUCCESS),
        #[cfg(all(unix, feature = "serve"))]
        Command::Health(args) => health::run(&args),
        #[cfg(feature = "serve")]
        Command::Rules(args) => {
            // The flags belong to the subcommand of `rules`.
            let verb = matches.subcommand().and_then(|(_, flags)| flags.subcommand());
            let whole = verb.map_or(Ok(()), |(_, flags)| serve_redis::refuse_halves(flags));
            whole.and_then(|()| rules::run(&args)).map(|()| ExitCode::SUCCESS)
        }
        #[cfg(all(unix, feature = "serve"))]
        Command::Serve(args) => {
            let flags = matches.subcommand().map(|(_, flags)| flags.clone()).unwrap_or_default();
            serve::run(&args, flags, &unread)
        }
        #[cfg(not(feature = "serve"))]
        Command::Health(_) => Err(Failure::WithoutService { what: "`tollgate health`" }),
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
        // It is no failure if the reader of the output, such as `head` or a pager, stops reading early.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            // If standard error is closed, the text is lost.
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
            ("ratelimit --version", "ratelimit --version", ""),
            ("ratelimit --a=b health", "ratelimit serve", "--a=b health"),
            ("ratelimit serve --rules x", "ratelimit serve", "--rules x"),
            ("ratelimit health [::1]:80", "ratelimit health [::1]:80", ""),
            ("ratelimit check rules", "ratelimit check rules", ""),
            ("ratelimit help serve", "ratelimit help serve", ""),
            ("ratelimit -V", "ratelimit -V", ""),
            ("ratelimit --a -V", "ratelimit serve", "--a -V"),
            ("ratelimit --help", "ratelimit --help", ""),
            ("ratelimit serve -h", "ratelimit serve -h", ""),
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
