//! The path of a decision: in the key's cell if it has one, else by an install.

use crate::algorithm::{Held, Kernel};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::prefetch::prefetch;
use crate::sync::{Fault, planted};
use crate::verb::{Verb, Verbs};
use crate::verdict::Verdict;

use super::ask::{Ask, Fresh, Outcome};
use super::hash::Identity;
use super::hint::hint;
use super::hit::priced_decision;
use super::shard::{Header, Shard};
use super::table::{Missed, Table};
use super::unit::{all_shards_of, shards_of, unit};

/// What came of looking for a key in one shard the slow way.
enum SlowHit {
    Decided(Outcome),
    /// The shard does not hold the key.
    Elsewhere,
    /// It does, but its floor is not near, and the word cannot be read as it is.
    Afar,
}

impl Table {
    /// Decides one request: in the key's cell if it has one, else by an install.
    ///
    /// `home` is the shard that is looked at first. `second` names the key's home in its other unit; it is asked
    /// only if the key is not at home. So is the clock that the request's time was read from.
    #[inline(always)]
    pub(super) fn decide(
        &self,
        identity: Identity,
        home: &Shard,
        second: impl Fn() -> usize,
        ask: Ask,
        clock: Option<&Clock>,
    ) -> Decision {
        let tag = identity.tag;
        // The Decision is built in each branch: merged, the outcome of `hit_plain`, which is in line, would go through
        // the stack as well.
        match (self.kernel(), ask.verb) {
            // Plain GCRA, which nearly all tables have: in line. With rules it is a kernel of its own.
            (Kernel::Gcra(gcra), Verb::Check) => {
                if let Some(outcome) = self.hit_plain(gcra, home, tag, ask) {
                    return self.decision(outcome, ask, 0);
                }
            }
            // Every other policy: one call to the code laid out for it.
            (_, Verb::Check) => match self.way {
                Some(way) => {
                    if let Ok(outcome) = way.0(self, home, tag, ask) {
                        return self.decision(outcome, ask, self.layout.rules.soft_bp);
                    }
                }
                // Of several quotas: by the one of the key's word.
                None => {
                    if let Ok(decision) = priced_decision(self, home, tag, ask) {
                        return decision;
                    }
                }
            },
            // Other verbs always go the slow way.
            _ => {}
        }
        let mut fresh = Fresh::new(ask, clock);
        let outcome = self.decide_slowly(identity, second(), &mut fresh);
        self.answer(outcome, &fresh)
    }

    /// The decision on a request whose key may have been new, with the arithmetic that it was made by.
    #[inline(always)]
    pub(super) fn answer(&self, outcome: Outcome, fresh: &Fresh<'_>) -> Decision {
        // Built in each branch, as in `decide`.
        match fresh.kernel {
            // By the table's own arithmetic.
            None => self.decision(outcome, fresh.ask, self.layout.rules.soft_bp),
            // By that of one of several quotas, or by answers that the spill has worked out.
            Some(kernel) => Self::decision_by(kernel, outcome, fresh.ask, 0),
        }
    }

