//! [`OneReading`]: one reading of the machine's counter, so that all limits of a request see the same instant.

use std::time::Instant;

use super::{Clock, ClockSource, OtherSource, Timestamp, counted, system_at, unix_at};

/// One reading of the machine's counter for all limits of one request. Reading the counter again would take longer than
/// computing the time of another clock from this reading. The next request makes a new reading.
///
/// The clocks of a request may have different origins, and some follow the wall clock, so each clock gives another time
/// for the same instant. For a limit, this is the same as if a thread had been held up between its reading and its
/// decision.
#[derive(Debug, Default)]
pub(crate) struct OneReading {
    raw: Option<u64>,
    instant: Option<Instant>,
}

impl OneReading {
    #[inline]
    pub(crate) fn of(&mut self, clock: &Clock) -> Timestamp {
        match &clock.0 {
            // All clocks read the one counter that `quanta` has found. The clocks of models have counters of their own.
            ClockSource::Counter { counter, steps, offset_ns } if !cfg!(loom) => {
                counted(*self.raw.get_or_insert_with(|| counter.raw()), steps, *offset_ns)
            }
            ClockSource::Unix { counter, steps, follower } if !cfg!(loom) => {
                unix_at(*self.raw.get_or_insert_with(|| counter.raw()), steps, follower)
            }
            ClockSource::Other(OtherSource::System { origin, offset_ns }) => {
                system_at(*self.instant.get_or_insert_with(Instant::now), *origin, *offset_ns)
            }
            _ => clock.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[test]
    fn clocks_of_one_machine_are_read_once_whatever_they_count_from() {
        let clocks = [Clock::monotonic(), Clock::unix(), Clock::system()];
        let later = |clock: &Clock| {
            clock.clone().resumed_at(clock.now() + std::time::Duration::from_secs(60))
        };
        let mut reading = OneReading::default();
        for clock in &clocks {
            // The two readings from `reading` are of the same instant, although time passes between them.
            let (first, before) = (reading.of(clock), clock.now());
            while clock.now() == before {}
            assert_eq!(reading.of(clock), first);
            assert!(first <= before);
        }
        let ahead = later(&clocks[0]);
        let [own, other] = [&clocks[0], &ahead].map(|clock| reading.of(clock));
        // The reading was made before this clock began, and a clock gives no time before its beginning.
        assert!(other >= own, "{other:?} {own:?}");
    }

    #[test]
    fn a_clock_that_is_set_is_read_each_time() {
        let (manual, mut reading) = (ManualClock::new(), OneReading::default());
        let clock = Clock::from(manual.clone());
        assert_eq!(reading.of(&clock), manual.now());
        manual.set(Timestamp::from_secs(5));
        assert_eq!(reading.of(&clock), Timestamp::from_secs(5));
    }
}
