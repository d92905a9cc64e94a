//! `tollgate simulate`: exact tables, decisions equal to those of the reference model, bad inputs.

use crate::common::{Run, Scratch, assert_prints, assert_refused, assert_refused_with};
use crate::svg::{ADMITTED, REFUSED};
use tollgate_oracle::{Algorithm, Oracle, Rounding, Verdict};

/// The colour of requests as they came.
const CAME: &str = "#59636E";

const SECOND_NS: u64 = 1_000_000_000;

const POLICIES: [(&str, Algorithm); 4] = [
    (
        "gcra 10/s burst 5",
        Algorithm::Gcra { count: 10, period_ns: SECOND_NS, burst: 5, tick: None },
    ),
    ("fixed-window 10/s", Algorithm::FixedWindow { limit: 10, window_ns: SECOND_NS }),
    (
        "sliding-window 10/s",
        Algorithm::SlidingWindow { limit: 10, window_ns: SECOND_NS, rounding: Rounding::Down },
    ),
    (
        "segmented-window 10/s x5",
        Algorithm::SegmentedWindow { limit: 10, window_ns: SECOND_NS, segments: 5 },
    ),
];

fn simulate(scratch: &Scratch, args: &[&str]) -> Run {
    let policies = POLICIES.iter().flat_map(|(policy, _)| ["--policy", policy]);
    let args: Vec<_> =
        ["simulate"].into_iter().chain(args.iter().copied()).chain(policies).collect();
    scratch.run(&args)
}

/// Converts a decimal number of seconds into nanoseconds.
fn nanos(seconds: &str) -> u64 {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let whole: u64 = whole.parse().expect("a number");
    whole * SECOND_NS + format!("{fraction:0<9}").parse::<u64>().expect("a number")
}

#[test]
fn the_classic_patterns_have_their_known_counts() {
    let scratch = Scratch::new("classic_patterns");
    assert_prints(&simulate(&scratch, &["--pattern", "boundary"]), BOUNDARY);
    assert_prints(&simulate(&scratch, &["--pattern", "uniform", "--for", "5s"]), UNIFORM);
    assert_prints(
        &simulate(&scratch, &["--pattern", "burst", "--burst", "20", "--for", "10s"]),
        BURST,
    );
    assert_prints(
        &simulate(&scratch, &["--pattern", "on-off", "--rate", "40/s", "--for", "6s"]),
        ON_OFF,
    );
    let poisson = ["--pattern", "poisson", "--rate", "12/s", "--for", "100s", "--seed", "7"];
    assert_prints(&simulate(&scratch, &poisson), POISSON);
}

