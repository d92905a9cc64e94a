//! The steps claim, fence, verify and open, which give a new key a live word in the chosen cell.

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
    /// Claims the chosen cell, if the cell still has the word that was read, and verifies the claim.
    #[inline(always)] // its one caller is out of line, and cold
    pub(super) fn claim_and_verify(&self, victim: Seen) -> Round {
        let tag = self.tag();
        let shard = self.words.shard(victim.shard);
        // Only a model that plants the fault takes this branch, which treats another install's claim as this install's
        // own.
        if points::opens_as_found(self.words.division.is_claim_of(victim.word, tag)) {
            return Round::Verified(victim);
        }
        // The nonce distinguishes this claim from other claims of the same key, so that no CAS confuses two of them.
        let claim = self.words.division.claim(tag, shard.take_nonce());
        // The idle word was charged or swept since it was read, or another install took the cell.
        if !shard.reclaim(victim.cell, victim.word, claim) {
            return Round::Lost;
        }
        // The cell belongs to this thread as long as the claim stands. A sweep, another install of the key, a spilled
        // charge of the key or a change of quota may end the claim at any time. Then the opening fails. If the cell
        // held a live word, the claim has made the table forget that word's key.
        if Kind::of(victim.word) == Kind::Live {
            self.words.tallies.reclaimed(victim.shard, 1);
        }
        self.verify(Seen { word: claim, ..victim })
    }

    /// Scans all of the key's shards after a claim has been made.
    #[inline(always)]
    fn verify(&self, mine: Seen) -> Round {
        let tag = self.tag();
        // SeqCst, because two installers need a total order. Each of them claims, passes this fence, and then scans, so
        // at least one of them sees the other's claim.
        points::fence_after_claim();
        // Only a model that plants the fault takes this branch.
        if points::skips_scan() {
            return Round::Verified(mine);
        }
        // Above the bits of the state, a live word of the tag equals the tag, and a claim differs from it only in the
        // topmost bit. The number is kept in a local, since the compiler would load it again after each Acquire load.
        let states = self.words.division.words_per_tag << 1;
        // Like the second scan, the first one comes after the fence.
        let of_tag: u32 =
            self.shards().map(|index| self.words.shard(index).count(tag, states)).sum();
        // In the common case one word has the tag. If this claim still stands, it is that word. Otherwise the claim has
        // been vacated, and the word is another thread's.
        if of_tag == 1 && self.words.shard(mine.shard).load(mine.cell) == mine.word {
            return Round::Verified(mine);
        }
        // The second scan judges each word by itself. If there is a second scan, the proof in `install.rs` is about
        // that scan.
        for index in self.shards() {
            for cell in cells() {
                let word = self.words.shard(index).load(cell);
                let rival =
                    Rival::of(&self.words.division, tag, (word, (index, cell)), mine.position());
                let in_the_way = match points::heeded(rival) {
                    None => false,
                    // If the key has a live word, the request is decided there. If the other claim is in a lower cell,
                    // the other install goes on.
                    Some(Rival::Live | Rival::LowerClaim) => true,
                    // The other claim is in a higher cell, so this thread vacates that claim. If the CAS fails, the
                    // other claim may just have been opened.
                    Some(Rival::HigherClaim) => {
                        !self.words.shard(index).replace(cell, word, TableWord::VACANT)
                    }
                };
                // The other thread goes on, and this thread searches again. The CAS above also fails if a sweep has
                // already vacated the other claim. Then this round is lost without need.
                if in_the_way {
                    self.words.give_back(mine);
                    return Round::Lost;
                }
            }
        }
        // The scan found no words of the key except this claim and the claims that this thread has vacated.
        Round::Verified(mine)
    }
}

impl Words<'_> {
    /// Gives a claim back. A claim carries no debt, so nothing is lost. If another install has claimed the cell
    /// meanwhile, its nonce differs and the CAS fails. If the nonces have wrapped round to the same number, the CAS
    /// vacates the other install's claim, and that install starts again.
    fn give_back(&self, mine: Seen) {
        if points::gives_back() {
            self.shard(mine.shard).replace(mine.cell, mine.word, TableWord::VACANT);
        }
    }
}

