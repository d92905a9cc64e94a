#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # The parts
//!
//! Rules pass through these parts. Each part is a module with a type:
//!
//! ```text
//! RuleSource -> Retriever -> RuleCache -> client identifier builder -> DecisionMaker
//! texts         when they    compiled,    what a rule leaves open,     all limits of
//!               change       replaced     as bytes                     a request, or none
//!                            at once
//! ```
//!
//! The next sections are [the page of the language](https://github.com/tollgate-rs/tollgate/blob/main/crates/rules/docs/language.md).
#![doc = include_str!("../docs/language.md")]
//!
//! # Values in metrics
//!
//! The counts of a rule ([`Rule::counts`]) are those of all its clients. `detailed_metric: true` and
//! `value_to_metric: true` also count [by the values of
//! requests](https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/metrics.md#values-in-metrics): see
//! [`Rule::series`], and [`RuleSettings::max_series`] for the bound.
//!
//! # Reloading
//!
//! [`Retriever`] reads again when a [`RuleSource`] signals a change, and every 30 s. Rules can come from anywhere:
//! implement [`RuleSource`]. (`tollgate-service` has one for a hash in Redis.)
//!
//! * **A bad file** leaves all of the last good rules in force.
//! * **A limit that changes** keeps what was spent, if the core can change its quota in place ([`tollgate::Changing`]).
//!   Otherwise it starts empty, and [`RuleSet::changes`] reports it. A limit starts empty after a change of `capacity`,
//!   `prefix_v4` or `prefix_v6`, after a change of `on_full` to or from `deny`, after a change from or to a
//!   `sliding-log`, and after a change to a very different quota.
//! * **A limit whose rule is gone** lingers for [`RuleSettings::linger_rules`]. If a rule with the same domain, keys
//!   and values comes back, it takes the limit again.
//! * **A domain of which no rule is left** keeps its last good rules, unless [`RuleSettings::allow_empty`] is set. An
//!   empty directory therefore keeps all of them.
//!
//! So a file that is half-written, or removed and written anew, gives clients no spent units back, [with one
//! exception](https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/rules.md#reloading): the last
//! number of a file may be truncated. To avoid this, write a new file and rename it.
//!
//! # Memory
//!
//! A rule with a `capacity` has tables for that many clients. A rule whose values are all given has tables for one
//! client. Every other rule has tables for 65,536 clients, times its `weight`, or for
//! [`RuleSettings::default_capacity`]. If the tables of such rules would take more than half of
//! [`RuleSettings::max_table_bytes`], each has [a share of that
//! half](https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/operating.md#memory), for all its limits
//! together, and [`RuleSet::narrowed`] reports it. A rule that was there before keeps its size. If new rules would have
//! less than a quarter of their share, all rules that share the memory begin anew, and [`RuleSet::changes`] lists them.
//! This happens about once while the number of rules doubles.
//!
//! # Bounds
//!
//! * A file has at most 1 MiB, 64 levels and 250,000 values; the values of an alias are counted each time it is used.
//! * Tables are allocated when rules are loaded, [`RuleSettings::max_table_bytes`] at most, lingering ones included. If
//!   there is no room, the table that has lingered longest is [forgotten](RuleSet::forgotten).
//! * Requests are bounded by [`RuleSettings::max_descriptors`], `max_entries` and `max_key_bytes`.

mod counts;
mod decide;
mod language;
mod load;
mod set;
mod state;

pub use counts::full::{FullReport, NoCell};
pub use counts::rule_counts::RuleCounts;
pub use counts::series::Series;
pub use counts::worst::WorstClient;
pub use decide::answer::{Answer, Code, CurrentLimit, Status};
pub use decide::receipt::Receipt;
pub use decide::request::{Descriptor, Override, Request, RequestError};
pub use decide::{DecisionMaker, LimitStore, PacedAnswer, Purpose, RuleClaim, StoreAnswer};
pub use language::error::{Problem, RuleError};
pub use language::file::{Accuracy, Metadata, RuleOnError};
pub use language::forward::{Forward, ForwardEntry, ForwardPart};
pub use language::on_full::OnFull;
pub use language::pace::{Pace, PaceError};
pub use language::position::Position;
pub use language::schema::RULES_SCHEMA;
pub use language::source::{Changed, RuleSource, RuleText};
pub use language::unit::Unit;
pub use language::value::DescriptorEntry;
pub use load::cache::{LoadStatus, RuleCache};
pub use load::file_source::FileSource;
pub use load::retriever::{Refresh, Retriever, Timing};
pub use set::carry::LimitChange;
pub use set::loss::Loss;
pub use set::narrowed::Narrowed;
pub use set::pool::{DomainPool, HeadroomRefusal};
pub use set::rule::{Rule, RuleLimit};
pub use set::rule_set::RuleSet;
pub use set::settings::RuleSettings;
pub use state::{StateError, StateSummary};
