//! Observes requests: counts each request, logs it if it is denied, and traces it if it is sampled.

mod asked;
mod call;
mod caller;
mod denials;
mod observers;

pub(crate) use asked::InWords;
pub(crate) use call::ServiceCall;
pub(crate) use caller::Caller;
pub(crate) use denials::{DenialLog, DeniedFrom, OfDenials};
pub(crate) use observers::Observers;
