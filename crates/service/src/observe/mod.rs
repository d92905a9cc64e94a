//! What looks at requests: each is counted, and logged if it is denied.

mod asked;
mod call;
mod caller;
mod denials;
mod observers;

pub(crate) use asked::{InWords, RequestText};
pub(crate) use call::ServiceCall;
pub(crate) use caller::Caller;
pub(crate) use denials::{DenialLog, DeniedFrom, OfDenials};
pub(crate) use observers::Observers;
