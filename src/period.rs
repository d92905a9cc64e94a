//! Periods as text: `250ms`, `10s`, `d`.

use std::fmt;

const SECOND_NS: u64 = 1_000_000_000;

/// Time units of the policy text, longest first.
pub(crate) const PERIOD_UNITS: [(&str, u64); 7] = [
    ("d", 86_400 * SECOND_NS),
    ("h", 3_600 * SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("s", SECOND_NS),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Writes a period in the longest unit that divides it, with `one` for the number 1 of seconds and more.
pub(crate) fn write_period(f: &mut fmt::Formatter<'_>, period_ns: u64, one: &str) -> fmt::Result {
    for (name, unit_ns) in PERIOD_UNITS {
        if period_ns.is_multiple_of(unit_ns) {
            return match period_ns / unit_ns {
                // `100/s`, but `100/1ms`: a bare `ms` is refused when it is read.
                1 if unit_ns >= SECOND_NS => write!(f, "{one}{name}"),
                count => write!(f, "{count}{name}"),
            };
        }
    }
    Ok(()) // not reached: every period is a multiple of 1 ns
}
