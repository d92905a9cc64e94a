#![cfg_attr(docsrs, feature(doc_cfg))]
//! A lock-free rate limiter for latency-critical servers. The limit of each key is one packed atomic word; memory is
//! allocated once, when a limiter is built; arithmetic is exact, in integers; no thread runs in the background.
//!
//! ```sh
//! cargo add tollgate
//! ```
//!
//! # One limit
//!
//! ```
//! use tollgate::{Limiter, Policy};
//!
//! // 100 requests a second, up to 20 of them at once.
//! // A check takes `&self`: share the limiter by reference or in an `Arc`.
//! let limiter = Limiter::new("100/s burst 20".parse::<Policy>()?);
//! match limiter.check().into_result() {
//!     Ok(permit) => println!("serve the request; {} more at once", permit.remaining()),
//!     Err(denial) => println!("refuse it; try again in {:?}", denial.retry_after()),
//! }
//! # Ok::<(), tollgate::PolicyError>(())
//! ```
//!
//! # One limit for each key
//!
//! ```
//! use std::net::IpAddr;
//! use tollgate::{KeyedLimiter, Quota};
//!
//! struct Server {
//!     clients: KeyedLimiter<IpAddr>,
//! }
//!
//! // For 100,000 clients at a time, in 1.5 MB. A key is anything that hashes, and is not stored.
//! let server = Server { clients: KeyedLimiter::new(Quota::per_second(100).burst(20), 100_000)? };
//! let client: IpAddr = [203, 0, 113, 7].into();
//! assert!(server.clients.check(&client).is_allowed());
//! # Ok::<(), tollgate::BuildError>(())
//! ```
//!
//! The capacity is the number of clients that are limited at the same time. These are the clients that send requests
//! within the time in which a burst comes back. [`guide::production`] says how to choose it, and what a full table
//! does.
//!
//! # In a server on axum, tower or tonic
//!
//! [`tollgate-tower`](https://docs.rs/tollgate-tower) is a layer that finds the client, decides, and answers with
//! `429`, `Retry-After` and `RateLimit` headers: `cargo add tollgate-tower --features axum`, and then
//!
//! ```ignore
//! let clients = KeyedLimiter::new(Quota::per_second(10), 100_000)?;
//! let layer = RateLimitLayer::new(clients, ClientAddress::peer());
//! let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
//! let listener = TcpListener::bind("127.0.0.1:3000").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! ```
//!
//! Its [recipes](https://github.com/tollgate-rs/tollgate/blob/main/docs/recipes.md) are whole programs: limits of
//! single routes, plans by API key, tokens of language models, waiting, metrics, tonic. Limits that several nodes share
//! are in [`tollgate-redis`](https://docs.rs/tollgate-redis), and the command `tollgate`, which replays logs and serves
//! rules to Envoy and HTTP clients, is [`tollgate-cli`](https://docs.rs/tollgate-cli).
//!
//! # The verbs
//!
//! `check` and `check_n` are methods of every limiter. All other verbs are methods of an [`Entry`], which stands for
//! one limit: `limiter.entry()`, `keyed.entry("alice")`.
//!
//! | Verb | Does |
//! |---|---|
//! | [`check`](Entry::check) | decides, and charges what it admits |
//! | [`peek`](Entry::peek) | decides, and charges nothing |
//! | [`take_up_to`](Entry::take_up_to) | takes as much as there is |
//! | [`acquire`](Entry::acquire), [`acquire_blocking`](Entry::acquire_blocking) | wait for their turn in place of being denied, as long as a [`Wait`] says |
//! | [`charge`](Entry::charge) | charges a cost that is known afterwards, into debt if it has to |
//! | [`refund`](Entry::refund) | gives back what a [`Permit`] was charged for, or a [portion](Permit::portion) of it |
//! | [`settle`](Entry::settle) | refunds what was charged and not used, or charges what was used beyond it |
//! | [`uncharge`](Entry::uncharge) | gives back units whose permit is gone |
//! | [`reserve`](Entry::reserve), [`cancel`](Entry::cancel) | take a place in the future, and give it back |
//! | [`reset`](Entry::reset) | forgets what was spent |
//! | [`lease`](Entry::lease) | takes units in advance, which one thread spends without atomics |
//! | [`check_all`] | decides one request under several limits: all are charged, or none |
//! | [`check_many`](KeyedLimiter::check_many) | decides for a slice of keys, and fetches their memory in advance |
//! | [`set_quota`](Changing::set_quota), [`move_to`](Entry::move_to) | change a quota, or the plan of a key, and keep what was spent |
//! | [`snapshot`](KeyedLimiter::snapshot), [`restore`](KeyedBuilder::restore) | carry limits over a restart |
//!
//! # Words
//!
//! | Word | Means |
//! |---|---|
//! | unit, cost | what limits are counted in, and how many of them a request takes: 1, unless it says otherwise |
//! | quota, policy | a [`Quota`] is a rate and a burst; a [`Policy`] is a quota under an [`Algorithm`], and what happens [at its limit](AtLimit). All have a text, such as `sliding-window 100/m soft 5%` |
//! | burst | the units that can be taken at one instant |
//! | charge | to take units from a limit |
//! | permit, denial | the answer to a request that was admitted, and to one that was not: the two sides of a [`Decision`] |
//! | refund, uncharge | to give units back: those of a permit, or those of whatever charge there was |
//! | debt | what is charged beyond the limit, and has to drain before anything is admitted again |
//! | claim | the part of one limit in a [`check_all`]: [`Claim`] |
//! | summary | the figures of a decision, also of one that was made elsewhere, such as in Redis: [`DecisionSummary`] |
//! | word, meter | the 64 bits of one limit, and the pure function that decides by them, for stores of your own: [`Word`], [`Meter`] |
//! | changing | a limiter whose quota may be set at run time: [`LimiterBuilder::changing`] |
//! | tiers | up to 16 quotas in one table, such as those of plans: [`KeyedBuilder::tier`] |
//! | spill | the shared words by which a table decides keys for which it has no cell: [`KeyedBuilder::when_full`] |
//!
//! # Where to go on
//!
//! The [`guide`] begins with a tutorial: [which algorithm to choose](guide::which_algorithm), [what to do in
//! production](guide::production), [coming from governor](guide::from_governor), [how it
//! works](guide::how_it_works), and [what is not promised](guide::not_promised). [All
//! pages](https://github.com/tollgate-rs/tollgate/blob/main/docs/SUMMARY.md) are in the repository, [measurements beside
//! other limiters](https://github.com/tollgate-rs/tollgate/blob/main/benches/README.md) among them.
//!
//! # Features
//!
//! | Feature | Default | Brings |
//! |---|---|---|
//! | `serde` | no | [`Policy`], [`Quota`] and [`Percent`] as their text, [`Decision`] as its [figures](DecisionSummary) |
//! | `huge-pages` | no | huge pages for large tables, on Linux |

