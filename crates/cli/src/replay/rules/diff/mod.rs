//! `--diff`: applies two sets of rules to the same requests, and reports the differences.

mod table;

use std::collections::HashMap;

use serde::Serialize;
use tollgate_rules::{Answer, Code, Rule};

use super::descriptors::DescriptorRow;
use super::engine::Engine;
use crate::replay::gather::Keys;
use crate::replay::parse::instant;
use crate::replay::summary::LogSummary;

/// The number of the most changed keys, and of the first changed requests, that are listed.
const NAMED: usize = 10;

/// The results of two sets of rules. The fields are those of `--json`, in their order. Old comes before new.
#[derive(Debug, Serialize)]
pub(crate) struct Diff {
    #[serde(flatten)]
    log: LogSummary,
    domain: String,
    old: Side,
    new: Side,
    newly_refused: Moved,
    newly_admitted: Moved,
    /// Rules whose limits or answers differ.
    rules: Vec<RuleChange>,
    /// The descriptors that were most often denied under one set of rules and admitted under the other set.
    keys: Vec<KeyChange>,
    /// The first changed requests.
    requests: Vec<RequestChange>,
    #[serde(skip)]
    counting: DiffState,
}

/// The results of one set of rules for all requests.
#[derive(Debug, Default, Serialize)]
struct Side {
    requests: u64,
    admitted: u64,
    refused: u64,
}

/// The number of requests with different answers, and the number of descriptors that were denied in these requests.
#[derive(Debug, Default, Serialize)]
struct Moved {
    requests: u64,
    keys: u64,
}

/// A rule, by its path in the files.
#[derive(Debug, Serialize)]
struct RuleChange {
    rule: String,
    /// The rule's limit in the old set; none if the rule does not exist there.
    old: Option<String>,
    new: Option<String>,
    refused_by_old: u64,
    refused_by_new: u64,
    newly_refused: u64,
    newly_admitted: u64,
}

#[derive(Debug, Serialize)]
struct KeyChange {
    key: String,
    newly_refused: u64,
    newly_admitted: u64,
    /// The bytes of the key, for the table.
    #[serde(skip)]
    raw: Box<[u8]>,
}

#[derive(Debug, Serialize)]
struct RequestChange {
    time: String,
    key: String,
    is: DiffChange,
    #[serde(skip)]
    raw: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum DiffChange {
    NewlyRefused,
    NewlyAdmitted,
}

/// The state while requests are decided.
#[derive(Debug, Default)]
struct DiffState {
    /// For each set of rules, the index of each of its rules in the list of changes.
    places: [Vec<Option<usize>>; 2],
    /// The changed requests of each name, by the number of the name.
    keys: HashMap<usize, MovedRequests, ahash::RandomState>,
    first: Vec<FirstChange>,
}

/// The numbers of requests of one name whose answers have changed.
#[derive(Clone, Copy, Debug, Default)]
struct MovedRequests {
    newly_refused: u64,
    newly_admitted: u64,
}

/// A request whose answer has changed.
#[derive(Debug)]
struct FirstChange {
    nanos: u64,
    /// The number of its name.
    name: usize,
    is: DiffChange,
}

impl Diff {
    /// Returns the state before the first request.
    pub(super) fn new(domain: &str, engines: &[Engine; 2]) -> Self {
        let mut rules = Vec::new();
        let places = [0, 1].map(|side| place_all(&mut rules, domain, engines, side));
        Self {
            log: LogSummary::default(),
            domain: domain.to_owned(),
            old: Side::default(),
            new: Side::default(),
            newly_refused: Moved::default(),
            newly_admitted: Moved::default(),
            rules,
            keys: Vec::new(),
            requests: Vec::new(),
            counting: DiffState { places, ..DiffState::default() },
        }
    }

    /// Adds the answers of the old and the new rules to one request.
    pub(super) fn add(&mut self, row: &DescriptorRow<'_>, nanos: u64, answers: &[Answer; 2]) {
        let [old, new] = answers;
        self.old.add(old);
        self.new.add(new);
        self.add_rules(answers);
        let (change, denial) = match (old.is_allowed(), new.is_allowed()) {
            (true, false) => (DiffChange::NewlyRefused, new),
            (false, true) => (DiffChange::NewlyAdmitted, old),
            _ => return,
        };
        let moved = match change {
            DiffChange::NewlyRefused => &mut self.newly_refused,
            DiffChange::NewlyAdmitted => &mut self.newly_admitted,
        };
        moved.requests += 1;
        for key in denied(row, denial) {
            let counts = self.counting.keys.entry(key).or_default();
            let count = match change {
                DiffChange::NewlyRefused => &mut counts.newly_refused,
                DiffChange::NewlyAdmitted => &mut counts.newly_admitted,
            };
            moved.keys += u64::from(*count == 0);
            *count += 1;
        }
        if self.counting.first.len() < NAMED {
            self.counting.first.push(FirstChange { nanos, name: row.name, is: change });
        }
    }

