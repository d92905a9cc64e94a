//! What looks at requests: each is counted, logged if it is denied, and traced if it is sampled.

mod asked;
mod call;
mod caller;
mod denials;
mod observers;

pub(crate) use asked::{DeniedText, InWords, RequestText};
pub(crate) use call::ServiceCall;
pub(crate) use caller::Caller;
pub(crate) use denials::{DenialLog, DeniedFrom, OfDenials};
pub(crate) use observers::Observers;