#[cfg(not(target_has_atomic = "64"))]
compile_error!(
    "tollgate keeps each limit in one 64-bit atomic word; this target has no 64-bit atomics"
);

mod acquire;
mod algorithm;
mod all;
mod cell;
mod change;
mod clock;
mod coarse;
mod decision;
mod divisor;
pub mod entry;
mod error;
mod fallback;
pub mod guide;
mod hash;
mod keyed;
mod lease;
mod limit;
mod limiter;
mod log;
mod meter;
mod percent;
mod period;
mod policy;
mod quota;
mod refund;
mod reservation;
mod sketch;
mod slot;
mod snapshot;
mod store;
mod striped;
mod sync;
mod ticks;
mod undo;
mod verb;
mod verdict;
mod wait;
mod word;

pub use acquire::WaitStep;
pub use algorithm::{CalendarUnit, Rounding, Weekday};
pub use all::{Claim, JointDecision, JointDenial, check_all};
pub use change::{ChangeError, Changeable, Changing, Fixed, Own, QuotaKind, Tiered};
pub use clock::{Clock, ManualClock, Timestamp};
pub use coarse::CoarseClock;
pub use decision::{Decision, DecisionSummary, Denial, DenialReason, Permit};
pub use entry::Entry;
pub use error::{BuildError, PolicyError};
pub use keyed::{KeyedBuilder, KeyedLimiter, Stats, WhenFull};
pub use lease::Lease;
pub use limiter::{Limiter, LimiterBuilder};
pub use meter::Meter;
pub use percent::Percent;
pub use policy::{Algorithm, AtLimit, CountDenied, Penalty, Policy};
pub use quota::Quota;
pub use reservation::Reservation;
pub use sketch::{SketchBuilder, SketchLimiter, SketchSize};
pub use snapshot::{RestoreError, SnapshotError, SnapshotSummary};
pub use striped::{StripedBuilder, StripedLimiter};
pub use wait::{Wait, WaitBudget};
pub use word::Word;

/// Compiles the README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Settings for the models in `loom-tests`: planted faults, spurious failures and small shards.
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use sync::control;
