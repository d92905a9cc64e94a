//! `tollgate serve`: the rate limit service.

mod addresses;
mod args;
mod certificates;
mod environment;
mod given;
mod layers;
mod log;
mod options;
mod otlp_settings;
mod print;
mod redis_variables;
mod reload;
mod report_args;
mod report_settings;
mod setting;
mod settings_file;
mod values;
mod variables;
mod watched;
mod xds_variables;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_service::{HostPort, LogLines, Options, Running, StartError, start};

pub(crate) use self::args::ServeArgs;
use self::environment::Environment;
pub(crate) use self::given::with_names;
use self::given::{Given, unknown_variables};
use self::layers::LAYERS;
use self::options::{options, unheeded};
use self::print::PrintedSource;
use self::reload::{AtStart, Teller};
use self::setting::SettingError;
use crate::failure::Failure;

/// The maximum time for which the process waits at its end until standard error has taken the last lines of the log.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// Serves until it is told to stop. `flags` is the parsed command line; settings that it does not give come from other
/// sources. The log warns of the `unread` arguments.
pub(crate) fn run(
    args: &ServeArgs,
    flags: ArgMatches,
    unread: &[OsString],
) -> Result<ExitCode, Failure> {
    let refused = |error: io::Error| Failure::Serve(error.to_string());
    let mut log = LogLines::start(io::stderr()).map_err(refused)?;
    let code = match run_with(args, flags, unread, &log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ Failure::Output(_)) => return Err(failure),
        Err(failure) => {
            // The log's own thread writes this, because standard error may be a pipe that nothing reads.
            let _ = log.write_all(format!("tollgate: {failure}\n").as_bytes());
            ExitCode::from(Failure::EXIT_CODE)
        }
    };
    log.flush_within(LAST_LINES_WITHIN);
    Ok(code)
}

/// Returns the address at which a service answers health checks, if the service has the variables of this process and
/// the file that one of these variables names. The flags of the service are not known here.
pub(crate) fn health_address() -> Result<HostPort, Failure> {
    let environment = Environment::of_process();
    let flags = given::command().try_get_matches_from([""; 0]);
    let flags = flags.map_err(|error| Failure::Serve(error.to_string()))?;
    let refused = |error: SettingError| Failure::Serve(error.to_string());
    // Other layers are left out, so that a bad value in one of their variables does not keep a probe from asking.
    let given = Given::resolve(&flags, None, &environment, &[addresses::layer_of_health]);
    let args = given.map_err(refused)?.args;
    Ok(if args.http_tls_cert.is_some() { args.admin } else { args.http })
}

fn run_with(
    args: &ServeArgs,
    flags: ArgMatches,
    unread: &[OsString],
    log: &LogLines,
) -> Result<(), Failure> {
    let environment = Environment::of_process();
    let refused = |error: SettingError| Failure::Serve(error.to_string());
    let given = Given::resolve(&flags, args.config.as_deref(), &environment, &LAYERS);
    let given = given.map_err(refused)?;
    let options = options(&given, &environment).map_err(refused)?;
    let unheeded = unheeded(&given, &options.rules, &environment);
    let unheeded = environment.unheeded().into_iter().chain(unheeded);
    let unread = unread.iter().map(|argument| {
        let argument = argument.to_string_lossy();
        format!(
            "argument '{}' is not read: under the name ratelimit the environment says everything",
            argument.escape_debug()
        )
    });
    let warnings = unread.chain(unheeded).chain(unknown_variables(&environment));
    let warnings: Vec<String> = warnings.collect();
    if args.print_config {
        let source = PrintedSource { given: &given, options: &options, environment: &environment };
        return source.print(&warnings, io::stdout().lock()).map_err(Failure::Output);
    }
    log::begin(given.args.log_level, given.args.log_format, log);
    warnings.iter().for_each(|line| tracing::warn!("{line}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Serve(error.to_string()))?;
    let at_start = AtStart { flags, environment, given, options };
    let outcome = runtime.block_on(serve(&at_start, log));
    // Does not wait for threads that are still blocked, as by a disk or a resolver that does not answer.
    runtime.shutdown_background();
    outcome
}

async fn serve(at_start: &AtStart, log: &LogLines) -> Result<(), Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::Serve(error.to_string()));
    let mut signals = Signals {
        hangup: listen(SignalKind::hangup())?,
        terminate: listen(SignalKind::terminate())?,
        interrupt: listen(SignalKind::interrupt())?,
    };
    let AtStart { given, options, .. } = at_start;
    let mut teller = Teller::new(options.settings.compat);
    let options = Options { log: Some(log.clone()), ..options.clone() };
    if let Some(global) = &options.global {
        tracing::info!("limits are kept in {global}");
    }
    let rules = given.source("rules");
    if options.settings.compat && given.source("compat") == rules {
        tracing::info!(
            "rules come by {rules}, so each descriptor is counted by itself, what is denied, too, as in \
             envoyproxy/ratelimit; --compat=false says otherwise"
        );
    }
    // The start is a task of its own: it reads files and may wait for a disk, and the service must stay stoppable
    // meanwhile.
    let starting = tokio::spawn(start(options, move |refresh| teller.tell(refresh)));
    let started = tokio::select! {
        started = starting => Some(started.map_err(|error| Failure::Serve(error.to_string()))?),
        _ = signals.terminate.recv() => None,
        _ = signals.interrupt.recv() => None,
    };
    let Some(started) = started else {
        tracing::info!("stopped before it has started");
        return Ok(());
    };
    let running = started.map_err(|error| Failure::Serve(named(&error, at_start)))?;
    let more = [("resp", running.resp), ("metrics", running.metrics)];
    let more = more.map(|(name, address)| {
        address.map_or_else(String::new, |address| format!(", {name} {address}"))
    });
    let Running { http, grpc, admin, .. } = running;
    tracing::info!("http {http}, grpc {grpc}, admin {admin}{}", more.concat());
    until_stopped(&running, at_start, &mut signals).await;
    tracing::info!("stopping");
    running.stop().await;
    Ok(())
}

/// Returns the text of an error at the start. If the error is about a setting, the text names the source of its value.
fn named(error: &StartError, AtStart { given, options, .. }: &AtStart) -> String {
    let name = match error {
        StartError::Resolve { address, .. } => {
            let all = [
                ("http", Some(&options.http)),
                ("grpc", Some(&options.grpc)),
                ("admin", Some(&options.admin)),
                ("resp", options.resp.as_ref().map(|resp| &resp.address)),
                ("metrics", options.metrics.as_ref()),
            ];
            all.into_iter().find(|(_, own)| *own == Some(address)).map(|(name, _)| name)
        }
        StartError::StateFile { .. } => Some("state"),
        StartError::Connections { .. } => Some("max-connections"),
        StartError::Traces { .. } => Some("otlp"),
        _ => None,
    };
    name.map_or_else(|| error.to_string(), |name| format!("{}: {error}", given.source(name)))
}

/// The signals that the service handles.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

async fn until_stopped(running: &Running, at_start: &AtStart, signals: &mut Signals) {
    loop {
        tokio::select! {
            _ = signals.hangup.recv() => {
                at_start.tell_reload();
                running.reload();
            }
            _ = signals.terminate.recv() => return,
            _ = signals.interrupt.recv() => return,
        }
    }
}
