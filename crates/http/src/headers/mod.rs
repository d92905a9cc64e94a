//! Rate limit headers: their styles, and how they are written and read.
//!
//! All styles are in one table (`style.rs`); `crates/tower/docs/headers.md` shows the lines of each.

mod advice;
mod figure;
mod figures;
mod names;
mod nested;
mod read;
mod report;
mod style;
mod text;
mod window;
pub mod write;

use http::HeaderName;

pub use crate::name::{NameError, PolicyName};
pub use advice::Advice;
pub use names::{FigureNames, HeaderStyleError};
pub use read::{LimitAdvice, PolicyAdvice};
pub use report::LimitReport;
pub use style::{HeaderStyle, Headers};

/// `RateLimit-Policy`: the quotas.
pub static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// `RateLimit`: the units that are left.
pub static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// `X-RateLimit-Over: true`: the request was admitted above the limit, by a soft policy. Fields with figures cannot
/// show this: at the limit and above it they state the same remaining units, 0.
pub static X_RATE_LIMIT_OVER: HeaderName = HeaderName::from_static("x-ratelimit-over");
