//! `tollgate serve`: the rate limit service.

mod addresses;
mod args;
mod certificates;
mod effective;
mod environment;
mod given;
mod log;
mod otlp_settings;
mod print;
mod redis_variables;
mod reload;
mod report_args;
mod report_settings;
mod setting;
mod settings_file;
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
use self::effective::Effective;
use self::environment::Environment;
pub(crate) use self::given::with_names;
use self::given::{Given, unknown_variables};
use self::print::PrintedSource;
use self::reload::{AtStart, Teller};
use self::setting::{Setting, SettingError};
use crate::failure::Failure;

/// The time for which the end of the process waits until standard error has taken the last lines of the log.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// Serves until it is told to stop. `flags` is the command line as it was written: values that are not in it come from
/// elsewhere. The log warns of the arguments that are `unread`.
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
            // Written by the log's own thread, because standard error may be a pipe that nothing reads.
            let _ = log.write_all(format!("tollgate: {failure}\n").as_bytes());
            ExitCode::from(Failure::EXIT_CODE)
        }
    };
    log.flush_within(LAST_LINES_WITHIN);
    Ok(code)
}

/// The address at which a service answers health checks, if it has the variables of this process and the file that one
/// of them names. Its flags are not known here.
pub(crate) fn health_address() -> Result<HostPort, Failure> {
    let environment = Environment::of_process();
    let flags = given::command().try_get_matches_from([""; 0]);
    let flags = flags.map_err(|error| Failure::Serve(error.to_string()))?;
    let refused = |error: SettingError| Failure::Serve(error.to_string());
    let given = Given::resolve(&flags, None, &environment).map_err(refused)?;
    let address = addresses::health(&given, &environment).map_err(refused)?;
    Ok(address.value)
}

fn run_with(
    args: &ServeArgs,
    flags: ArgMatches,
    unread: &[OsString],
    log: &LogLines,
) -> Result<(), Failure> {
    let environment = Environment::of_process();
    let refused = |error: SettingError| Failure::Serve(error.to_string());
    let given = Given::resolve(&flags, args.config.as_deref(), &environment).map_err(refused)?;
    let effective = Effective::resolve(&given, &environment).map_err(refused)?;
    let unheeded = environment.unheeded().into_iter().chain(effective.unheeded(&environment));
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
        let source =
            PrintedSource { effective: &effective, given: &given, environment: &environment };
        return source.print(&warnings, io::stdout().lock()).map_err(Failure::Output);
    }
    log::begin(effective.log_level.value, effective.log_format.value, log);
    warnings.iter().for_each(|line| tracing::warn!("{line}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Serve(error.to_string()))?;
    let at_start = AtStart { flags, environment, given, effective };
    let outcome = runtime.block_on(serve(&at_start, log));
    // Does not wait for threads that are still blocked, such as by a disk or a resolver that does not answer.
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
    let effective = &at_start.effective;
    let mut teller = Teller::new(at_start.effective.compat.value);
    let options = Options { log: Some(log.clone()), ..effective.options() };
    if let Some(global) = &options.global {
        tracing::info!("limits are kept in {global}");
    }
    if effective.compat.value && effective.compat.source == effective.rules.source {
        tracing::info!(
            "rules come by {}, so each descriptor is counted by itself, what is denied, too, as in envoyproxy/ratelimit; \
             --compat=false says otherwise",
            effective.rules.source
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
    let running = started.map_err(|error| Failure::Serve(named(&error, effective)))?;
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

/// An error about an address, with the setting that it comes from.
fn named(error: &StartError, effective: &Effective) -> String {
    let address = match error {
        StartError::Resolve { address, .. } => address,
        StartError::StateFile { .. } => return format!("{}: {error}", effective.state.source),
        StartError::Connections { .. } => {
            return format!("{}: {error}", effective.max_connections.source);
        }
        StartError::Traces(_) => return format!("{}: {error}", effective.reports.otlp.source),
        _ => return error.to_string(),
    };
    let setting = |setting: &Setting<HostPort>| {
        (setting.value == *address).then(|| setting.source.to_string())
    };
    let resp = effective.resp.clone().map(|resp| resp.map(|resp| resp.address));
    let of_resp = (resp.value.as_ref() == Some(address)).then(|| resp.source.to_string());
    let metrics = &effective.metrics;
    let of_metrics = (metrics.value.as_ref() == Some(address)).then(|| metrics.source.to_string());
    let all = [&effective.http, &effective.grpc, &effective.admin];
    let source = all.into_iter().find_map(setting).or(of_resp).or(of_metrics);
    source.map_or_else(|| error.to_string(), |source| format!("{source}: {error}"))
}

/// What the service is told by the system.
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
