//! The building blocks for models of Tollgate's core. In `race`, threads race for a limit; `verdict` checks the answers
//! that they got; `suite` runs models under loom. Each model has a control, which is the same model with a bug, and
//! must fail.
//!
//! The models are in `tests/models`. Without `--cfg loom` this crate is empty.
//!
//! # What a passed model proves, and what it does not
//! * `bound none` means that loom ran every execution that its memory model allows for these threads and operations.
//!   `bound n` means that loom ran every such execution with at most n preemptions.
//! * No exploration is stopped early and then counted as passed: it ends when it is complete. If an exploration takes
//!   too long or branches too often, it fails.
//! * Loom tries two accesses of a word in the opposite order only if no other access of the word came between them. So
//!   if a thread that only reads a word is scheduled before a thread that reads and then writes it, the opposite order
//!   may never be tried. The controls show that each model nevertheless notices its bugs. In a `race`, put the list
//!   that writes most last, because loom runs the last thread first.
//! * Loom does not explore load buffering, and a load sees only the last seven stores. It treats `SeqCst` accesses as
//!   acquire and release (the core has no such access, only a fence). It never lets a weak compare-and-swap fail
//!   spuriously (the models do that themselves).
#![cfg(loom)]

pub mod logs;
pub mod race;
pub mod sketch;
pub mod suite;
pub mod table;
pub mod verdict;
