//! One request of a log, in 12 bytes. Nothing else of a line is stored.

/// The time of a request, and its key.
///
/// Events are ordered by time, then by key. Two requests of one key at one instant are equal for every policy, so the
/// order of events does not depend on which thread read which part of the log first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplayEvent {
    // The time is in two halves, because a u64 would be aligned to 8 bytes and make this struct 16.
    nanos_high: u32,
    nanos_low: u32,
    key: u32,
}

const _: () = assert!(size_of::<ReplayEvent>() == 12);

impl ReplayEvent {
    /// Makes a request at this time in nanoseconds of Unix time.
    pub(crate) fn new(nanos: u64, key: u32) -> Self {
        let [a, b, c, d, e, f, g, h] = nanos.to_be_bytes();
        Self {
            nanos_high: u32::from_be_bytes([a, b, c, d]),
            nanos_low: u32::from_be_bytes([e, f, g, h]),
            key,
        }
    }

    /// Returns the same request with another number for its key.
    pub(crate) fn with_key(self, key: u32) -> Self {
        Self { key, ..self }
    }

    /// Returns the time in nanoseconds of Unix time.
    pub(crate) fn nanos(self) -> u64 {
        u64::from(self.nanos_high) << 32 | u64::from(self.nanos_low)
    }

    /// Returns the number of the key.
    pub(crate) fn key(self) -> u32 {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_the_order_of_their_times() {
        let times = [0, 1, u64::from(u32::MAX), 1 << 32, 4_102_444_799_999_999_999];
        for pair in times.windows(2) {
            assert!(ReplayEvent::new(pair[0], 9) < ReplayEvent::new(pair[1], 0));
        }
        for nanos in times {
            assert_eq!(ReplayEvent::new(nanos, 7).nanos(), nanos);
        }
    }
}