    /// For what [`decide`](Self::decide) does not decide at home: other verbs, keys that are elsewhere or new, floors
    /// that are not near, quotas that have just been replaced. The request's time may have been read again afterwards.
    #[inline(never)]
    pub(super) fn decide_slowly(
        &self,
        identity: Identity,
        second: usize,
        fresh: &mut Fresh<'_>,
    ) -> Outcome {
        let is_here = |shard: &Shard| hint(shard, identity.tag, &self.layout).is_some();
        let (is_check, home) = (fresh.ask.verb == Verb::Check, self.shard(identity.first));
        let is_home = is_check && is_here(home);
        // One key in twenty lives in its second unit, and a new one looks at all of its shards. The first decision of a
        // shard after an epoch does not.
        if !(is_home && self.has_to_follow(home, fresh.ask)) {
            for index in all_shards_of(identity.first, second).into_iter().skip(unit()) {
                prefetch(self.shard(index));
            }
        }
        let mut is_absent = is_check && fresh.ask.charge;
        if is_check {
            for index in shards_of(identity.first, second) {
                let shard = self.shard(index);
                let is_here = if index == identity.first { is_home } else { is_here(shard) };
                // A hint: a word that it missed is found by the scan after the claim of an install.
                if !is_here {
                    continue;
                }
                let mut hit = self.hit_outcome(shard, identity.tag, fresh.ask);
                // Its floor follows, and then it is a hit.
                if matches!(hit, Err(Missed::Afar)) && self.has_to_follow(shard, fresh.ask) {
                    self.follow(index, fresh.ask.now_ns);
                    hit = self.hit_outcome(shard, identity.tag, fresh.ask);
                }
                match hit {
                    Ok((outcome, kernel)) => {
                        fresh.kernel = kernel;
                        return outcome;
                    }
                    // The word has just been replaced.
                    Err(Missed::Absent) => {}
                    // It may be here, but cannot be decided by the hint: every word is looked at.
                    Err(Missed::Afar) => is_absent = false,
                }
            }
        }
        // Looked for in vain by hints: the words themselves need no second look, since an install has one.
        let found = if is_absent { None } else { self.look(identity, second, fresh) };
        found.unwrap_or_else(|| self.install(identity, second, fresh))
    }

    /// Whether a charge of this shard has its floor follow first. Where there are several quotas their words are looked
    /// at before: see `price`.
    fn has_to_follow(&self, shard: &Shard, ask: Ask) -> bool {
        let is_behind = self.layout.is_behind(shard.header(), ask.now_ns);
        is_behind && ask.charge && self.book.is_none() && !self.wish(ask).is_never(self.kernel())
    }

    /// Counts the denial of a request that was only asked for, and tells of it: `None` if the policy
    /// counts none, if the key has no word to count it in, or if it would be admitted by now. `ask` has the
    /// verb `Refuse`, which charges nothing.
    pub(super) fn refuse(&self, identity: Identity, second: usize, ask: Ask) -> Option<Decision> {
        let rules = &self.layout.rules;
        // There is no denial to count.
        if !rules.count_denials() || ask.cost == 0 {
            return None;
        }
        let outcome = shards_of(identity.first, second)
            .find_map(|index| self.hit_slowly(index, identity.tag, &ask))?;
        // Others have given back meanwhile, and the request would be admitted: no denial of this limit.
        let is_denied = outcome.verdict == Verdict::Denied;
        is_denied.then(|| self.decision(outcome, ask, rules.soft_bp))
    }

    /// Decides in the key's cell, if one of its shards holds it.
    #[inline(always)]
    pub(super) fn look(
        &self,
        identity: Identity,
        second: usize,
        fresh: &mut Fresh<'_>,
    ) -> Option<Outcome> {
        let Identity { first, tag } = identity;
        if let Some(book) = &self.book {
            return self.look_priced(book, identity, second, fresh);
        }
        shards_of(first, second).find_map(|index| self.hit_slowly(index, tag, &fresh.ask))
    }

    /// Decides in the key's cell, if this shard holds it, whatever the algorithm and the time. A question
    /// about a key that a charge would forget first is not decided here: see
    /// [`forgotten_in`](Self::forgotten_in).
    #[inline]
    pub(super) fn hit_slowly(&self, index: usize, tag: u64, ask: &Ask) -> Option<Outcome> {
        // Two calls, so that the arithmetic without rules is compiled without them.
        if self.layout.rules.are_none() {
            self.hit_whole(self.kernel(), index, tag, ask)
        } else {
            self.hit_whole(&self.ruled(), index, tag, ask)
        }
    }

    #[inline(never)]
    fn hit_whole(
        &self,
        algorithm: &impl Verbs,
        index: usize,
        tag: u64,
        ask: &Ask,
    ) -> Option<Outcome> {
        loop {
            // The word's floor is not near. A charge above it leaves, so that the floor can follow; so does a
            // question if the charge would forget the key. All others read the word from where they are.
            let afar = |header: Header, word| {
                let behind =
                    !self.wish(*ask).is_never(self.kernel()) && ask.now_ns > header.floor_ns();
                let leave = behind && (ask.charge || self.is_forgotten(header, word, ask.now_ns));
                (!leave).then(|| self.unpack_afar(header, word, ask.now_ns))
            };
            match self.hit_by(algorithm, self.shard(index), tag, *ask, afar) {
                SlowHit::Decided(outcome) => return Some(outcome),
                // The floor comes near to now; the next turn may find the word, or find it forgotten.
                SlowHit::Afar if ask.charge => self.follow(index, ask.now_ns),
                // Not here; or a question about a key that a charge would forget first.
                SlowHit::Elsewhere | SlowHit::Afar => return None,
            }
        }
    }

