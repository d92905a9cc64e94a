//! Tables whose callers bring their own quotas: how a request under one quota is decided on a word that was last
//! charged under another quota.
//!
//! A word is counted in the ticks of the quota under which it was charged last, and drains at that quota's rate. A
//! request under another quota *carries the word over*: the debt is converted to the ticks of the request's quota, so
//! that it stays the same number of units. A fraction of a tick is rounded up.
//!
//! | Request | Word of another quota |
//! |---|---|
//! | admitted | is written in the request's quota |
//! | denied, quota faster than the word's | is written in the request's quota without a charge, so that a raised rate takes effect at once. A cost above the burst writes nothing |
//! | denied, quota not faster | stays as it is, and the wait is computed by the rate of its own quota |
//!
//! Apart from denials that a policy counts, only the denials of the second row write anything. Without these writes, a
//! key that owes much under a slow quota would wait just as long after its quota has been raised. Between two
//! admissions of a key, such a write happens at most once for each quota, since each such write leads to a faster
//! quota. A denial under a quota that is not faster must not write. Each write may round up by a tick, so a key whose
//! requests come under two quotas in turn would never drain.
//!
//! A word of the request's quota may have no room for the debt. Then the word stays in its own quota, and the request
//! is decided with the rate of that quota and the burst of the request's quota. The same happens while the shard's
//! floor is ahead of the clock, because that floor could not date the carried word.
//!
//! # The most that a key is admitted
//! Let R be the highest rate and B the largest burst of the quotas under which a key's requests come. In any time T the
//! key is admitted at most B + R * T units, as under a single quota with that rate and burst. Let D be the key's debt
//! in units. Carrying the word over does not lower D. An admission raises D by its cost, to B at most. D drains at a
//! rate of at most R. Let s be an instant before an instant t. Then D at t is at least the number of units admitted
//! between s and t, less R * (t - s).
//!
//! For this bound, a word must not be carried over at an instant before its last charge. Otherwise the units of that
//! charge would drain at the faster rate from the earlier instant on. So a request that carries a word over reads the
//! clock after it has read the word, as a refund does (`slot::amend`). The request is decided at this reading, or at
//! its own time if that is later. No charge in the word is later than this reading if its time was read from the same
//! clock. A charge whose time the caller gave may be later.
//!
//! A request under the word's own quota is decided at its own time, as in every table. If this time is d before the
//! clock, the bound may be exceeded by up to R * d units. The reason is that units which drained at a faster quota's
//! rate meanwhile are counted as if they had drained at the slower rate.
//!
//! The CAS expects the exact word, but a refund and an equal charge within one tick may restore the word's bits. If the
//! thread sleeps while this happens, it carries the word over at an instant that is too early by at most one tick of
//! the old quota.
//!
//! # Permits
//! A refund computes from a permit how much of the charge has not drained yet, at the rate of the permit's quota. So
//! the permit must become worthless when the debt begins to drain faster. When a key is carried over to a faster quota,
//! the permits of all its earlier charges become worthless. They stay worthless if the key returns to the old quota or
//! is forgotten. The instant at which a key was last carried over is kept once for a group of keys, since a word has no
//! bits for this instant. Permits also become worthless if a debt beyond the smaller of the two bursts is carried over,
//! because a reservation may still wait for its turn in such a debt.

use crate::algorithm::{Decides, Gcra, Held, Kernel};
use crate::clock::Clock;
use crate::slot::plan_by;
use crate::verdict::Verdict;

use super::{Pricing, Terms};
use crate::keyed::memory::ask::Ask;
use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::OwnBits;
use crate::keyed::quotas::book::{Book, Lane};
use crate::keyed::table::words::{FoundWord, Words};

/// A request under a quota that the caller brought. The quota's place is pinned.
#[derive(Clone, Copy)]
pub(super) struct Brought<'t> {
    pub(super) book: &'t Book,
    pub(super) ask: Ask,
    pub(super) lane: &'t Lane,
    /// The table's clock.
    pub(super) clock: Option<&'t Clock>,
    /// The key's group: see [`Book::void_permits`].
    pub(super) group: usize,
}

/// The quotas by which a word is read, decided and written for a request under a brought quota.
pub(super) struct BroughtTerms<'t> {
    brought: Brought<'t>,
    /// The quota under which the word was charged last, if it is not the request's quota.
    other: Option<Other>,
    /// The quota in which the word is decided and written. This is the request's quota, unless `carried` changes it.
    chosen: Lane,
    /// True if a denial carries the word over.
    rebases: bool,
    /// If `Some`, the key's permits from before this instant become worthless when the word is written.
    voids: Option<u64>,
}

/// The quota in which a word is counted, if it is not the request's quota.
#[derive(Clone, Copy)]
struct Other {
    lane: Lane,
    /// A reading of the clock, taken after the word was read.
    behind_ns: u64,
    /// True if the shard's floor is later than the instant at which the request is decided.
    is_below_floor: bool,
}

