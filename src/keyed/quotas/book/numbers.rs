//! [`QuotaNumbers`]: the entry of a book under one index. A thread that reads the entry while it is written notices
//! this by the entry's version.

use crate::algorithm::{CODE_WORDS, Former, RULES_WORDS, Rules, kernel_of_code};
use crate::policy::{NUMBERS, Policy};
use crate::sync::{AtomicU64, Ordering};

use crate::keyed::memory::layout::{Coded, Shared};
use crate::keyed::memory::points;

/// The numbers of a quota, and the time in which it is in force.
#[derive(Debug)]
pub(super) struct QuotaNumbers {
    /// Odd while the numbers are written.
    version: AtomicU64,
    numbers: [AtomicU64; size_of::<Coded>() / size_of::<u64>()],
    /// The rules for what happens at the limit, if the numbers say that there are any.
    rules: [AtomicU64; RULES_WORDS],
    /// The quota under which a surplus of this quota's words was spent. It is read by a change, and for words that have
    /// a surplus.
    former: [AtomicU64; size_of::<FormerNumbers>() / size_of::<u64>()],
    tier: AtomicU64,
    /// One more than the instant, in nanoseconds, at which the quota was replaced by another; 0 or [`RULED`] while it
    /// is in force.
    retired: AtomicU64,
    /// The instant at which this quota replaced another; 0 if it was the first.
    since: AtomicU64,
}

/// This value of `retired` means that the quota is in force and has rules. So the fast path, which accepts only 0,
/// needs no second test for rules.
const RULED: u64 = u64::MAX;

/// The numbers of a policy ([`Policy::numbers`]).
pub(super) type Named = [AtomicU64; NUMBERS];

/// The numbers of a [`Former`] quota: its algorithm, two instants, and the most units of a surplus.
type FormerNumbers = [u64; CODE_WORDS + 3];

/// A former quota as numbers; all 0 if there is none.
fn former_numbers(former: Option<&Former>) -> FormerNumbers {
    let mut numbers = FormerNumbers::default();
    if let Some(Former { kernel, at_ns, until_ns, most }) = former {
        let (code, rest) = numbers.split_at_mut(CODE_WORDS);
        code.copy_from_slice(&kernel.code());
        rest.copy_from_slice(&[*at_ns, *until_ns, *most]);
    }
    numbers
}

/// The former quota of these numbers.
fn former_of([code @ .., at_ns, until_ns, most]: FormerNumbers) -> Option<Former> {
    // Every limit is at least 1, and so is `most`.
    let kernel = (most > 0).then(|| kernel_of_code(code))?;
    Some(Former { kernel, at_ns, until_ns, most })
}

/// A quota with which a table is built, or to which a tier is changed.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct NewQuota<'a> {
    pub(in crate::keyed) policy: &'a Policy,
    pub(in crate::keyed) code: &'a Coded,
    pub(in crate::keyed) rules: &'a Rules,
}

/// The instant from which a quota is in force, and the quota under which a surplus of its words was spent.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::keyed) struct Start {
    pub(in crate::keyed) since_ns: u64,
    pub(in crate::keyed) former: Option<Former>,
}

impl QuotaNumbers {
    pub(super) fn vacant() -> Self {
        let numbers = std::array::from_fn(|_| AtomicU64::new(0));
        // The version is even, since nothing is being written. No word leads here yet.
        let [version, tier, retired, since] = [0; 4].map(AtomicU64::new);
        let rules = std::array::from_fn(|_| AtomicU64::new(0));
        let former = std::array::from_fn(|_| AtomicU64::new(0));
        Self { version, numbers, rules, former, tier, retired, since }
    }

    /// The numbers and their tier, or `None` while they are written.
    ///
    /// Acquire throughout: if a thread loads one number of a newer version, its last load of the version gives the odd
    /// number or a newer one. The thread also sees what was done before that number was written: the word or the tier
    /// that led it here now leads elsewhere. So a reader fails here at most once for each change, and never waits for a
    /// change.
    #[inline(always)]
    pub(super) fn read(&self) -> Option<(Coded, usize)> {
        // Acquire: each load pairs with its Release in `write`. The version is read first and last. If it is even and
        // the same both times, nothing was written in between.
        let before = self.version.load(Ordering::Acquire);
        let code = std::array::from_fn(|n| self.numbers[n].load(Ordering::Acquire));
        let tier = index_of(self.tier.load(Ordering::Acquire));
        // Acquire, as above. If the version is odd or has changed, a change is writing here, so the word that led here
        // has been replaced.
        let whole = before.is_multiple_of(2) && self.version.load(Ordering::Acquire) == before;
        points::is_whole(whole).then_some((code, tier))
    }

    /// The numbers as [`read`](Self::read) gives them, with the rules for what happens at the limit.
    pub(super) fn read_with_rules(&self) -> Option<(Coded, Rules, usize)> {
        let (code, tier) = self.read()?;
        if !Shared::has_rules(code) {
            return Some((code, Rules::default(), tier));
        }
        // Acquire throughout, as in `read`. The version is read before and after the numbers and the rules.
        let before = self.version.load(Ordering::Acquire);
        let (code, tier) = self.read()?;
        let rules = std::array::from_fn(|n| self.rules[n].load(Ordering::Acquire));
        let whole = self.version.load(Ordering::Acquire) == before && Shared::has_rules(code);
        whole.then(|| (code, Rules::of_code(rules), tier))
    }

