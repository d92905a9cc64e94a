//! [`ClockWatch`]: logs when the system's clock was set. The limits' clock follows the system's clock forward, but
//! never back.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::time::Instant;
use tollgate::{Clock, Timestamp};

use crate::metrics::encode_gauge;

/// Steps of up to this length, such as leap seconds, are not logged.
const NEWS: Duration = Duration::from_secs(1);

/// Compares the limits' clock with the system's clock at each call of [`ClockWatch::tell`].
#[derive(Debug)]
pub(crate) struct ClockWatch {
    clock: Clock,
    seen: Mutex<LastLook>,
}

/// The readings of the last look.
#[derive(Debug, Default)]
struct LastLook {
    last: Option<(Timestamp, Instant)>,
    /// The time by which the limits' clock was ahead when a step back was last logged. It shrinks when the system's
    /// clock catches up.
    told: Duration,
}

/// An event to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// The system's clock went forward by this time, so limits have given back the units that return in a period of
    /// this length.
    Forward(Duration),
    /// The limits' clock is ahead of the system's by this time.
    Back(Duration),
}

impl LastLook {
    /// Compares the limits' clock (`now`) with the system's (`wall`) at a monotonic instant; returns the event to log,
    /// if there is one.
    fn look(&mut self, now: Timestamp, wall: Timestamp, at: Instant) -> Option<News> {
        let (ahead, last) = (now - wall, self.last.replace((now, at)));
        if ahead > self.told + NEWS {
            self.told = ahead;
            return Some(News::Back(ahead));
        }
        // After the system's clock has caught up, the next step back is logged again.
        self.told = self.told.min(ahead);
        let (before, then) = last?;
        let more = (now - before).saturating_sub(at.saturating_duration_since(then));
        (more > NEWS).then_some(News::Forward(more))
    }
}

impl ClockWatch {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, seen: Mutex::default() }
    }

    /// Logs a new event, if there is one.
    pub(crate) fn tell(&self) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        // Only one task takes this lock, and a panic leaves no reading half written, so the poison can be ignored.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.look(now, wall, Instant::now()) {
            Some(News::Back(ahead)) => tracing::warn!(
                "the system's clock was set back: the limits' clock is {ahead:?} ahead of it and never runs back, so \
                 windows and months turn so much too early until a restart without --state, or until it has caught up, \
                 a second in 17 minutes"
            ),
            Some(News::Forward(more)) => tracing::warn!(
                "the system's clock went forward by {more:?}, or the machine slept: limits have given back what comes \
                 back in that time"
            ),
            None => {}
        }
    }
}

/// Reports by how much the limits' clock is ahead of the system's.
#[derive(Debug)]
pub(crate) struct OfClock(pub(crate) Clock);

impl Collector for OfClock {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ahead = self.0.now() - self.0.wall();
        let help =
            "Seconds by which the limits' clock is ahead of the system's, which was set back";
        encode_gauge(&mut encoder, "clock_ahead_seconds", help, ahead.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events to log for these readings, which come one after the other. Each reading has the milliseconds of the
    /// limits' clock, of the system's, and of a monotonic clock.
    fn told<const N: usize>(readings: [[u64; 3]; N]) -> [Option<News>; N] {
        let (mut seen, start) = (LastLook::default(), Instant::now());
        readings.map(|[limits_ms, system_ms, steady_ms]| {
            let at = start + Duration::from_millis(steady_ms);
            seen.look(Timestamp::from_millis(limits_ms), Timestamp::from_millis(system_ms), at)
        })
    }

    #[test]
    fn a_system_clock_set_back_is_told_once_for_each_time() {
        let [ms, s] = [Duration::from_millis, Duration::from_secs];
        let news = told([
            [100_000, 100_000, 0],
            // A leap second is not logged.
            [101_000, 100_000, 1_000],
            [101_998, 41_000, 2_000],
            [102_997, 42_000, 3_000],
            // The system's clock is set back once more.
            [103_996, 41_000, 4_000],
            // The clocks agree again; then the system's is set back.
            [104_995, 104_995, 5_000],
            [105_994, 103_994, 6_000],
        ]);
        let back = |by| Some(News::Back(by));
        let expected = [None, None, back(ms(60_998)), None, back(ms(62_996)), None, back(s(2))];
        assert_eq!(news, expected);
    }

    #[test]
    fn a_step_forward_is_told_and_slewing_is_not() {
        let news = told([
            [100_000, 100_000, 0],
            [101_001, 101_500, 1_000],
            [9_000_000, 9_000_000, 2_000],
            // The next look comes a minute later, and both clocks have run evenly.
            [9_060_000, 9_060_000, 62_000],
        ]);
        let forward = News::Forward(Duration::from_millis(9_000_000 - 101_001 - 1_000));
        assert_eq!(news, [None, None, Some(forward), None]);
    }
}
