//! Requests whose limits are kept elsewhere, in a store that many nodes share: the questions to that store, and the
//! meaning of its answers.
//!
//! The steps are those of [`super`], in two halves, between which the caller waits for the store. Rules with a limit of
//! 0, which admit nothing, are decided in the first half, without the store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Decision};

use super::act::Manner;
use super::apart::RequestCounting;
use super::claim::{Claim, Claimed};
use super::joint::{is_over, quota_is_over};
use super::moment::DecisionTime;
use super::part::{Enforcement, Judge, OwnLimit, Part, beyond, find_series};
use super::verdict::RuleVerdict;
use super::{Act, DecisionMaker, Resolved, mark_over, resolve};
use crate::counts::series::Series;
use crate::decide::answer::Answer;
use crate::decide::request::{Request, RequestError};
use crate::language::on_full::OnFull;
use crate::language::stem;
use crate::set::rule::Limit;
use crate::set::rule_set::RuleSet;

/// A request whose limits must be checked elsewhere. It holds the rules by which it is decided.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{
///     Act, Claim, DecisionMaker, Descriptor, FoundElsewhere, Request, RuleCache, RuleText, Settings,
/// };
/// let cache = Arc::new(RuleCache::new(Settings::default()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: hour, requests_per_unit: 2}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let descriptors = [Descriptor::new(&[("user", "alice")])];
/// let question = maker.question(&Request::new("shop", &descriptors), Act::Check)?;
/// let claims: Vec<Claim<'_>> = question.claims().collect();
/// assert_eq!((claims[0].rule().map(|rule| rule.path()), claims[0].cost), (Some("user"), 1));
/// // Some limiter elsewhere, asked for this rule, key and cost.
/// let elsewhere = tollgate::Limiter::new(tollgate::Quota::per_hour(2));
/// let decision = elsewhere.check_n(claims[0].cost);
/// let found = FoundElsewhere { admitted: decision.is_allowed(), limits: vec![decision.into()] };
/// assert_eq!(maker.answer_found(question, &found).statuses()[0].remaining, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Question {
    rules: Arc<RuleSet>,
    keys: Vec<u8>,
    parts: Vec<KeptPart>,
    act: Act,
    /// Whether the request's domain has rules.
    is_domain: bool,
    /// Whether the rules that are decided without the store admit the request.
    may_go: bool,
    /// Whether each descriptor is decided by itself.
    is_separate: bool,
}

/// An owned [`Part`].
struct KeptPart {
    judge: KeptJudge,
    manner: Manner,
    cost: u64,
    key: Range<usize>,
    /// The range in the buffer of all keys that holds the [stem](crate::Settings::envoyproxy_stems), if stems are asked
    /// for.
    stem: Option<Range<usize>>,
    verdict: Option<RuleVerdict>,
    series: Option<Arc<Series>>,
}

enum KeptJudge {
    Nobody,
    Unlimited(usize),
    Rule(usize),
    Override(OwnLimit),
}

/// The answers of the limits that are kept elsewhere.
#[derive(Debug)]
pub struct FoundElsewhere {
    /// Whether those limits admit the request. It is `true` if each descriptor is decided [by
    /// itself](Question::is_separate).
    pub admitted: bool,
    /// The answer of each limit of each claim, in the order of claims and limits. A missing answer counts as a denial.
    pub limits: Vec<FoundLimit>,
}

/// The answer of a limit that is kept elsewhere.
#[derive(Debug)]
pub struct FoundLimit {
    /// The decision of the limit. After a charge of a cost that need not fit ([used](Manner::Used)), or after units
    /// were given back, it is the decision about one more unit.
    pub decision: Decision,
    /// The time to wait, if the limit gave the request a place in its queue.
    pub wait: Duration,
    /// The units of a charge that need not fit that the limit could not remember; or the units that could not be given
    /// back. Such charges and refunds are never denied.
    pub uncharged: Option<u64>,
    /// The units that were left before the charge, if the limit denied and charged the cost nevertheless. Otherwise it
    /// is `None`, and `decision` has the units that were left before.
    pub left: Option<u64>,
    /// Whether the denial follows from an earlier answer of the store, which was not asked again.
    pub is_remembered: bool,
    /// Whether the decision was made without the store that keeps the limit, because the store did not answer.
    pub is_without_store: bool,
}

