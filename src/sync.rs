//! The one file that chooses where atomics come from: the standard library, or loom's models of them.
//!
//! Everything in this crate that two threads may touch goes through here, so that the same code runs
//! in production and under the model checker (`RUSTFLAGS="--cfg loom"`, crate `loom-tests`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::Arc;
#[cfg(not(loom))]
pub(crate) use std::sync::Arc;

/// A counter of statistics. No decision reads one, so loom need not explore its orders.
pub(crate) use std::sync::atomic::AtomicU64 as Tally;
