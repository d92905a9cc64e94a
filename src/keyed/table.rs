//! [`Table`]: the shards, and the path of a decision whose key is there.

use crossbeam_utils::CachePadded;

use crate::algorithm::{Held, Kernel};
use crate::clock::Clock;
use crate::decision::{Decision, Verdict, View};
use crate::error::BuildError;
use crate::sync::{Fault, planted};

use super::hash::Identity;
use super::layout::{GRANULE_BITS, Layout};
use super::shard::{CELLS, Header, Shard, cells};
use super::tally::Tallies;

/// Shards that share one padded unit: two where the hardware fetches lines of 64 bytes in pairs.
/// One under loom, whose models are of few shards.
const SHARDS_PER_PAD: usize = {
    let pad = size_of::<CachePadded<u8>>() / 64;
    if pad == 0 || cfg!(loom) { 1 } else { pad }
};

type Pad = CachePadded<[Shard; SHARDS_PER_PAD]>;

/// The share of cells that hold live keys when the table holds its capacity: 65 %. In simulations
/// with seven cells fewer than 1 key in 100,000 finds none at this load.
const DESIGN_LOAD: (usize, usize) = (65, 100);

/// One request.
pub(super) struct Ask<'a> {
    pub(super) now_ns: u64,
    pub(super) cost: u64,
    /// Whether the cost is charged if it is admitted: not for a peek, nor for a cost of 0 or one that
    /// never fits. Who does not charge changes nothing, not even a floor.
    pub(super) charge: bool,
    /// The clock that `now_ns` was read from, to be read once more should the floor be ahead of it.
    pub(super) clock: Option<&'a Clock>,
}

/// How a request went: what its word holds, seen from `at_ns`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) held: Held,
    pub(super) at_ns: u64,
}

/// All cells of a keyed limiter. Allocated once; never grows, never shrinks.
#[derive(Debug)]
pub(super) struct Table {
    pads: Box<[Pad]>,
    pub(super) layout: Layout,
    pub(super) tallies: Tallies,
}

impl Table {
    /// A vacant table for `capacity` keys, whose floors stand at `floor`.
    pub(super) fn new(layout: Layout, capacity: usize, floor: u64) -> Result<Self, BuildError> {
        if capacity == 0 {
            return Err(BuildError::ZeroCapacity);
        }
        let too_large = || BuildError::CapacityTooLarge { capacity };
        let cells = capacity.checked_mul(DESIGN_LOAD.1).ok_or_else(too_large)? / DESIGN_LOAD.0 + 1;
        let count = cells.div_ceil(CELLS).div_ceil(SHARDS_PER_PAD);
        let bytes = count.checked_mul(size_of::<Pad>()).ok_or_else(too_large)?;
        let mut pads = Vec::new();
        pads.try_reserve_exact(count).map_err(|_| BuildError::OutOfMemory { bytes })?;
        pads.resize_with(count, || CachePadded::new(std::array::from_fn(|_| Shard::new(floor))));
        Ok(Self { pads: pads.into_boxed_slice(), layout, tallies: Tallies::default() })
    }

    #[inline]
    pub(super) fn shards(&self) -> usize {
        self.pads.len() * SHARDS_PER_PAD
    }

    pub(super) fn cells(&self) -> usize {
        self.shards() * CELLS
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val::<[Pad]>(&self.pads)
    }

    #[cfg_attr(loom, expect(clippy::modulo_one, reason = "one shard per pad"))]
    #[inline]
    pub(super) fn shard(&self, index: usize) -> &Shard {
        &self.pads[index / SHARDS_PER_PAD][index % SHARDS_PER_PAD]
    }

    #[inline]
    pub(super) fn kernel(&self) -> &Kernel {
        &self.layout.kernel
    }

    /// Decides one request: in the key's cell if it has one, else by an install.
    ///
    /// `second` names the key's other shard; it is asked only if the first does not hold the key.
    #[inline]
    pub(super) fn decide(
        &self,
        identity: Identity,
        second: impl Fn() -> usize,
        mut ask: Ask<'_>,
    ) -> Decision {
        let outcome = match self.hit(identity.first, identity.tag, &ask) {
            Some(outcome) => outcome,
            None => self.decide_beyond_first(identity, second(), &mut ask),
        };
        let Outcome { verdict, held, at_ns } = outcome;
        let view = View { kernel: *self.kernel(), held, at_ns, now_ns: ask.now_ns, cost: ask.cost };
        Decision::new(verdict, view)
    }

    /// One key in five lives in its second shard.
    #[inline(never)]
    fn decide_beyond_first(&self, identity: Identity, second: usize, ask: &mut Ask<'_>) -> Outcome {
        match self.hit(second, identity.tag, ask) {
            Some(outcome) => outcome,
            None => self.install(identity, second, ask),
        }
    }

    /// Decides in the key's cell, if this shard holds it. Lock-free: each turn of the loop that does
    /// not end it means that another thread has charged, cleared or advanced something.
    #[inline]
    pub(super) fn hit(&self, index: usize, tag: u64, ask: &Ask<'_>) -> Option<Outcome> {
        let shard = self.shard(index);
        loop {
            let before = shard.header();
            let (cell, word) = self.find(shard, tag)?;
            let header =
                if planted(Fault::HeaderOnlyBeforeWords) { before } else { shard.header() };
            if header.floor() != before.floor() {
                continue;
            }
            let moment = self.kernel().moment(ask.now_ns);
            let held = if self.is_near(header, ask.now_ns) || planted(Fault::DecodeAgainstNow) {
                self.layout.unpack(word, moment)
            } else if ask.charge && ask.now_ns > header.floor_ns() {
                self.advance(index, ask.now_ns);
                continue;
            } else {
                self.unpack_afar(header, word, ask.now_ns)
            };
            let outcome = |verdict, held| Some(Outcome { verdict, held, at_ns: ask.now_ns });
            let Some(next) = self.kernel().step(held, moment, 0, ask.cost) else {
                return outcome(Verdict::Denied, held);
            };
            if !ask.charge {
                return outcome(Verdict::Allowed, held);
            }
            if shard.charge(cell, word, self.layout.live(tag, next, moment)) {
                return outcome(Verdict::Allowed, next);
            }
        }
    }

    /// The live word of `tag`, and its cell.
    #[inline]
    fn find(&self, shard: &Shard, tag: u64) -> Option<(usize, u64)> {
        for cell in cells() {
            let word = shard.load(cell);
            if self.layout.is_live(word, tag) {
                return Some((cell, word));
            }
        }
        None
    }

    /// Whether an instant lies in [F, F + E] of a shard, where its words can be read as they are and
    /// what is written can be read back.
    #[inline]
    pub(super) fn is_near(&self, header: Header, instant_ns: u64) -> bool {
        // Wraps to a huge number if the instant lies below the floor: one comparison for both ends.
        (instant_ns >> GRANULE_BITS).wrapping_sub(header.floor()) <= self.layout.epoch
    }

    /// What a live word holds, seen from an instant below the floor, or far above it: read at the
    /// floor, then carried over. What a late charge writes lies no lower than what it found, so it can
    /// be read back; above the floor nothing may be written before the floor has advanced.
    #[cold]
    #[inline(never)]
    fn unpack_afar(&self, header: Header, word: u64, now_ns: u64) -> Held {
        let floor_ns = header.floor_ns();
        let held = self.layout.unpack(word, self.kernel().moment(floor_ns));
        if now_ns < floor_ns {
            held.seen_earlier(self.kernel().passed(now_ns, floor_ns))
        } else {
            held.seen_later(self.kernel().passed(floor_ns, now_ns))
        }
    }
}
