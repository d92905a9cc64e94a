//! What the models of Tollgate's core are made of: threads that race for a limit (`race`), the
//! verdict on what they were told (`verdict`), and a suite that runs models under loom and, for each,
//! a control that must fail (`suite`).
//!
//! The models are in `tests/models`. Without `--cfg loom` this crate is empty.
//!
//! # What a passed model proves, and what it does not
//! * `bound none`: every execution that loom's memory model allows for these threads and operations was
//!   run. `bound n`: every one with at most n preemptions.
//! * No cap is ever set, neither on executions nor on time: an exploration ends when it is complete. One
//!   that takes too long or branches too often is a failure, not a success.
//! * Loom swaps two accesses only if nothing else came between them at that word. A thread that only reads a word,
//!   and is scheduled before one that reads and then writes it, may never be tried after it. Hence the controls; and
//!   in a `race` the list that writes most comes last, since loom runs that thread first.
//! * Loom does not explore load buffering, shows a load only the last seven stores, treats accesses that
//!   are `SeqCst` as acquire and release (the core has none, only a fence) and never lets a weak
//!   compare-and-swap fail for no reason (the models do that themselves).
#![cfg(loom)]

pub mod logs;
pub mod race;
pub mod sketch;
pub mod suite;
pub mod table;
pub mod verdict;
