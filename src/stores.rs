//! What stores a limit: the names that a field or a function needs to hold an [`Entry`](crate::Entry).
//!
//! An entry says by its type what stores its limit, so that a verb which that cannot do does not compile:
//!
//! | Type | Of |
//! |---|---|
//! | `Entry<'a>`, which is `Entry<'a, Limit<'a>>` | a [`Limiter`](crate::Limiter), a key of a [`KeyedLimiter`](crate::KeyedLimiter) |
//! | `Entry<'a, &'a StripedLimiter>` | a [`StripedLimiter`](crate::StripedLimiter) |
//! | `Entry<'a, KeyCells<'a>>` | a key of a [`SketchLimiter`](crate::SketchLimiter) |
//! | `Entry<'a, AnyLimit<'a>>` | any of these: [`Entry::any`](crate::Entry::any), [`AnyLimiter::any_entry`] |
//!
//! A function takes all of them as `Entry<'_, S>` with `S: Store`. [`Store`] is sealed: it has no other members.
//!
//! ```
//! use tollgate::stores::{KeyCells, Store};
//! use tollgate::{Entry, Limiter, Quota, SketchLimiter, SketchSize};
//! struct Request<'a> {
//!     client: Entry<'a, KeyCells<'a>>,
//!     service: Entry<'a>,
//! }
//! fn is_free<S: Store>(limit: &Entry<'_, S>) -> bool {
//!     limit.peek(1).is_allowed()
//! }
//! let service = Limiter::new(Quota::per_second(1_000));
//! let clients = SketchLimiter::new(Quota::per_minute(1), SketchSize::new(4, 1_000)?)?;
//! let request = Request { client: clients.entry("alice"), service: service.entry() };
//! assert!(is_free(&request.client) && is_free(&request.service));
//! # Ok::<(), tollgate::BuildError>(())
//! ```

pub use crate::all::AnyLimit;
pub use crate::entry::AnyLimiter;
pub use crate::limit::Limit;
pub use crate::sketch::KeyCells;
pub use crate::store::Store;