    /// The quota under which a surplus of this quota's words was spent, if any. The outer `None` means that the entry
    /// is being written.
    pub(super) fn former(&self) -> Option<Option<Former>> {
        // Acquire throughout, as in `read`.
        let before = self.version.load(Ordering::Acquire);
        let numbers = std::array::from_fn(|n| self.former[n].load(Ordering::Acquire));
        let whole = before.is_multiple_of(2) && self.version.load(Ordering::Acquire) == before;
        points::is_whole(whole).then(|| former_of(numbers))
    }

    /// The numbers of the policy, which are kept in `named`; `None` while they are written.
    pub(super) fn named(&self, named: &Named) -> Option<[u64; NUMBERS]> {
        // Acquire throughout, as in `read`.
        let before = self.version.load(Ordering::Acquire);
        let numbers = std::array::from_fn(|n| named[n].load(Ordering::Acquire));
        // If the version is even and the same after the numbers, none of them was written in between.
        let whole = before.is_multiple_of(2) && self.version.load(Ordering::Acquire) == before;
        whole.then_some(numbers)
    }

    /// True if the quota is in force and has no rules for its limit.
    #[inline(always)]
    pub(super) fn is_plainly_in_force(&self) -> bool {
        // Acquire, as in `retired_ns`.
        self.retired.load(Ordering::Acquire) == 0
    }

    /// The instant at which the quota was replaced, if it was.
    pub(super) fn retired_ns(&self) -> Option<u64> {
        // Acquire: pairs with the Release of `retire`. A thread that sees a quota retired sees its tier turned.
        match self.retired.load(Ordering::Acquire) {
            // No change has retired it.
            0 | RULED => None,
            retired => Some(retired - 1),
        }
    }

    /// Writes the instant at which the quota was replaced. The caller has already turned the quota's tier to another
    /// quota.
    pub(super) fn retire(&self, at_ns: u64) {
        // Release: pairs with the Acquire of `retired_ns`. The number is one more than the instant, so that 0 can mean
        // that the quota is in force. The sum does not overflow: see `Changing::instant`.
        self.retired.store(at_ns + 1, Ordering::Release);
    }

    /// The instant from which the quota has been in force; 0 for the first.
    pub(super) fn since_ns(&self) -> u64 {
        // Acquire: a thread that a word or a tier has led here sees what was written before that word, or before the
        // tier was turned.
        self.since.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn version(&self) -> u64 {
        // Acquire: a thread that sees a version sees that the quotas of earlier versions are gone.
        self.version.load(Ordering::Acquire)
    }

    /// Reads data that is kept elsewhere but written under this entry's version. Returns the data and the version, or
    /// `None` while a thread writes.
    pub(super) fn read_beside<T>(&self, read: impl FnOnce() -> T) -> Option<(T, u64)> {
        // Acquire, both, as in `read`.
        let before = self.version.load(Ordering::Acquire);
        let found = read();
        let whole = before.is_multiple_of(2) && self.version.load(Ordering::Acquire) == before;
        whole.then_some((found, before))
    }

    /// Writes the numbers of an index that no word carries. `also` writes the data that is read with them
    /// ([`read_beside`](Self::read_beside)). Only a build, a change or the thread that has taken the place may call
    /// this.
    pub(super) fn write(
        &self,
        named: &Named,
        tier: usize,
        quota: NewQuota<'_>,
        start: Start,
        also: impl FnOnce(),
    ) {
        let (NewQuota { policy, code, rules }, Start { since_ns, former }) = (quota, start);
        // Relaxed: no other thread writes this entry. During a build no other thread has the book, a change holds the
        // right to change, and a place is written only by the thread that has taken it.
        let version = self.version.load(Ordering::Relaxed);
        let [odd, even] = points::versions_behind(version);
        // Release: a thread that sees the odd version also sees that the word or the tier that led it here now leads
        // elsewhere.
        self.version.store(odd, Ordering::Release);
        // Release, here and below: a thread that sees one of the new numbers sees the odd version, too.
        for (number, &value) in self.numbers.iter().zip(code) {
            number.store(value, Ordering::Release);
        }
        if Shared::has_rules(*code) {
            for (number, value) in self.rules.iter().zip(rules.code()) {
                number.store(value, Ordering::Release);
            }
        }
        // Only numbers that differ are written: words of most quotas have no surplus, and a model explores each store.
        for (number, value) in self.former.iter().zip(former_numbers(former.as_ref())) {
            // Relaxed: only this thread writes the entry now.
            if number.load(Ordering::Relaxed) != value {
                number.store(value, Ordering::Release);
            }
        }
        // Models leave these stores out: no decision reads them, only refunds and displays of the policy. Release, as
        // for the numbers.
        if !cfg!(loom) {
            for (number, value) in named.iter().zip(policy.numbers()) {
                number.store(value, Ordering::Release);
            }
            self.since.store(since_ns, Ordering::Release);
        }
        also();
        // Release, both: as for the numbers.
        self.tier.store(tier as u64, Ordering::Release);
        self.retired.store(if rules.are_none() { 0 } else { RULED }, Ordering::Release);
        // Release: a thread that sees the even version sees everything that was written before it.
        self.version.store(even, Ordering::Release);
    }
}

/// An index as it is kept in an atomic.
#[expect(
    clippy::cast_possible_truncation,
    reason = "indices are small; of a word, its low bits are"
)]
#[inline]
pub(super) fn index_of(bits: u64) -> usize {
    bits as usize
}
