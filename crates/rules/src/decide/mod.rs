//! [`DecisionMaker`] turns a request into an answer, by the rules in force.
//!
//! # A decision, from request to answer
//!
//! A request has a domain and some descriptors, such as `user=alice` and `path=/login`, each with a cost in units.
//! [`DecisionMaker::decide`] and its short forms decide it by limits in the tables of this process, and
//! [`DecisionMaker::decide_in`] by limits in a store that several nodes share. Both take the same steps:
//!
//! 1. **Refuse** a request that is empty or too large (`request`), and hold on to the rules in force, so that a load in
//!    between changes nothing.
//! 2. **Resolve** the request (`resolve`). Each descriptor becomes a [`RuleClaim`] (`claim`). A claim has the rule that
//!    matches, or the limit that came with the descriptor; the cost; and the key of the client. The cost is of one of
//!    three kinds: it is asked for, it was used already, or it is given back (`purpose`).
//! 3. **Decide** the claims (`steps`). A [`LimitStore`] (`store`) looks at limits and charges them:
//!    * A limit of 0 admits no unit, whether it is a rule's or came with the request. Claims with such a limit are
//!      decided first, and without the store.
//!    * Next, units are given back. Then costs that were used already are charged, whether they fit or not; such a
//!      claim is over its limit if nothing was left before the charge. If the request is denied afterwards, these
//!      refunds and charges are not undone.
//!    * The remaining claims are charged in one of three ways. Usually they are charged together, all or none; if the
//!      claims decided so far deny the request already, the store only looks at the remaining ones. With
//!      [`Purpose::Charge`] each is charged whether it fits or not. Under [`compat`](crate::RuleSettings::compat) each
//!      is charged by itself, and a cost that is denied still uses up what is left.
//!    * With [`Purpose::Peek`] nothing is charged, and each claim is only looked at.
//! 4. **Conclude** (`conclude`). By now each claim has a verdict (`verdict`): over its limit or not, and what is left.
//!    The request is denied if a claim is over its limit, with three exceptions. A rule in shadow mode denies nothing.
//!    Rules in quota mode deny only if all of them are over their limits. In global shadow mode every request is
//!    admitted. The hits are counted, and each descriptor gets its status in the [`Answer`] (`answer`). A request of
//!    [`Purpose::Reserve`] gets a receipt (`receipt`) for its charges in the tables of this process, but not for
//!    charges in another store.
//!
//! # The stores
//!
//! The steps are one `async` function, since a store may answer later. The tables of this process (`tables`) are a
//! store that answers at once (`in_process`), so the methods that use only them are not `async`. The module `charges`
//! charges the limits of several claims together. Limits that come with requests have tables of their own
//! (`overrides`).
//!
//! [`DecisionMaker::pace`] (`paced`) uses no rules and none of these steps, because the request comes with its own
//! rate.
//!
//! If each rule has one limit, a decision allocates only the list of its claims and the list of the answer's statuses.
//! Claims that are charged together also allocate the list of their charges. Keys are built in a buffer that each
//! thread keeps. No text is formatted, except the name of a series if the rule has series.

pub(crate) mod answer;
mod charges;
mod claim;
mod conclude;
mod in_process;
mod moment;
mod overrides;
mod paced;
mod purpose;
pub(crate) mod receipt;
pub(crate) mod request;
mod resolve;
mod steps;
mod store;
mod tables;
mod verdict;

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::Guard;
use tollgate::{BuildError, Timestamp};

use crate::decide::answer::Answer;
use crate::decide::request::{Request, RequestError};
use crate::load::cache::RuleCache;
use crate::set::rule_set::RuleSet;
use moment::DecisionTime;
use overrides::Overrides;
use paced::PaceCounts;
use resolve::{Way, resolve};
use steps::{at_once, decide};
use tables::Tables;

pub use claim::{RuleClaim, StoreAnswer};
pub use paced::PacedAnswer;
pub use purpose::Purpose;
pub use store::LimitStore;

