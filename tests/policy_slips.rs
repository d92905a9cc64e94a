//! Policies as text: which are refused, and with which error messages.

use std::panic::{catch_unwind, set_hook};
use std::sync::Mutex;

use tollgate::{Policy, Quota};

#[test]
fn every_slip_is_named_with_what_would_be_right() {
    let algorithms = "gcra, token-bucket, leaky-bucket, spaced, fixed-window, sliding-window, \
                      segmented-window, calendar-week, calendar-month, calendar-year or sliding-log";
    let slips = [
        ("", "it is empty; write a quota such as 100/s, or gcra 100/s burst 20"),
        (
            "gcra",
            &format!("after \"gcra\" a quota such as 100/s is missing (algorithms: {algorithms})"),
        ),
        ("bucket 10/s", &format!("there is no algorithm \"bucket\"; use {algorithms}")),
        (
            "Slidng Window 10/s",
            &format!(
                "there is no algorithm \"Slidng Window\" (did you mean \"sliding-window\"?); use {algorithms}"
            ),
        ),
        (
            "rolling window 10/s",
            "there is no algorithm \"rolling window\"; use sliding-log, of each time, or sliding-window, of two \
             counts",
        ),
        (
            "leaky bucket as a queue 5/s",
            "there is no algorithm \"leaky bucket as a queue\"; use a quota and its places, as in gcra 5/s burst 1 \
             queue 50",
        ),
        (
            "rolling-windows 10/s",
            &format!(
                "there is no algorithm \"rolling-windows\" (did you mean \"rolling-window\"?); use {algorithms}"
            ),
        ),
        (
            "10 million per day",
            "\"million\" behind the count is not understood; leave it out, or write requests",
        ),
        ("100 000/s", "a number takes no blank; write 100000, or 100_000"),
        (
            "1.000/s",
            "count \"1.000\" is read as 1 by some and as 1000 by others; write one of these",
        ),
        (
            "10/1.234s",
            "period \"1.234s\" is read as 1.2340 by some and as 1234 by others; write one of these",
        ),
        (
            "2.5/s",
            "count \"2.5\" is not whole, and as many may come at once; write whole numbers, as in 5/2s",
        ),
        (
            "0.3/s",
            "count \"0.3\" is not whole, and as many may come at once; write whole numbers, as in 3/10s",
        ),
        ("10/s burst 2.5", "burst \"2.5\" is not a whole number, as in 10000"),
        ("18446744073709551616/s", "count 18446744073709551616 is above 18446744073709551615"),
        ("18446744073709552k/s", "count 18446744073709552k is above 18446744073709551615"),
        ("10/0.5ns", "period \"0.5ns\" is not a whole number of nanoseconds; write it in ns"),
        (
            "10/585y",
            "period \"585y\" has no fixed length, as months and years are not all alike; write days, as in 213525d",
        ),
        ("10/300000weeks", "period 300000weeks is longer than 584 years"),
        ("/s", "the count before / is missing; write <count>/<period>, as in 100/s"),
        ("100/month", "a month has no fixed length; write 100/30d, or calendar-month 100"),
        (
            "sliding window 100 per month",
            "a month has no fixed length; write 100/30d, or calendar-month 100",
        ),
        ("100 per year", "a year has no fixed length; write 100/365d, or calendar-year 100"),
        ("gcra 100/y", "a year has no fixed length; write 100/365d, or calendar-year 100"),
        (
            "fixed-window 100/2 years",
            "period \"2 years\" has no fixed length, as months and years are not all alike; write days, as in 730d",
        ),
        (
            "fixed-window 100/2 months",
            "period \"2 months\" has no fixed length, as months and years are not all alike; write days, as in 60d",
        ),
        (
            "fixed-window 100/month from-first",
            "calendar-month has no option \"from-first\"; months are those of the calendar; use aligned, or none",
        ),
        (
            "fixed-window 100/year from-first",
            "calendar-year has no option \"from-first\"; years are those of the calendar; use aligned, or none",
        ),
        (
            "fixed-window 100/week from-sunday",
            "fixed-window has no option \"from-sunday\"; write calendar-week 100 from-sunday",
        ),
        (
            "fixed-window 100/d from-sunday",
            "fixed-window has no option \"from-sunday\"; use aligned, from-first, or none",
        ),
        (
            "calendar-week 100 from-sun",
            "calendar-week has no option \"from-sun\" (did you mean \"from-sunday\"?); a week begins on Monday, or on \
             another day, as in from-sunday; use one of these, or none",
        ),
        (
            "calendar-week 100 from",
            "calendar-week has no option \"from\"; a week begins on Monday, or on another day, as in from-sunday; use one of \
             these, or none",
        ),
        ("calendar-week 100 from-monday from-sunday", "\"from-sunday\" is one option too many"),
        (
            "calendar-month 100 from-sunday",
            "calendar-month has no option \"from-sunday\"; months are those of the calendar; use aligned, or none",
        ),
        (
            "calendar-day 100",
            "there is no algorithm \"calendar-day\"; use fixed-window, whose days are those of UTC, as in fixed-window 1000/d",
        ),
        (
            "calendar-week 10/2w",
            "calendar-week takes a count per week, as in 10000/week, not \"10/2w\"",
        ),
        (
            "calendar-year 10/month",
            "calendar-year takes a count per year, as in 10000/year, not \"10/month\"",
        ),
        (
            "calendar-month 10/year",
            "calendar-month takes a count per month, as in 10000/month, not \"10/year\"",
        ),
        ("calendar-year 0.5", "count \"0.5\" is not a whole number, as in 10000"),
        (
            "calendar-year 10 penalty 366d after 3",
            "calendar-year takes no penalty; leave it out, or use fixed-window 10/366d, whose windows are others: \
             each has 366 days, and the first begins with the clock",
        ),
        (
            "10/m wait 1 year",
            "wait \"1 year\" has no fixed length, as months and years are not all alike; write days, as in 365d",
        ),
        (
            "10/m wait 1 month",
            "wait \"1 month\" has no fixed length, as months and years are not all alike; write days, as in 30d",
        ),
        (
            "sliding 10/s",
            "there is no algorithm \"sliding\"; use sliding-window, of two counts, or sliding-log, of each time",
        ),
        ("Leaky Bucket 10/s Hard Strict", "\"Strict\" is one option too many"),
        ("gcra 10", "\"10\" has no period; write <count>/<period>, as in 100/s"),
        ("10", "\"10\" has no period; write <count>/<period>, as in 100/s"),
        (
            "10/m bursts 5",
            "gcra has no option \"bursts\" (did you mean \"burst\"?); it takes only burst <n>",
        ),
        ("sliding-log 100", "\"100\" has no period; write <count>/<period>, as in 100/s"),
        ("log 0/m", "count 0 would admit nothing; it must be at least 1"),
        ("log 1/0s", "period 0 would be an infinite rate; it must be at least 1ns"),
        (
            "sliding-log 100/m burst 100",
            "a sliding log admits its whole count of 100 at once and takes no burst of 100; leave the burst out, or use gcra",
        ),
        (
            "sliding-log 100/m burst 20",
            "a sliding log admits its whole count of 100 at once and takes no burst of 20; leave the burst out, or use gcra",
        ),
        ("sliding-log 100/m strict", "sliding-log has no option \"strict\"; it takes none"),
        (
            "sliding-log 100/m penalty 10m after 3",
            "a sliding log takes no penalty: an admission takes a slot, and could not see in the same step that \
             no penalty has begun; leave it out, or use segmented-window",
        ),
        (
            "log 1048577/m",
            "a sliding log keeps a time for each of its 1048577 units, and at most 1048576 are accepted; use gcra or a window",
        ),
        (
            "sliding-log 1048576/m soft 1%",
            "a sliding log keeps a time for each of its 1059061 units, and at most 1048576 are accepted; use gcra or a window",
        ),
        ("sliding-log 10/m soft 5%", "5% of a limit of 10 is not one unit; use at least 10%"),
        (
            "sliding-log 10/m count-denied 3s",
            "a window has no longest wait for denied requests: its count stops at the limit; \
             write count-denied alone, or use gcra",
        ),
        ("10/s burst", "burst needs a number, as in burst 20"),
        ("10/s burst 5 burst 6", "burst is given twice"),
        ("10/s 5", "gcra has no option \"5\"; it takes only burst <n>"),
        ("10/s hard", "gcra has no option \"hard\"; it takes only burst <n>"),
        (
            "leaky-bucket 10/s hard burst 5",
            "leaky-bucket fixes its burst; leave it out, or use gcra",
        ),
        ("spaced 10/s burst 5", "spaced fixes its burst; leave it out, or use gcra"),
        (
            "fixed-window 10/s burst 10",
            "a window takes no burst: it admits its whole limit at once; leave the burst out, or use gcra",
        ),
        (
            "fixed-window 10/s x6",
            "fixed-window has no option \"x6\"; use aligned, from-first, or none",
        ),
        (
            "sliding-window 10/s up",
            "sliding-window has no option \"up\"; use exact, round-up, round-down, strict, or none",
        ),
        ("sliding-window 10/s strict exact", "\"exact\" is one option too many"),
        (
            "segmented-window 10/s",
            "segmented-window needs an option; write the number of segments as x2 to x64, as in x6",
        ),
        (
            "segmented-window 10/s x1",
            "a window cannot be cut into 1 segments; use 2 to 64, as in x6",
        ),
        (
            "calendar-month 10/30d",
            "calendar-month takes a count per month, as in 10000/month, not \"10/30d\"",
        ),
        ("calendar-month 0", "count 0 would admit nothing; it must be at least 1"),
        (
            "calendar-month 10 strict",
            "calendar-month has no option \"strict\"; months are those of the calendar; use aligned, or none",
        ),
        (
            "calendar-month 10 burst 10",
            "a window takes no burst: it admits its whole limit at once; leave the burst out, or use gcra",
        ),
        (
            "calendar-month 10 penalty 31d after 3",
            "calendar-month takes no penalty; leave it out, or use fixed-window 10/31d, whose windows are others: \
             each has 31 days, and the first begins with the clock",
        ),
        (
            "segmented-window 10/s x7",
            "a window of 1s is not 7 segments of whole nanoseconds; use x5 or x8",
        ),
        (
            "sliding-window 1000000/s exact",
            "the counts and the window number need 72 bits; 64 are there; \
             in this window a limit up to 65535 fits, or use gcra",
        ),
        ("10/m soft 5", "the share \"5\" after soft needs its percent sign, as in soft 5%"),
        (
            "10/m soft five%",
            "the share \"five%\" after soft is not understood; write 0.01% to 100% with at most two \
             decimals, as in soft 5% or soft 0.25%",
        ),
        (
            "1000/m soft 0.125%",
            "the share \"0.125%\" after soft is not understood; write 0.01% to 100% with at most two \
             decimals, as in soft 5% or soft 0.25%",
        ),
        ("10/m soft", "gcra has no option \"soft\"; it takes only burst <n>"),
        ("10/m soft 0%", "0% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%"),
        (
            "10/m soft 101%",
            "101% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%",
        ),
        ("10/m soft 5%", "5% of a limit of 10 is not one unit; use at least 10%"),
        ("3/m soft 33.33%", "33.33% of a limit of 3 is not one unit; use at least 33.34%"),
        ("30/m soft 5% soft 6%", "soft is given twice"),
        (
            "fixed-window 10/m count-denied 30s",
            "a window has no longest wait for denied requests: its count stops at the limit; \
             write count-denied alone, or use gcra",
        ),
        ("10/m count-denied count-denied", "count-denied is given twice"),
        (
            "10/m penalty",
            "penalty needs a length and a number of denials, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m 3",
            "penalty 10m is followed by \"3\", not by after, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m",
            "penalty 10m is followed by the end, not by after, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m after",
            "penalty 10m after needs a number of denials, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m after 4294967296",
            "penalty after 4294967296 denials is above 4294967295",
        ),
        (
            "10/m penalty 10m after 0",
            "a penalty after 0 denials would refuse everything; use at least 1",
        ),
        (
            "10/m penalty 59s after 1",
            "a penalty of 59s would end before what was admitted has ceased to count; \
             use at least 60s",
        ),
        ("10/m penalty 1m after 1 penalty 1m after 2", "penalty is given twice"),
        ("10/m extended", "\"extended\" belongs to a penalty, as in penalty 10m after 3 extended"),
        (
            "5000000000/s",
            "the rate is too high to be counted exactly; it must be at most 2.2e9 units per second",
        ),
    ];
    for (text, reason) in slips {
        let error = text.parse::<Policy>().expect_err(text);
        assert_eq!(error.to_string(), format!("in policy {text:?}: {reason}"));
    }
}