impl From<Decision> for FoundLimit {
    fn from(decision: Decision) -> Self {
        let (wait, uncharged, left) = (Duration::ZERO, None, None);
        let (is_remembered, is_without_store) = (false, false);
        Self { decision, wait, uncharged, left, is_remembered, is_without_store }
    }
}

impl Question {
    /// The claims to check, in the order in which their decisions must be returned.
    pub fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        let rule = |index: usize| &self.rules.rules()[index];
        self.parts.iter().filter_map(move |part| {
            let (of, is_quota) = match part.judge {
                KeptJudge::Rule(index) => (Claimed::Limits(rule(index)), rule(index).is_quota()),
                KeptJudge::Override(own) => {
                    let (limit, rule) = (own.limit.counted(), own.rule.map(rule));
                    (Claimed::OwnLimit { limit, rule }, own.is_quota)
                }
                _ => return None,
            };
            let blocks = match of {
                Claimed::Limits(rule) => rule.blocks(),
                Claimed::OwnLimit { limit, .. } => limit.requests_per_unit == 0,
            };
            if blocks {
                return None;
            }
            let key = &self.keys[part.key.clone()];
            let (cost, manner, act) = (part.cost, part.manner, self.act);
            let envoyproxy_stem = part.stem.clone().map(|range| &self.keys[range]);
            Some(Claim { of, key, envoyproxy_stem, cost, manner, act, is_quota })
        })
    }

    /// The act that the request asks for.
    #[must_use]
    pub fn act(&self) -> Act {
        self.act
    }

    /// Whether each claim is decided and charged by itself, and a denied request uses up what was left
    /// ([`Limit::drains_denied`]). It is `true` under [`compat`](crate::Settings::compat).
    #[must_use]
    pub fn is_separate(&self) -> bool {
        self.is_separate
    }

    /// Whether the claims are to be charged. They are not charged for a peek, nor if a rule that is decided without the
    /// store has denied already.
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
                KeptJudge::Override(own) => Judge::Override(own),
            };
            let KeptPart { manner, verdict, .. } = *kept;
            let (part, series) =
                (Part::new(judge, kept.cost, kept.key.clone()), kept.series.take());
            Part { manner, verdict, series, ..part }
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
    /// The first half of [`act`](DecisionMaker::act) for limits that are kept in a store. Limits that come with
    /// requests are kept in the store, too.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    pub fn question(&self, request: &Request<'_>, act: Act) -> Result<Question, RequestError> {
        let settings = self.cache.settings();
        request.check(settings)?;
        let rules = request.rules.cloned().or_else(|| self.cache.rules());
        let rules = rules.ok_or(RequestError::NotLoaded)?;
        let is_separate = settings.compat;
        let mut keys = Vec::new();
        let how = RequestCounting { act, settings, is_elsewhere: true };
        let Resolved { mut parts, is_domain } = resolve(&rules, request, how, &mut keys);
        let with = self.context(&keys, DecisionTime::Now, act);
        find_series(&mut parts, request, act);
        for part in parts.iter_mut().filter(|part| part.blocks()) {
            match act {
                _ if part.is_apart() && act.counts() => part.settle(with),
                _ if part.is_apart() => part.look(with),
                Act::Charge => part.charge_late(with),
                _ => part.verdict = part.ask(part.cost, with),
            }
        }
        let is_denied = |part: &Part<'_>| part.say() == Enforcement::Binding && part.is_over();
        let is_joint = !is_separate && act != Act::Charge;
        let may_go = !is_joint || (!parts.iter().any(is_denied) && !quota_is_over(&parts));
        let mut parts: Vec<KeptPart> = parts.into_iter().map(KeptPart::of).collect();
        if settings.envoyproxy_stems {
            for (part, descriptor) in parts.iter_mut().zip(request.descriptors) {
                let start = keys.len();
                match part.judge {
                    KeptJudge::Rule(index) => {
                        let stem = &rules.rules()[index].stem;
                        stem.append(&mut keys, request.domain, descriptor.entries);
                    }
                    KeptJudge::Override(_) => {
                        stem::append(&mut keys, request.domain, descriptor.entries, &[]);
                    }
                    _ => continue,
                }
                part.stem = Some(start..keys.len());
            }
        }
        Ok(Question { rules, keys, parts, act, is_domain, may_go, is_separate })
    }

    /// The second half of [`act`](DecisionMaker::act): the answer that follows from the decisions found in the store.
    #[must_use = "an answer that nobody looks at limits nothing"]
    pub fn answer_found(&self, mut question: Question, found: &FoundElsewhere) -> Answer {
        let Question { act, is_domain, may_go, is_separate, .. } = question;
        let (admitted, is_denied) = (may_go && found.admitted, !found.admitted);
        let mut found = found.limits.iter();
        let (mut parts, keys) = question.parts();
        let with = self.context(keys, DecisionTime::Now, act);
        for part in &mut parts {
            // There is no `Limit` for a limit that came with the request. Only its window is needed.
            let (limits, own_window): (&[Limit], Option<Duration>) = match part.judge {
                _ if part.blocks() => continue,
                Judge::Rule(_, rule) => (rule.limits(), None),
                Judge::Override(own) => (&[], Some(own.limit.unit.length())),
                _ => continue,
            };
            let count = limits.len() + usize::from(own_window.is_some());
            let own: Vec<&FoundLimit> = found.by_ref().take(count).collect();
            part.uncharged = own.iter().filter_map(|found| found.uncharged).max().unwrap_or(0);
            // If the request was already charged, no limit is asked for a place any more.
            let asks = !admitted || !act.counts();
            let queue = if asks { act } else { Act::CheckNow };
            part.verdict = of_limits(limits, own_window, part.cost, queue, &own);
            if let Some(verdict) = part.verdict.as_mut().filter(|verdict| verdict.is_over)
                && is_separate
                && act.counts()
            {
                verdict.remaining = 0;
            }
        }
        // The store has denied although each limit has room: two requests ran concurrently. A peek that finds a place
        // in a queue is not denied.
        if act.counts()
            && is_denied
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
            Judge::Override(own) => KeptJudge::Override(own),
        };
        let Part { manner, cost, key, verdict, series, .. } = part;
        Self { judge, manner, cost, key, stem: None, verdict, series }
    }
}

