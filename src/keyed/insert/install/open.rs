//! Claim, fence, verify, open: from the cell that was chosen to the live word of its key.

use crate::algorithm::{Held, Kernel};
use crate::decision::Outcome;
use crate::verb::{HeldAt, Verbs, Wish, plan};
use crate::verdict::Verdict;

use super::round::Round;
use crate::keyed::floors::base::base_ns;
use crate::keyed::floors::floor::floor_at;
use crate::keyed::insert::survey::Seen;
use crate::keyed::memory::ask::Fresh;
use crate::keyed::memory::layout::{Kind, Layout};
use crate::keyed::memory::points;
use crate::keyed::memory::rival::Rival;
use crate::keyed::memory::shard::{GRANULE_BITS, OwnBits, TableWord, cells};
#[cfg(any(loom, shuttle))]
use crate::keyed::table::newest::assert_one_live;
use crate::keyed::table::words::{Key, TierQuota, UnitHeaders, Words};

impl Key<'_> {
    /// Claims the cell of the word that was chosen, if that still stands, and verifies the claim.
    #[inline(always)] // its one caller is out of line, and cold
    pub(super) fn claim_and_verify(&self, victim: Seen) -> Round {
        let tag = self.tag();
        let shard = self.words.shard(victim.shard);
        // Only in a model that plants it: another install's claim taken for one's own.
        if points::opens_as_found(self.words.division.is_claim_of(victim.word, tag)) {
            return Round::Verified(victim);
        }
        // The nonce tells this claim from others of the same key, so that no CAS takes one for another.
        let claim = self.words.division.claim(tag, shard.take_nonce());
        // The key of the idle word was charged since the survey, or another install took the cell.
        if !shard.reclaim(victim.cell, victim.word, claim) {
            return Round::Lost;
        }
        // Over a live word this forgets a key; over a vacant cell or another claim it forgets none.
        // The cell is this thread's from here on, as long as the claim stands: a sweep, another install
        // of the key, a spilled charge of it or a change of quota may vacate it at any time, and then
        // the opening fails.
        if Kind::of(victim.word) == Kind::Live {
            self.words.tallies.reclaimed(victim.shard, 1);
        }
        self.verify(Seen { word: claim, ..victim })
    }

    /// Scans all of the key's shards behind a claim that has just been made.
    #[inline(always)]
    fn verify(&self, mine: Seen) -> Round {
        let tag = self.tag();
        // SeqCst: the one place that needs a total order. My claim comes before my scan, another's
        // claim before its scan; with the fence in between, at least one of us sees the other's claim.
        points::fence_after_claim();
        // Only in a model that plants it.
        if points::skips_scan() {
            return Round::Verified(mine);
        }
        // Read into a local: after each load that acquires, the compiler would read it anew. Words of the tag, live or
        // claims, differ from it in no bit above the state but the topmost.
        let states = self.words.division.words_per_tag << 1;
        // The first scan: behind the fence, as the second is.
        let of_tag: u32 =
            self.shards().map(|index| self.words.shard(index).count(tag, states)).sum();
        // The common case: this claim is the one word of the tag.
        // One, but it might be another's: of a thread that vacated this claim since.
        if of_tag == 1 && self.words.shard(mine.shard).load(mine.cell) == mine.word {
            return Round::Verified(mine);
        }
        // The second scan judges each word by itself. Where there is one, it is the scan that the proof
        // speaks of.
        for index in self.shards() {
            for cell in cells() {
                let word = self.words.shard(index).load(cell);
                let rival =
                    Rival::of(&self.words.division, tag, (word, (index, cell)), mine.position());
                let in_the_way = match points::heeded(rival) {
                    None => false,
                    // The key's live word decides for it. Of two claims the lower one goes on.
                    Some(Rival::Live | Rival::LowerClaim) => true,
                    // The lower vacates the higher; if that CAS fails, the higher may just have been opened.
                    Some(Rival::HigherClaim) => {
                        !self.words.shard(index).replace(cell, word, TableWord::VACANT)
                    }
                };
                // The other thread goes on; this one searches again.
                // The CAS above also fails if a sweep has vacated the higher claim first: then this
                // round is lost for nothing.
                if in_the_way {
                    self.words.give_back(mine);
                    return Round::Lost;
                }
            }
        }
        // No word of the key but this claim, or those that this thread has vacated, stood in any cell
        // when it was looked at.
        Round::Verified(mine)
    }
}

impl Words<'_> {
    /// A claim carries no debt, so giving it back loses nothing; if it was re-claimed, it is not mine. Its
    /// nonce says so; and if that came round, the install of that claim starts again.
    fn give_back(&self, mine: Seen) {
        if points::gives_back() {
            self.shard(mine.shard).replace(mine.cell, mine.word, TableWord::VACANT);
        }
    }
}

