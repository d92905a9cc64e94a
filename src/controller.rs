//! Controllers: from what a server measures to a headroom, or to a share of requests to shed.
//!
//! A limiter enforces a number; a controller finds it. Each one here is a published algorithm as plain
//! arithmetic: no clock, no thread, no lock, no allocation. A server feeds it measurements, in a loop of
//! its own or after each request, and hands the result on.
//!
//! | Controller | Looks at | Gives |
//! |---|---|---|
//! | [`Aimd`] | drops | a concurrency limit |
//! | [`Gradient`] | latency against its own long-term average | a concurrency limit |
//! | [`MinGradient`] | latency against the least that was measured | a concurrency limit |
//! | [`ClientThrottle`] | how many requests a backend accepted | the probability to shed a request |
//! | [`AdmissionControl`] | how many requests succeeded | the probability to shed a request |
//!
//! The first three estimate how many requests the server can serve at once. Its *headroom* is the share
//! of those places that is free, `max(0, 1 - in_flight / limit)`: what
//! [`SparePool::report_headroom`](crate::SparePool::report_headroom) takes.
//!
//! None of this lies on the path of a decision, so it may use floating point; a decision reads only the
//! headroom that was reported. To update one controller from several threads put it into a `Mutex`, and
//! skip the update when `try_lock` fails: these are estimates, and one sample more or less is nothing.
//!
//! **Bad numbers.** Settings that are out of range or no numbers are refused when a controller is built.
//! Measurements are durations and counts, which always are numbers; a latency of zero says nothing and is
//! ignored. So every limit lies in its range, and every headroom and probability in 0 to 1.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::controller::Gradient;
//! use tollgate::{Quota, SparePool};
//! let pool = SparePool::new(Quota::per_second(1_000));
//! let mut controller = Gradient::new(20, 20..=200)?;
//! let (in_flight, latency) = (15, Duration::from_millis(8));
//! controller.update(latency, in_flight);
//! pool.report_headroom(controller.headroom(in_flight))?;
//! assert_eq!(pool.headroom(), 0.25);
//! # Ok::<(), tollgate::SettingError>(())
//! ```

mod aimd;
mod gradient;
mod min_gradient;
mod shed;

pub use aimd::Aimd;
pub use gradient::Gradient;
pub use min_gradient::MinGradient;
pub use shed::{AdmissionControl, ClientThrottle};

use std::ops::RangeInclusive;

use crate::error::SettingError;

/// What a concurrency limit may be.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    /// A range from 1 on that holds `initial`.
    fn holding(initial: u64, range: RangeInclusive<u64>) -> Result<Self, SettingError> {
        let (least, most) = range.into_inner();
        let is_inside = (least..=most).contains(&initial);
        let accepted = "one within the range of limits";
        SettingError::unless(least >= 1, "least limit", least as f64, "1 or more")?;
        SettingError::unless(is_inside, "initial limit", initial as f64, accepted)?;
        Ok(Self { least, most })
    }

    fn clamp(self, limit: f64) -> f64 {
        limit.clamp(self.least as f64, self.most as f64)
    }
}

/// The share of a limit that is not in use.
fn headroom(limit: u64, in_flight: u64) -> f64 {
    limit.saturating_sub(in_flight) as f64 / limit as f64
}
