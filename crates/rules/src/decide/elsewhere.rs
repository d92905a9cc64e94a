//! Requests whose limits are kept elsewhere, in a store that many nodes share: the questions to that store, and the
//! meaning of its answers.
//!
//! The same steps as in [`super`], in two halves, between which the caller waits for the store. Rules that admit
//! nothing, and limits that come with requests, are decided in the first half, by this process alone.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tollgate::{Decision, Permit};

use super::joint::quota_is_over;
use super::moment::DecisionTime;
use super::part::{Enforcement, Judge, Part};
use super::verdict::RuleVerdict;
use super::{Act, DecisionMaker, is_over, mark_over, resolve};
use crate::answer::Answer;
use crate::full::OnFull;
use crate::request::{Override, Request, RequestError};
use crate::rule::{Limit, Rule};
use crate::rule_set::RuleSet;

/// A request whose limits must be checked elsewhere. It holds the rules by which it is decided.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{Claim, DecisionMaker, Descriptor, FoundElsewhere, Request, RuleCache, RuleText, Settings};
/// let cache = Arc::new(RuleCache::new(Settings::default()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: hour, requests_per_unit: 2}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let descriptors = [Descriptor::new(&[("user", "alice")])];
/// let question = maker.question(&Request::new("shop", &descriptors))?;
/// let claims: Vec<Claim<'_>> = question.claims().collect();
/// assert_eq!((claims[0].rule.path(), claims[0].cost), ("user", 1));
/// // Some limiter elsewhere, asked for this rule, key and cost.
/// let elsewhere = tollgate::Limiter::new(tollgate::Quota::per_hour(2));
/// let decision = elsewhere.check_n(claims[0].cost);
/// let found = FoundElsewhere { admitted: decision.is_allowed(), decisions: vec![decision] };
/// assert_eq!(maker.answer_found(question, &found).statuses()[0].remaining, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Question {
    rules: Arc<RuleSet>,
    keys: Vec<u8>,
    parts: Vec<KeptPart>,
    act: Act,
    /// Whether its domain has rules.
    is_domain: bool,
    /// Whether the local limits admit it.
    may_go: bool,
}

/// An owned [`Part`].
struct KeptPart {
    judge: KeptJudge,
    cost: u64,
    key: Range<usize>,
    verdict: Option<RuleVerdict>,
    permit: Option<Permit>,
}

enum KeptJudge {
    Nobody,
    Unlimited(usize),
    Rule(usize),
    Override(Override),
}

/// What a request asks of the limits of one rule: all of them are charged, or none.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The rule. None of its limits is 0.
    pub rule: &'a Rule,
    /// The key of the client: no other client of this rule has the same bytes.
    pub key: &'a [u8],
    /// The units to charge.
    pub cost: u64,
}

/// The answers of the limits that are kept elsewhere.
#[derive(Clone, Debug)]
pub struct FoundElsewhere {
    /// Whether those limits admit the request.
    pub admitted: bool,
    /// The decision of each limit of each claim, in their order. Missing decisions are taken for denials.
    pub decisions: Vec<Decision>,
}

impl Question {
    /// The claims to check, in the order in which their decisions must be returned.
    pub fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        self.parts.iter().filter_map(|part| match part.judge {
            KeptJudge::Rule(index) => {
                let rule = &self.rules.rules()[index];
                let key = &self.keys[part.key.clone()];
                (!rule.blocks()).then_some(Claim { rule, key, cost: part.cost })
            }
            _ => None,
        })
    }

    /// Whether the claims are to be charged. They are not for a peek, nor if a local limit has denied already.
    #[must_use]
    pub fn is_to_be_charged(&self) -> bool {
        self.act.counts() && self.may_go
    }

    fn parts(&mut self) -> (Vec<Part<'_>>, &[u8]) {
        let rules = &self.rules;
        let parts = self.parts.iter_mut().map(|kept| {
            let judge = match kept.judge {
                KeptJudge::Nobody => Judge::Nobody,
                KeptJudge::Unlimited(index) => Judge::Unlimited(index, &rules.rules()[index]),
                KeptJudge::Rule(index) => Judge::Rule(index, &rules.rules()[index]),
                KeptJudge::Override(limit) => Judge::Override(limit),
            };
            let (verdict, permit) = (kept.verdict, kept.permit.take());
            Part { verdict, permit, ..Part::new(judge, kept.cost, kept.key.clone()) }
        });
        (parts.collect(), &self.keys)
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claims: Vec<Claim<'_>> = self.claims().collect();
        f.debug_struct("Question").field("claims", &claims).finish_non_exhaustive()
    }
}

