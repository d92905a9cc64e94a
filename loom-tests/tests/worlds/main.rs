//! Random worlds of the real library under a random scheduler: `RUSTFLAGS="--cfg shuttle" cargo test --release -p
//! loom-tests --test worlds`.
#![cfg_attr(not(shuttle), allow(missing_docs, reason = "empty"))]

#[cfg(shuttle)]
mod controls;
#[cfg(shuttle)]
mod hand;
#[cfg(shuttle)]
mod history;
#[cfg(shuttle)]
mod kinds;
#[cfg(shuttle)]
mod random;
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
