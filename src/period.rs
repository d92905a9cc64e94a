//! Periods as text: `250ms`, `10s`, `d`.

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const MINUTE_NS: u64 = 60 * SECOND_NS;
pub(crate) const HOUR_NS: u64 = 60 * MINUTE_NS;
pub(crate) const DAY_NS: u64 = 24 * HOUR_NS;

/// The units in which periods are printed, longest first. More units can be read: see `policy/read.rs`.
const PERIOD_UNITS: [(&str, u64); 7] = [
    ("d", DAY_NS),
    ("h", HOUR_NS),
    ("m", MINUTE_NS),
    ("s", SECOND_NS),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A period in the longest unit that divides it. If the number is 1 and the unit is a second or longer, the number is
/// replaced by `one`.
pub(crate) fn period(period_ns: u64, one: &str) -> String {
    let divides = |(_, unit_ns): &(&str, u64)| period_ns.is_multiple_of(*unit_ns);
    // Every period is a multiple of 1 ns.
    let (name, unit_ns) = PERIOD_UNITS.into_iter().find(divides).unwrap_or(("ns", 1));
    match period_ns / unit_ns {
        // So a policy is printed as `100/s`, but as `100/1ms`, since `ms` without a number is refused when a policy is
        // read.
        1 if unit_ns >= SECOND_NS => format!("{one}{name}"),
        count => format!("{count}{name}"),
    }
}