/// The maximum size of the buffer that a thread keeps between requests.
const MAX_KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static KEYS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Decides requests by the rules of a [`RuleCache`]. All methods take `&self`, so threads share it by reference.
/// Decisions never block.
///
/// # What it guarantees
/// * A request is decided by the rules of one load, never by a mix. A limit has one quota at any time. But a load
///   changes the quotas one after the other, so a concurrent request may be decided by the old quota of one limit and
///   the new quota of another.
/// * Unless [`compat`](crate::RuleSettings::compat) is on, a denied request is charged to no limit, and an admitted one
///   to all of them, except in the race that [`tollgate::check_all`] describes. A descriptor that is listed twice is
///   charged twice.
/// * Two descriptors share a limit only if they are equal, or if their rule says so (`share_threshold`), or if the
///   values that differ are addresses of one [network](crate#addresses).
/// * No request causes a panic or permanent growth of memory.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
/// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
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
    /// ([`override_capacity`](crate::RuleSettings::override_capacity)).
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
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
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
        self.answer(request, DecisionTime::Now, Purpose::Check)
    }

    /// Like [`check`](DecisionMaker::check), at a given time. All times must have the origin of the cache's clock.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
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
        self.answer(request, DecisionTime::At(now), Purpose::Check)
    }

    /// Answers whether this request would be admitted now. Charges and counts nothing.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
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
        self.answer(request, DecisionTime::Now, Purpose::Peek)
    }

    /// Like [`peek`](DecisionMaker::peek), at a given time.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ManualClock, Timestamp};
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
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
        self.answer(request, DecisionTime::At(now), Purpose::Peek)
    }

    /// Decides a request now, for this purpose. [`check`](DecisionMaker::check) and [`peek`](DecisionMaker::peek) are
    /// short forms of this call for one purpose each.
    ///
    /// # What else holds
    /// * Under several limits the request waits as long as the longest of their waits, and either all limits give a
    ///   place or none does: see [`Answer::wait`]. If the request is denied, its charges are given back. If another
    ///   request has meanwhile queued up behind one of its places, that place stays charged until its turn is over.
    /// * A rule in shadow mode gives places, but no request waits for its turn; nor does any request wait under
    ///   [`global_shadow_mode`](crate::RuleSettings::global_shadow_mode). At least one of the rules in quota mode must
    ///   have room or a place in its queue. Those that have neither are not charged.
    /// * A limit that comes with the request has no queue.
    /// * Under [`compat`](crate::RuleSettings::compat) each descriptor gets a place or not, whatever the others get.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{Purpose, DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: \
    ///             {unit: minute, requests_per_unit: 60, algorithm: gcra, burst: 10}\n";
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let maker = DecisionMaker::new(cache)?;
    /// let entries = [("user", "alice")];
    /// let decide = |hits, purpose| {
    ///     let descriptors = [Descriptor { hits: Some(hits), ..Descriptor::new(&entries) }];
    ///     maker.decide(&Request::new("shop", &descriptors), purpose)
    /// };
    /// // The request turned out to cost 15: five more than there were.
    /// assert_eq!(decide(15, Purpose::Charge)?.statuses()[0].uncharged, 0);
    /// let denied = decide(1, Purpose::Check)?;
    /// assert_eq!(denied.retry_after().map(|wait| wait.as_secs()), Some(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide(&self, request: &Request<'_>, purpose: Purpose) -> Result<Answer, RequestError> {
        self.answer(request, DecisionTime::Now, purpose)
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
    /// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
    /// let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
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
        self.with_claims(request, |claims| {
            let tables = self.tables(DecisionTime::Now);
            claims.iter().map(|claim| tables.reset(claim)).sum()
        })
    }

    /// Decides a request now, by limits that a store keeps. Limits that come with requests are kept in the store, too.
    /// A rule with a limit of 0 admits nothing, and is decided without the store.
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    pub async fn decide_in(
        &self,
        store: &mut impl LimitStore,
        request: &Request<'_>,
        purpose: Purpose,
    ) -> Result<Answer, RequestError> {
        let (rules, mut keys) = (self.rules_of(request)?, Vec::new());
        let way = Way { is_elsewhere: true, ..self.way(purpose) };
        let mut resolved = resolve(&rules, request, way, &mut keys);
        let tables = self.tables(DecisionTime::Now);
        decide(&mut resolved, way, tables, store).await;
        resolved.claims.iter_mut().for_each(RuleClaim::deny_unreported);
        let concluded = self.conclude(resolved, purpose, tables);
        Ok(concluded.answer(Guard::from_inner(Some(rules))))
    }

    /// Calls `work` with the claims of a request, one for each descriptor, and decides nothing. The purpose of the
    /// claims is [`Purpose::Peek`].
    ///
    /// # Errors
    /// As [`check`](DecisionMaker::check).
    pub fn with_claims<T>(
        &self,
        request: &Request<'_>,
        work: impl FnOnce(&[RuleClaim<'_>]) -> T,
    ) -> Result<T, RequestError> {
        let rules = self.rules_of(request)?;
        let way = self.way(Purpose::Peek);
        Ok(with_keys(|keys| work(&resolve(&rules, request, way, keys).claims)))
    }

    /// The rules by which a request is decided from its start to its end.
    fn rules(&self, request: &Request<'_>) -> Guard<Option<Arc<RuleSet>>> {
        match request.rules {
            Some(rules) => Guard::from_inner(Some(Arc::clone(rules))),
            None => self.cache.current(),
        }
    }

    /// Checks the request, and returns the same rules in a form that may be held for some time.
    fn rules_of(&self, request: &Request<'_>) -> Result<Arc<RuleSet>, RequestError> {
        request.check(self.cache.settings())?;
        let rules = request.rules.cloned().or_else(|| self.cache.rules());
        rules.ok_or(RequestError::NotLoaded)
    }

    fn way(&self, purpose: Purpose) -> Way<'_> {
        Way { purpose, settings: self.cache.settings(), is_elsewhere: false }
    }

    fn tables(&self, moment: DecisionTime) -> Tables<'_> {
        Tables { moment, overrides: &self.overrides, clock: self.cache.clock() }
    }

    fn answer(
        &self,
        request: &Request<'_>,
        moment: DecisionTime,
        purpose: Purpose,
    ) -> Result<Answer, RequestError> {
        request.check(self.cache.settings())?;
        let guard = self.rules(request);
        let rules = guard.as_deref().ok_or(RequestError::NotLoaded)?;
        let way = self.way(purpose);
        let concluded = with_keys(|keys| {
            let mut resolved = resolve(rules, request, way, keys);
            let mut tables = self.tables(moment);
            at_once(decide(&mut resolved, way, tables, &mut tables));
            self.conclude(resolved, purpose, tables)
        });
        Ok(concluded.answer(guard))
    }
}

/// Calls `work` with the thread's buffer for keys.
fn with_keys<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // A thread that is ending has lost its buffer, so it uses a new one.
    let mut keys = KEYS.try_with(Cell::take).unwrap_or_default();
    keys.clear();
    let result = work(&mut keys);
    if keys.capacity() <= MAX_KEPT_BYTES {
        let _ = KEYS.try_with(|kept| kept.set(keys));
    }
    result
}
