//! Where shuttle may run another thread: before each step of an atomic.
//!
//! Shuttle's own atomics are not used: they are larger than a word, and what they add, the order of memory, shuttle
//! does not model. Its threads take turns on one thread of the system, so every interleaving is sequentially
//! consistent.

use std::cell::Cell;
use std::time::Duration;

/// Threads of a world, its main thread included.
const THREADS: usize = 8;

thread_local! {
    static IN_TURNS: Cell<bool> = const { Cell::new(false) };
    static WRITES: [Cell<u64>; THREADS] = const { [const { Cell::new(0) }; THREADS] };
}

/// Whether shuttle may run another thread at each step. Not while there is but one.
pub fn run_in_turns(in_turns: bool) {
    IN_TURNS.set(in_turns);
}

pub(crate) fn step() {
    if IN_TURNS.get() {
        // Shuttle knows no time: its sleep is a switch, and nothing else.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// After each step that wrote.
pub(crate) fn wrote() {
    if IN_TURNS.get() {
        WRITES.with(|writes| {
            let own = &writes[thread_number() as usize % THREADS];
            own.set(own.get() + 1);
        });
    }
}

/// How often this thread of a world has written; or one before it that had its number.
#[must_use]
pub fn writes() -> u64 {
    WRITES.with(|writes| writes[thread_number() as usize % THREADS].get())
}

/// The number of this thread of a world: 0 is its main thread.
#[must_use]
pub fn thread_number() -> u32 {
    if !IN_TURNS.get() {
        return 0;
    }
    u32::try_from(usize::from(shuttle::current::me())).unwrap_or(0)
}
