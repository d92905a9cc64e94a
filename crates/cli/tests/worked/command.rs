//! The commands `replay` and `simulate`, which are run as a user would.

use tollgate_oracle::WorkedExample;

use crate::common::{Scratch, admitted};
use crate::decided::{self, by_beginnings};
use crate::in_process::{letters, rule_file};

/// Makes an empty directory for one run. Two examples may get the same one, but they run one after the other.
fn scratch(command: &str, example: &WorkedExample, policies: &[&str]) -> Scratch {
    let is_word = |letter: char| letter.is_ascii_alphanumeric();
    let name = format!("{command} {policies:?} {}", example.requests.len());
    Scratch::new(&format!("worked_{}", name.replace(|letter| !is_word(letter), "_")))
}

/// Returns a time in the log. Time 0 of an example is midnight, at which every aligned window begins.
fn time(now_ns: u64) -> String {
    let (seconds, nanos) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
    let (day, second) = (14 + seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("2025-10-{day}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// The log is replayed up to each place where decisions change.
pub(crate) fn replay(example: &WorkedExample, policies: &[&str]) -> String {
    let scratch = scratch("replay", example, policies);
    scratch.file("rules.yaml", rule_file(policies_of_rules(policies)));
    let lines: Vec<_> = example
        .asked()
        .iter()
        .map(|(now_ns, _)| format!("{{\"ts\":\"{}\",\"ip\":\"192.0.2.1\"}}\n", time(*now_ns)))
        .collect();
    let expected = example.expected().into_bytes();
    let turns = (1..lines.len()).filter(|n| expected[*n] != expected[*n - 1]);
    let decided = by_beginnings(turns.chain([lines.len()]), |upto| {
        scratch.file("access.jsonl", lines[..upto].concat());
        Ok(match policies {
            [policy] => {
                let run = scratch.replay(&["access.jsonl", "--policy", policy, "--json"]);
                assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{policy}");
                admitted(&run.out)[0]
            }
            several => of_rules(&scratch, several),
        })
    });
    letters(&decided.unwrap())
}

/// Several policies are replayed as rules, which charge each line to all of them or to none.
fn policies_of_rules<'a>(policies: &'a [&'a str]) -> &'a [&'a str] {
    if policies.len() > 1 { policies } else { &[] }
}

fn of_rules(scratch: &Scratch, policies: &[&str]) -> u64 {
    let descriptors = (0..policies.len()).map(|n| format!("--descriptor=p{n}={{ip}}"));
    let descriptors: Vec<_> = descriptors.collect();
    let mut arguments = vec!["access.jsonl", "--rules", "rules.yaml", "--json"];
    arguments.extend(descriptors.iter().map(String::as_str));
    let run = scratch.replay(&arguments);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{policies:?}");
    let report = run.json();
    assert_eq!(report["rules"][0]["rule"], "all rules");
    report["rules"][0]["admitted"].as_u64().unwrap()
}

pub(crate) fn simulate(example: &WorkedExample, policies: &[&str]) -> String {
    let scratch = scratch("simulate", example, policies);
    letters(&decided::simulate(&scratch, &example.asked(), policies[0]).unwrap())
}
