//! [`ChangingCell`]: one word whose quota can be changed while others decide.
//!
//! The word says by an index which quota it is counted in, as the words of a table of tiers do, and the
//! quotas stand in the same kind of book (`book.rs`). It has a word of its own, so there is no tag and no
//! floor, and its time never wraps.
//!
//! # Why this is no property of every limiter
//! A decision of a limiter with a fixed quota takes some forty instructions, and knows its numbers
//! before it has seen the word. Here it must see the word, then find its numbers, and look at the word again: ten
//! loads more, and the bits of the index are missing in the time. Users that do not need it should not pay
//! for it.
//!
//! # Orderings
//! The word is loaded `Acquire` and written `Release`, unlike that of a [`Cell`](crate::cell::Cell): a thread that sees
//! a word with an index must see the numbers under that index.

use crossbeam_utils::CachePadded;

use crate::algorithm::{Decides, FromCode, Gcra, Held, Kernel, Rebased, Ruled, Rules, by_code};
use crate::change::ChangeError;
use crate::clock::Timestamp;
use crate::decision::{Decision, View};
use crate::policy::Policy;
use crate::refund::{Amendment, Found};
use crate::sync::{AtomicU64, Ordering};
use crate::verb::{Verb, Verbs, Wish};
use crate::verdict::Verdict;

use super::ask::Ask;
use super::book::{Book, Lane, NewQuota, Page, index_bits_for};
use super::hit::step;
use super::layout::{Coded, Layout, Shared};
use super::points;

/// The word of a [`Limiter`](crate::Limiter) whose quota may change, and its quotas.
#[derive(Debug)]
pub(crate) struct ChangingCell {
    word: CachePadded<AtomicU64>,
    book: Book,
}

/// A word, and what it holds under the quota in force, seen from `at_ns`.
#[derive(Clone, Copy)]
struct Read {
    word: u64,
    layout: Layout,
    mark: u64,
    held: Held,
    at_ns: u64,
}

impl Read {
    fn ruled(&self) -> Ruled<'_> {
        self.layout.ruled()
    }

    /// The word that holds this instead.
    fn with(&self, held: Held) -> u64 {
        self.layout.live(self.mark, held, &self.ruled(), self.ruled().moment(self.at_ns))
    }
}

/// A time as far as words of both quotas tell instants apart. Past that the clock stands still, so that no time can
/// outgrow its word.
fn told_by_both(now: Timestamp, [one, other]: [&Kernel; 2]) -> u64 {
    now.as_nanos().min(one.latest_ns()).min(other.latest_ns())
}

impl ChangingCell {
    /// The policy is [`plain`](crate::change::plain).
    pub(crate) fn new(policy: Policy) -> Result<Self, ChangeError> {
        let shared = Shared::alone(index_bits_for(1));
        let layout = shared.layout_alone(&policy);
        let book = layout.and_then(|layout| Book::new(shared, &[(policy, layout)]));
        let state_bits = shared.index_shift();
        let book = book.ok_or(ChangeError::DoesNotFit { state_bits })?;
        // 0 is the word of the first quota at time 0 with nothing spent.
        Ok(Self { word: CachePadded::new(AtomicU64::new(0)), book })
    }

    /// The policy in force.
    pub(crate) fn rules(&self) -> Rules {
        self.book.in_force(0).layout.rules
    }

    pub(crate) fn policy(&self) -> Option<Policy> {
        self.book.policy(0)
    }

    /// Changes the quota to a [`plain`](crate::change::plain) one at `now`, or when the last change was if that is later.
    pub(crate) fn set_quota(&self, policy: Policy, now: Timestamp) -> Result<(), ChangeError> {
        let shared = self.book.shared();
        let layout = shared.layout_alone(&policy);
        let code = layout.as_ref().and_then(Shared::code);
        let state_bits = shared.index_shift();
        let (Some(code), Some(Layout { rules, kernel, .. })) = (code, &layout) else {
            return Err(ChangeError::DoesNotFit { state_bits });
        };
        let changing = self.book.begin().ok_or(ChangeError::Busy)?;
        // The instant has to be one in the words of both quotas.
        let replaced = self.book.in_force(0).layout.kernel;
        let at_ns = changing.instant(told_by_both(now, [&replaced, kernel]));
        let quota = NewQuota { policy: &policy, code: &code, rules };
        let retired = changing.turn(0, quota, at_ns);
        // Every thread that met the word may have brought it over; if none did, the change does. Lock-free.
        loop {
            let read = self.read(Timestamp::from_nanos(at_ns));
            let is_current = !self.book.has_index(read.word, retired);
            // Brought over by another thread, or now by this one.
            if points::keeps_ticks(is_current) || self.replace(&read, read.with(read.held)) {
                return Ok(());
            }
        }
    }