impl<'t> Pricing<'t> for Brought<'t> {
    type Terms = BroughtTerms<'t>;

    fn terms(self, words: &Words<'t>, found: &FoundWord) -> Option<BroughtTerms<'t>> {
        // `None`, here and below, means that another thread has replaced the word.
        let (lane, index) = self.book.lane_of(found.word)?;
        // The word is loaded again after the numbers, which belong to its quota only if the word has not been replaced:
        // see `lookup/price.rs`.
        let stands = words.shard(found.index).load(found.cell) == found.word;
        if !points::is_whole(stands) {
            return None;
        }
        let other = (index != usize::from(self.ask.quota.number)).then(|| {
            let behind_ns =
                points::behind_word(self.clock.map_or(0, |clock| clock.now().as_nanos()));
            let is_below_floor = self.ask.now_ns.max(behind_ns) < found.header.floor_ns();
            Other { lane, behind_ns, is_below_floor }
        });
        Some(BroughtTerms { brought: self, other, chosen: *self.lane, rebases: false, voids: None })
    }
}

impl BroughtTerms<'_> {
    /// Chooses the quota in which a request on a word of another quota is decided, and returns the word's state in that
    /// quota.
    fn carried(&mut self, other: &Other, held: Held, at_ns: u64) -> Held {
        let Brought { ask, lane, .. } = self.brought;
        let Lane { layout, own } = other.lane;
        let (Some(from), Some(to)) = (layout.plain_gcra(), lane.layout.plain_gcra()) else {
            return held; // every quota of such a book is plain GCRA
        };
        let is_faster = to.is_faster(from);
        let carried = points::carried(to.same_units(held, from, at_ns), || {
            let idle_ns = layout.kernel.idle_ns(held, at_ns);
            Held { ahead: to.passed(at_ns, idle_ns), ..Held::IDLE }
        });
        // The word's own quota, with the burst of the request's quota.
        let kernel = Kernel::Gcra(from.with_burst_of(to));
        let own = Lane { layout: Layout { kernel, ..layout }, own };
        let admits = |lane: &Lane, held: Held| {
            let outcome = |gcra: &Gcra| plan_by(gcra, lane.layout.wish(ask), (held, at_ns)).0;
            lane.layout.plain_gcra().is_some_and(|gcra| outcome(gcra).verdict == Verdict::Allowed)
        };
        let fits = carried.ahead <= lane.layout.room() && !other.is_below_floor;
        // A denial under a quota that is not faster leaves the word as it is, and its wait is computed by the rate at
        // which the word drains.
        let is_written = fits && (is_faster || admits(lane, carried));
        // The request would be admitted in the word's own quota, but not in the request's quota. So it is a
        // reservation, or fails only by the tick that was rounded up. Such a request is denied. Otherwise a key could
        // stay under a faster quota than its requests name.
        if fits && !is_written && admits(&own, held) {
            return carried;
        }
        if !is_written {
            self.chosen = own;
            return held;
        }
        self.rebases = is_faster;
        let is_beyond = held.ahead > from.burst_ticks() || carried.ahead > to.burst_ticks();
        self.voids = (is_faster || is_beyond).then_some(at_ns);
        carried
    }
}

impl Terms for BroughtTerms<'_> {
    fn layout(&self) -> &Layout {
        &self.chosen.layout
    }

    fn quota_bits(&self) -> OwnBits {
        self.chosen.own
    }

    fn instant_ns(&self, asked_ns: u64) -> u64 {
        self.other.as_ref().map_or(asked_ns, |other| asked_ns.max(other.behind_ns))
    }

    fn seen(&mut self, found: &FoundWord, at_ns: u64) -> Held {
        let layout = self.other.as_ref().map_or(&self.chosen.layout, |other| &other.lane.layout);
        let held = match layout.plain_gcra() {
            Some(gcra) => layout.seen_by(gcra, found, at_ns),
            None => Held::IDLE, // every quota of such a book is plain GCRA
        };
        match self.other {
            Some(other) => self.carried(&other, held, at_ns),
            // The word is already in the request's quota.
            None => held,
        }
    }

    fn at_floor(&self, found: &FoundWord) -> Held {
        let from = self.other.as_ref().map_or(&self.chosen, |other| &other.lane);
        let (Some(gcra), Some(chosen)) = (from.layout.plain_gcra(), self.gcra()) else {
            return Held::IDLE; // as in `seen`
        };
        let floor_ns = found.header.floor_ns();
        let held = from.layout.unpack(found.word, gcra, gcra.moment(floor_ns));
        // If the word stays in its own quota, its ticks need no conversion.
        if from.own == self.chosen.own { held } else { chosen.same_units(held, gcra, floor_ns) }
    }

    fn gcra(&self) -> Option<&Gcra> {
        self.chosen.layout.plain_gcra()
    }

    fn rebases(&self) -> bool {
        self.rebases
    }

    fn before_write(&self) {
        let Brought { book, ask, group, .. } = self.brought;
        // The permits become void before the word is written, so a thread that finds the carried word also finds the
        // permits void.
        if let Some(at_ns) = self.voids
            && points::voids_permits()
        {
            book.void_permits(group, ask.quota.number, at_ns);
        }
    }
}
