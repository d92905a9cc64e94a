//! Words of a table whose callers bring quotas along: how a request under one quota is decided on a word that was charged
//! under another.
//!
//! A word counts in the ticks of the quota that it was charged under last, and drains at that quota's rate. A request under
//! another quota *carries it over*: its debt is turned into the ticks of the other quota so that it is the same number of
//! units. A tick that is not whole counts as one.
//!
//! | Request | Word of another quota |
//! |---|---|
//! | admitted | is written in the quota that was asked for |
//! | denied, quota faster than the word's | is written there, too, without a charge: a raised rate counts at once. A cost above the burst writes nothing |
//! | denied, quota not faster | stays as it is, and the wait is told by its own rate |
//!
//! The second row is the one denial of this library that writes, beside those that a policy counts. Without it a key that
//! owes much under a slow quota would wait as long after its quota has been raised. It happens at most once for each
//! quota between two admissions of a key, since it leads only to faster ones. A denial under a quota that is not faster
//! must not write: it would round up a tick each time, and a key that is asked in turns would never drain.
//!
//! A request whose debt has no room in a word of the quota that was asked for is decided in the word's own quota, by the burst
//! that was asked for, and leaves the word there. So is one that comes while the shard's floor is ahead of the clock: a word
//! that is carried over must be read back by that floor.
//!
//! # The most that a key is admitted
//! Let R be the highest rate and B the largest burst of the quotas that a key is asked under. In any time T it is admitted
//! at most B + R * T, as under that one quota. Let D be the key's debt in units. Carrying it over does not lower D, an
//! admission raises it by its cost and leaves it at B at most, and it drains at a rate of R at most. So D at an instant t
//! is at least what was admitted since an instant s, less R * (t - s).
//!
//! This needs that a word is carried over at no earlier instant than its last charge: seen from before that, the units
//! that were charged later would drain at the faster rate from then on. So a request that carries a word over is decided at a
//! reading of the clock behind the word, as a refund is (`slot::amend`), whatever time it was given. No charge in the word
//! is later than that, if its time was a reading of this clock. A time that the caller made up may be later.
//!
//! A request under the quota that its word is in is decided at its own time, as in every table. If that lies d before the clock,
//! the units of a faster quota that drained in between are seen as drained at the slower rate, so R * d more may be admitted.
//!
//! The compare-and-swap is from the exact word. A refund and an equal charge may restore its bits, which are those of one tick:
//! a thread that sleeps over both carries the word over by a reading up to a tick of the old quota too early.
//!
//! # Permits
//! A permit gives back what has not drained at the rate of its quota, so it must not outlive that rate. When a key is carried
//! over to a faster quota, the permits of all its earlier charges become worthless, also once the key has come back or has
//! been forgotten. The instant is kept for a group of keys, since a word has no bits for it. It is the same for a debt
//! beyond the smaller of the two bursts, behind which a reservation may wait for its turn.

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
    /// The quota that the word was charged under last, if it is another than the one that was asked for.
    other: Option<Other>,
    /// The quota that the word is decided and written in: the one that was asked for, until it turns out otherwise.
    chosen: Lane,
    /// True if a denial carries the word over.
    rebases: bool,
    /// The instant from before which the key's permits are worth nothing once the word is written, if it comes to that.
    voids: Option<u64>,
}

/// A quota that a word is counted in and that was not asked for.
#[derive(Clone, Copy)]
struct Other {
    lane: Lane,
    /// A reading of the clock behind the word.
    behind_ns: u64,
    /// True if the shard's floor lies beyond the instant at which the request is decided.
    is_below_floor: bool,
}

impl<'t> Pricing<'t> for Brought<'t> {
    type Terms = BroughtTerms<'t>;

    fn terms(self, words: &Words<'t>, found: &FoundWord) -> Option<BroughtTerms<'t>> {
        // `None`, here and below, means that another thread has replaced the word.
        let (lane, index) = self.book.lane_of(found.word)?;
        // The word is loaded again after the numbers of its quota, which are its own only while it stands: see `price`.
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
    /// The state of a word of another quota in the quota that was asked for; or in its own, if it is decided there.
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
        // A denial under a quota that is not faster leaves the word where it is, and tells the wait by the rate at which it drains.
        let is_written = fits && (is_faster || admits(lane, carried));
        // It fits only at the rate of the word's own quota (a reservation), or only by the tick by which carrying over rounds up.
        // Were it admitted there, a key could stay under a faster quota than the one that it is asked under.
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
        // A word that stays in its own quota has its ticks already.
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
