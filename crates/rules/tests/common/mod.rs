//! A decision maker with rules, on a clock that only the test moves, and helpers that make a request in one line.

#![allow(dead_code)] // each test file uses only a part

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_rules::{
    Answer, Code, DecisionMaker, Descriptor, DescriptorEntry, LimitStore, Override, Purpose,
    Request, RequestError, Rule, RuleCache, RuleClaim, RuleCounts, RuleError, RuleSet,
    RuleSettings, RuleText, StoreAnswer,
};

/// A decision maker with some rules.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) maker: DecisionMaker,
}

impl World {
    pub(crate) fn new(rules: &str) -> Self {
        Self::with(rules, RuleSettings::default())
    }

    #[track_caller]
    pub(crate) fn with(rules: &str, settings: RuleSettings) -> Self {
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

    /// The rules in force.
    #[track_caller]
    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        self.maker.cache().rules().expect("they are loaded")
    }

    /// The texts that say how the last load changed limits that were there before.
    #[track_caller]
    pub(crate) fn changes(&self) -> Vec<String> {
        self.rules().changes().iter().map(ToString::to_string).collect()
    }

    /// The counters of the rule with this path.
    #[track_caller]
    pub(crate) fn counts(&self, path: &str) -> RuleCounts {
        let rules = self.rules();
        rules.rules().iter().find(|rule| rule.path() == path).expect("a rule").counts()
    }

    /// Checks a request with these descriptors, each at a cost of 1.
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

