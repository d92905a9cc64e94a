//! A decision maker with rules, on a clock that only the test moves, and helpers that make a request in one line.

#![allow(dead_code)] // each test file uses only a part

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_rules::{
    Answer, Code, DecisionMaker, Descriptor, DescriptorEntry, Request, RequestError, RuleCache,
    RuleError, RuleSet, RuleText, Settings,
};

/// A decision maker with some rules.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) maker: DecisionMaker,
}

impl World {
    pub(crate) fn new(rules: &str) -> Self {
        Self::with(rules, Settings::default())
    }

    #[track_caller]
    pub(crate) fn with(rules: &str, settings: Settings) -> Self {
        let clock = ManualClock::new();
        let cache = Arc::new(RuleCache::with_clock(settings, clock.clone()));
        let maker = DecisionMaker::new(cache).expect("small tables");
        let world = Self { clock, maker };
        world.load(rules).expect("good rules");
        world
    }

    pub(crate) fn load(&self, rules: &str) -> Result<(), Vec<RuleError>> {
        self.maker.cache().load(&[RuleText::new("test.yaml", rules)]).map(drop)
    }

    /// Loads files with these contents, under generated names.
    #[track_caller]
    pub(crate) fn load_files(&self, files: &[&str]) -> Arc<RuleSet> {
        let text = |(n, rules): (usize, &&str)| RuleText::new(format!("{n}.yaml"), *rules);
        let texts: Vec<RuleText> = files.iter().enumerate().map(text).collect();
        self.maker.cache().load(&texts).expect("good rules")
    }

    /// Checks descriptors of entries, each at the request's cost of 1.
    #[track_caller]
    pub(crate) fn check(&self, domain: &str, descriptors: &[&[DescriptorEntry<'_>]]) -> Answer {
        let descriptors: Vec<Descriptor<'_>> =
            descriptors.iter().map(|entries| Descriptor::new(entries)).collect();
        self.maker.check(&Request::new(domain, &descriptors)).expect("a good request")
    }

    /// The requests per unit of the limit that matches a descriptor; `None` if no limit matches.
    #[track_caller]
    pub(crate) fn finds(&self, domain: &str, entries: &[DescriptorEntry<'_>]) -> Option<u32> {
        let descriptors = [Descriptor::new(entries)];
        let answer = self.maker.peek(&Request::new(domain, &descriptors)).expect("a good request");
        assert_eq!(answer.code(), Code::Ok);
        answer.statuses()[0].limit.map(|limit| limit.requests_per_unit)
    }

    pub(crate) fn ask(&self, request: &Request<'_>) -> Result<Answer, RequestError> {
        self.maker.check(request)
    }
}

/// For each descriptor, whether it is over its limit, and the units left.
pub(crate) fn over_and_left(answer: &Answer) -> Vec<(bool, u64)> {
    answer
        .statuses()
        .iter()
        .map(|status| (status.code == Code::OverLimit, status.remaining))
        .collect()
}

/// The errors of rules that are refused, as text.
#[track_caller]
pub(crate) fn refused(rules: impl Into<Vec<u8>>) -> String {
    let cache = RuleCache::new(Settings::default());
    let errors = cache.load(&[RuleText::new("test.yaml", rules)]).expect_err("bad rules");
    assert!(cache.rules().is_none());
    let lines: Vec<String> = errors.iter().map(RuleError::to_string).collect();
    lines.join("\n")
}
