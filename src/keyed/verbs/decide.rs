//! The path of a decision that is not made in the key's home: in another shard of the key, or by an install.

use crate::decision::{Decision, View};
use crate::hash::{Identity, all_shards_of, prefetch, unit};
use crate::verb::Verb;
use crate::verdict::Verdict;

use crate::keyed::memory::ask::{Ask, Fresh};
use crate::keyed::memory::shard::{Missed, Shard};
use crate::keyed::quotas::book::Quotas;
use crate::keyed::table::words::{Key, Words};
use crate::keyed::table::{Cells, OneQuota, Table};

impl Table {
    /// Decides a check that the key's home has `missed`, under plain GCRA with one quota. In a table that is filled to
    /// its capacity, 7 keys in 100 are in the home's sibling or in the second unit (`insert/survey.rs`). Such a key is
    /// decided there by the code of a hit. All other checks go the slow way.
    ///
    /// This is a method of the table and not of [`Key`]: building a `Key` in memory would slow down every hit.
    #[inline(never)]
    pub(in crate::keyed) fn decide_elsewhere(
        &self,
        identity: Identity,
        second: usize,
        missed: Missed,
        fresh: &mut Fresh<'_>,
    ) -> (Verdict, View) {
        let others = all_shards_of(identity.first, second);
        for &index in &others[1..] {
            prefetch(self.shard(index));
        }
        let mut missed = missed;
        for &index in &others[1..] {
            // The shard before may hold the key, but the request cannot be decided there by a hint. So the slow way
            // looks at all words.
            if let Missed::Afar = missed {
                break;
            }
            let shard = self.shard(index);
            // The hint is looked at first, since for a new key no shard has a hint.
            if shard.hint(identity.tag, self.division.state_bits).is_none() {
                continue;
            }
            if let Cells::Plain(gcra, OneQuota { layout, .. }) = &self.cells {
                match self.hit_plain(gcra, layout, shard, identity.tag, fresh.ask) {
                    Ok(outcome) => return fresh.told(outcome, layout).into_parts(),
                    Err(now_missed) => missed = now_missed,
                }
            }
        }
        let decision = match self.words() {
            Ok(words) => words.key(identity, second).decide_behind(missed, fresh),
            // This is never reached: under plain GCRA a table has words.
            Err(logs) => logs.answer(identity, second, fresh.ask, fresh.clock),
        };
        decision.into_parts()
    }
}

impl Key<'_> {
    fn decide_behind(&self, missed: Missed, fresh: &mut Fresh<'_>) -> Decision {
        match missed {
            // No shard has a hint of the key, so it counts as absent, as in `decide_slowly`.
            Missed::Absent if fresh.ask.charge => self.install(fresh),
            _ => self.decide_slowly(fresh),
        }
    }

    /// Decides every request that is not decided at home: one with a verb other than check, for a key that is elsewhere
    /// or new, under a floor that is not near, or under a quota that has just been replaced. Afterwards the request's
    /// time may be a later reading of the clock.
    #[inline(always)] // its callers are out of line
    pub(in crate::keyed) fn decide_slowly(&self, fresh: &mut Fresh<'_>) -> Decision {
        // This looks at one line, which is in the cache already if it is the home's.
        let is_here =
            |shard: &Shard| shard.hint(self.tag(), self.words.division.state_bits).is_some();
        let (is_check, home) = (fresh.ask.verb == Verb::Check, self.words.shard(self.home()));
        let is_home = is_here(home);
        // Few keys live in their second unit, but for a new key all of its shards are looked at, so the lines of that
        // unit are prefetched. Two kinds of requests for a key that is at home need no other line: the first check in
        // its shard after an epoch, and requests with a verb other than check.
        if !(is_home && (!is_check || self.words.has_to_follow(home, fresh.ask))) {
            for index in self.all_shards().into_iter().skip(unit()) {
                prefetch(self.words.shard(index));
            }
        }
        // The key counts as absent until a shard shows otherwise. A request that does not charge installs nothing, so
        // no scan would find a word that a hint has missed. Such a request reads the words themselves.
        let mut is_absent = is_check && fresh.ask.charge;
        if is_check {
            for index in self.shards() {
                let shard = self.words.shard(index);
                let is_here = if index == self.home() { is_home } else { is_here(shard) };
                // This is a hint. If it misses the word, the scan after the claim of an install finds it.
                if !is_here {
                    continue;
                }
                let mut hit = self.words.hit(shard, self.tag(), fresh);
                // A charge whose time lies more than an epoch above the floor first advances the floor, and is then a
                // hit. A charge whose time lies more than an epoch below the floor goes the slow way.
                if matches!(hit, Err(Missed::Afar)) && self.words.has_to_follow(shard, fresh.ask) {
                    self.words.follow(index, fresh.ask.now_ns);
                    hit = self.words.hit(shard, self.tag(), fresh);
                }
                // If the charge misses again after that, the sweep has forgotten the key, which was idle for an epoch,
                // or other threads keep the shard busy.
                match hit {
                    Ok(decision) => return decision,
                    // The word has just been replaced or forgotten.
                    Err(Missed::Absent) => {}
                    // The key may be here, but the code of a hit cannot decide the request, so every word is looked at.
                    Err(Missed::Afar) => is_absent = false,
                }
            }
        }
        // If no hint has found the key, the words themselves need no look here, since an install looks at them.
        // Otherwise the key may be there after all: under a floor that is not near, or in a cell that no hint named.
        let found = if is_absent { None } else { self.look(fresh) };
        found.unwrap_or_else(|| self.install(fresh))
    }
}

impl Words<'_> {
    /// True if a charge in this shard needs the floor to follow its time first. In a table of several quotas the words
    /// are read before the floor follows: see `price`.
    fn has_to_follow(&self, shard: &Shard, ask: Ask) -> bool {
        let Quotas::One(layout) = self.quotas else { return false };
        // A request that does not charge, or whose cost never fits, changes nothing, not even a floor: see `Ask`.
        let is_behind = self.division.is_behind(shard.header(), ask.now_ns);
        is_behind && ask.charge && !layout.wish(ask).is_never(&layout.kernel)
    }
}
