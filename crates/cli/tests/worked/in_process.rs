//! The rules, on a clock that the test moves.

use std::cell::Cell;
use std::sync::Arc;

use tollgate::{ManualClock, Timestamp};
use tollgate_oracle::WorkedExample;
use tollgate_rules::{DecisionMaker, Descriptor, RuleCache, RuleSettings, RuleText};

fn letter(is_admitted: bool) -> char {
    if is_admitted { 'A' } else { 'D' }
}

pub(crate) fn letters(answers: &[bool]) -> String {
    answers.iter().map(|is_admitted| letter(*is_admitted)).collect()
}

/// Returns a rule file with a rule for each policy, whose key is `p` and the policy's number.
pub(crate) fn rule_file(policies: &[&str]) -> String {
    let mut file = "domain: worked\ndescriptors:\n".to_owned();
    for (n, text) in policies.iter().enumerate() {
        file += &format!("  - {{key: p{n}, rate_limit: {{{}}}}}\n", limit_of(text));
    }
    file
}

/// Returns a policy in the words of a rule.
fn limit_of(text: &str) -> String {
    let mut words = text.split_whitespace();
    let mut algorithm = words.next().unwrap().to_owned();
    let (count, period) = words.next().unwrap().split_once('/').unwrap();
    let mut more = String::new();
    while let Some(word) = words.next() {
        match word {
            "burst" => more += &format!(", burst: {}", words.next().unwrap()),
            "queue" => more += &format!(", queue: {}", words.next().unwrap()),
            "count-denied" => more += ", count_rejected: true",
            "soft" if text.ends_with('%') => {
                more += &format!(", mode: soft {}", words.next().unwrap());
            }
            option => algorithm = format!("{algorithm} {option}"),
        }
    }
    format!("algorithm: {algorithm}, requests_per_unit: {count}, window: {period}{more}")
}

/// The time between the starts of two runs of requests. No window, and no debt of less than a day, reaches into the
/// next run.
const APART_NS: u64 = 3 * 86_400 * 1_000_000_000;

/// New clients on one clock. All requests of one client come before those of the next, so time never goes back.
pub(crate) struct Clients {
    clock: ManualClock,
    seen: Cell<u64>,
}

impl Clients {
    pub(crate) fn new(clock: ManualClock) -> Self {
        Self { clock, seen: Cell::new(0) }
    }

    /// Decides the requests of a new client, whose name `is_admitted` gets.
    pub(crate) fn decide(
        &self,
        example: &WorkedExample,
        mut is_admitted: impl FnMut(&str, u64) -> bool,
    ) -> String {
        let number = self.seen.get();
        self.seen.set(number + 1);
        let name = format!("client {number}");
        let decide = |(now_ns, cost)| {
            self.clock.set(Timestamp::from_nanos(number * APART_NS + now_ns));
            letter(is_admitted(&name, cost))
        };
        example.asked().into_iter().map(decide).collect()
    }
}

/// Returns the keys of the rules of these policies.
pub(crate) fn rule_keys(all: &[String], policies: &[&str]) -> Vec<String> {
    let key = |policy: &&str| all.iter().position(|known| known == policy).unwrap();
    policies.iter().map(|policy| format!("p{}", key(policy))).collect()
}

/// Rules of all policies.
pub(crate) struct Rules {
    maker: DecisionMaker,
    clients: Clients,
    policies: Vec<String>,
}

impl Rules {
    pub(crate) fn of(policies: &[&str]) -> Self {
        let clock = ManualClock::new();
        let settings = RuleSettings { default_capacity: Some(1_000), ..RuleSettings::default() };
        let cache = Arc::new(RuleCache::with_clock(settings, clock.clone()));
        cache.load(&[RuleText::new("worked.yaml", rule_file(policies))]).unwrap();
        let maker = DecisionMaker::new(cache).unwrap();
        let policies = policies.iter().map(ToString::to_string).collect();
        Self { maker, clients: Clients::new(clock), policies }
    }

    pub(crate) fn decide(&self, example: &WorkedExample, policies: &[&str]) -> String {
        let keys = rule_keys(&self.policies, policies);
        self.clients.decide(example, |name, cost| {
            let entries: Vec<_> = keys.iter().map(|key| [(key.as_str(), name)]).collect();
            let descriptors: Vec<_> = entries.iter().map(|of| Descriptor::new(of)).collect();
            let mut request = tollgate_rules::Request::new("worked", &descriptors);
            request.hits = u32::try_from(cost).unwrap();
            self.maker.check(&request).unwrap().is_allowed()
        })
    }
}
