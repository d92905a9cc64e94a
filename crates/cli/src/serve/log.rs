//! Logs on standard error, as text or as JSON. They contain no content of requests, except in denials if
//! `--log-denials` asks for them.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, IsTerminal};
use std::panic;

use tollgate_service::LogLines;
use tracing_subscriber::filter::LevelFilter;

/// The minimum level of events that are logged. The aliases are the names of envoyproxy/ratelimit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogLevel {
    #[value(aliases = ["fatal", "panic"])]
    Error,
    #[value(alias = "warning")]
    Warn,
    Info,
    Debug,
    Trace,
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        })
    }
}

/// Starts logging to these lines. If the lines cannot be written, or if a line cannot be made, no thread panics or
/// waits.
pub(super) fn begin(level: LogLevel, format: Format, log: &LogLines) {
    let most = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = log.clone();
    let lines = tracing_subscriber::fmt()
        .with_writer(move || log.clone())
        // The subscriber would report its own errors by `eprintln!`, which panics if standard error cannot be written.
        .log_internal_errors(false)
        .with_max_level(most)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal());
    // An error means that this process has a logger already.
    let _ = match format {
        Format::Text => lines.try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
    // The default hook writes to standard error itself, and would wait for a pipe that is full.
    panic::set_hook(Box::new(|panicked| {
        let told = panicked.to_string().replace('\n', " ");
        let trace = Backtrace::capture();
        match trace.status() {
            BacktraceStatus::Captured => tracing::error!("a thread {told}\n{trace}"),
            _ => tracing::error!("a thread {told}"),
        }
    }));
}
