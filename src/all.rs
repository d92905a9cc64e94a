//! [`check_all`]: one request under several limits, charged to all of them or to none.
//!
//! Each limit is a separate word, and no instruction changes two words. So the words are charged one after the other,
//! and if one limit denies, the charges before it are undone. Before that, the request is decided for all limits but
//! the first without a charge (a peek), so that a request that will be denied usually charges no limit. In a table
//! under plain GCRA the word that the peek has read is remembered. The charge is then one compare-and-swap on that
//! word, and the key is searched for again only if the word has changed. So an undo is needed only if another thread
//! charges one of the limits between the peek and the charge, or if two claims name one limit.
//!
//! The comment at the top of `undo.rs` says how a charge is undone, and why an undo gives back no units of other
//! charges.
//!
//! # Stripes and sketches
//! A stripe is a word like the word of a [`Limiter`](crate::Limiter). The claim remembers which stripe was charged.
//!
//! A sketch gives nothing back. Keys share its cells, and a charge writes nothing to a cell that it finds full. If the
//! charge that had filled the cell were then undone, the other charge would have left no trace, and its key could be
//! admitted above its bound. So sketches are charged last, when all other limits have admitted the request. A single
//! sketch then never has to give anything back. If there are several sketches and a later one denies because another
//! thread was faster, the cost stays in the earlier sketches until it drains. (In the same way, a
//! [check](crate::Entry::check) of a sketch that loses a race leaves its cost in some cells.) Such a leftover can only
//! deny requests, never admit any.
//!
//! # Denials that count
//! A limit whose policy counts denials (`count-denied`, `penalty`) counts only its own denials. If a peek denies, each
//! limit that denies counts its denial by a compare-and-swap. A limit that denies a charge counts its denial in that
//! charge. A denial by another limit is not counted, and does not change the number of denials in a row. If no other
//! request has been charged since, an undo also restores this number.
//!
//! # Heterogeneous limits
//! A [`Claim`] stores the position of a key in its table instead of the key. So claims on limits of all key types have
//! the same type, and one borrowed slice can hold them without trait objects and without an allocation. The claims also
//! store everything that an undo needs.

mod any_limit;
mod joint;

use std::fmt;

use crate::algorithm::Kernel;
use crate::clock::{OneReading, Timestamp};
use crate::decision::{Decision, Permit};
use crate::keyed::{KeyTrace, PlannedCharge};
use crate::limit::Limit;
use crate::limiter::{Limiter, State};
use crate::meter::Meter;
use crate::store::Store;
use crate::sync::{Fault, planted};
use crate::undo::{Undo, undo_one};
use crate::verb::Verb;
use crate::word::Word;

pub use any_limit::AnyLimit;
pub use joint::{JointDecision, JointDenial};

/// One limit of a request, and the cost that is charged to this limit: see [`check_all`].
///
/// [`Entry::cost`](crate::Entry::cost) makes a claim. A claim borrows the limit, and stores only the position of the
/// key in its table. A claim may be used for several requests.
///
/// ```
/// use tollgate::{KeyedLimiter, Limiter, Quota, Claim};
/// let all = Limiter::new(Quota::per_second(1_000));
/// let clients = KeyedLimiter::<str>::new(Quota::per_minute(10), 1_000)?;
/// let claims: Vec<Claim<'_>> = vec![all.entry().cost(1), clients.entry("alice").cost(1)];
/// assert_eq!(claims[1].cost(), 1);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Claim<'a> {
    limit: AnyLimit<'a>,
    cost: u64,
    /// The time that the caller gave to the entry, if it gave one.
    at: Option<Timestamp>,
    /// The time of the last decision. `own_clock` is true if this time was read from the limit's own clock.
    now: Timestamp,
    own_clock: bool,
    /// The decision of the last charge.
    decision: Option<Decision>,
    trace: Option<Trace>,
    /// The charge that the peek has prepared, if the limit could prepare one.
    plan: Option<PlannedCharge>,
}