    /// The word and what it holds under the quota in force, seen from `now`.
    fn read(&self, now: Timestamp) -> Read {
        let seen = |layout: &Layout, word, at_ns| {
            layout.unpack(word, &layout.ruled(), layout.ruled().moment(at_ns))
        };
        loop {
            // Acquire: see the header.
            let word = self.word.load(Ordering::Acquire);
            let read = self.book.page(word).and_then(|page| match page {
                // Counted in the quota in force.
                Page::InForce(lane) => {
                    let at_ns = told_by_both(now, [&lane.layout.kernel; 2]);
                    let held = seen(&lane.layout, word, at_ns);
                    let mark = lane.layout.own_of(word);
                    Some(Read { word, layout: lane.layout, mark, held, at_ns })
                }
                // Counted in the one before: read in its ticks, then carried over the change. `None`, here and below:
                // numbers are being written, so the word has been replaced.
                Page::Retired { old, at_ns: changed_ns, new } => {
                    let seen_ns = told_by_both(now, [&old.kernel, &new.layout.kernel]);
                    let held = seen(&old, word, seen_ns);
                    let kept = self.book.surplus(word, &old)?;
                    let kept = kept.as_ref().map(|(former, units)| (former, *units));
                    let (to, most) = (new.layout.ruled(), new.layout.ahead);
                    let rebased = old.ruled().rebased(&to, most, held, kept, changed_ns, seen_ns);
                    let Rebased { held, surplus } = rebased;
                    let Lane { layout, mark } = self.book.with_surplus(new, surplus)?;
                    // Where one of the two tells no later instant, what it holds then it holds now.
                    let at_ns = told_by_both(now, [&layout.kernel; 2]);
                    Some(Read { word, layout, mark, held, at_ns })
                }
            });
            // As long as the word stands, so do its numbers: see `book`. Lock-free: else it was replaced. Acquire
            // as above.
            let stands = self.word.load(Ordering::Acquire) == word;
            if let (Some(read), true) = (read, points::is_whole(stands)) {
                return read;
            }
        }
    }

    fn replace(&self, read: &Read, next: u64) -> bool {
        self.swap(read.word, next)
    }

