//! Random worlds of the real library, run under a random scheduler:
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p loom-tests --test worlds`.
//!
//! A world (`world`) consists of a subject (`subject`) and of threads with their requests, all drawn from a seed.
//! Shuttle runs the threads in turns (`turns`). Each thread records its calls and the answers (`hand`), which are
//! judged afterwards (`verdict`, `history`, `instant`). `docs/verification.md` says what these worlds cover and what
//! they cannot see.

#[cfg(shuttle)]
mod controls;
#[cfg(shuttle)]
mod hand;
#[cfg(shuttle)]
mod history;
#[cfg(shuttle)]
mod instant;
#[cfg(shuttle)]
mod kinds;
#[cfg(shuttle)]
mod live_log;
#[cfg(shuttle)]
mod run;
#[cfg(shuttle)]
mod runs;
#[cfg(shuttle)]
mod state;
#[cfg(shuttle)]
mod subject;
#[cfg(shuttle)]
mod turns;
#[cfg(shuttle)]
mod verdict;
#[cfg(shuttle)]
mod world;

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    runs::main(std::env::args().skip(1))
}

#[cfg(not(shuttle))]
fn main() {}
