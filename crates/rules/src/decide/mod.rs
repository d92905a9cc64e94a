//! [`DecisionMaker`] turns a request into an answer, by the rules in force.
//!
//! ```text
//! request -> rules -> parts (one per descriptor: rule, cost, key) -> verdicts -> answer
//! ```
//!
//! A decision allocates the list of its parts and the statuses of the answer. The bytes of keys go into a buffer that
//! each thread keeps. No text is formatted, except the name of a series if the rule has series.

mod act;
pub(crate) mod answer;
mod apart;
mod claim;
mod conclude;
mod context;
mod dues;
mod elsewhere;
mod joint;
mod moment;
mod overrides;
mod paced;
mod part;
pub(crate) mod receipt;
pub(crate) mod request;
mod verdict;

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::Guard;
use tollgate::{BuildError, Timestamp};

use crate::decide::answer::Answer;
use crate::decide::request::{Request, RequestError};
use crate::language::identifier;
use crate::load::cache::RuleCache;
use crate::set::rule_set::RuleSet;
use apart::RequestCounting;
use context::Context;
use moment::DecisionTime;
use overrides::Overrides;
use paced::PaceCounts;
use part::{Judge, OwnLimit, Part, find_series};

pub use act::{Act, Manner};
pub use claim::{Claim, Claimed};
pub use elsewhere::{FoundElsewhere, FoundLimit, Question};
use joint::mark_over;
pub use paced::PacedAnswer;

/// The maximum size of a thread's buffer between requests.
const MAX_KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static KEYS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Decides requests by the rules of a [`RuleCache`]. All methods take `&self`, so threads share it by reference.
/// Decisions never block.
///
/// # What it guarantees
/// * A request is decided by the rules of one load, never by a mix. A limit decides by one quota at a time. But a load
///   changes quotas one after the other, so a concurrent request may meet one limit before its change and another limit
///   after its change.
/// * Unless [`compat`](crate::Settings::compat) is on, a denied request is charged to no limit, and an admitted one
///   to all of them, except in the race that [`tollgate::check_all`] describes. A descriptor that is listed twice is
///   charged twice.
/// * Two descriptors share a limit only if they are equal, or if their rule says so (`share_threshold`), or if the
///   values that differ are addresses of one [network](crate#addresses).
/// * No request causes a panic or permanent growth of memory.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
/// let cache = Arc::new(RuleCache::new(Settings::default()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: hour, requests_per_unit: 2}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let check = |user| {
///     let entries = [("user", user)];
///     let descriptors = [Descriptor::new(&entries)];
///     maker.check(&Request::new("shop", &descriptors)).map(|answer| answer.is_allowed())
/// };
/// assert_eq!([check("alice")?, check("alice")?, check("alice")?, check("bob")?], [true, true, false, true]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DecisionMaker {
    cache: Arc<RuleCache>,
    overrides: Overrides,
    paces: PaceCounts,
}

impl DecisionMaker {
    /// Decides by the rules that this cache has in force at each request.
    ///
    /// # Errors
    /// The counts for limits that come with requests cannot be allocated
    /// ([`override_capacity`](crate::Settings::override_capacity)).
    pub fn new(cache: Arc<RuleCache>) -> Result<Self, BuildError> {
        let capacity = cache.settings().override_capacity;
        let overrides = Overrides::new(capacity, cache.clock())?;
        let paces = PaceCounts::new(capacity, cache.clock())?;
        Ok(Self { cache, overrides, paces })
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &Arc<RuleCache> {
        &self.cache
    }

    /// Decides a request now, and charges it if it is admitted.
    ///
    /// # Errors
    /// The request is empty or too large, or no rules have been loaded. Nothing was charged.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
    /// let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: minute, requests_per_unit: 1}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")])];
    /// let request = Request::new("shop", &descriptors);
    /// assert!(maker.check(&request)?.is_allowed());
    /// assert!(!maker.check(&request)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, request: &Request<'_>) -> Result<Answer, RequestError> {
        self.answer(request, DecisionTime::Now, Act::Check)
    }