    fn swap(&self, word: u64, next: u64) -> bool {
        // Release and Acquire: see the header. Relaxed on failure: the caller reads again.
        self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Decides and charges. A cost of 0 is a question.
    #[inline(never)]
    pub(crate) fn check(&self, cost: u64, now: Timestamp) -> Decision {
        // Lock-free: each turn that does not end it means that another thread has charged the word or changed its quota.
        loop {
            // Acquire: see the header.
            let word = self.word.load(Ordering::Acquire);
            match self.book.coded_of(word) {
                Some(code) if Shared::is_gcra(code) => {
                    if let Some(decision) = self.check_as::<Gcra>(word, code, cost, now, cost > 0) {
                        return decision;
                    }
                }
                // In a function of its own: the code of all algorithms at once would leave plain GCRA few registers.
                Some(_) => return self.check_by_code(cost, now, cost > 0),
                // The quota of the word has been replaced, has rules, or is being written.
                None => return self.ask(Verb::Check, cost, now, cost > 0),
            }
        }
    }

    /// The same, under any algorithm; or only asked for.
    #[inline(never)]
    pub(crate) fn check_by_code(&self, cost: u64, now: Timestamp, charge: bool) -> Decision {
        // Lock-free, as in `check`.
        loop {
            // Acquire: see the header.
            let word = self.word.load(Ordering::Acquire);
            let Some(code) = self.book.coded_of(word) else {
                return self.ask(Verb::Check, cost, now, charge);
            };
            let decided = by_code!(code, A => self.check_as::<A>(word, code, cost, now, charge));
            if let Some(decision) = decided {
                return decision;
            }
        }
    }

    /// By the code that is compiled for the algorithm, as a table of several quotas decides a hit (`hit.rs`); `None` if
    /// the word has been replaced meanwhile.
    #[inline(always)]
    fn check_as<A: FromCode>(
        &self,
        word: u64,
        code: Coded,
        cost: u64,
        now: Timestamp,
        charge: bool,
    ) -> Option<Decision> {
        let layout = self.book.shared().of_code_as::<A>(code);
        // Never `None`: `of_code_as` makes a kernel of this algorithm.
        let algorithm = A::of(&layout.kernel)?;
        let now_ns = now.as_nanos().min(algorithm.latest_ns());
        let ask = Ask { now_ns, cost, charge, verb: Verb::Check, tier: 0 };
        let (outcome, next) = step(&layout, algorithm, layout.own_of(word), word, ask);
        // The numbers were read after the word. As long as it stands they are its own: see `price`. Acquire: see the
        // header.
        let stands = if next == word {
            points::is_whole(self.word.load(Ordering::Acquire) == word)
        } else {
            self.swap(word, next)
        };
        stands.then(|| outcome.told(layout.kernel, now_ns, 0))
    }

    /// Every verb, on every word.
    #[inline(never)]
    pub(crate) fn ask(&self, verb: Verb, cost: u64, now: Timestamp, charge: bool) -> Decision {
        loop {
            let read = self.read(now);
            let Read { layout, held, at_ns, .. } = read;
            let (ruled, moment) = (layout.ruled(), layout.ruled().moment(at_ns));
            let wish = Wish { verb, cost, most: layout.ahead };
            let answer = |verdict, held, cost, unpaid| {
                let (mark, held, seen_ns) = ruled.tell(verdict, held, at_ns, 0, unpaid);
                let soft_bp = layout.rules.soft_bp;
                let view = View::plain(layout.kernel, held, seen_ns, at_ns, cost);
                Decision::new(verdict, View { mark, soft_bp, ..view })
            };
            let Some(next) = ruled.apply(wish, held, moment, 0) else {
                let cost = wish.denied_cost();
                // Nothing is written, so the word stays in the quota that it is counted in; unless denials are counted.
                let counted =
                    ruled.refuse(held, at_ns, cost).filter(|_| charge && wish.counts_its_denial());
                let Some(next) = counted else { return answer(Verdict::Denied, held, cost, 0) };
                // Lock-free, as below.
                if self.replace(&read, read.with(next)) {
                    return answer(Verdict::Denied, next, cost, 0);
                }
                continue;
            };
            // A question, or a charge of nothing.
            if !charge || next.cost == 0 {
                return answer(Verdict::Allowed, held, 0, if charge { 0 } else { cost });
            }
            // Lock-free: if this fails, another thread has charged the word or brought it over.
            if self.replace(&read, read.with(next.held)) {
                return answer(Verdict::Allowed, next.held, next.cost, 0);
            }
        }
    }

    /// As [`amend`](super::amend::amend).
    pub(crate) fn amend(&self, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> u64 {
        loop {
            let first = self.read(Timestamp::default());
            // Only now, after the word: see `Cell::amend`.
            let read = self.read(now());
            if read.word != first.word {
                continue;
            }
            let Read { held, at_ns, .. } = read;
            let found = Found { held, at_ns, now_ns: at_ns };
            // As in a table.
            if amendment.charge().is_some_and(|charge| !self.book.is_of(read.mark, charge)) {
                return 0;
            }
            let (next, units) = read.layout.ruled().amend(found, amendment, |charge| {
                read.word == Read { at_ns: charge.at_ns, ..read }.with(read.ruled().left(charge))
            });
            // A reset forgets its surplus, too.
            let kept = if matches!(amendment, Amendment::Reset) {
                let lane = Lane { layout: read.layout, mark: read.mark };
                Read { mark: self.book.without_surplus(lane).mark, ..read }
            } else {
                read
            };
            if next == held && kept.mark == read.mark {
                return 0;
            }
            if self.replace(&read, kept.with(next)) {
                return units;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::LATEST_NS;
    use crate::{Limiter, Quota};

    #[test]
    fn the_slowest_and_the_fastest_quota_count_to_the_end_of_time() {
        for quota in [
            Quota::per_second(2_000_000_000),
            Quota::per_second(1).burst(1_000_000_000),
            Quota::per_day(1),
        ] {
            let limit = quota.max_burst();
            for now in [0, 1 << 40, LATEST_NS].map(Timestamp::from_nanos) {
                let Ok(limiter) = Limiter::changing(quota) else {
                    assert!(quota.count() > 100_000_000, "{quota} does not fit");
                    continue;
                };
                assert!(limiter.entry().at(now).check_n(limit).is_allowed(), "{quota} at {now:?}");
                assert!(!limiter.entry().at(now).check_n(limit).is_allowed(), "{quota} at {now:?}");
            }
        }
    }
}
