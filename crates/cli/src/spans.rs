//! Lengths of time: round lengths for the bins and marks of pictures, and lengths as text.

use jiff::SignedDuration;

const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;
const HOUR_NS: u64 = 60 * MINUTE_NS;
/// A day of Unix time.
pub(crate) const DAY_NS: u64 = 24 * HOUR_NS;

/// The round lengths in nanoseconds, shortest first. Each length divides the next one, so that bins can be merged
/// without splitting a bin. Eight of the last length cover all times of 64 bits.
const ROUND_NS: [u64; 39] = [
    1,
    5,
    10,
    50,
    100,
    500,
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    SECOND_NS,
    5 * SECOND_NS,
    15 * SECOND_NS,
    30 * SECOND_NS,
    MINUTE_NS,
    5 * MINUTE_NS,
    15 * MINUTE_NS,
    30 * MINUTE_NS,
    HOUR_NS,
    3 * HOUR_NS,
    6 * HOUR_NS,
    12 * HOUR_NS,
    DAY_NS,
    2 * DAY_NS,
    4 * DAY_NS,
    20 * DAY_NS,
    100 * DAY_NS,
    500 * DAY_NS,
    2_500 * DAY_NS,
    12_500 * DAY_NS,
    62_500 * DAY_NS,
];

/// Returns the shortest round length with which at most `most` bins, aligned to Unix time, cover the time from
/// `first_ns` to `last_ns`. `most` is at least 8.
pub(crate) fn fitting(first_ns: u64, last_ns: u64, most: u64) -> u64 {
    let fits = |&length: &u64| last_ns / length - first_ns / length < most;
    ROUND_NS.into_iter().find(fits).unwrap_or(ROUND_NS[ROUND_NS.len() - 1])
}

/// Returns a length of time for human readers, such as `15m`.
pub(crate) fn name(length_ns: u64) -> String {
    let units = [
        ("d", DAY_NS),
        ("h", HOUR_NS),
        ("m", MINUTE_NS),
        ("s", SECOND_NS),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    let unit =
        units.into_iter().find(|(_, unit_ns)| length_ns > 0 && length_ns.is_multiple_of(*unit_ns));
    let (name, unit_ns) = unit.unwrap_or(("ns", 1));
    format!("{}{name}", length_ns / unit_ns)
}

/// Reads `10m`, `90s`, `1h 30m` as nanoseconds.
pub(crate) fn span(text: &str) -> Result<u64, String> {
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|span| u64::try_from(span.as_nanos()).ok())
        .ok_or_else(|| "expected a span of time such as 30s, 10m or 2h".to_owned())
}

/// Seconds with all of their nanoseconds: `0`, `1.5`, `0.000000001`.
pub(crate) fn seconds(nanos: u64) -> String {
    let fraction = format!("{:09}", nanos % SECOND_NS);
    match fraction.trim_end_matches('0') {
        "" => (nanos / SECOND_NS).to_string(),
        fraction => format!("{}.{fraction}", nanos / SECOND_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_length_divides_the_next() {
        assert!(
            ROUND_NS.windows(2).all(|pair| pair[0] < pair[1] && pair[1].is_multiple_of(pair[0]))
        );
    }

    #[test]
    fn the_shortest_length_that_covers_a_span_is_found() {
        assert_eq!(fitting(7, 7, 8), 1);
        assert_eq!(fitting(0, 7, 8), 1);
        assert_eq!(fitting(0, 8, 8), 5);
        // Two hours that do not start on a quarter of an hour touch nine quarters.
        assert_eq!(fitting(MINUTE_NS, 121 * MINUTE_NS, 9), 15 * MINUTE_NS);
        assert_eq!(fitting(MINUTE_NS, 121 * MINUTE_NS, 8), 30 * MINUTE_NS);
        assert_eq!(fitting(0, u64::MAX, 8), 62_500 * DAY_NS);
    }

    #[test]
    fn seconds_keep_every_nanosecond() {
        for (nanos, text) in
            [(0, "0"), (1_500_000_000, "1.5"), (1, "0.000000001"), (60 * SECOND_NS, "60")]
        {
            assert_eq!(seconds(nanos), text);
        }
    }

    #[test]
    fn lengths_are_named_in_the_largest_unit_that_divides_them() {
        for (length_ns, text) in [
            (0, "0ns"),
            (15 * MINUTE_NS, "15m"),
            (90 * SECOND_NS, "90s"),
            (500_000, "500us"),
            (DAY_NS, "1d"),
        ] {
            assert_eq!(name(length_ns), text);
        }
    }
}