#[test]
fn a_number_or_period_that_is_not_understood_is_told_with_what_to_write() {
    let number = "write a number in digits, as in 10000, 10_000 or 10k";
    let period = "write a number and one of ns us ms s m h d w, as in 250ms, 10s, 15m, 3h or d";
    for (text, found, accepted) in [
        ("10 per fortnight", r#"period "fortnight""#, period),
        ("10 per", r#"period """#, period),
        ("gcra ten/s", r#"count "ten""#, number),
        ("gcra -1/s", r#"count "-1""#, number),
        ("gcra 1e3/s", r#"count "1e3""#, number),
        ("1-000/s", r#"count "1-000""#, number),
        ("1__000/s", r#"count "1__000""#, number),
        ("1,5/s", r#"count "1,5""#, number),
        ("1m/day", r#"count "1m""#, number),
        (".5/s", r#"count ".5""#, number),
        ("5r/s", r#"count "5r""#, number),
        ("10/60", r#"period "60""#, period),
        ("10/1h30", r#"period "1h30""#, period),
        ("10/1m1h", r#"period "1m1h""#, period),
        ("10/1hm", r#"period "1hm""#, period),
        ("10/ms", r#"period "ms""#, period),
        ("10,000/m", r#"count "10,000""#, number),
        ("calendar-month ten", r#"count "ten""#, number),
        ("10/m count-denied 30", r#"wait of count-denied "30""#, period),
        ("10/m penalty 10m after three", r#"the number of denials "three""#, number),
    ] {
        let error = text.parse::<Policy>().expect_err(text).to_string();
        assert_eq!(error, format!("in policy {text:?}: {found} is not understood; {accepted}"));
    }
}

#[test]
fn a_bad_number_in_code_is_told_where_it_stands() {
    static PLACES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |place| place.file().to_owned());
        PLACES.lock().expect("no panic within").push(place);
    }));
    let bad: [fn() -> Quota; 6] = [
        || Quota::per(0, std::time::Duration::from_secs(1)),
        || Quota::per_second(0),
        || Quota::per_minute(0),
        || Quota::per_hour(0),
        || Quota::per_day(0),
        || Quota::per_second(1).burst(0),
    ];
    for bad in bad {
        assert!(catch_unwind(bad).is_err());
    }
    drop(std::panic::take_hook());
    assert_eq!(*PLACES.lock().expect("no panic within"), [file!(); 6]);
}