    /// Decides a request with one descriptor for each of these keys: each has the value `x`, and the cost that stands
    /// beside its key.
    #[track_caller]
    pub(crate) fn decide_keys(
        &self,
        domain: &str,
        keys: &[(&str, u64)],
        purpose: Purpose,
    ) -> Answer {
        let entries: Vec<[DescriptorEntry<'_>; 1]> =
            keys.iter().map(|(key, _)| [(*key, "x")]).collect();
        let descriptors: Vec<Descriptor<'_>> = entries
            .iter()
            .zip(keys)
            .map(|(entries, (_, hits))| Descriptor {
                hits: Some(*hits),
                ..Descriptor::new(entries)
            })
            .collect();
        let request = Request::new(domain, &descriptors);
        self.maker.decide(&request, purpose).expect("a good request")
    }

    /// Decides a request to the domain `shop` with one descriptor for each of these keys, all at this cost.
    #[track_caller]
    pub(crate) fn decide_in_shop(&self, keys: &[&str], cost: u64, purpose: Purpose) -> Answer {
        let keys: Vec<(&str, u64)> = keys.iter().map(|key| (*key, cost)).collect();
        self.decide_keys("shop", &keys, purpose)
    }

    /// Checks a request with one descriptor: this key with the value `x`.
    #[track_caller]
    pub(crate) fn take(&self, domain: &str, key: &str, hits: u64) -> Answer {
        self.decide_keys(domain, &[(key, hits)], Purpose::Check)
    }

    /// Decides a request with one descriptor, this key with the value `x`, that comes with a limit of its own.
    #[track_caller]
    pub(crate) fn decide_own(
        &self,
        (domain, key): (&str, &str),
        limit: Override,
        hits: u64,
        purpose: Purpose,
    ) -> Answer {
        let (entries, limit) = ([(key, "x")], Some(limit));
        let descriptors = [Descriptor { hits: Some(hits), limit, ..Descriptor::new(&entries) }];
        self.maker.decide(&Request::new(domain, &descriptors), purpose).expect("a good request")
    }

    /// The answer for limits that live in this store.
    #[track_caller]
    pub(crate) fn decide_in(
        &self,
        store: &mut impl LimitStore,
        request: &Request<'_>,
        purpose: Purpose,
    ) -> Answer {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let answer = runtime.block_on(self.maker.decide_in(store, request, purpose));
        answer.expect("a good request")
    }

    pub(crate) fn ask(&self, request: &Request<'_>) -> Result<Answer, RequestError> {
        self.maker.check(request)
    }
}

/// A store that records the calls it gets, and gives these answers to each of them.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    pub(crate) admitted: bool,
    /// The answers of the limits of all open claims, in their order.
    pub(crate) answers: Vec<StoreAnswer>,
    /// The answers to a charge that is made whether it fits or not, if they differ from `answers`.
    pub(crate) after: Option<Vec<StoreAnswer>>,
    /// The number of units that such a charge leaves uncharged.
    pub(crate) kept: u64,
    /// The verb of each call, with the rules (or `own`) and the costs of the open claims.
    pub(crate) asked: Vec<(&'static str, Vec<(String, u64)>)>,
}

impl Scripted {
    /// Records the call, and passes its answers to each open claim.
    fn call(
        &mut self,
        verb: &'static str,
        claims: &mut [RuleClaim<'_>],
        pass: impl Fn(&mut RuleClaim<'_>, &[StoreAnswer]),
    ) {
        let after = self.after.as_ref().filter(|_| verb == "charge used");
        let (mut answers, mut asked) = (&after.unwrap_or(&self.answers)[..], Vec::new());
        for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
            let is_own = claim.own_limit().is_some();
            let path = claim.rule().filter(|_| !is_own).map_or("own", Rule::path);
            let limits = claim.rule().filter(|_| !is_own).map_or(1, |rule| rule.limits().len());
            asked.push((path.to_owned(), claim.cost()));
            let (own, others) = answers.split_at(limits.min(answers.len()));
            answers = others;
            pass(claim, own);
        }
        self.asked.push((verb, asked));
    }
}

impl LimitStore for Scripted {
    async fn look(&mut self, claims: &mut [RuleClaim<'_>]) {
        self.call("look", claims, |claim, answers| claim.looked(answers));
    }

    async fn charge_together(&mut self, claims: &mut [RuleClaim<'_>]) {
        self.call("charge together", claims, |claim, answers| claim.charged(answers));
        if !self.admitted {
            RuleClaim::denied(claims);
        }
    }

    async fn charge_used(&mut self, claims: &mut [RuleClaim<'_>]) {
        let kept = self.kept;
        self.call("charge used", claims, |claim, answers| claim.settled(answers, kept));
    }

    async fn give_back(&mut self, claim: &mut RuleClaim<'_>) {
        let claims = std::slice::from_mut(claim);
        self.call("give back", claims, |claim, answers| claim.settled(answers, 0));
    }

    async fn count_denied(&mut self, claim: &RuleClaim<'_>) {
        self.asked.push(("count denied", vec![(claim.client(), claim.cost())]));
    }
}

/// The usual settings, with or without `compat`.
pub(crate) fn compat_is(compat: bool) -> RuleSettings {
    RuleSettings { compat, ..RuleSettings::default() }
}

/// For each descriptor, whether it is over its limit, and the units left.
pub(crate) fn over_and_left(answer: &Answer) -> Vec<(bool, u64)> {
    answer
        .statuses()
        .iter()
        .map(|status| (status.code == Code::OverLimit, status.remaining))
        .collect()
}

/// Rules of domain `d` with one descriptor that has these lines.
pub(crate) fn with(descriptor: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {descriptor}\n")
}

/// Rules with one limit, for the key `k`.
pub(crate) fn limit(limit: &str) -> String {
    with(&format!("{{key: k, rate_limit: {{{limit}}}}}"))
}

/// Rules with these limits, all for the key `user`.
pub(crate) fn stacked(limits: &[&str]) -> String {
    let limits: String = limits.iter().map(|limit| format!("      - {{{limit}}}\n")).collect();
    with(&format!("key: user\n    limits:\n{limits}"))
}

/// The errors of rules that are refused, as text.
#[track_caller]
pub(crate) fn refused(rules: impl Into<Vec<u8>>) -> String {
    let cache = RuleCache::new(RuleSettings::default());
    let errors = cache.load(&[RuleText::new("test.yaml", rules)]).expect_err("bad rules");
    assert!(cache.rules().is_none());
    let lines: Vec<String> = errors.iter().map(RuleError::to_string).collect();
    lines.join("\n")
}
