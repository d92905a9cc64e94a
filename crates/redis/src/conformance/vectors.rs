//! The textbook examples of decisions that are in the core's `tests/worked_examples.rs`, too.

use super::{TimedScript, ask, plan, server::Server};
use crate::script::{ScriptVerb, Units};

/// Times such as `"0:05 1:01.5"`, in minutes and seconds, as microseconds; `"0:05*3"` is one three times.
fn times(text: &str) -> Vec<u64> {
    let instant = |time: &str| {
        let (minutes, seconds) = time.split_once(':').unwrap();
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let micros: u64 = format!("{fraction:0<6}").parse().unwrap();
        (minutes.parse::<u64>().unwrap() * 60 + whole.parse::<u64>().unwrap()) * 1_000_000 + micros
    };
    text.split_whitespace()
        .flat_map(|time| {
            let (time, count) = time.split_once('*').unwrap_or((time, "1"));
            vec![instant(time); count.parse().unwrap()]
        })
        .collect()
}

fn every(start_us: u64, step_us: u64, count: u64) -> Vec<u64> {
    (0..count).map(|n| start_us + n * step_us).collect()
}

/// Decisions as a string of A and D.
fn decisions(told: &mut TimedScript, policy: &str, requests: &[(u64, u64)]) -> String {
    let key = format!("{policy} {requests:?}");
    let plan = plan(policy);
    let calls: Vec<_> = requests
        .iter()
        .map(|&(now_us, cost)| {
            (now_us, vec![ask(ScriptVerb::Check, &key, &plan, Units::exactly(cost))])
        })
        .collect();
    let letter =
        |reply: &Vec<crate::script::ScriptReply>| if reply[0].admitted { 'A' } else { 'D' };
    told.calls(&calls).iter().map(letter).collect()
}

#[test]
fn the_script_decides_the_worked_examples_as_they_say() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
    let seven = "0:05 0:15 1:01 1:10 1:40 1:50 2:20";
    let examples = [
        ("fixed-window 3/60s", seven, "AAAAADA"),
        ("fixed-window 5/1s from-first", "0:00 0:00.9*5 0:01*6", "AAAAADAAAAAD"),
        ("fixed-window 5/1s", "0:00.999*5 0:01*6", "AAAAAAAAAAD"),
        ("fixed-window 5/1s", "0:00*9", "AAAAADDDD"),
        ("fixed-window 3/600ms", "0:00*9", "AAADDDDDD"),
        ("spaced 5/s", "0:00 0:00.1 0:00.2 0:00.3 0:00.41", "ADADA"),
        ("sliding-window 3/60s", "0:05 0:15 1:01 1:10 1:40 1:50 2:20 2:20", "AAAAADAD"),
        ("sliding-window 3/60s", "0:05 0:15 1:01 1:10 1:40 1:50 2:20 2:21", "AAAAADAA"),
        ("sliding-window 3/60s exact", "0:05 0:15 1:01 1:10 1:40 1:50 2:20 2:29.999", "AAADADAD"),
        ("sliding-window 3/60s exact", "0:05 0:15 1:01 1:10 1:40 1:50 2:20 2:30", "AAADADAA"),
        ("segmented-window 3/60s x4", seven, "AAAAADA"),
        ("fixed-window 3/1m from-first", "0:00 0:05 0:05 0:59 1:00", "AAADA"),
        ("gcra 3/m", "1:00*3 1:20 1:40 2:00", "AAAAAA"),
        ("gcra 3/m", seven, "AAAAAAA"),
        ("fixed-window 5/m", "0:01*6", "AAAAAD"),
        ("fixed-window 3/60s", "0:59*3 1:00*3", "AAAAAA"),
        ("fixed-window 3/60s from-first", "599:25*3 600:24.999 600:25", "AAADA"),
        ("segmented-window 3/60s x4", "0:14*3 0:59 1:00*4", "AAADAAAD"),
        ("sliding-window 3/60s", "0:59*3 1:41*4", "AAAAAAD"),
        ("sliding-window 3/60s exact", "0:59*3 1:41*4", "AAAAADD"),
        ("sliding-log 3/60s", seven, "AAAAADA"),
        ("sliding-log 3/60s", "0:59*3 1:41*4 1:58.999999 1:59*4", "AAADDDDDAAAD"),
        ("sliding-log 5/1s", "0:00.999*5 0:01*6 0:01.998999 0:01.999", "AAAAADDDDDDDA"),
    ];
    for (policy, text, expected) in examples {
        let requests: Vec<_> = times(text).into_iter().map(|now_us| (now_us, 1)).collect();
        assert_eq!(decisions(&mut told, policy, &requests), expected, "{policy} at {text}");
    }
}

#[test]
fn example_18_gcra_without_tolerance_in_microseconds() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
    let requests = [0, 9, 10, 20, 29, 30, 35, 40].map(|now_us| (now_us, 1));
    assert_eq!(decisions(&mut told, "gcra 1/10us", &requests), "ADAADADA");
}

#[test]
fn example_24_and_25_costs_share_a_quota_and_a_denied_one_spends_nothing() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
    let costs = [1, 1, 1, 1, 2, 2, 2, 1].map(|cost| (0, cost));
    assert_eq!(decisions(&mut told, "gcra 10/m", &costs), "AAAAAAAD");
    for policy in [
        "gcra 10/m",
        "leaky-bucket 10/m soft",
        "leaky-bucket 10/m hard",
        "fixed-window 10/m",
        "fixed-window 10/m from-first",
        "sliding-window 10/m exact",
        "sliding-window 10/m",
        "sliding-window 10/m strict",
        "segmented-window 10/m x6",
        "sliding-log 10/m",
    ] {
        let requests = [(7, 8), (7, 5), (7, 2), (7, 1), (7, 11), (7, u64::MAX)];
        assert_eq!(decisions(&mut told, policy, &requests), "ADADDD", "{policy}");
    }
}

#[test]
fn example_32_one_request_every_tenth_of_a_second_against_five_per_second() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
    let offered: Vec<_> = every(0, 100_000, 30).into_iter().map(|now_us| (now_us, 1)).collect();
    let expected = [
        ("fixed-window 5/s", "AAAAADDDDD AAAAADDDDD AAAAADDDDD"),
        ("fixed-window 5/s from-first", "AAAAADDDDD AAAAADDDDD AAAAADDDDD"),
        ("segmented-window 5/s x5", "AAAAADDDDD AAAAADDDDD AAAAADDDDD"),
        ("spaced 5/s", "ADADADADAD ADADADADAD ADADADADAD"),
        ("leaky-bucket 5/s soft", "AAAAAAAAAD ADADADADAD ADADADADAD"),
        ("leaky-bucket 5/s hard", "AAAAADDDDD ADDDDDDDDD ADDDDDDDDD"),
        ("sliding-window 5/s exact", "AAAAADDDDD DDADADADAD ADDADADDAD"),
        ("sliding-window 5/s", "AAAAADDDDD DADADADADA DADADADADA"),
        ("sliding-window 5/s strict", "AAAAADDDDD DDDDDDDDDD AAAAADDDDD"),
        ("sliding-log 5/s", "AAAAADDDDD AAAAADDDDD AAAAADDDDD"),
    ];
    for (policy, pattern) in expected {
        assert_eq!(decisions(&mut told, policy, &offered), pattern.replace(' ', ""), "{policy}");
    }
}
