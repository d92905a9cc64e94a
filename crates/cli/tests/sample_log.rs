//! `examples/access.log` equals the output of its generator, and its reports equal the results of the exact reference
//! model.

#[path = "../examples/generate_log.rs"]
mod generate_log;

use std::collections::HashMap;

use crate::common::{Scratch, admitted};
use jiff::fmt::strtime;
use tollgate_oracle::{Algorithm, Oracle, Rounding, Verdict};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/access.log");

const MINUTE_NS: u64 = 60_000_000_000;

const POLICIES: [(&str, Algorithm); 4] = [
    (
        "gcra 10/m burst 5",
        Algorithm::Gcra { count: 10, period_ns: MINUTE_NS, burst: 5, tick: None },
    ),
    ("fixed-window 10/m", Algorithm::FixedWindow { limit: 10, window_ns: MINUTE_NS }),
    (
        "sliding-window 10/m",
        Algorithm::SlidingWindow { limit: 10, window_ns: MINUTE_NS, rounding: Rounding::Down },
    ),
    (
        "segmented-window 10/m x6",
        Algorithm::SegmentedWindow { limit: 10, window_ns: MINUTE_NS, segments: 6 },
    ),
];

/// Client and time of each line, in the order of time, parsed in the simplest way.
fn requests(log: &str) -> Vec<(u64, &str)> {
    let mut requests: Vec<_> = log
        .lines()
        .map(|line| {
            let (client, rest) = line.split_once(' ').expect("a client");
            let time = rest.split(['[', ']']).nth(1).expect("a time");
            let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).expect("a time in this form");
            let nanos = time.to_timestamp().expect("an instant").as_nanosecond();
            (u64::try_from(nanos).expect("after 1970"), client)
        })
        .collect();
    requests.sort_by_key(|(nanos, _)| *nanos);
    requests
}

/// Returns the number of requests that the reference model admits, with each client by itself.
fn oracle_admits(algorithm: Algorithm, requests: &[(u64, &str)]) -> u64 {
    let mut oracles: HashMap<&str, Oracle> = HashMap::new();
    let mut admitted = 0;
    for &(nanos, client) in requests {
        let oracle = oracles.entry(client).or_insert_with(|| Oracle::new(algorithm));
        admitted += u64::from(oracle.check(nanos, 1) == Verdict::Allowed);
    }
    admitted
}

#[test]
fn the_committed_log_is_what_its_generator_writes() {
    let committed = std::fs::read_to_string(SAMPLE).expect("the sample is committed");
    assert!(committed == generate_log::generate(), "write it again: see generate_log.rs");
}

#[test]
fn the_sample_has_documentation_addresses_only_and_is_out_of_order() {
    let committed = std::fs::read_to_string(SAMPLE).expect("the sample is committed");
    let set_aside = ["192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:"];
    assert!(committed.lines().all(|line| set_aside.iter().any(|range| line.starts_with(range))));
    assert!(committed.len() < 400_000);
    let times: Vec<_> = committed.lines().map(|line| line.split('[').nth(1)).collect();
    assert!(!times.is_sorted());
}

#[test]
fn four_policies_admit_what_the_reference_model_admits() {
    let log = std::fs::read_to_string(SAMPLE).expect("the sample is committed");
    let requests = requests(&log);
    let policies = POLICIES.iter().flat_map(|(policy, _)| ["--policy", policy]);
    let args: Vec<_> = [SAMPLE, "--json"].into_iter().chain(policies).collect();
    let run = Scratch::new("reference_model").replay(&args);
    let expected: Vec<_> =
        POLICIES.iter().map(|(_, algorithm)| oracle_admits(*algorithm, &requests)).collect();
    assert_eq!(admitted(&run.out), expected);
    assert_eq!(expected, [1_822, 2_147, 2_095, 2_081]);
}

#[test]
fn a_rule_admits_what_the_policy_of_its_window_admits() {
    let scratch = Scratch::new("rules_as_policy");
    let rules = "domain: d\ndescriptors:\n  - key: ip\n    \
                 rate_limit: {unit: minute, requests_per_unit: 10}\n";
    scratch.file("rules.yaml", rules);
    let args = ["--rules", "rules.yaml", "--json", "--descriptor", "ip={ip}"];
    let by_rule = scratch.replay(&[&[SAMPLE][..], &args].concat());
    let of_policy = scratch.replay(&[SAMPLE, "--json", "--policy", "fixed-window 10/m"]);
    assert_eq!(admitted(&of_policy.out), [2_147]);
    assert_eq!(by_rule.out.matches("\"admitted\":2147,").count(), 2, "{}", by_rule.out);
}
