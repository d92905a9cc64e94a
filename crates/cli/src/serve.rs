//! `tollgate serve`: the rate limit service.

mod args;
mod certificates;
mod effective;
mod environment;
mod log;
mod redis_variables;
mod setting;
mod xds_variables;

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_rules::{Refresh, RuleSet};
use tollgate_service::{Options, Running, start};

pub(crate) use self::args::ServeArgs;
use self::effective::Effective;
use self::environment::Environment;
use crate::failure::Failure;

/// Serves until it is told to stop.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let environment = Environment::of_process();
    let effective = Effective::resolve(args, &environment);
    let effective = effective.map_err(|error| Failure::Serve(error.to_string()))?;
    if args.print_config {
        return effective.print(io::stdout().lock()).map_err(Failure::Output);
    }
    log::begin(effective.log_level.value, effective.log_format.value);
    environment.unheeded().iter().for_each(|line| tracing::warn!("{line}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let refused = |error: io::Error| Failure::Serve(error.to_string());
    runtime.map_err(refused)?.block_on(serve(effective.options()))
}

async fn serve(options: Options) -> Result<(), Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::Serve(error.to_string()));
    let mut signals = [
        listen(SignalKind::hangup())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
    ];
    let running = start(options, tell).await.map_err(|error| Failure::Serve(error.to_string()))?;
    let resp = running.resp.map_or_else(String::new, |address| format!(", resp {address}"));
    tracing::info!("http {}, grpc {}, admin {}{resp}", running.http, running.grpc, running.admin);
    until_stopped(&running, &mut signals).await;
    tracing::info!("stopping");
    running.stop().await;
    Ok(())
}

async fn until_stopped(running: &Running, [hangup, terminate, interrupt]: &mut [Signal; 3]) {
    loop {
        tokio::select! {
            _ = hangup.recv() => running.reload(),
            _ = terminate.recv() => return,
            _ = interrupt.recv() => return,
        }
    }
}

/// Logs the result of a load: what is in force, what was kept, and what was lost.
fn tell_of(rules: &RuleSet) {
    let (count, domains) = (rules.rules().len(), rules.domains().count());
    let s = if domains == 1 { "" } else { "s" };
    if count == 0 {
        tracing::warn!("rules loaded: 0 in {domains} domain{s}; nothing is limited");
    } else {
        tracing::info!("rules loaded: {count} in {domains} domain{s}");
    }
    for domain in rules.kept_domains() {
        let domain = domain.escape_debug();
        tracing::warn!(
            "domain {domain} has no rules any more; its last good ones stay in force (to end them, write a \
             rule there that is unlimited, or start with --allow-empty)"
        );
    }
    for change in rules.changes() {
        if change.is_kept() {
            tracing::info!("limit changed: {change}");
        } else {
            tracing::warn!("limit changed: {change}");
        }
    }
    if rules.lingering() > 0 {
        let s = if rules.lingering() == 1 { "" } else { "s" };
        tracing::info!(
            "{} limit{s} gone; what was spent is kept for a while, in case of a return",
            rules.lingering()
        );
    }
    rules
        .hidden()
        .iter()
        .for_each(|entry| tracing::warn!("rules loaded with an entry in vain: {entry}"));
    rules.forgotten().iter().for_each(|limit| tracing::warn!("limit forgotten: {limit}"));
}

/// Logs the result of reading the rules.
fn tell(refresh: &Refresh) {
    match refresh {
        Refresh::Loaded(rules) => tell_of(rules),
        Refresh::Refused(errors) => {
            errors.iter().for_each(|error| tracing::error!("rules refused: {error}"));
        }
        Refresh::Unwatched(error) => tracing::warn!("{error}"),
        _ => {}
    }
}
