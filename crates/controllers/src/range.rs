//! The range that a concurrency limit stays in.

use std::ops::RangeInclusive;

use crate::error::ControllerError;

/// The range of a concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Range {
    /// A range that begins at 1 or above and contains `initial`.
    pub(crate) fn holding(
        initial: u64,
        range: RangeInclusive<u64>,
    ) -> Result<Self, ControllerError> {
        let (least, most) = range.into_inner();
        let is_inside = (least..=most).contains(&initial);
        let accepted = "one within the range of limits";
        ControllerError::unless(least >= 1, "least limit", least as f64, "1 or more")?;
        ControllerError::unless(is_inside, "initial limit", initial as f64, accepted)?;
        Ok(Self { least, most })
    }

    pub(crate) fn clamp(self, limit: f64) -> f64 {
        limit.clamp(self.least as f64, self.most as f64)
    }
}

/// The share of a limit that is not in use.
pub(crate) fn headroom(limit: u64, in_flight: u64) -> f64 {
    limit.saturating_sub(in_flight) as f64 / limit as f64
}