#[test]
fn every_decision_is_the_reference_models() {
    let scratch = Scratch::new("reference_decisions");
    for pattern in ["uniform", "burst", "boundary", "poisson", "on-off"] {
        let run = simulate(&scratch, &["--pattern", pattern, "--rate", "17/s", "--csv", "out.csv"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
        let csv = scratch.read("out.csv");
        let mut lines = csv.lines();
        assert_eq!(lines.next(), Some("policy,time_s,admitted,remaining,retry_after_s"));
        let mut oracles: Vec<_> = POLICIES.iter().map(|(_, of)| Oracle::new(*of)).collect();
        let mut decisions = 0;
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let lane =
                POLICIES.iter().position(|(policy, _)| *policy == fields[0]).expect("a policy");
            let oracle = &mut oracles[lane];
            let now = nanos(fields[1]);
            let verdict = oracle.check(now, 1);
            assert_eq!(fields[2] == "true", verdict == Verdict::Allowed, "{pattern}: {line}");
            let wait = match verdict {
                Verdict::Allowed => String::new(),
                Verdict::Denied | Verdict::Never => {
                    oracle.retry_after(now, 1).expect("a unit fits").to_string()
                }
            };
            let told =
                if fields[4].is_empty() { String::new() } else { nanos(fields[4]).to_string() };
            assert_eq!(told, wait, "{pattern}: {line}");
            assert_eq!(fields[3], oracle.remaining(now).to_string(), "{pattern}: {line}");
            decisions += 1;
        }
        assert!(decisions >= 4 * 20, "{pattern}: {decisions}");
    }
}

#[test]
fn times_of_a_file_are_decided_in_seconds_or_by_the_calendar() {
    let scratch = Scratch::new("times_of_a_file");
    scratch.file("a.csv", "time,what\n0,a\n0.25\n\n 0.5 , b\n2,\n");
    let args = ["simulate", "--times", "a.csv", "--policy", "fixed-window 2/s", "--csv", "out.csv"];
    let run = scratch.run(&args);
    assert_prints(
        &run,
        "\
times of a.csv: 4 requests from 0s to 2s

policy            admitted  refused  share refused  most in a period  longest wait  longest pause
fixed-window 2/s         3        1        25.00 %                 2         500ms       1s 750ms
",
    );
    assert_eq!(
        scratch.read("out.csv"),
        "policy,time_s,admitted,remaining,retry_after_s\n\
         fixed-window 2/s,0,true,1,\n\
         fixed-window 2/s,0.25,true,0,\n\
         fixed-window 2/s,0.5,false,0,0.5\n\
         fixed-window 2/s,2,true,1,\n"
    );
    let dates = b"2015-05-17T10:59:59Z\n2015-05-17T11:00:00Z\n";
    let args = ["simulate", "--times", "-", "--policy", "fixed-window 1/h", "--svg", "o.svg"];
    let run = scratch.run_from(&args, dates);
    assert!(run.out.contains("\nfixed-window 1/h         2        0 "), "{run:?}");
    let texts = crate::svg::texts(&scratch.read("o.svg"));
    assert!(texts.iter().any(|text| text == "11:00:00"), "{texts:?}");
}

#[test]
fn a_picture_has_a_lane_for_each_policy() {
    let scratch = Scratch::new("simulated_picture");
    let run = simulate(&scratch, &["--pattern", "boundary", "--svg", "out.svg"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let drawn = scratch.read("out.svg");
    crate::svg::assert_legible(&drawn);
    crate::svg::assert_has_dark_colours(&drawn);
    let texts = crate::svg::texts(&drawn);
    for text in [
        "10 before and 10 after 1s",
        "fixed-window 10/s",
        "admitted 20, refused 0; at most 20 in 1s",
        "admitted 10, refused 10; at most 10 in 1s",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text:?} is not in {texts:?}");
    }
    // Each lane has one curve of this width: its limit.
    assert_eq!(crate::svg::curves(&drawn), 4);
    // There are marks of refusals, ten columns in the two lanes that refuse ten requests, and the legend.
    assert!(
        crate::svg::rectangles(&drawn, REFUSED) > 10
            && crate::svg::rectangles(&drawn, ADMITTED) > 50
    );
}

/// Ten requests at once: the queue lets them go one by one, and is drawn at the scale of the lane below it.
#[test]
fn lanes_have_one_scale_and_tell_arrivals_from_departures() {
    let scratch = Scratch::new("lanes_of_one_scale");
    scratch.file("times", "0\n".repeat(10) + "5\n");
    let args = ["simulate", "--times", "times", "--svg", "out.svg"];
    let policies = ["--policy", "2/s burst 1 queue 20", "--policy", "leaky-bucket 20/s hard"];
    assert_eq!(scratch.run(&[&args[..], &policies].concat()).code, Some(0));
    let drawn = scratch.read("out.svg");
    crate::svg::assert_legible(&drawn);
    let texts = crate::svg::texts(&drawn);
    assert_eq!(texts.iter().filter(|text| *text == "20").count(), 2, "{texts:?}");
    // In each of the two lanes requests come at two instants. The legend has one more mark.
    assert_eq!(crate::svg::rectangles(&drawn, CAME), 2 * 2 + 1);
    // The lane of the queue alone has ten departures, half a second apart, so there are more rectangles than for the
    // two instants of arrival.
    assert!(crate::svg::rectangles(&drawn, ADMITTED) > 10 + 2);
}

#[test]
fn a_picture_of_a_million_requests_is_no_larger() {
    let scratch = Scratch::new("large_picture");
    let args = ["simulate", "--pattern", "uniform", "--rate", "100000/s", "--for", "10s"];
    let run =
        scratch.run(&[&args[..], &["--policy", "50000/s burst 100", "--svg", "o.svg"]].concat());
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    assert!(run.out.contains("1,000,000 requests from 0s to 9.99999s"), "{}", run.out);
    assert!(scratch.read("o.svg").len() < 400_000);
}

#[test]
fn one_request_is_a_table_and_a_picture() {
    let scratch = Scratch::new("one_request");
    let args = ["simulate", "--times", "-", "--policy", "10/s", "--svg", "o.svg"];
    let run = scratch.run_from(&args, b"5");
    assert!(run.out.starts_with("times of -: 1 requests from 5s to 5s\n"), "{run:?}");
    crate::svg::assert_legible(&scratch.read("o.svg"));
}

const NO_TIMES: &str = "no times in -; give one per line, in seconds or as dates, such as 0.25";
const TOO_MANY: &str =
    "more than 1,000,000 requests; take a lower --rate, a shorter --for or fewer times";

#[test]
fn times_that_cannot_be_are_refused_with_their_line() {
    let scratch = Scratch::new("bad_times");
    for (times, says) in [
        ("", NO_TIMES),
        ("time\n", NO_TIMES),
        ("0\n1\n0.5\n", "-:3: time 0.5 is before 1 of the line above; sort the times"),
        (
            "time\n0\nsoon\n",
            "-:3: \"soon\" is no time; expected 17/May/2015:10:05:03 +0000, 2015-05-17T10:05:03Z or a Unix time",
        ),
        ("0\n-1\n", "-:2: the time \"-1\" is outside the years 1970 to 2099"),
        (&"0\n".repeat(1_000_001), TOO_MANY),
        (&format!("0,{}\n1\n", "x".repeat(65_000_000)), TOO_MANY),
    ] {
        let args = ["simulate", "--times", "-", "--policy", "10/s"];
        let run = scratch.run_from(&args, times.as_bytes());
        assert_refused(&run, &format!("tollgate: {says}\n"));
    }
}

#[test]
fn traffic_that_cannot_be_made_is_refused() {
    let scratch = Scratch::new("bad_traffic");
    for (traffic, says) in [
        ("uniform --rate 1000000/s", TOO_MANY),
        ("poisson --rate 1000000/s", TOO_MANY),
        ("boundary --burst 18446744073709551615", TOO_MANY),
        ("burst --burst 18446744073709551615", TOO_MANY),
        ("uniform --for 0s", "--for is 0; it must be at least 1ns, as in 10s"),
        ("on-off --on 0s", "--on is 0; it must be at least 1ns, as in 10s"),
        (
            "uniform --rate 1/d --for 2000000h",
            "the traffic would end after more than 26,687 days; take shorter spans",
        ),
        (
            "poisson --rate 1/d --for 1ns",
            "no request falls into --for; take a longer one, or a higher --rate",
        ),
    ] {
        println!("{traffic}");
        let args: Vec<&str> = traffic.split(' ').collect();
        let run =
            scratch.run(&[&["simulate", "--policy", "10/s", "--pattern"], &args[..]].concat());
        assert_refused(&run, &format!("tollgate: {says}\n"));
    }
}

#[test]
fn options_that_cannot_work_are_refused() {
    let scratch = Scratch::new("bad_simulate_options");
    for (args, says) in [
        (&["--policy", "10/s"][..], "--pattern <PATTERN>"),
        (&["--pattern", "uniform"], "--policy <POLICY>"),
        (
            &["--pattern", "square", "--policy", "10/s"],
            "[possible values: uniform, burst, boundary, poisson, on-off]",
        ),
        (&["--pattern", "uniform", "--times", "a", "--policy", "10/s"], "cannot be used with"),
        (
            &["--pattern", "uniform", "--policy", "10/s", "--rate", "10/s burst 2"],
            "a rate takes no burst",
        ),
        (&["--pattern", "uniform", "--policy", "10/s", "--rate", "ten"], "ten"),
        (
            &["--pattern", "uniform", "--policy", "10/s and"],
            "; several limits are written as in \"10/s burst 5 and 100/m\"",
        ),
        (
            &["--pattern", "uniform", "--policy", "10/s queue 5 and 100/m"],
            "a request of several limits cannot wait in the queue of one of them",
        ),
        (&["--pattern", "uniform", "--policy", "10/s", "--json", "--live"], "cannot be used with"),
        (&["--pattern", "burst", "--policy", "10/s", "--burst", "0"], "0 is not in 1.."),
        (&["--pattern", "uniform", "--policy", "10/s", "--for", "ten"], "expected a span of time"),
    ] {
        assert_refused_with(&scratch.run(&[&["simulate"], args].concat()), says);
    }
}

#[test]
fn times_are_not_overwritten() {
    let scratch = Scratch::new("times_kept");
    scratch.file("a.csv", "0\n1\n");
    for option in ["--csv", "--svg"] {
        let args = ["simulate", "--times", "a.csv", "--policy", "10/s", option, "a.csv"];
        assert_refused(
            &scratch.run(&args),
            "tollgate: a.csv is to be read and to be written, and would be lost; give another file to write\n",
        );
    }
    assert_eq!(scratch.read("a.csv"), "0\n1\n");
}

const BOUNDARY: &str = "\
10 before and 10 after 1s: 20 requests from 0.9s to 1.09s

policy                    admitted  refused  share refused  most in a period  longest wait  longest pause
gcra 10/s burst 5                6       14        70.00 %                 6          90ms           60ms
fixed-window 10/s               20        0         0.00 %                20            0s           10ms
sliding-window 10/s             11        9        45.00 %                11          81ms           20ms
segmented-window 10/s x5        10       10        50.00 %                10         800ms           10ms
";

const UNIFORM: &str = "\
uniform, 20 per 1s: 100 requests from 0s to 4.95s

policy                    admitted  refused  share refused  most in a period  longest wait  longest pause
gcra 10/s burst 5               54       46        46.00 %                14          50ms          100ms
fixed-window 10/s               50       50        50.00 %                10         500ms          550ms
sliding-window 10/s             50       50        50.00 %                10         501ms          600ms
segmented-window 10/s x5        50       50        50.00 %                10         500ms          550ms
";

const BURST: &str = "\
bursts of 20, 20 per 1s: 200 requests from 0s to 9s

policy                    admitted  refused  share refused  most in a period  longest wait  longest pause
gcra 10/s burst 5               50      150        75.00 %                 5         100ms             1s
fixed-window 10/s              100      100        50.00 %                10            1s             1s
sliding-window 10/s             50      150        75.00 %                10        1s 1ms             2s
segmented-window 10/s x5       100      100        50.00 %                10            1s             1s
";

const ON_OFF: &str = "\
40 per 1s for 1s, then none for 1s: 120 requests from 0s to 4.975s

policy                    admitted  refused  share refused  most in a period  longest wait  longest pause
gcra 10/s burst 5               42       78        65.00 %                14          75ms       1s 100ms
fixed-window 10/s               30       90        75.00 %                10         750ms       1s 775ms
sliding-window 10/s             30       90        75.00 %                10         751ms       1s 775ms
segmented-window 10/s x5        30       90        75.00 %                10         750ms       1s 775ms
";

const POISSON: &str = "\
poisson, 12 per 1s, seed 7: 1,217 requests from 0.012709368s to 99.927731699s

policy                    admitted  refused  share refused  most in a period  longest wait  longest pause
gcra 10/s burst 5              968      249        20.46 %                14          97ms          559ms
fixed-window 10/s              947      270        22.19 %                18         633ms          748ms
sliding-window 10/s            890      327        26.87 %                14         218ms          559ms
segmented-window 10/s x5       890      327        26.87 %                14         491ms          626ms
";