impl DecisionMaker {
    /// The first half of [`check`](DecisionMaker::check), for limits that are kept elsewhere. Limits that come with
    /// requests are charged here, and [`answer_found`](DecisionMaker::answer_found) refunds them if the request is
    /// denied.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    pub fn question(&self, request: &Request<'_>) -> Result<Question, RequestError> {
        self.ask(request, Act::Check)
    }

    /// The first half of [`peek`](DecisionMaker::peek).
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    pub fn peek_question(&self, request: &Request<'_>) -> Result<Question, RequestError> {
        self.ask(request, Act::Peek)
    }

    fn ask(&self, request: &Request<'_>, act: Act) -> Result<Question, RequestError> {
        request.check(self.cache.settings())?;
        let rules = self.cache.rules().ok_or(RequestError::NotLoaded)?;
        let mut keys = Vec::new();
        let mut parts = resolve(&rules, request, &mut keys);
        let with = self.context(&keys, DecisionTime::Now, act);
        for part in &mut parts {
            let is_here = match part.judge {
                Judge::Override(_) => true,
                Judge::Rule(_, rule) => rule.blocks(),
                _ => false,
            };
            part.verdict = if is_here { part.ask(part.cost, with) } else { None };
        }
        let is_denied = |part: &Part<'_>| part.say() == Enforcement::Binding && part.is_over();
        let mut may_go = !parts.iter().any(is_denied) && !quota_is_over(&parts);
        if act.counts() && may_go {
            for part in &mut parts {
                if matches!(part.judge, Judge::Override(_)) {
                    part.charge(with);
                    may_go &= !part.is_over();
                }
            }
            if !may_go {
                parts.iter_mut().for_each(|part| part.give_back(with));
            }
        }
        let parts = parts.into_iter().map(KeptPart::of).collect();
        let is_domain = rules.domains.contains_key(request.domain);
        Ok(Question { rules, keys, parts, act, is_domain, may_go })
    }

    /// The second half: the answer that follows from the decisions found elsewhere.
    #[must_use = "an answer that nobody looks at limits nothing"]
    pub fn answer_found(&self, mut question: Question, found: &FoundElsewhere) -> Answer {
        let (act, is_domain, may_go) = (question.act, question.is_domain, question.may_go);
        let admitted = may_go && found.admitted;
        let (mut parts, keys) = question.parts();
        let with = self.context(keys, DecisionTime::Now, act);
        let mut decisions = found.decisions.iter();
        for part in &mut parts {
            let Some(rule) = part.rule().filter(|rule| !rule.blocks()) else { continue };
            part.verdict = of_limits(rule.limits(), part.cost, &mut decisions);
        }
        if !admitted {
            for part in parts.iter_mut().filter(|part| matches!(part.judge, Judge::Override(_))) {
                part.give_back(with);
                if !part.is_over() {
                    part.verdict = part.ask(part.cost, with);
                }
            }
        }
        // Denied elsewhere although each limit now has room: two requests ran concurrently.
        if !found.admitted
            && !is_over(&parts)
            && let Some(part) = parts.iter_mut().find(|part| part.say() != Enforcement::None)
        {
            mark_over(part);
        }
        let concluded = self.conclude(parts, with, is_domain);
        concluded.answer(arc_swap::Guard::from_inner(Some(question.rules)))
    }
}

impl KeptPart {
    fn of(part: Part<'_>) -> Self {
        let judge = match part.judge {
            Judge::Nobody => KeptJudge::Nobody,
            Judge::Unlimited(index, _) => KeptJudge::Unlimited(index),
            Judge::Rule(index, _) => KeptJudge::Rule(index),
            Judge::Override(limit) => KeptJudge::Override(limit),
        };
        let Part { cost, key, verdict, permit, .. } = part;
        Self { judge, cost, key, verdict, permit }
    }
}

/// The combined verdict of a rule's limits.
fn of_limits<'d>(
    limits: &[Limit],
    cost: u64,
    decisions: &mut impl Iterator<Item = &'d Decision>,
) -> Option<RuleVerdict> {
    let verdicts = limits.iter().enumerate().map(|(n, limit)| match decisions.next() {
        Some(decision) => RuleVerdict::of(decision, n, OnFull::default()),
        None => RuleVerdict::blocked(n, cost.max(1), limit.window),
    });
    verdicts.reduce(RuleVerdict::or)
}