/// The verdict of all limits of a rule together, or of a limit that came with the request and has this window.
fn of_limits(
    limits: &[Limit],
    own_window: Option<Duration>,
    cost: u64,
    act: Act,
    found: &[&FoundLimit],
) -> Option<RuleVerdict> {
    let windows = limits.iter().map(Limit::window).chain(own_window);
    let verdicts = windows.enumerate().map(|(n, window)| match found.get(n) {
        Some(found) => {
            let verdict = RuleVerdict::of(&found.decision, n, OnFull::default());
            let (left, is_without_store) =
                (found.left.unwrap_or(verdict.left), found.is_without_store);
            let verdict = RuleVerdict { left, is_without_store, ..verdict };
            if found.uncharged.is_some() {
                return RuleVerdict { is_over: false, ..verdict };
            }
            let limit = limits.get(n);
            match limit.and_then(|limit| place_ahead(limit, cost, act, &found.decision)) {
                Some(wait) if verdict.is_over => RuleVerdict { wait, ..verdict.admitted() },
                _ => {
                    let is_remembered = found.is_remembered;
                    RuleVerdict { wait: found.wait, is_remembered, ..verdict }
                }
            }
        }
        None => RuleVerdict::blocked(n, cost.max(1), window),
    });
    verdicts.reduce(RuleVerdict::or)
}

/// The time that a request would wait if a limit denies it now and its queue has a place for it.
fn place_ahead(limit: &Limit, cost: u64, act: Act, asked: &Decision) -> Option<Duration> {
    let gate = limit.gate.as_ref()?;
    let wait = act.wait(gate)?;
    if gate.policy.algorithm() != Algorithm::Gcra {
        return None;
    }
    let ahead = asked.retry_after().unwrap_or_else(|| beyond(gate, asked, cost));
    let queue = gate.policy.at_limit().queue;
    let most = queue.map_or(Duration::MAX, |queue| queue.max_wait()).min(wait.max_wait());
    let behind = queue.map_or(u64::MAX, |queue| queue.max_behind()).min(wait.max_behind());
    // A place behind `behind` units is `behind * unit_ns` ahead in time.
    let quota = gate.policy.quota();
    let unit_ns = quota.period().as_nanos() / u128::from(quota.count().max(1));
    let is_near = ahead.as_nanos() <= unit_ns.saturating_mul(u128::from(behind));
    (ahead <= most && is_near).then_some(ahead)
}