/// Prints the cost and the limit, but not the decision.
impl fmt::Debug for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("limit", &self.limit)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// The data of a charge that an undo needs in addition to the decision.
#[derive(Clone, Copy, Debug)]
enum Trace {
    /// The words before and after the charge.
    One([Word; 2]),
    Stripe(usize, [Word; 2]),
    Apart,
    Key(KeyTrace),
    /// The charge stays.
    Stays,
}

impl<'a> Claim<'a> {
    #[inline(always)]
    pub(crate) fn of(limit: impl Into<AnyLimit<'a>>, at: Option<Timestamp>, cost: u64) -> Self {
        let (limit, now, own_clock) = (limit.into(), at.unwrap_or_default(), at.is_none());
        Self { limit, cost, at, now, own_clock, decision: None, trace: None, plan: None }
    }
}

impl Claim<'_> {
    /// The cost of the request, in units.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Takes the permit of the charge that the last [`check_all`] made, for a [refund](crate::Entry::refund). `None`
    /// before the first `check_all`, for a cost of 0, for a charge in the spill of a full table, and after the permit
    /// has been taken. Use the permit only if the joint decision was allowed: otherwise the charge has already been
    /// undone.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota, check_all};
    /// let limit = |count| Limiter::builder(Quota::per_hour(count)).clock(ManualClock::new()).build();
    /// let [requests, bytes] = [9, 900].map(limit);
    /// let mut claims = [requests.entry().cost(1), bytes.entry().cost(500)];
    /// assert!(check_all(&mut claims).is_allowed());
    /// // The answer was shorter than was thought.
    /// assert_eq!(claims[1].take_permit().map(|permit| bytes.entry().refund(permit.portion(200))), Some(200));
    /// ```
    #[must_use = "what is not refunded stays charged"]
    pub fn take_permit(&mut self) -> Option<Permit> {
        self.trace?;
        self.decision.take()?.into_result().ok()
    }

    fn peek(&self) -> Decision {
        self.limit.peek(self.cost, self.now)
    }

    /// Returns this limit's denial, and counts it if the policy counts denials.
    fn refuse(&self, asked: Decision) -> Decision {
        match &self.limit {
            AnyLimit::Word(limit) => limit.refuse(self.cost, Some(self.now)).unwrap_or(asked),
            _ => asked,
        }
    }

    /// True if the request would be admitted.
    fn admits(&mut self) -> bool {
        match &self.limit {
            AnyLimit::Word(Limit::Key(place)) => {
                let (admits, plan) = place.admits(self.cost, self.now);
                self.plan = plan;
                admits
            }
            _ => self.peek().is_allowed(),
        }
    }

    /// Charges the limit, and returns its decision.
    fn charge(&mut self) -> &Decision {
        let (cost, now) = (self.cost, self.now);
        // Each arm writes its decision directly into the claim, which saves a copy.
        let traced = |decision: &Decision, trace| (decision.charged() > 0).then_some(trace);
        match &self.limit {
            AnyLimit::Word(Limit::One(Limiter { state: State::Plain { cell, gcra }, .. })) => {
                let (step, found) = cell.charge_plain(gcra, now, cost);
                let decision = self.decision.insert(step.decision(Kernel::Gcra(*gcra), 0));
                self.trace = traced(decision, Trace::One([found, step.word]));
                decision
            }
            AnyLimit::Word(Limit::One(Limiter { state: State::Word { cell, meter }, .. })) => {
                let (step, words) = cell.charge_traced(meter, now, cost);
                let Meter { kernel, rules, .. } = meter;
                let decision = self.decision.insert(step.decision(*kernel, rules.soft_bp));
                // There is nothing to undo after a cost of 0, which writes nothing, or after a denial, which stays if
                // it was counted.
                self.trace = traced(decision, Trace::One(words));
                decision
            }
            // The limit has a quota that may change, or it is a log.
            AnyLimit::Word(Limit::One(limiter)) => {
                let told = limiter.ask(Verb::Check, cost, now, cost > 0);
                let decision = self.decision.insert(told);
                self.trace = traced(decision, Trace::Apart);
                decision
            }
            AnyLimit::Word(Limit::Key(place)) => {
                // If the word has not changed since the peek, the prepared charge is made.
                let planned =
                    self.plan.as_ref().and_then(|plan| place.carried_out(plan, cost, now));
                if let Some((told, trace)) = planned {
                    self.trace = Some(Trace::Key(trace));
                    self.decision.insert(told)
                } else {
                    let (told, trace) = place.check(cost, now);
                    self.trace = trace.map(Trace::Key);
                    self.decision.insert(told)
                }
            }
            AnyLimit::Stripes(stripes) => {
                let (told, stripe, words) = stripes.check_traced(now, cost);
                let decision = self.decision.insert(told);
                self.trace = traced(decision, Trace::Stripe(stripe, words));
                decision
            }
            AnyLimit::Cells(cells) => {
                let decision = self.decision.insert(cells.decide(cost, Some(now), cost > 0));
                self.trace = traced(decision, Trace::Stays);
                decision
            }
        }
    }

    /// Undoes the charge, if there is one, as far as this can be done: see `undo.rs`.
    fn undo(&self) {
        if planted(Fault::UndoLeftOut) {
            return;
        }
        // The claim was not charged, so there is nothing to undo.
        let Some(Decision::Allowed(permit)) = &self.decision else { return };
        let undo = Undo { permit: permit.twin(), own_clock: self.own_clock };
        match (self.limit, self.trace) {
            (
                AnyLimit::Word(Limit::One(Limiter {
                    state: State::Plain { cell, gcra },
                    clock,
                    ..
                })),
                Some(Trace::One(words)),
            ) => undo_one(cell, &Meter::plain(*gcra), clock, words, &undo),
            (
                AnyLimit::Word(Limit::One(Limiter {
                    state: State::Word { cell, meter },
                    clock,
                    ..
                })),
                Some(Trace::One(words)),
            ) => undo_one(cell, meter, clock, words, &undo),
            (AnyLimit::Word(Limit::One(limiter)), Some(Trace::Apart)) => {
                undo.amends(&limiter.clock, |now, amendment| limiter.amend(now, amendment));
            }
            (AnyLimit::Word(Limit::Key(place)), Some(Trace::Key(trace))) => {
                place.undo(trace, &undo);
            }
            (AnyLimit::Stripes(stripes), Some(Trace::Stripe(stripe, words))) => {
                let (cell, meter) = stripes.stripe(stripe);
                undo_one(cell, meter, stripes.clock(), words, &undo);
            }
            _ => {}
        }
    }
}