impl Key<'_> {
    /// Decides the request, and turns the claim into a live word. The key starts at the request's time, or at the
    /// highest floor of its shards if that is later. `headers` begins with the header of the cell's own shard.
    #[inline(always)] // its one caller is out of line, and cold
    pub(super) fn open(
        &self,
        mine: Seen,
        headers: UnitHeaders,
        early_owed: Option<Held>,
        fresh: &mut Fresh<'_>,
    ) -> Round {
        let base_ns = base_ns(headers, fresh);
        // If that start is too late for a word of this shard, the key gets no cell now.
        if !points::can_start(&self.words.division, headers[0], base_ns) {
            return self.start_later(mine, base_ns, fresh);
        }
        // The quota is read only after the claim. A change of quota first turns the tier to the new quota, and after a
        // fence it vacates every claim that it meets. So if the change does not vacate this claim, the new quota is
        // read here (see `book.rs`).
        let (asked, mut lane) = (fresh.ask.quota, None);
        let quota = self.words.quota_of(asked, &mut lane);
        let TierQuota { layout, own, .. } = quota;
        let late = points::lateness(layout.kernel.lateness(fresh.ask.now_ns, base_ns));
        // The key has no cell yet, so a policy that counts denials cannot count a denial of this request.
        let wish = Wish { counts: false, ..layout.wish(fresh.ask) };
        // Like the floors, the debt is read only after the claim, because a thread that charges the key in the spill
        // looks for claims after its charge.
        let owed = early_owed.or_else(|| self.owed(base_ns, quota));
        let Some(owed) = owed else {
            self.words.give_back(mine);
            return Round::Lost; // the key's quota has been changed
        };
        if owed.ahead > layout.ahead {
            // The key was charged in the spill at a time far ahead. A word has no room for such a debt, but the spill
            // has.
            self.words.give_back(mine);
            return Round::Decided(self.without_cell(fresh));
        }
        let (outcome, state) = KeyStart { layout, wish, owed, base_ns, late }.plan();
        let Some(state) = state else {
            if outcome.verdict == Verdict::Denied {
                return self.refused(mine, layout, outcome, base_ns, fresh);
            }
            self.words.give_back(mine); // nothing was charged, so no word is written
            return Round::Decided(fresh.told(outcome, layout));
        };
        // The word is dated by the floor of the header that `enter` read. The base is near to that floor, so the word
        // can be read under that floor and under the next floor.
        let surplus = self.surplus_from_spill(base_ns, quota);
        let own = own.and(surplus).and(self.tag().into());
        let live = TableWord::from_bits(own.to_bits() | state.to_bits());
        let shard = self.words.shard(mine.shard);
        let claim = points::openable(shard, mine.cell, mine.word);
        // If the CAS fails, a sweep, a spilled charge of the key or a change of quota has vacated the claim, or another
        // install of the key has vacated it or taken it over. The CAS expects the exact claim, including its nonce.
        // `replace` is Release: a thread that reads the word sees the floor that `enter` read, or a newer one.
        if !shard.replace(mine.cell, claim, live) {
            return Round::Lost;
        }
        #[cfg(any(loom, shuttle))]
        assert_one_live(self);
        // From here on the key has a live word. The word was written with the first charge in it, so no thread finds it
        // without that charge.
        Round::Decided(fresh.told(outcome, layout))
    }
}

/// The state with which a key starts when it gets a cell.
struct KeyStart<'a> {
    layout: &'a Layout,
    wish: Wish,
    owed: Held,
    base_ns: u64,
    /// See [`Kernel::lateness`].
    late: u64,
}

impl KeyStart<'_> {
    /// The outcome of the request, and the state of the key's word if it gets one.
    #[inline(always)]
    fn plan(&self) -> (Outcome, Option<TableWord>) {
        // Plain GCRA is decided by the code that is compiled for it alone, as in a hit.
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
    /// Gives back the claim of a key whose request is denied at `base_ns`, and makes the denial.
    fn refused(
        &self,
        mine: Seen,
        layout: &Layout,
        denied: Outcome,
        base_ns: u64,
        fresh: &mut Fresh<'_>,
    ) -> Round {
        // The claim is given back first, because it keeps other keys from the cell.
        self.words.give_back(mine);
        let by_spill = self.denied_by_spill(layout, denied.before, base_ns, denied.cost, fresh);
        // `None` means that the key owes nothing in the spill, so the request is denied for its own cost and time.
        Round::Decided(by_spill.unwrap_or_else(|| fresh.told(denied, layout)))
    }

    /// Gives back the claim of a key that starts too far above its shard's floor.
    fn start_later(&self, mine: Seen, base_ns: u64, fresh: &mut Fresh<'_>) -> Round {
        // The claim would only keep other keys from the cell.
        self.words.give_back(mine);
        let reach = floor_at(fresh.ask.now_ns).saturating_add(self.words.division.epoch);
        // At this request's time, the floor of the cell's shard can come near enough to the start.
        if base_ns >> GRANULE_BITS <= reach {
            return Round::Advance(mine.shard);
        }
        // A request with a time far ahead has moved another shard's floor. If this shard's floor followed that time,
        // new keys of this shard could not start earlier.
        self.words.tallies.full(self.home(), 1);
        Round::Decided(self.no_cell(base_ns, fresh))
    }

    /// Reads the headers of the key's shards for a verified claim, and puts the header of the claim's shard first.
    pub(super) fn enter(&self, mine: Seen) -> UnitHeaders {
        // The floor of the cell's own shard is read first, by a read-modify-write: see `Shard::enter`. The other
        // shards' floors are only loaded, since they date no word here and can only make the key start later.
        let own = self.words.shard(mine.shard).enter();
        let mut headers = self.headers();
        // The headers are in the order of the key's shards. The header of the claim's shard is moved to the front. If
        // both units of the key are the same, each shard comes twice, and either of its headers will do.
        let all = self.all_shards();
        for (nth, index) in all.into_iter().enumerate() {
            if index == mine.shard {
                headers.swap(0, nth);
                break;
            }
        }
        // The header that `enter` returned replaces the later reading, since its floor will date the word.
        headers[0] = own;
        headers
    }
}
