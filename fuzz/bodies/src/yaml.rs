//! Rule files.

use std::fmt;
use std::sync::Arc;

use arbitrary::Arbitrary;
use tollgate::ManualClock;
use tollgate_rules::{
    DecisionMaker, Descriptor, DescriptorEntry, NoCell, OnFull, Request, Rule, RuleCache,
    RuleError, RuleSet, RuleSettings, RuleText,
};

use tollgate_model::Plant;

/// The target `rules_yaml`: any bytes either are rules, or are refused with the place of the error. Rules that are
/// compiled again give the same result, and then keep their tables. Rules take no more memory than is allowed, and can
/// decide requests.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct YamlCase<'y>(pub &'y [u8]);

impl fmt::Debug for YamlCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "YamlCase(b\"{}\")", self.0.escape_ascii())
    }
}

const MAX_TABLE_BYTES: u64 = 1 << 18;

impl YamlCase<'_> {
    /// Panics if a file is read wrongly.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if a file is not read as expected.
    pub fn run_against(&self, plant: Plant) {
        let settings = RuleSettings {
            default_capacity: Some(16),
            override_capacity: 0,
            max_table_bytes: MAX_TABLE_BYTES,
            ..RuleSettings::default()
        };
        let cache = Arc::new(RuleCache::with_clock(settings, ManualClock::new()));
        let text = RuleText::new("rules.yaml", self.0);
        match cache.load(std::slice::from_ref(&text)) {
            Err(errors) => self.refused(&errors, plant),
            Ok(rules) => {
                let printed = print(&rules, plant);
                self.decides(&cache);
                let before = hits(&rules);
                let again = cache.load(&[text]).expect("as before");
                assert_eq!(print(&again, Plant::Nothing), printed, "compiled again");
                assert_eq!(hits(&again), before, "counters go on");
            }
        }
    }

    fn refused(&self, errors: &[RuleError], plant: Plant) {
        let [error] = errors else { panic!("one file, and {} errors", errors.len()) };
        let told = error.to_string();
        let begin = if plant == Plant::Limit { "other.yaml:" } else { "rules.yaml:" };
        assert!(told.starts_with(begin), "refused without its file: {told:?}");
        assert!(!told.contains(char::is_control), "control characters: {told:?}");
        let lines = self.0.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 2;
        let at = error.at.expect("a place in the file");
        assert!(at.line >= 1 && at.line <= lines, "line {} of {lines}: {told}", at.line);
    }

    /// Makes requests with all words of the file as values.
    fn decides(&self, cache: &Arc<RuleCache>) {
        let maker = DecisionMaker::new(Arc::clone(cache)).expect("no counts of requests' own");
        let text = String::from_utf8_lossy(self.0);
        let is_part = |c: char| !c.is_alphanumeric() && !"_*/-.".contains(c);
        let words: Vec<&str> =
            text.split(is_part).filter(|word| !word.is_empty()).take(24).collect();
        let entries: Vec<DescriptorEntry<'_>> =
            words.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let rules = cache.rules().expect("loaded");
        for domain in rules.domains() {
            for length in 1..=2 {
                let descriptors: Vec<Descriptor<'_>> =
                    entries.chunks(length).map(Descriptor::new).collect();
                if domain.is_empty() || descriptors.is_empty() {
                    continue;
                }
                let request = Request::new(domain, &descriptors);
                let answer = maker.check(&request).expect("a good request");
                assert_eq!(answer.statuses().len(), descriptors.len());
                for (nth, status) in answer.statuses().iter().enumerate() {
                    assert!(status.limit.is_some() || !status.is_over, "over no limit: {status:?}");
                    let on_full = answer.rule(nth).map_or(OnFull::default(), Rule::on_full);
                    assert!(
                        is_said(status.no_cell, status.is_over, on_full),
                        "{on_full:?} {status:?}"
                    );
                }
            }
        }
    }
}

/// True if a rule with this `on_full` may decide in this way for a client without a cell.
fn is_said(no_cell: Option<NoCell>, is_over: bool, on_full: OnFull) -> bool {
    match no_cell {
        Some(NoCell::Allowed) => on_full == OnFull::Allow && !is_over,
        Some(NoCell::Denied) => on_full != OnFull::Allow && is_over,
        Some(NoCell::Spilled) => on_full != OnFull::Deny,
        _ => true,
    }
}

fn hits(rules: &RuleSet) -> Vec<u64> {
    rules.rules().iter().map(|rule| rule.counts().total()).collect()
}

/// Prints each rule as one line.
fn print(rules: &RuleSet, plant: Plant) -> Vec<String> {
    let most = if plant == Plant::Answer { 0 } else { MAX_TABLE_BYTES };
    assert!(rules.table_bytes() <= most, "{} bytes of tables", rules.table_bytes());
    let line = |rule: &Rule| {
        let line = rule.to_string();
        assert!(!line.contains(char::is_control), "control characters: {line:?}");
        assert!(rule.limits().len() <= 1_000 && rule.capacity() > 0);
        line
    };
    let forwards = rules.all_forwards().map(|forward| {
        let line = forward.to_string();
        assert!(!line.contains(char::is_control), "control characters: {line:?}");
        line
    });
    rules.rules().iter().map(line).chain(forwards).collect()
}
