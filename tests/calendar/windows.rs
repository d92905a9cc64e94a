//! Windows of the calendar, as other programs compute them.

use tollgate::Policy;

use crate::common::policy;

pub(crate) const DAY_S: u64 = 86_400;

/// The first of a month in seconds of Unix time, from `date -u`, and the days of that month.
const MONTHS: [(u64, u64); 18] = [
    (0, 31),              // January 1970
    (2_678_400, 28),      // February 1970
    (28_857_600, 31),     // December 1970
    (949_363_200, 29),    // February 2000
    (1_706_745_600, 29),  // February 2024
    (1_738_368_000, 28),  // February 2025
    (1_740_787_200, 31),  // March 2025
    (1_743_465_600, 30),  // April 2025
    (1_764_547_200, 31),  // December 2025
    (1_767_225_600, 31),  // January 2026
    (4_097_174_400, 30),  // November 2099
    (4_099_766_400, 31),  // December 2099
    (4_102_444_800, 31),  // January 2100
    (4_105_123_200, 28),  // February 2100, which is no leap year
    (4_107_542_400, 31),  // March 2100
    (7_260_796_800, 28),  // February 2200, which is no leap year
    (13_572_144_000, 29), // February 2400, which is one
    (18_442_339_200, 30), // June 2554, the last whole month
];

/// The first of January in seconds of Unix time, from Python's `datetime`, and the days of that year.
const YEARS: [(u64, u64); 12] = [
    (0, 365),              // 1970
    (31_536_000, 365),     // 1971
    (63_072_000, 366),     // 1972
    (915_148_800, 365),    // 1999
    (946_684_800, 366),    // 2000, a leap year as every fourth century's is
    (1_704_067_200, 366),  // 2024
    (1_735_689_600, 365),  // 2025
    (4_070_908_800, 365),  // 2099
    (4_102_444_800, 365),  // 2100, no leap year
    (7_258_118_400, 365),  // 2200, no leap year
    (13_569_465_600, 366), // 2400
    (18_397_756_800, 365), // 2553, the last whole year
];

/// The first day of a week in seconds of Unix time, from Python's `datetime`. Weeks begin on Monday, as in ISO 8601.
const WEEKS: [(u64, u64); 11] = [
    (345_600, 7),        // 1970-01-05, the first that begins after time does
    (946_252_800, 7),    // 1999-12-27, into 2000
    (951_696_000, 7),    // 2000-02-28, of a leap day
    (1_708_905_600, 7),  // 2024-02-26, of a leap day
    (1_735_516_800, 7),  // 2024-12-30, into 2025
    (1_795_392_000, 7),  // 2026-11-23
    (1_798_416_000, 7),  // 2026-12-28, into 2027
    (4_102_099_200, 7),  // 2099-12-28, into 2100
    (4_106_937_600, 7),  // 2100-02-22, to the last day of February
    (13_574_476_800, 7), // 2400-02-28, of a leap day
    (18_445_536_000, 7), // 2554-07-08, the last whole one
];

/// Like [`WEEKS`], for weeks that begin on Sunday.
const SUNDAYS: [(u64, u64); 11] = [
    (259_200, 7),        // 1970-01-04
    (946_166_400, 7),    // 1999-12-26, into 2000
    (951_609_600, 7),    // 2000-02-27, of a leap day
    (1_708_819_200, 7),  // 2024-02-25, of a leap day
    (1_735_430_400, 7),  // 2024-12-29, into 2025
    (1_795_305_600, 7),  // 2026-11-22
    (1_798_329_600, 7),  // 2026-12-27, into 2027
    (4_102_012_800, 7),  // 2099-12-27, into 2100
    (4_107_456_000, 7),  // 2100-02-28, into March: there is no leap day
    (13_574_390_400, 7), // 2400-02-27, of a leap day
    (18_446_054_400, 7), // 2554-07-14, the last whole one
];

/// Like [`WEEKS`], for weeks that begin on Thursday, the day of the Unix epoch.
const THURSDAYS: [(u64, u64); 12] = [
    (0, 7),              // 1970-01-01
    (604_800, 7),        // 1970-01-08
    (946_512_000, 7),    // 1999-12-30, into 2000
    (951_350_400, 7),    // 2000-02-24, of a leap day
    (1_709_164_800, 7),  // 2024-02-29, a leap day
    (1_735_171_200, 7),  // 2024-12-26, into 2025
    (1_795_651_200, 7),  // 2026-11-26
    (1_798_675_200, 7),  // 2026-12-31, into 2027
    (4_102_358_400, 7),  // 2099-12-31, into 2100
    (4_107_196_800, 7),  // 2100-02-25, into March: there is no leap day
    (13_574_131_200, 7), // 2400-02-24, of a leap day
    (18_445_795_200, 7), // 2554-07-11, the last whole one
];

/// The seconds at which windows begin, with the windows' lengths in days.
type Windows = &'static [(u64, u64)];

/// The algorithm, with the option after its count; its windows; and the beginning of the last window, in which time
/// ends.
pub(crate) const CALENDAR: [(&str, &str, Windows, u64); 5] = [
    ("calendar-month", "", &MONTHS, 18_444_931_200),
    ("calendar-year", "", &YEARS, 18_429_292_800),
    ("calendar-week", "", &WEEKS, 18_446_140_800),
    ("calendar-week", " from-sunday", &SUNDAYS, 18_446_659_200),
    ("calendar-week", " from-thursday", &THURSDAYS, 18_446_400_000),
];

/// The policies of [`CALENDAR`] with this limit, each with its windows and its last window.
pub(crate) fn calendar(limit: u64) -> impl Iterator<Item = (Policy, Windows, u64)> {
    CALENDAR.into_iter().map(move |(name, option, windows, last)| {
        (policy(&format!("{name} {limit}{option}")), windows, last)
    })
}
