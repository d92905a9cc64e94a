//! The names of algorithms in this crate and in other projects.

use super::Algorithm;
use super::meant::meant;
use super::read::{Words, is_number};
use crate::algorithm::{CalendarUnit, Rounding, Weekday};
use crate::error::PolicyError;

/// The algorithms, each with its name and the option after the quota. (For segmented windows this option is the number
/// of segments, which is not listed.) The entry for months stands for all windows of the calendar. The order is part of
/// snapshots, so a new name comes last.
pub(super) const NAMES: [(Algorithm, &str, &str); 9] = [
    (Algorithm::Gcra, "gcra", ""),
    (Algorithm::FixedWindow, "fixed-window", ""),
    (Algorithm::FixedWindowFromFirst, "fixed-window", " from-first"),
    (Algorithm::SlidingWindow { rounding: Rounding::Exact }, "sliding-window", " exact"),
    (Algorithm::SlidingWindow { rounding: Rounding::Down }, "sliding-window", ""),
    (Algorithm::SlidingWindow { rounding: Rounding::Strict }, "sliding-window", " strict"),
    (Algorithm::SegmentedWindow { segments: 0 }, "segmented-window", ""),
    (Algorithm::Calendar(CalendarUnit::Month), CALENDAR[0].1, ""),
    (Algorithm::SlidingLog, "sliding-log", ""),
];

/// The words of other projects for these algorithms. `docs/words.md` names the projects.
const ALIASES: [(&str, &str); 8] = [
    ("generic-cell-rate-algorithm", "gcra"),
    ("leaking-bucket", "leaky-bucket"),
    ("enforced-average", "spaced"),
    ("fixed-window-counter", "fixed-window"),
    ("sliding-window-counter", "sliding-window"),
    ("sliding-tail", "sliding-window"),
    ("sliding-window-log", "sliding-log"),
    ("log", "sliding-log"),
];

/// Words that have several meanings, and words for what no algorithm here does. Each comes with the words to use
/// instead.
const OTHER_WORDS: [(&str, &str); 7] = [
    ("calendar-day", "fixed-window, whose days are those of UTC, as in fixed-window 1000/d"),
    ("sliding", "sliding-window, of two counts, or sliding-log, of each time"),
    ("fixed", "fixed-window"),
    ("rolling-window", "sliding-log, of each time, or sliding-window, of two counts"),
    ("moving-window", "sliding-log, of each time, or sliding-window, of two counts"),
    ("leaky-bucket-as-a-queue", "a quota and its places, as in gcra 5/s burst 1 queue 50"),
    ("concurrency", "a semaphore: requests in progress are not counted here"),
];

/// The units of the calendar and their names. Quotas with these names have no period. A week begins on Monday unless
/// another day is named.
const CALENDAR: [(CalendarUnit, &str); 3] = [
    (CalendarUnit::Month, "calendar-month"),
    (CalendarUnit::Year, "calendar-year"),
    (CalendarUnit::Week(Weekday::Monday), "calendar-week"),
];

/// The options for the day on which a week begins.
pub(super) const FROM_DAYS: [(&str, Weekday); 7] = [
    ("from-monday", Weekday::Monday),
    ("from-tuesday", Weekday::Tuesday),
    ("from-wednesday", Weekday::Wednesday),
    ("from-thursday", Weekday::Thursday),
    ("from-friday", Weekday::Friday),
    ("from-saturday", Weekday::Saturday),
    ("from-sunday", Weekday::Sunday),
];

/// The name of windows of the calendar. Weeks have one name, no matter on which day they begin.
pub(crate) const fn name_of(unit: CalendarUnit) -> &'static str {
    let [month, year, week] = CALENDAR;
    match unit {
        CalendarUnit::Month => month.1,
        CalendarUnit::Year => year.1,
        CalendarUnit::Week(_) => week.1,
    }
}

/// The windows of the calendar that have this name.
pub(super) fn calendar_of(name: &str) -> Option<CalendarUnit> {
    CALENDAR.into_iter().find(|(_, known)| *known == name).map(|(unit, _)| unit)
}

/// The names that are accepted for an algorithm.
pub(super) const ALGORITHMS: &str = "gcra, token-bucket, leaky-bucket, spaced, fixed-window, sliding-window, \
                          segmented-window, calendar-week, calendar-month, calendar-year or sliding-log";

/// All words that texts use for algorithms.
fn known_names() -> impl Iterator<Item = &'static str> {
    let others = ALIASES.into_iter().chain(OTHER_WORDS).map(|(word, _)| word);
    ALGORITHMS.split([',', ' ']).chain(others)
}

/// Only the letters of a name, so that `Token Bucket`, `token_bucket` and `TokenBucket` are equal.
fn letters(name: &str) -> impl Iterator<Item = char> {
    let is_between = |letter: &char| matches!(letter, '-' | '_') || letter.is_whitespace();
    name.chars().filter(move |letter| !is_between(letter)).map(|letter| letter.to_ascii_lowercase())
}

/// Reads a name of one or several words, and returns the name in the list of algorithms.
pub(super) fn read_name(words: &mut Words<'_>) -> Result<&'static str, PolicyError> {
    let place = words.place();
    words.take();
    // A further word belongs to the name if the words together are the beginning of a known name. For example, `leaky
    // bucket` is a name, but `leaky bucket soft` is not the beginning of any name.
    let begins = |written: &str, known: &str| {
        let mut known = letters(known);
        letters(written).all(|letter| known.next() == Some(letter))
    };
    let mut longer = *words;
    while longer.take().is_some() {
        if !known_names().any(|known| begins(longer.since(place), known)) {
            break;
        }
        *words = longer;
    }
    let written = words.since(place);
    let is_written = |known: &&str| letters(known).eq(letters(written));
    let name = ALIASES.into_iter().find(|(alias, _)| is_written(alias)).map(|(_, name)| name);
    let algorithm =
        || ALGORITHMS.split([',', ' ']).find(|known| !known.is_empty() && is_written(known));
    // The word `or` before the last name in the list is not a name.
    let name = name.or_else(algorithm).filter(|name| *name != "or");
    name.ok_or_else(|| {
        // The error quotes all words before the quota, since the name may consist of all these words.
        while words.take_if(|word| !is_number(word) && word != "/").is_some() {}
        no_algorithm(words.since(place))
    })
}

/// The error for an unknown name: a word of another project, a misspelt name, or an option in the first place.
fn no_algorithm(name: &str) -> PolicyError {
    // A known word is not misspelt, so `meant` returns nothing for it.
    let meant = meant(name, known_names());
    // For a word with several meanings, the error offers only these meanings, since the whole list would not help.
    let other = OTHER_WORDS.iter().find(|(word, _)| letters(word).eq(letters(name)));
    let accepted = other.map_or(ALGORITHMS, |(_, write)| write);
    PolicyError::new(format!("there is no algorithm {name:?}{meant}; use {accepted}"))
}
