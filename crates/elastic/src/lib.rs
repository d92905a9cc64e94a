#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod decision;
mod error;
mod parts;
mod pool;

pub use decision::ElasticDecision;
pub use error::HeadroomError;
pub use pool::SparePool;
