//! [`ChangingCell`]: one word whose quota can be changed while other threads decide.
//!
//! The word names its quota by an index, as the words of a table of tiers do, and the quotas are in the same kind of
//! book (`book.rs`). The word belongs to no key, so there is no tag and no floor, and its time never wraps.
//!
//! # Why not every limiter has such a word
//! A limiter with a fixed quota decides in some forty instructions, and has the quota's numbers before it loads the
//! word. Here a decision must first load the word, then find the numbers, and load the word again. This takes 13 more
//! loads, or 14 if nothing is written, and the time has fewer bits because of the index. Users with a fixed quota
//! should not pay for this.
//!
//! # Orderings
//! The word is loaded `Acquire` and written `Release`, unlike the word of a [`Cell`](crate::cell::Cell), because a
//! thread that sees a word with an index must see the numbers under that index.

use crate::keyed::memory::shard::{OwnBits, TableWord};
use crossbeam_utils::CachePadded;

use crate::algorithm::{Decides, FromCode, Gcra, Held, Kernel, Rebased, Ruled, Rules, by_code};
use crate::change::ChangeError;
use crate::clock::Timestamp;
use crate::decision::{Decision, View};
use crate::policy::Policy;
use crate::refund::Amendment;
use crate::slot::{Reading, Slot, amend, decide_there};
use crate::sync::{AtomicU64, Ordering};
use crate::verb::{Check, Verb};

use super::book::{Book, Lane, NewQuota, Page, index_bits_for};
use crate::keyed::memory::layout::{Coded, Layout, Shared};
use crate::keyed::memory::points;
use crate::keyed::quotas::book::own::Void;

/// The word of a [`Limiter`](crate::Limiter) whose quota may change, and its quotas.
#[derive(Debug)]
pub(crate) struct ChangingCell {
    word: CachePadded<AtomicU64>,
    book: Book,
}

/// A word that has been read, and its state at `at_ns` under the quota in force.
#[derive(Clone, Copy)]
struct Read<'a> {
    book: &'a Book,
    word: TableWord,
    layout: Layout,
    own: OwnBits,
    held: Held,
    at_ns: u64,
}

impl Read<'_> {
    /// The word with the state `held` and the own bits `own`.
    fn with(&self, own: OwnBits, held: Held) -> TableWord {
        let ruled = self.layout.ruled();
        self.layout.live(own, held, &ruled, ruled.moment(self.at_ns))
    }
}

impl Reading for Read<'_> {
    fn ruled(&self) -> Ruled<'_> {
        self.layout.ruled()
    }

    fn seen(&self) -> (Held, u64) {
        (self.held, self.at_ns)
    }

    fn most(&self) -> u64 {
        self.layout.ahead
    }

    fn is_left(&self, charge: &View) -> bool {
        let left = self.layout.ruled().left(charge);
        self.word == Read { at_ns: charge.at_ns, ..*self }.with(self.own, left)
    }

    fn is_of(&self, charge: &View) -> bool {
        self.book.is_of(self.own, charge, Void::NONE)
    }

    fn has_surplus(&self) -> bool {
        self.layout.surplus_of(self.own) != OwnBits::default()
    }
}

impl<'a> Slot<Read<'a>> for ChangingCell {
    fn write(&self, read: &Read<'a>, next: Held) -> bool {
        self.swap(read.word, read.with(read.own, next))
    }

    fn clear(&self, read: &Read<'a>) -> bool {
        let bare = read.own.without(read.layout.surplus_of(read.own));
        self.swap(read.word, read.with(bare, Held::IDLE))
    }
}

/// The time, cut to the latest time that words of both quotas can hold. Later times count as that time, so that every
/// time fits in a word.
fn told_by_both(now: Timestamp, [one, other]: [&Kernel; 2]) -> u64 {
    now.as_nanos().min(one.latest_ns()).min(other.latest_ns())
}

impl ChangingCell {
    /// Makes the word of a limiter whose policy is [`plain`](crate::change::plain).
    pub(crate) fn new(policy: Policy) -> Result<Self, ChangeError> {
        let shared = Shared::alone(index_bits_for(1));
        let state_bits = shared.index_shift();
        let layout = shared.layout_alone(&policy).ok_or(ChangeError::DoesNotFit { state_bits })?;
        let book = Book::new(shared, &[(policy, layout)]);
        // 0 is the word of the first quota at time 0 with nothing spent.
        Ok(Self { word: CachePadded::new(AtomicU64::new(0)), book })
    }