/// Decides one request under several limits now, and charges either all of them or none.
///
/// Use it for a request that spends from several quotas, such as the quotas of the service and of the client, or a
/// quota of requests and a quota of bytes. Every limit with an `entry` can take part: a `Limiter` or a key of a
/// `KeyedLimiter`, even with sliding logs, tiers or a quota that changes; a `StripedLimiter`; a key of a
/// `SketchLimiter`. All limits but the first are peeked before any limit is charged. If they would all admit, all
/// limits are charged in order, but sketches after all others. Each limit decides at the time of its own clock, or at
/// the time that its entry was [given](crate::Entry::at). The machine's clock is read once for all limits. A cost of 0
/// charges nothing.
///
/// # What it guarantees
/// * Every limit's own bound always holds. (If callers also give times to a limit's entries, these times must not lie
///   ahead of the limit's clock.)
/// * If the request is denied, nothing is charged. There is one exception. A limit that would have admitted the request
///   when it was peeked may deny a moment later, because another thread was faster. Then the charges that were made
///   before are undone. If a third thread has meanwhile charged one of these limits, or if the charge is in the spill
///   of a full table, some or all of the cost may stay in that limit until it drains. So two requests at the same
///   moment may both be denied. A sketch that denies at that moment may leave the cost in some of its own cells, and in
///   other sketches of the request.
/// * The wait in the answer is the longest wait of all limits that deny. After this wait all limits would admit, if no
///   other request is charged meanwhile. (In the exceptional case it is the wait of the one limit that denied.)
/// * It takes no lock and allocates nothing, and no thread waits for another.
///
/// If the caller gives the time, a charge is undone only if this can be done exactly, since that time does not show how
/// much has drained. An exact undo at such a time assumes that no other thread has changed the limit's word and then
/// restored the same bits. If a thread has done so by giving back and charging units at a *later* time, the undo also
/// gives back the part of that thread's charge that drained between the two times.
///
/// Each limit counts its own denials if its policy counts denials: see [`AtLimit`](crate::AtLimit).
///
/// If a limit appears in two claims, it is charged for both or for neither.
///
/// ```
/// use tollgate::{KeyedLimiter, Limiter, Quota, check_all};
/// let service = Limiter::new(Quota::per_second(10_000));
/// let clients = KeyedLimiter::<str>::new(Quota::per_hour(2), 1_000)?;
/// let serve = |client: &str| check_all(&mut [service.entry().cost(1), clients.entry(client).cost(1)]);
/// assert!(serve("alice").is_allowed() && serve("alice").is_allowed());
/// assert_eq!(serve("alice").denied_by(), Some(1));
/// assert!(serve("bob").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub fn check_all(claims: &mut [Claim<'_>]) -> JointDecision {
    let mut reading = OneReading::default();
    let mut any_keeps_its_charge = false;
    for claim in claims.iter_mut() {
        claim.own_clock = claim.at.is_none();
        claim.now = claim.at.unwrap_or_else(|| reading.of(claim.limit.clock_to_read()));
        (claim.decision, claim.trace, claim.plan) = (None, None, None);
        any_keeps_its_charge |= !claim.limit.gives_back();
    }
    // Limits that give nothing back are charged last. The limit that is charged first is not peeked beforehand: if it
    // denies, there is nothing to undo.
    let first = claims.iter().position(|claim| claim.limit.gives_back()).unwrap_or(0);
    if claims.iter_mut().enumerate().any(|(index, claim)| index != first && !claim.admits()) {
        // Every limit is peeked: each limit that denies counts its own denial, and the longest wait is reported.
        let denied = claims.iter().enumerate().filter_map(|(index, claim)| {
            let asked = claim.peek();
            (!asked.is_allowed()).then(|| (index, claim.refuse(asked)))
        });
        let denied: JointDecision = denied.collect();
        // If all limits would admit the request now, it is charged after all.
        if denied.answer.is_some() {
            return denied;
        }
    }
    // The limit with the fewest units left answers for all limits. If several limits have the fewest units left, the
    // first of them answers. Only its decision is copied.
    let mut fewest: Option<(usize, u64)> = None;
    for gives_back in [true, false] {
        for index in 0..claims.len() {
            if claims[index].limit.gives_back() != gives_back {
                continue;
            }
            let claim = &mut claims[index];
            let decision = claim.charge();
            if decision.is_denied() {
                let denied = JointDecision { answer: Some((index, decision.twin())) };
                // The charges are undone in reverse order. This matters for a limit with two claims.
                claims.iter().rev().for_each(|charged| charged.undo());
                return denied;
            }
            let remaining = decision.remaining();
            // The index is compared, too, since a sketch is charged last even if its claim comes first.
            if fewest.is_none_or(|(first, least)| (remaining, index) < (least, first)) {
                fewest = Some((index, remaining));
            }
        }
        // Without a sketch, all limits are charged by now.
        if !any_keeps_its_charge {
            break;
        }
    }
    let told = |(index, _): (usize, u64)| Some((index, claims[index].decision.as_ref()?.twin()));
    JointDecision { answer: fewest.and_then(told) }
}

#[cfg(test)]
mod tests;
