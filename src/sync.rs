//! The only file that chooses the atomics: the atomics of the standard library, loom's models of them, or atomics that
//! let shuttle run another thread before each operation.
//!
//! All memory in this crate that two threads may access uses these atomics. So the same code runs in production, in the
//! model checker loom (`RUSTFLAGS="--cfg loom"`, crate `loom-tests`), and in the random scheduler shuttle
//! (`RUSTFLAGS="--cfg shuttle"`, test `worlds` of that crate).
//!
//! A model that cannot fail proves nothing. So at the places on which the proofs depend, the code calls [`planted`] to
//! find out if it is to do the wrong thing. Under loom and shuttle a test plants one [`Fault`] and expects that a check
//! fails. Everywhere else the result is the constant `false`, and the call compiles to nothing. A table of words makes
//! these calls only in `points.rs`, `shard.rs` and `shard/claim.rs` of `src/keyed/memory`.

#[cfg(any(loom, shuttle))]
pub mod control;
mod faults;
#[cfg(any(loom, shuttle))]
mod modelled;
#[cfg(shuttle)]
mod switched;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(any(loom, shuttle))]
pub(crate) use modelled::AtomicU64;
// Shuttle runs all threads on one thread of the system, so there is nothing for a fence to order.
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{Ordering, fence};

/// The standard `Arc` is used under loom, too: no decision depends on its reference count, and it may be dropped while
/// a failed model unwinds.
pub(crate) use std::sync::Arc;

/// A counter of statistics. No decision reads such a counter, so loom need not explore the orders of its changes.
pub(crate) use std::sync::atomic::AtomicU64 as Tally;

pub(crate) use faults::Fault;

/// True if a test has planted this fault. It is always false outside of loom and shuttle.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}
#[cfg(any(loom, shuttle))]
pub(crate) use control::planted;

/// The number of this thread. Threads get increasing numbers in the order of their first calls.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub(crate) fn thread_number() -> u32 {
    use std::sync::atomic::AtomicU32;
    static STARTED: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        // Relaxed: the numbers only have to differ.
        static NUMBER: u32 = STARTED.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is ending has no thread-locals any more, so it gets a fixed number. Any number is right, since a
    // thread may use any stripe.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}
#[cfg(any(loom, shuttle))]
pub(crate) use control::thread_number;

/// Sizes and counts that are smaller under loom, which must explore every state.
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod scale {
    #[inline(always)]
    pub(crate) const fn cells(most: usize) -> usize {
        most
    }

    #[inline(always)]
    pub(crate) const fn unit(most: usize) -> usize {
        most
    }

    pub(crate) const fn rounds(most: usize) -> usize {
        most
    }

    #[inline(always)]
    pub(crate) const fn vacancies(least: usize) -> usize {
        least
    }

    pub(crate) const fn count_apart() -> Option<u64> {
        None
    }

    #[inline(always)]
    pub(crate) const fn marks_floors() -> bool {
        true
    }

    pub(crate) const fn row_bits(bits: u32) -> u32 {
        bits
    }

    #[inline(always)]
    pub(crate) const fn tells_answers() -> bool {
        true
    }
}
#[cfg(any(loom, shuttle))]
pub(crate) use control::scale;