impl Key<'_> {
    /// Decides, from the later of now and the highest floor of the key's shards on, and turns the claim into a live
    /// word. The header of its own shard comes first.
    #[inline(always)] // its one caller is out of line, and cold
    pub(super) fn open(
        &self,
        mine: Seen,
        headers: UnitHeaders,
        early_owed: Option<Held>,
        fresh: &mut Fresh<'_>,
    ) -> Round {
        // The instant at which the key starts: now, or the latest of all floors that it may have been
        // forgotten below.
        let base_ns = base_ns(headers, fresh);
        // The key would start later than a word of this shard can say.
        if !points::can_start(&self.words.division, headers[0], base_ns) {
            return self.start_later(mine, base_ns, fresh);
        }
        // Read only after the claim: a change of quota vacates every claim that it meets, behind a fence
        // of its own. So if it has not met this one, its tier is read as it has turned it (`book`).
        let (tier, mut lane) = (fresh.ask.tier, None);
        let quota = self.words.quota_of(tier, &mut lane);
        let TierQuota { layout, own, .. } = quota;
        let late = points::lateness(layout.kernel.lateness(fresh.ask.now_ns, base_ns));
        // The key has no cell yet, so a policy that counts denials cannot count this one.
        let wish = Wish { counts: false, ..layout.wish(fresh.ask) };
        // Read only after the claim, as the floors are: a thread that spills a charge looks for this claim behind it.
        let owed = early_owed.or_else(|| self.owed(base_ns, quota));
        let Some(owed) = owed else {
            self.words.give_back(mine);
            return Round::Lost; // its quota has been changed
        };
        if owed.ahead > layout.ahead {
            // A request came with a time far ahead. A word has no room for it; the spill has.
            self.words.give_back(mine);
            return Round::Decided(self.without_cell(fresh));
        }
        let (outcome, state) = KeyStart { layout, wish, owed, base_ns, late }.plan();
        let Some(state) = state else {
            if outcome.verdict == Verdict::Denied {
                return self.refused(mine, layout, outcome, base_ns, fresh);
            }
            self.words.give_back(mine); // nothing charged, nothing written
            return Round::Decided(fresh.told(outcome, layout));
        };
        // Dated by the header that `enter` read: base is near that floor, so the word can be read back
        // under it and under the next.
        let surplus = self.surplus_from_spill(base_ns, quota);
        let own = own.and(surplus).and(self.tag().into());
        let live = TableWord::from_bits(own.to_bits() | state.to_bits());
        let shard = self.words.shard(mine.shard);
        let claim = points::openable(shard, mine.cell, mine.word);
        // The claim is gone: a sweep, a lower claim, a spilled charge of the key or a change of quota vacated it.
        // From the exact claim, nonce and all. Release, by `replace`: a thread that reads the word sees
        // the floor that was entered, or a newer one.
        if !shard.replace(mine.cell, claim, live) {
            return Round::Lost;
        }
        #[cfg(any(loom, shuttle))]
        assert_one_live(self);
        // The key is live from here on, with its first charge in it: there was no moment at which it
        // stood there idle.
        Round::Decided(fresh.told(outcome, layout))
    }
}

/// What a key starts from that gets a cell.
struct KeyStart<'a> {
    layout: &'a Layout,
    wish: Wish,
    owed: Held,
    base_ns: u64,
    /// See [`Kernel::lateness`].
    late: u64,
}

impl KeyStart<'_> {
    /// What comes of the request; and what the key's word is to hold beside the tag, the index and a surplus, if it gets one.
    #[inline(always)]
    fn plan(&self) -> (Outcome, Option<TableWord>) {
        // Plain GCRA by the code that is compiled for it alone, as where a key is hit.
        match &self.layout.kernel {
            Kernel::Gcra(gcra) if self.layout.rules.are_none() => self.plan_by(gcra),
            _ => self.plan_by(&self.layout.ruled()),
        }
    }

    #[inline(always)]
    fn plan_by(&self, algorithm: &impl Verbs) -> (Outcome, Option<TableWord>) {
        let Self { layout, wish, owed, base_ns, late } = *self;
        let moment = algorithm.moment(base_ns);
        let seen = HeldAt { held: owed, at_ns: base_ns, moment, late };
        plan(algorithm, wish, seen, None, |next| {
            Some(layout.live(OwnBits::default(), next, algorithm, moment))
        })
    }
}

impl Key<'_> {
    /// What becomes of a claim whose key is denied, for what it owes at `base_ns`.
    fn refused(
        &self,
        mine: Seen,
        layout: &Layout,
        denied: Outcome,
        base_ns: u64,
        fresh: &mut Fresh<'_>,
    ) -> Round {
        // First: the claim keeps others from the cell.
        self.words.give_back(mine);
        let by_spill = self.denied_by_spill(layout, denied.before, base_ns, denied.cost, fresh);
        // `None`: the spill holds nothing against it, so the denial is of its own cost and time.
        Round::Decided(by_spill.unwrap_or_else(|| fresh.told(denied, layout)))
    }

    /// What becomes of a claim whose key starts too far above its shard's floor.
    fn start_later(&self, mine: Seen, base_ns: u64, fresh: &mut Fresh<'_>) -> Round {
        // The claim would only keep others from the cell.
        self.words.give_back(mine);
        let reach = floor_at(fresh.ask.now_ns).saturating_add(self.words.division.epoch);
        // Its own floor can come near enough by what now allows.
        if base_ns >> GRANULE_BITS <= reach {
            return Round::Advance(mine.shard);
        }
        // A request of a time far ahead moved another shard's floor: to follow would carry that time on.
        self.words.tallies.full(self.home(), 1);
        Round::Decided(self.no_cell(base_ns, fresh))
    }

    /// Reads the floors for a verified claim: that of its own shard first, and then all.
    pub(super) fn enter(&self, mine: Seen) -> UnitHeaders {
        // First, and as a write: see `Shard::enter`. The floors of the others may be older than this
        // one; they date nothing, and only raise the instant that the key starts at.
        let own = self.words.shard(mine.shard).enter();
        let mut headers = self.headers();
        // The header of the cell's own shard is among them, and its floor is at least as high as when the shard was entered.
        // Headers come in the order of the key's shards. If both of its units are the same one, each shard comes twice,
        // and its first place is as good as its second.
        let all = self.all_shards();
        for (nth, index) in all.into_iter().enumerate() {
            if index == mine.shard {
                headers.swap(0, nth);
                break;
            }
        }
        // Not the later reading: the floor that was entered is the one that the word will be dated by.
        headers[0] = own;
        headers
    }
}