    /// [`check`](DecisionMaker::check) at a given time. All times must have the origin of the cache's clock.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
    /// let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: minute, requests_per_unit: 1}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")])];
    /// let request = Request::new("shop", &descriptors);
    /// let at = |second| maker.check_at(&request, Timestamp::from_secs(second));
    /// assert_eq!([at(0)?, at(59)?, at(60)?].map(|answer| answer.is_allowed()), [true, false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer, RequestError> {
        self.answer(request, DecisionTime::At(now), Act::Check)
    }

    /// Answers whether this request would be admitted now. Charges and counts nothing.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
    /// let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: minute, requests_per_unit: 1}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")])];
    /// let request = Request::new("shop", &descriptors);
    /// assert!(maker.peek(&request)?.is_allowed() && maker.peek(&request)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, request: &Request<'_>) -> Result<Answer, RequestError> {
        self.answer(request, DecisionTime::Now, Act::Peek)
    }

    /// [`peek`](DecisionMaker::peek) at a given time.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
    /// let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: minute, requests_per_unit: 1}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")])];
    /// let request = Request::new("shop", &descriptors);
    /// let now = Timestamp::from_secs(7);
    /// assert_eq!(maker.peek_at(&request, now)?.statuses()[0].remaining, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer, RequestError> {
        self.answer(request, DecisionTime::At(now), Act::Peek)
    }

    /// Decides a request now, in the way that `act` says. [`check`](DecisionMaker::check) and
    /// [`peek`](DecisionMaker::peek) are this call with one particular act each.
    ///
    /// # What else holds
    /// * Under several limits the request waits as long as the longest of their waits, and either all limits give a
    ///   place or none does: see [`Answer::wait`]. A denied request is given back what it was charged. If another
    ///   request has meanwhile queued up behind one of its places, that place stays charged until its turn is over.
    /// * A rule in shadow mode gives places, but no request waits for them; nor does any request wait under
    ///   [`global_shadow_mode`](crate::Settings::global_shadow_mode). Of the rules in quota mode at least one must have
    ///   a place. Those without a place are left out.
    /// * A limit that comes with the request has no queue.
    /// * Under [`compat`](crate::Settings::compat) each descriptor gets a place by itself.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{Act, DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
    /// let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: \
    ///             {unit: minute, requests_per_unit: 60, algorithm: gcra, burst: 10}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let entries = [("user", "alice")];
    /// let act = |hits, act| {
    ///     let descriptors = [Descriptor { hits: Some(hits), ..Descriptor::new(&entries) }];
    ///     maker.act(&Request::new("shop", &descriptors), act)
    /// };
    /// // The request turned out to cost 15: five more than there were.
    /// assert_eq!(act(15, Act::Charge)?.statuses()[0].uncharged, 0);
    /// let denied = act(1, Act::Check)?;
    /// assert_eq!(denied.retry_after().map(|wait| wait.as_secs()), Some(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn act(&self, request: &Request<'_>, act: Act) -> Result<Answer, RequestError> {
        self.answer(request, DecisionTime::Now, act)
    }

    /// Deletes all charges of this request's descriptors so far. Returns the number of limits that were reset, whether
    /// they had charges or not.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, Settings};
    /// let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
    ///             rate_limit: {unit: minute, requests_per_unit: 1}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let descriptors = [Descriptor::new(&[("user", "alice")])];
    /// let request = Request::new("shop", &descriptors);
    /// assert!(maker.check(&request)?.is_allowed());
    /// assert_eq!(maker.reset(&request)?, 1);
    /// assert!(maker.check(&request)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, request: &Request<'_>) -> Result<usize, RequestError> {
        request.check(self.cache.settings())?;
        let rules = self.rules(request);
        let rules = rules.as_deref().ok_or(RequestError::NotLoaded)?;
        Ok(with_keys(|keys| {
            let settings = self.cache.settings();
            let how = RequestCounting { act: Act::Peek, settings, is_elsewhere: false };
            let Resolved { parts, .. } = resolve(rules, request, how, keys);
            let with = self.context(keys, DecisionTime::Now, Act::Peek);
            parts.iter().map(|part| part.reset(with)).sum()
        }))
    }

    /// The rules that a request is decided by, from its start to its end.
    fn rules(&self, request: &Request<'_>) -> Guard<Option<Arc<RuleSet>>> {
        match request.rules {
            Some(rules) => Guard::from_inner(Some(Arc::clone(rules))),
            None => self.cache.current(),
        }
    }

    fn context<'a>(&'a self, keys: &'a [u8], moment: DecisionTime, act: Act) -> Context<'a> {
        Context { keys, moment, act, overrides: &self.overrides, clock: self.cache.clock() }
    }

    fn answer(
        &self,
        request: &Request<'_>,
        moment: DecisionTime,
        act: Act,
    ) -> Result<Answer, RequestError> {
        let settings = self.cache.settings();
        request.check(settings)?;
        let guard = self.rules(request);
        let rules = guard.as_deref().ok_or(RequestError::NotLoaded)?;
        let concluded = with_keys(|keys| {
            let how = RequestCounting { act, settings, is_elsewhere: false };
            let Resolved { mut parts, is_domain } = resolve(rules, request, how, keys);
            let with = self.context(keys, moment, act);
            find_series(&mut parts, request, act);
            if act.counts() {
                apart::settle(&mut parts, with);
            }
            match act {
                Act::Peek => parts.iter_mut().for_each(|part| part.look(with)),
                Act::Charge => apart::others(&mut parts).for_each(|part| part.charge_late(with)),
                _ if settings.compat => {
                    for part in apart::others(&mut parts) {
                        part.charge(with);
                        part.drain_denied(with);
                    }
                }
                _ => joint::decide(&mut parts, with),
            }
            self.conclude(parts, with, is_domain)
        });
        Ok(concluded.answer(guard))
    }
}

