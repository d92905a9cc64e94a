//! Words of a table whose callers bring quotas along: how a request under one quota is decided on a word that was
//! charged under another.
//!
//! A word counts in the ticks of the quota that it was charged under last, and drains at that quota's rate. A request
//! under another quota *carries it over*: its debt is turned into the ticks of the other quota so that it is the same
//! number of units. A part of a tick is rounded up to a whole tick.
//!
//! | Request | Word of another quota |
//! |---|---|
//! | admitted | is written in the quota that was asked for |
//! | denied, quota faster than the word's | is written in that quota, too, without a charge, so that a raised rate takes effect at once. A cost above the burst writes nothing |
//! | denied, quota not faster | stays as it is, and the wait is computed by the rate of its own quota |
//!
//! Apart from denials that a policy counts, the second row is the only denial of this library that writes. Without it,
//! a key that owes much under a slow quota would wait just as long after its quota has been raised. Such a write
//! happens at most once for each quota between two admissions of a key, since it leads only to faster quotas. A denial
//! under a quota that is not faster must not write. It would round up by a tick each time, and a key that is asked
//! under two quotas in turns would never drain.
//!
//! If the debt has no room in a word of the quota that was asked for, the request is decided in the word's own quota,
//! with the burst that was asked for, and the word stays in that quota. The same happens while the shard's floor is
//! ahead of the clock, since it must be possible to read a carried word by that floor.
//!
//! # The most that a key is admitted
//! Let R be the highest rate and B the largest burst of the quotas that a key is asked under. In any time T it is
//! admitted at most B + R * T, as under that one quota. Let D be the key's debt in units. Carrying it over does not
//! lower D, an admission raises it by its cost and leaves it at B at most, and it drains at a rate of R at most. So D
//! at an instant t is at least the number of units admitted since an instant s, less R * (t - s).
//!
//! For this, a word must not be carried over at an instant before its last charge. Otherwise the units that were
//! charged later would drain at the faster rate from that earlier instant on. So a request that carries a word over is
//! decided at a reading of the clock that is taken after the word was read, as a refund is (`slot::amend`), whatever
//! time the caller gave. A charge in the word whose time was a reading of this clock is not later. A charge at a time
//! of the caller's may be later.
//!
//! A request under the quota that its word is counted in is decided at its own time, as in every table. If this time
//! lies d before the clock, up to R * d more units may be admitted: units that drained under a faster quota in between
//! are taken to have drained at the slower rate.
//!
//! The compare-and-swap is from the exact word. A refund and an equal charge within one tick may restore its bits. A
//! thread that sleeps meanwhile then carries the word over at a reading that is up to a tick of the old quota too
//! early.
//!
//! # Permits
//! A permit gives back the part of its charge that has not drained at the rate of its quota. So it must become
//! worthless when the debt begins to drain faster. When a key is carried over to a faster quota, the permits of all its
//! earlier charges become worthless. They stay so if the key returns to the old quota or is forgotten. The instant of
//! the carrying over is kept for a group of keys, since a word has no bits for it. Permits also become worthless if a
//! debt beyond the smaller of the two bursts is carried over, because a reservation may still wait for its turn in such
//! a debt.

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

/// A request under a quota that the caller brought along. The caller has pinned the quota's place.
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

/// The quota that a word is read, decided and written in.
pub(super) struct BroughtTerms<'t> {
    brought: Brought<'t>,
    /// The quota that the word was charged under last, if it is not the quota that was asked for.
    other: Option<Other>,
    /// The quota that the word is decided and written in: at first the quota that was asked for. `carried` may change
    /// it.
    chosen: Lane,
    /// True if a denial carries the word over.
    rebases: bool,
    /// If `Some`, the key's permits from before this instant become worthless when the word is written.
    voids: Option<u64>,
}

/// The quota that a word is counted in, if it is not the quota of the request.
#[derive(Clone, Copy)]
struct Other {
    lane: Lane,
    /// A reading of the clock, taken after the word was read.
    behind_ns: u64,
    /// True if the shard's floor lies beyond the instant at which the request is decided.
    is_below_floor: bool,
}

impl<'t> Pricing<'t> for Brought<'t> {
    type Terms = BroughtTerms<'t>;

    fn terms(self, words: &Words<'t>, found: &FoundWord) -> Option<BroughtTerms<'t>> {
        // `None`, here and below, means that another thread has replaced the word.
        let (lane, index) = self.book.lane_of(found.word)?;
        // The word is loaded again after the numbers. They are those of its quota only if it has not been replaced: see
        // `price`.
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
    /// The state of a word of another quota, in the quota that was asked for, or in the word's own quota if the request
    /// is decided in that.
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
        // The word's own quota, with the burst that was asked for.
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
        // The request fits only at the rate of the word's own quota (a reservation), or is short only by the tick by
        // which carrying over rounds up. If it were admitted in the word's own quota, a key could stay under a faster
        // quota than the quota that was asked for.
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
            // The word is in the quota that was asked for.
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
        // A word that stays in its own quota needs no conversion of ticks.
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
        // A thread that finds the word carried over finds the permits void.
        if let Some(at_ns) = self.voids
            && points::voids_permits()
        {
            book.void_permits(group, ask.quota.number, at_ns);
        }
    }
}
