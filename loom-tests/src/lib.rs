//! The building blocks of the models of Tollgate's core: threads that race for a limit (`race`), the verdict on the
//! answers that they got (`verdict`), and a suite that runs models under loom (`suite`). Each model has a control,
//! which must fail.
//!
//! The models are in `tests/models`. Without `--cfg loom` this crate is empty.
//!
//! # What a passed model proves, and what it does not
//! * `bound none`: every execution was run that loom's memory model allows for these threads and operations. `bound n`:
//!   every such execution with at most n preemptions was run.
//! * Neither executions nor time are ever capped: an exploration ends when it is complete. An exploration that takes
//!   too long or branches too often is a failure, not a success.
//! * Loom swaps two accesses only if nothing else came between them at that word. If a thread that only reads a word is
//!   scheduled before a thread that reads and then writes it, the opposite order may never be tried. The controls show
//!   that a model sees enough all the same. In a `race` the list that writes most comes last, since loom runs the last
//!   thread first.
//! * Loom does not explore load buffering, and shows a load only the last seven stores. It treats `SeqCst` accesses as
//!   acquire and release (the core has no such access, only a fence). It never lets a weak compare-and-swap fail
//!   spuriously (the models do that themselves).
#![cfg(loom)]

pub mod logs;
pub mod race;
pub mod sketch;
pub mod suite;
pub mod table;
pub mod verdict;