    /// The rules of the quota in force for what happens at its limit.
    pub(crate) fn rules(&self) -> Rules {
        self.book.in_force(0).layout.rules
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> Option<Policy> {
        self.book.policy(0)
    }

    /// Changes the quota to a [`plain`](crate::change::plain) quota at `now`, or at the instant of the last change if
    /// that is later.
    pub(crate) fn set_quota(&self, policy: Policy, now: Timestamp) -> Result<(), ChangeError> {
        let shared = self.book.shared();
        let state_bits = shared.index_shift();
        let layout = shared.layout_alone(&policy).ok_or(ChangeError::DoesNotFit { state_bits })?;
        let (code, Layout { rules, kernel, .. }) = (Shared::code(&layout), &layout);
        let changing = self.book.begin().ok_or(ChangeError::Busy)?;
        // The words of both quotas must be able to hold the instant.
        let replaced = self.book.in_force(0).layout.kernel;
        let at_ns = changing.instant(told_by_both(now, [&replaced, kernel]));
        let quota = NewQuota { policy: &policy, code: &code, rules };
        let retired = changing.turn(0, quota, at_ns);
        // Any thread that writes the word brings it over to the new quota. If no thread has done so, the change does.
        // Lock-free: the loop repeats only if another thread has changed the word, or after a spurious failure.
        loop {
            let read = self.read(Timestamp::from_nanos(at_ns));
            let is_current = !self.book.has_index(read.word, retired);
            // The word is in the new quota: another thread brought it over, or this thread has just done so.
            if points::keeps_ticks(is_current) || self.write(&read, read.held) {
                return Ok(());
            }
        }
    }

    /// Reads the word, and its state at `now` under the quota in force.
    fn read(&self, now: Timestamp) -> Read<'_> {
        let seen = |layout: &Layout, word, at_ns| {
            layout.unpack(word, &layout.ruled(), layout.ruled().moment(at_ns))
        };
        loop {
            // Acquire: see the header.
            let word = TableWord::from_bits(self.word.load(Ordering::Acquire));
            let read = self.book.page(word).and_then(|page| match page {
                // The word is counted in the quota in force.
                Page::InForce(lane) => {
                    let at_ns = told_by_both(now, [&lane.layout.kernel; 2]);
                    let held = seen(&lane.layout, word, at_ns);
                    let own = lane.layout.own_of(word);
                    Some(Read { book: &self.book, word, layout: lane.layout, own, held, at_ns })
                }
                // The word is counted in the earlier quota: it is read in the ticks of that quota, and then carried
                // over to the new one. `None`, here and below, means that numbers are being written, so the word has
                // been replaced.
                Page::Retired { old, at_ns: changed_ns, new } => {
                    let seen_ns = told_by_both(now, [&old.kernel, &new.layout.kernel]);
                    let held = seen(&old, word, seen_ns);
                    let kept = self.book.surplus(word, &old)?;
                    let kept = kept.as_ref().map(|(former, units)| (former, *units));
                    let (to, most) = (new.layout.ruled(), new.layout.ahead);
                    let rebased = old.ruled().rebased(&to, most, held, kept, changed_ns, seen_ns);
                    let Rebased { held, surplus } = rebased;
                    let Lane { layout, own } = self.book.with_surplus(new, surplus)?;
                    // If `seen_ns` was cut to the latest time of one of the quotas, the state at that time is used as
                    // the state now.
                    let at_ns = told_by_both(now, [&layout.kernel; 2]);
                    Some(Read { book: &self.book, word, layout, own, held, at_ns })
                }
            });
            // As long as the word has not been replaced, its numbers do not change: see `book.rs`. So the word is
            // loaded again. Acquire, as above. Lock-free: the loop repeats only if another thread has replaced the
            // word.
            let stands = self.word.load(Ordering::Acquire) == word.to_bits();
            if let (Some(read), true) = (read, points::is_whole(stands)) {
                return read;
            }
        }
    }