    /// The shard of a key that was asked for and is there, but would be forgotten before it is charged.
    pub(super) fn forgotten_in(
        &self,
        identity: Identity,
        second: usize,
        ask: &Ask,
    ) -> Option<usize> {
        shards_of(identity.first, second).find(|&index| {
            let shard = self.shard(index);
            let Some((_, word)) = self.find(shard, identity.tag) else { return false };
            // After the word. Should a floor move meanwhile, the caller looks again.
            let header = shard.header();
            !self.is_near(header, ask.now_ns)
                && ask.now_ns > header.floor_ns()
                && self.is_forgotten(header, word, ask.now_ns)
        })
    }

    /// Decides in the key's cell, if this shard holds it. Lock-free: each turn of the loop that does
    /// not end it means that another thread has charged, cleared or advanced something.
    ///
    /// `afar` reads a word whose floor is not near, if that can be done before the floor has advanced.
    #[inline(always)]
    fn hit_by(
        &self,
        algorithm: &impl Verbs,
        shard: &Shard,
        tag: u64,
        ask: Ask,
        afar: impl Fn(Header, u64) -> Option<Held>,
    ) -> SlowHit {
        loop {
            let before = shard.header();
            let Some((cell, word)) = self.find(shard, tag) else { return SlowHit::Elsewhere };
            let header =
                if planted(Fault::HeaderOnlyBeforeWords) { before } else { shard.header() };
            // A floor was published between the loads: unknown which of the two dates the word.
            if header.floor() != before.floor() {
                continue;
            }
            let moment = algorithm.moment(ask.now_ns);
            let held = if self.is_near(header, ask.now_ns) || planted(Fault::DecodeAgainstNow) {
                self.layout.unpack(word, algorithm, moment)
            } else {
                let Some(held) = afar(header, word) else { return SlowHit::Afar };
                held
            };
            let outcome = |verdict, (after, at_ns), cost, unpaid| {
                let (mark, after, at_ns) = algorithm.tell(verdict, after, at_ns, (0, unpaid));
                SlowHit::Decided(Outcome { verdict, mark, before: held, held: after, at_ns, cost })
            };
            let wish = self.wish(ask);
            let Some(next) = algorithm.apply(wish, held, moment, 0) else {
                let cost = wish.denied_cost();
                // Written only where the policy counts denials; for the argument see `cell`.
                if ask.charge
                    && wish.counts_its_denial()
                    && let Some(next) = algorithm.refuse(held, ask.now_ns, cost)
                {
                    let next_word = self.layout.live(tag, next, algorithm, moment);
                    // Another thread was faster: what it left may admit the request.
                    if next_word != word && !shard.charge(cell, word, next_word) {
                        continue;
                    }
                    return outcome(Verdict::Denied, (next, ask.now_ns), cost, 0);
                }
                // A word seen from far away may be cut: the wait is then computed from near its own time.
                let seen = if held.is_cut() { self.near(header, word) } else { (held, ask.now_ns) };
                return outcome(Verdict::Denied, seen, cost, 0);
            };
            // Nothing charged, nothing written: what is seen from too far away could not be written back.
            if !ask.charge || next.cost == 0 {
                let unpaid = if ask.charge { 0 } else { ask.cost };
                return outcome(Verdict::Allowed, (held, ask.now_ns), 0, unpaid);
            }
            if shard.charge(cell, word, self.layout.live(tag, next.held, algorithm, moment)) {
                return outcome(Verdict::Allowed, (next.held, ask.now_ns), next.cost, 0);
            }
        }
    }
}
