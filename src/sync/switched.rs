//! The points at which shuttle may run another thread: before each step of an atomic.
//!
//! Shuttle's own atomics are not used. They are larger than a word, and they would add nothing, since shuttle does not
//! model memory orderings. Shuttle's threads take turns on one thread of the system, so every interleaving is
//! sequentially consistent.

use std::cell::Cell;
use std::time::Duration;

/// The number of threads in a world (one run of a test under shuttle), including its main thread.
const THREADS: usize = 8;

thread_local! {
    static IN_TURNS: Cell<bool> = const { Cell::new(false) };
    static WRITES: [Cell<u64>; THREADS] = const { [const { Cell::new(0) }; THREADS] };
}

/// Sets whether shuttle may run another thread before each step. A world with one thread does not need this.
pub fn run_in_turns(in_turns: bool) {
    IN_TURNS.set(in_turns);
}

pub(crate) fn step() {
    if IN_TURNS.get() {
        // Shuttle has no time: its sleep only switches threads.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Counts a write. It is called after each step that has written.
pub(crate) fn wrote() {
    if IN_TURNS.get() {
        WRITES.with(|writes| {
            let own = &writes[thread_number() as usize % THREADS];
            own.set(own.get() + 1);
        });
    }
}

/// The number of writes by this thread of a world, and by earlier threads with the same number.
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