    fn swap(&self, word: TableWord, next: TableWord) -> bool {
        // Release and Acquire: see the header. Relaxed on failure: the caller reads again.
        self.word
            .compare_exchange_weak(
                word.to_bits(),
                next.to_bits(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Decides a request, and charges it if it is admitted. A cost of 0 charges nothing.
    #[inline(never)]
    pub(crate) fn check(&self, cost: u64, now: Timestamp) -> Decision {
        // Lock-free: the loop repeats only if another thread has charged the word or changed its quota, or after a
        // spurious failure.
        loop {
            // Acquire: see the header.
            let word = TableWord::from_bits(self.word.load(Ordering::Acquire));
            match self.book.coded_of(word) {
                Some(code) if Shared::is_gcra(code) => {
                    if let Some(decision) = self.check_as::<Gcra>(word, code, cost, now, cost > 0) {
                        return decision;
                    }
                }
                // The other algorithms have a separate function, because the code of all algorithms here would leave
                // plain GCRA few registers.
                Some(_) => return self.check_by_code(cost, now, cost > 0),
                // The quota of the word has been replaced, has rules, or is being written.
                None => return self.ask(Verb::Check, cost, now, cost > 0),
            }
        }
    }

    /// Like [`check`](Self::check), under any algorithm, and also for requests that do not charge.
    #[inline(never)]
    pub(crate) fn check_by_code(&self, cost: u64, now: Timestamp, charge: bool) -> Decision {
        // Lock-free, as in `check`.
        loop {
            // Acquire: see the header.
            let word = TableWord::from_bits(self.word.load(Ordering::Acquire));
            let Some(code) = self.book.coded_of(word) else {
                return self.ask(Verb::Check, cost, now, charge);
            };
            let decided = by_code!(code, A => self.check_as::<A>(word, code, cost, now, charge));
            if let Some(decision) = decided {
                return decision;
            }
        }
    }

    /// Decides by the code that is compiled for the algorithm, as a table of several quotas decides a hit (`hit.rs`);
    /// `None` if the word has been replaced meanwhile, or if the CAS failed spuriously.
    #[inline(always)]
    fn check_as<A: FromCode>(
        &self,
        word: TableWord,
        code: Coded,
        cost: u64,
        now: Timestamp,
        charge: bool,
    ) -> Option<Decision> {
        let layout = self.book.shared().of_code_as::<A>(code);
        // Never `None`: `of_code_as` makes a kernel of this algorithm.
        let algorithm = A::of(&layout.kernel)?;
        let now_ns = now.as_nanos().min(algorithm.latest_ns());
        let own = layout.own_of(word);
        let asked = Check { cost, charge };
        let (outcome, next) = layout.planned(algorithm, asked, own, word, now_ns);
        // The numbers were read after the word. As long as the word has not been replaced, they are those of its quota:
        // see `price`. Acquire: see the header.
        let stands = if next == word {
            points::is_whole(self.word.load(Ordering::Acquire) == word.to_bits())
        } else {
            self.swap(word, next)
        };
        stands.then(|| outcome.told(layout.kernel, now_ns, 0))
    }

    /// Decides a request with any verb, whatever quota the word is counted in.
    #[inline(never)]
    pub(crate) fn ask(&self, verb: Verb, cost: u64, now: Timestamp, charge: bool) -> Decision {
        // A request that writes nothing, such as a plain denial or a peek, leaves the word in its quota.
        let (read, outcome) = decide_there(self, verb, cost, charge, || self.read(now));
        outcome.told(read.layout.kernel, read.at_ns, read.layout.rules.soft_bp)
    }

    /// Amends the charge of a permit in the word, as in a key's word.
    pub(crate) fn amend(&self, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> u64 {
        let read = || loop {
            let first = self.read(Timestamp::default());
            // The time is read only now, after the word: see `slot::amend`.
            let read = self.read(now());
            if read.word == first.word {
                return Some((read, read.at_ns));
            }
        };
        amend(self, amendment, read).unwrap_or(0)
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
                let Ok(limiter) = Limiter::builder(quota).changing().build() else {
                    assert!(quota.count() > 100_000_000, "{quota} does not fit");
                    continue;
                };
                assert!(limiter.entry().at(now).check_n(limit).is_allowed(), "{quota} at {now:?}");
                assert!(!limiter.entry().at(now).check_n(limit).is_allowed(), "{quota} at {now:?}");
            }
        }
    }
}
