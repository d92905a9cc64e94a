#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod all;
mod claim;
mod counted;
mod decision;
mod entry;
mod envoyproxy;
mod error;
mod fallback;
pub mod guide;
mod hash_slot;
mod headroom;
mod inner;
mod key;
mod leased;
mod limiter;
mod local;
mod of_requests;
mod peek;
mod pool;
mod reserve;
mod script;
mod settings;
mod share;
mod slots;
mod store;
mod verbs;
mod weight;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod simulation;
mod told;

pub use all::{RedisJointDecision, check_all, peek_all};
pub use claim::RedisClaim;
pub use decision::{RedisDecision, RedisPermit, Source};
pub use entry::RedisEntry;
pub use envoyproxy::EnvoyproxyLimiter;
pub use error::{Fault, RedisBuildError};
pub use limiter::RedisLimiter;
pub use of_requests::RequestLimits;
pub use pool::SharedPool;
pub use reserve::RedisReservation;
pub use settings::{Mode, OnError, Settings};
pub use store::Store;
pub use store::options::StoreOptions;
pub use store::outage::Outage;
pub use store::stats::StoreStats;
pub use tollgate_elastic::HeadroomError;
pub use weight::Weight;
