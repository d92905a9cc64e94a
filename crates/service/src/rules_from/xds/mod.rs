//! Rules from a control plane that speaks xDS: [`XdsRules`] is its address, and [`XdsSource`] follows it.

mod address;
mod answer;
mod shelf;
mod source;
mod stream;
mod text;

pub use address::{XdsRules, XdsTls};
pub(super) use source::XdsSource;

/// The type of the resources.
const TYPE: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";
