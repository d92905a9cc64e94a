//! `docs/worked-examples.md`: the textbooks' examples, decided at every layer. Each layer is given the same requests at
//! the same times, and must admit and deny the same of them.
//!
//! Only the tests of its own crate can set the time of the script in Redis, so the same table is decided there.
//!
//! With `TOLLGATE_BLESS` in the environment the run writes the page.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../features/cells.rs"]
#[allow(dead_code, reason = "its tables are for another page")]
mod cells;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod in_process;
#[path = "../common/pages.rs"]
mod pages;
mod served;

use cells::{Elsewhere, wrapped};
use tollgate_oracle::{WorkedExample, worked_examples};

/// A function that decides an example's requests under these policies, and returns a string of A and D.
type Decide<'a> = Box<dyn FnMut(&WorkedExample, &[&str]) -> String + 'a>;

/// A place that decides examples, and the reason why it does not have all of them.
struct Layer<'a> {
    name: &'static str,
    lacks: fn(&WorkedExample) -> Option<&'static str>,
    decide: Decide<'a>,
}

const ONE_UNIT: &str = "It reads requests of one unit: each is a line of a log, or a time.";
const ONE_POLICY: &str = "It compares policies: each of them decides all requests by itself.";
const NO_TURN: &str = "The script keeps no queue, and a rule that has one is refused over Redis.";

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

fn without_turns(example: &WorkedExample) -> Option<&'static str> {
    example.waits().then_some(NO_TURN)
}

fn layers<'a>(rules: &'a in_process::Rules, service: &'a served::Service) -> [Layer<'a>; 7] {
    let layer = |name, lacks, decide: Decide<'a>| Layer { name, lacks, decide };
    [
        layer("`Limiter`", everything, Box::new(in_process::one)),
        layer("`KeyedLimiter`", everything, Box::new(in_process::keyed)),
        layer("replay", without_costs, Box::new(command::replay)),
        layer("simulate", without_costs_of_one_policy, Box::new(command::simulate)),
        layer("middleware", everything, Box::new(in_process::middleware)),
        layer("rules", everything, Box::new(|example, of| rules.decide(example, of))),
        layer("service", everything, Box::new(|example, of| service.decide(example, of))),
    ]
}

/// A policy with one unit more than that of the first example, for the control.
const ONE_MORE: &str = "fixed-window 4/60s";

/// All policies of the examples, and the policy of the control.
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
    let mut page = Page::default();
    let mut layers = layers(&rules, &service);
    for example in worked_examples() {
        let expected = example.expected();
        let mut missing = Vec::new();
        for layer in &mut layers {
            match (layer.lacks)(&example) {
                Some(why) => missing.push((layer.name, why)),
                None => {
                    let decided = (layer.decide)(&example, &example.policies);
                    assert_eq!(decided, expected, "{}: {example:?}", layer.name);
                }
            }
        }
        missing.extend(without_turns(&example).map(|why| ("Redis exact", why)));
        page.add(&example, &missing);
    }
    assert_eq!(SCRIPT.missing(), None);
    page.compare();
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

/// The page.
#[derive(Default)]
struct Page {
    /// Policies, and the text behind them in their row; a title has no text.
    rows: Vec<(String, String)>,
    number: u32,
    reasons: Vec<&'static str>,
}

const HEAD: &str = "\
# The textbooks' examples, at every layer

Every layer admits (A) and denies (D) the requests of these times in this order. The layers are a `Limiter`, a key of a
`KeyedLimiter`, `tollgate replay`, `tollgate simulate`, the middleware of `tollgate-tower`, the rules, the service over
HTTP on a clock that the test moves, and the script in Redis that decides in mode exact. A test
(`crates/cli/tests/worked`) makes this page from the table that all of them read (`crates/oracle/src/worked.txt`), and
fails if the page differs. The script decides the table in `crates/redis/src/conformance/vectors.rs`, since only there a
test can set its time.

Times are minutes and seconds after an instant at which every aligned window begins. `*3` is three requests, `*3/0.1`
three that are 0.1 s apart, `(8)` a cost of 8 units. `A97` is 97 times A. The last column names the layers that cannot
decide the example, and a letter gives the reason.

| | Policy | Requests | Decisions | Cannot |
|--:|---|---|---|---|
";

impl Page {
    fn add(&mut self, example: &WorkedExample, missing: &[(&str, &'static str)]) {
        let mut layers = Vec::new();
        for (layer, why) in missing {
            let at = self.reasons.iter().position(|known| known == why).unwrap_or_else(|| {
                self.reasons.push(why);
                self.reasons.len() - 1
            });
            layers.push(format!("{layer} {}", cells::letters(at)));
        }
        let layers =
            if layers.is_empty() { String::new() } else { format!("{} ", layers.join(", ")) };
        if self.number != example.number {
            self.number = example.number;
            let title = format!("| **{}** | *{}* | | | |\n", example.number, example.title);
            self.rows.push((String::new(), title));
        }
        let policy = format!("`{}`", example.policies.join(" + "));
        let WorkedExample { requests, decisions, .. } = example;
        let behind = format!("`{requests}` | `{decisions}` | {layers}|\n");
        match self.rows.last_mut() {
            Some((policies, known)) if *known == behind => *policies += &format!(", {policy}"),
            _ => self.rows.push((policy, behind)),
        }
    }

    fn compare(self) {
        let reason =
            |(n, why): (usize, &&str)| wrapped(&format!("* **{}**", cells::letters(n)), " ", why);
        let reasons: String = self.reasons.iter().enumerate().map(reason).collect();
        let row = |(policies, behind): &(String, String)| match &**policies {
            "" => behind.clone(),
            _ => format!("| | {policies} | {behind}"),
        };
        let table: String = self.rows.iter().map(row).collect();
        let page = format!("{HEAD}{table}\n{reasons}");
        pages::assert_page("docs/worked-examples.md", &page);
    }
}
