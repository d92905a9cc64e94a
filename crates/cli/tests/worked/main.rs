//! The textbooks' examples of `crates/oracle/src/worked.txt`, decided at every layer. Each layer is given the same
//! requests at the same times, and must admit and deny the same of them.
//!
//! Only the tests of its own crate can set the time of the script in Redis, so the same table is decided there.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../features/cells.rs"]
#[allow(dead_code, reason = "its tables are for another page")]
mod cells;
mod command;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/connection.rs"]
mod connection;
#[path = "../common/decided.rs"]
mod decided;
mod in_process;
#[path = "../common/processes.rs"]
mod processes;
mod served;

use std::collections::BTreeMap;

use cells::Elsewhere;
use in_process::letters;
use tollgate_oracle::{WorkedExample, worked_examples};

/// A function that decides an example's requests under these policies, and returns a string of A and D.
type Decide<'a> = Box<dyn FnMut(&WorkedExample, &[&str]) -> String + 'a>;

/// A layer that decides examples, and the reasons why it cannot decide some of them.
struct Layer<'a> {
    name: &'static str,
    lacks: fn(&WorkedExample) -> Option<&'static str>,
    decide: Decide<'a>,
}

const ONE_UNIT: &str = "It reads requests of one unit: each is a line of a log, or a time.";
const ONE_POLICY: &str = "It compares policies: each of them decides all requests by itself.";

/// The test in which the script in Redis decides the table.
const SCRIPT: Elsewhere = Elsewhere::Test(
    "crates/redis/src/conformance/vectors.rs",
    "the_script_decides_the_worked_examples_as_they_say",
);

fn everything(_: &WorkedExample) -> Option<&'static str> {
    None
}

fn without_costs(example: &WorkedExample) -> Option<&'static str> {
    example.has_costs().then_some(ONE_UNIT)
}

fn without_costs_of_one_policy(example: &WorkedExample) -> Option<&'static str> {
    without_costs(example).or((example.policies.len() > 1).then_some(ONE_POLICY))
}

fn layers<'a>(rules: &'a in_process::Rules, service: &'a served::Service) -> [Layer<'a>; 7] {
    let layer = |name, lacks, decide: Decide<'a>| Layer { name, lacks, decide };
    [
        layer(
            "`Limiter`",
            everything,
            Box::new(|example, of| letters(&decided::limiter(&example.asked(), of))),
        ),
        layer(
            "`KeyedLimiter`",
            everything,
            Box::new(|example, of| letters(&decided::keyed(&example.asked(), of).unwrap())),
        ),
        layer("replay", without_costs, Box::new(command::replay)),
        layer("simulate", without_costs_of_one_policy, Box::new(command::simulate)),
        layer(
            "middleware",
            everything,
            Box::new(|example, of| letters(&decided::middleware(&example.asked(), of))),
        ),
        layer("rules", everything, Box::new(|example, of| rules.decide(example, of))),
        layer("service", everything, Box::new(|example, of| service.decide(example, of))),
    ]
}

/// A policy with one unit more than that of the first example, for the control.
const ONE_MORE: &str = "fixed-window 4/60s";

/// Returns all policies of the examples, and the policy of the control.
fn policies() -> Vec<&'static str> {
    let of_examples = worked_examples().into_iter().flat_map(|example| example.policies);
    let mut policies: Vec<_> = of_examples.chain([ONE_MORE]).collect();
    policies.sort_unstable();
    policies.dedup();
    policies
}

#[test]
fn every_layer_decides_the_worked_examples_as_they_say() {
    let (rules, service) = (in_process::Rules::of(&policies()), served::Service::of(&policies()));
    let mut left_out = BTreeMap::new();
    let mut layers = layers(&rules, &service);
    for example in worked_examples() {
        let expected = example.expected();
        for layer in &mut layers {
            match (layer.lacks)(&example) {
                Some(why) => *left_out.entry((layer.name, why)).or_insert(0) += 1,
                None => {
                    let decided = (layer.decide)(&example, &example.policies);
                    assert_eq!(decided, expected, "{}: {example:?}", layer.name);
                }
            }
        }
    }
    assert_eq!(SCRIPT.missing(), None);
    // These are the only examples that are left out.
    let expected =
        [(("replay", ONE_UNIT), 13), (("simulate", ONE_POLICY), 1), (("simulate", ONE_UNIT), 13)];
    assert_eq!(left_out, BTreeMap::from(expected));
}

#[test]
fn a_layer_that_admits_one_unit_more_is_caught() {
    let (rules, service) = (in_process::Rules::of(&policies()), served::Service::of(&policies()));
    let first = &worked_examples()[0];
    for mut layer in layers(&rules, &service) {
        assert_eq!((layer.decide)(first, &[ONE_MORE]), "AAAAAAA", "{}", layer.name);
    }
    assert_ne!(first.expected(), "AAAAAAA");
}
