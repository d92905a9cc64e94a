//! Periods as text: `250ms`, `10s`, `d`.

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const MINUTE_NS: u64 = 60 * SECOND_NS;
pub(crate) const HOUR_NS: u64 = 60 * MINUTE_NS;
pub(crate) const DAY_NS: u64 = 24 * HOUR_NS;

/// The units in which periods are printed, longest first. More are read: see `policy/read.rs`.
const PERIOD_UNITS: [(&str, u64); 7] = [
    ("d", DAY_NS),
    ("h", HOUR_NS),
    ("m", MINUTE_NS),
    ("s", SECOND_NS),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A period in the longest unit that divides it, with `one` in place of the number 1 if the unit is a second or longer.
pub(crate) fn period(period_ns: u64, one: &str) -> String {
    let divides = |(_, unit_ns): &(&str, u64)| period_ns.is_multiple_of(*unit_ns);
    // Every period is a multiple of 1 ns.
    let (name, unit_ns) = PERIOD_UNITS.into_iter().find(divides).unwrap_or(("ns", 1));
    match period_ns / unit_ns {
        // `100/s`, but `100/1ms`: a bare `ms` is refused when it is read.
        1 if unit_ns >= SECOND_NS => format!("{one}{name}"),
        count => format!("{count}{name}"),
    }
}
