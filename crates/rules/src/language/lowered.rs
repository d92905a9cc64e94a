//! Rates that are too high to be counted exactly, and are lowered to the highest that can be counted. Files of other
//! services have such rates: they write 4,294,967,295 a second if there is to be no limit.

use std::time::Duration;

/// The numbers of a lowered rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoweredRate {
    pub(crate) asked: u32,
    pub(crate) counted: u32,
    pub(crate) window: Duration,
}