    fn add_rules(&mut self, answers: &[Answer; 2]) {
        let places = &self.counting.places;
        let over = [0, 1].map(|side: usize| {
            let answer = &answers[side];
            let statuses = answer.statuses().iter().enumerate();
            let over = statuses.filter(|(_, status)| status.is_over);
            let rule = |(n, _)| places[side].get(answer.rule_index(n)?).copied().flatten();
            over.filter_map(rule).collect::<Vec<usize>>()
        });
        for &rule in &over[0] {
            self.rules[rule].refused_by_old += 1;
            self.rules[rule].newly_admitted += u64::from(!over[1].contains(&rule));
        }
        for &rule in &over[1] {
            self.rules[rule].refused_by_new += 1;
            self.rules[rule].newly_refused += u64::from(!over[0].contains(&rule));
        }
    }

    /// Completes the results. `log` is the summary of the lines that were read, and `names` has the texts of the names.
    pub(super) fn finish(&mut self, log: LogSummary, names: &Keys) {
        self.log = log;
        let text = |name: usize| String::from_utf8_lossy(&names[name]).into_owned();
        self.rules.retain(|rule| {
            rule.old != rule.new || rule.newly_refused > 0 || rule.newly_admitted > 0
        });
        let mut keys: Vec<_> = self.counting.keys.drain().collect();
        // Sorts the keys with the most changes first, and keys with equally many changes by text: the numbers of names
        // depend on the order in which threads read.
        keys.sort_unstable_by(|(a, in_a), (b, in_b)| {
            let changes = |moved: &MovedRequests| moved.newly_refused + moved.newly_admitted;
            changes(in_b).cmp(&changes(in_a)).then_with(|| names[*a].cmp(&names[*b]))
        });
        let keys = keys.into_iter().take(NAMED).map(|(name, moved)| KeyChange {
            key: text(name),
            newly_refused: moved.newly_refused,
            newly_admitted: moved.newly_admitted,
            raw: names[name].clone(),
        });
        self.keys = keys.collect();
        let request = |FirstChange { nanos, name, is }| RequestChange {
            time: instant(nanos),
            key: text(name),
            is,
            raw: names[name].clone(),
        };
        self.requests = self.counting.first.drain(..).map(request).collect();
    }

    /// Returns whether any request has a different answer.
    pub(super) fn is_different(&self) -> bool {
        self.newly_refused.requests + self.newly_admitted.requests > 0
    }

    /// Returns the differences as one line of JSON.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// Returns the names of the descriptors that were denied, or the name of the whole request if none was denied by
/// itself.
fn denied(row: &DescriptorRow<'_>, answer: &Answer) -> Vec<usize> {
    let statuses = answer.statuses().iter().zip(&row.numbers);
    let denied = statuses.filter(|(status, _)| status.code == Code::OverLimit);
    let mut names: Vec<usize> = denied.map(|(_, name)| *name).collect();
    if names.is_empty() {
        names.push(row.name);
    }
    names
}

impl Side {
    fn add(&mut self, answer: &Answer) {
        self.requests += 1;
        self.admitted += u64::from(answer.is_allowed());
        self.refused += u64::from(!answer.is_allowed());
    }
}

/// Adds the rules of one set to the changes, and returns their indices. An old and a new rule with the same path are
/// one change.
fn place_all(
    rules: &mut Vec<RuleChange>,
    domain: &str,
    engines: &[Engine; 2],
    side: usize,
) -> Vec<Option<usize>> {
    let mut seen: Vec<&str> = Vec::new();
    let mut place = |rule| -> Option<usize> {
        let path = Rule::path(rule);
        if rule.domain() != domain {
            return None;
        }
        // Two rules of a set may have one path: the key `a_b`, and the key `a` with the value `b`. Their order
        // distinguishes them.
        let before = seen.iter().filter(|other| **other == path).count();
        seen.push(path);
        let known = rules.iter().enumerate().filter(|(_, known)| known.rule == path);
        // Rules of the old set are never merged with each other.
        let known = known.map(|(n, _)| n).nth(before).filter(|_| side == 1);
        let place = known.unwrap_or_else(|| {
            rules.push(RuleChange::new(path));
            rules.len() - 1
        });
        let limit = Some(limit(rule));
        match side {
            0 => rules[place].old = limit,
            _ => rules[place].new = limit,
        }
        Some(place)
    };
    engines[side].rules.rules().iter().map(&mut place).collect()
}

/// Returns the limit of a rule, without its name.
fn limit(rule: &Rule) -> String {
    let whole = rule.to_string();
    let name = format!("{}.{}: ", rule.domain().escape_debug(), rule.path().escape_debug());
    whole.strip_prefix(&name).map_or(whole.clone(), str::to_owned)
}

impl RuleChange {
    fn new(path: &str) -> Self {
        Self {
            rule: path.to_owned(),
            old: None,
            new: None,
            refused_by_old: 0,
            refused_by_new: 0,
            newly_refused: 0,
            newly_admitted: 0,
        }
    }
}
