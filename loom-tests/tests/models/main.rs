//! The models of Tollgate's core: `RUSTFLAGS="--cfg loom" cargo test -p loom-tests --release`.
//!
//! In each model a few threads race through the public API for a limit of a few cells. The model checks the properties
//! that must hold at the end (and at each step, if the core asserts them under loom). Each model has at least one
//! control, named `..._is_caught`. It runs the same threads with a planted bug, which the model must notice.
//!
//! The head of `src/keyed/mod.rs` explains the words for tables, such as *floor*, *claim*, *unit* and *spill*.

#[cfg(loom)]
mod all;
#[cfg(loom)]
mod at_limit;
#[cfg(loom)]
mod change;
#[cfg(loom)]
mod clock;
#[cfg(loom)]
mod elastic;
#[cfg(loom)]
mod floor;
#[cfg(loom)]
mod install;
#[cfg(loom)]
mod lease;
#[cfg(loom)]
mod limiter;
#[cfg(loom)]
mod log;
#[cfg(loom)]
mod log_change;
#[cfg(loom)]
mod log_keyed;
#[cfg(loom)]
mod own;
#[cfg(loom)]
mod reclaim;
#[cfg(loom)]
mod sketch;
#[cfg(loom)]
mod snapshot;
#[cfg(loom)]
mod spill;
#[cfg(loom)]
mod striped;
#[cfg(loom)]
mod units;
#[cfg(loom)]
mod verbs;
#[cfg(loom)]
mod weak;
#[cfg(loom)]
mod windows;

#[cfg(loom)]
fn main() -> std::process::ExitCode {
    let suite = loom_tests::suite::Suite::default()
        .subject("limiter", limiter::models())
        .subject("striped", striped::models())
        .subject("lease", lease::models())
        .subject("verbs", verbs::models())
        .subject("log", log::models())
        .subject("log_change", log_change::models())
        .subject("log_keyed", log_keyed::models())
        .subject("all", all::models())
        .subject("elastic", elastic::models())
        .subject("windows", windows::models())
        .subject("at_limit", at_limit::models())
        .subject("install", install::models())
        .subject("reclaim", reclaim::models())
        .subject("floor", floor::models())
        .subject("units", units::models())
        .subject("sketch", sketch::models())
        .subject("spill", spill::models())
        .subject("snapshot", snapshot::models())
        .subject("weak", weak::models())
        .subject("change", change::models())
        .subject("own", own::models())
        .subject("clock", clock::models());
    let passed = suite.run(std::env::args().skip(1));
    if passed { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

#[cfg(not(loom))]
fn main() {}
