#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod advance;
mod all;
mod backoff;
mod batch;
mod count;
mod counter;
mod counters;
mod counts;
mod decision;
mod degraded;
mod error;
mod evictions;
mod face;
mod flight;
mod health;
mod held;
mod inner;
mod lease;
mod leasing;
mod ledger;
mod limiter;
mod link;
mod links;
mod local;
mod looking;
mod newcomers;
mod options;
mod outage;
mod pipeline;
mod place;
mod plan;
mod purse;
mod reporting;
mod request;
mod script;
mod settings;
mod share;
mod slots;
mod state;
mod store;
mod terms;
mod toll;
mod watch;
mod wire;

#[cfg(all(test, feature = "redis-tests"))]
mod conformance;
#[cfg(test)]
mod simulation;

pub use all::{RedisJointDecision, check_all};
pub use counters::Stats;
pub use decision::{RedisDecision, RedisPermit, Source};
pub use error::{BuildError, Fault};
pub use limiter::RedisLimiter;
pub use options::StoreOptions;
pub use outage::Outage;
pub use request::{Group, RequestDecision, Weight, check_request, peek_request};
pub use settings::{Mode, OnError, Settings};
pub use store::Store;
pub use toll::RedisToll;