/// Lends the thread's buffer to `work`.
fn with_keys<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // A thread that is ending has lost its buffer.
    let mut keys = KEYS.try_with(Cell::take).unwrap_or_default();
    keys.clear();
    let result = work(&mut keys);
    if keys.capacity() <= MAX_KEPT_BYTES {
        let _ = KEYS.try_with(|kept| kept.set(keys));
    }
    result
}

/// A request with the rules that its descriptors match.
struct Resolved<'r> {
    parts: Vec<Part<'r>>,
    /// Whether the rules have the request's domain.
    is_domain: bool,
}

/// Finds the rule and builds the key of each descriptor.
fn resolve<'r>(
    rules: &'r RuleSet,
    request: &Request<'_>,
    how: RequestCounting<'_>,
    keys: &mut Vec<u8>,
) -> Resolved<'r> {
    let domain = rules.domains.get(request.domain);
    let mut replaces = false;
    let mut parts: Vec<Part<'r>> = Vec::with_capacity(request.descriptors.len());
    for descriptor in request.descriptors {
        let start = keys.len();
        // `None` if nothing matches.
        let found = domain.and_then(|domain| domain.find(descriptor.entries));
        let judge = match descriptor.limit {
            // In an unknown domain not even a limit that comes with the request applies.
            Some(limit) if domain.is_some() => {
                identifier::append_all(keys, request.domain, descriptor.entries, rules.bits);
                Judge::Override(OwnLimit::of(limit, found, rules, how.settings))
            }
            _ => match found {
                None => Judge::Nobody,
                Some(index) => {
                    let rule = &rules.rules()[index];
                    replaces |= !rule.replaces.is_empty();
                    identifier::append(keys, &rules.identifiers[index], descriptor.entries);
                    if rule.is_unlimited() {
                        Judge::Unlimited(index, rule)
                    } else {
                        Judge::Rule(index, rule)
                    }
                }
            },
        };
        let (cost, key) = (request.cost(descriptor), start..keys.len());
        parts.push(Part::new(judge, cost, key));
    }
    if replaces {
        replace(&mut parts);
    }
    // This comes after `replace`, because a rule that is replaced is not asked.
    apart::find(&mut parts, request.descriptors, how);
    Resolved { parts, is_domain: domain.is_some() }
}

/// Removes the rules that other rules of the same request replace, by name.
fn replace(parts: &mut [Part<'_>]) {
    let rule_of = |part: &Part<'_>| match part.judge {
        Judge::Rule(index, _) | Judge::Unlimited(index, _) => Some(index),
        _ => None,
    };
    let is_replaced = |part: &Part<'_>| match part.judge {
        Judge::Rule(_, rule) | Judge::Unlimited(_, rule) => rule.name().is_some_and(|name| {
            parts.iter().any(|other| match other.judge {
                Judge::Rule(_, by) | Judge::Unlimited(_, by) => {
                    rule_of(other) != rule_of(part) && by.replaces.iter().any(|one| **one == *name)
                }
                _ => false,
            })
        }),
        _ => false,
    };
    let replaced: Vec<bool> = parts.iter().map(is_replaced).collect();
    for (part, _) in parts.iter_mut().zip(replaced).filter(|(_, replaced)| *replaced) {
        part.judge = Judge::Nobody;
    }
}
