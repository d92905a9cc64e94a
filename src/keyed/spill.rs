//! [`Spill`]: where keys are decided that have no cell, and how they get one without losing what they owe.
//!
//! The spill is a sketch ([`crate::sketch`]): it forgets nobody's charge, whoever else it is asked for, and
//! denies the more the more it holds. A key's cells there follow from its tag and its pair of shards, so that
//! keys which the table takes for one are one key here, too.
//!
//! # Between the spill and the table nothing is lost
//! A *spiller* decides a key that has no cell, an *installer* gives it one:
//!
//! ```text
//! spiller                                      installer
//! reads the floors, decides from now or        claims a cell
//!   the later floor, charges the sketch        fence
//! marks how long that will matter              verifies (see `install`)
//! fence                                        reads the floors, the mark, and if that lies
//! looks at both shards again:                    ahead: what the sketch says the key owes
//!   its word      -> is decided there          decides from there
//!   its claim     -> vacates it                opens its claim
//!   a later floor -> is decided anew
//! ```
//!
//! Let X be admitted by the spill, and let I be an install of the same key that opens its cell c.
//!
//! *I claimed c after X looked at c for the last time.* If X vacated a claim there, I's claim is a
//! read-modify-write that follows in the same cell, and brings X's charge along. If X only read c, it read a
//! word older than I's claim. X's fence lies before that reading and I's behind its claim: so X's comes first
//! in their order, and what X did before it, I reads behind its own. I finds the mark and the charge.
//!
//! *I claimed c before that, and X read the claim.* X vacates it, so I does not open.
//!
//! *I claimed c before that, and X read what came later.* The live word: X is decided there, and its charge
//! stays in the sketch for nothing. Or a word that came after: then the key was forgotten in between, below a
//! floor that X, who has seen that word, finds when it reads the headers next. If X's base is not below that
//! floor, everything that the key was charged in c had drained by then. If it is, X is decided anew from
//! there.
//!
//! So each of the key's charges is in the word that decides for it next, or has drained: what is charged in
//! a cell, by the floor (`floor`), what is charged here, by the estimate; and a key that has a live cell when
//! its decision stands was never decided by the spill. That it is I who reads second is what the claim is
//! for: an estimate that was read before it may be older than a charge that looked before it, too.
//!
//! # How long it matters
//! A mark is an instant: the latest at which something still counts that a key of these shards was charged
//! here. It only grows, and is written behind the charge. From a base at or behind it an estimate is as good
//! as nothing, so it is not read: a table that has not been full lately never looks here. Marks are absolute
//! times beside the shards, one for 64 of them; in the headers they would be short, and would
//! have to be lowered each time that a floor moves.
//!
//! # What it costs
//! * A spilled request may leave its cost in the sketch although it was denied, or decided in a cell: up to
//!   once for every time that it had to be decided anew. That drains, and can only deny.
//! * Nothing here can be undone or refunded: see [`crate::sketch`].
//! * No thread waits. A spiller that is disturbed [`ROUNDS`] times is denied.
//! * A reservation is admitted if it can be used at once, as under windows; a charge into debt is remembered
//!   up to twice the burst, as in a cell, and by threads that charge one key at once a little less.

mod store;

use crate::algorithm::{Answers, Decides, Held, Kernel};
use crate::clock::{LATEST_NS, Timestamp};
use crate::decision::Verdict;
use crate::sync::{Fault, Ordering, fence, planted, scale};

use super::hash::Identity;
use super::install::base_ns;
use super::shard::{Header, cells};
use super::survey::pair;
use super::table::{Ask, Fresh, Outcome, Table};

pub(super) use store::Spill;
use store::Told;

/// How often a spilled request is decided or looks again before it is denied. Each time another thread has
/// claimed or opened a cell for the same key, or a floor has passed the request.
const ROUNDS: usize = 8;

/// What a spiller finds that looks at its shards again.
enum Again {
    /// Nothing: the decision stands.
    Stands,
    /// The key has a cell, and was decided there.
    Decided(Outcome),
    /// Somebody was faster: look once more.
    Disturbed,
    /// A floor lies above what the decision was made at.
    Passed,
}

impl Table {
    /// Decides for a key that has no cell and gets none now; `None` if that is not for the spill to say.
    #[cold]
    pub(super) fn spill(
        &self,
        identity: Identity,
        second: usize,
        fresh: &mut Fresh<'_>,
    ) -> Option<Outcome> {
        let spill = self.spill.as_ref()?;
        let places = spill.places(identity, second);
        let mut rounds = 0..scale::rounds(ROUNDS);
        loop {
            let at_ns = base_ns(self.headers(identity.first, second), fresh);
            // Later the sketch's times stand still.
            if at_ns > LATEST_NS {
                return None;
            }
            let told = spill.decide(&places, at_ns, &fresh.ask);
            let charged = told.verdict == Verdict::Allowed && told.cost > 0;
            if charged {
                let until_ns = spill.rows.meter().kernel.idle_ns(told.held, at_ns);
                spill.note(spill.mark(identity, second), at_ns, until_ns);
            }
            loop {
                // A question, or a denial: nobody builds on it, so it is enough that there is no cell.
                let again = self.look_again(identity, second, (at_ns, charged), &fresh.ask);
                match again {
                    Again::Stands => {
                        return Some(self.spilled(spill, identity, (told, at_ns), fresh));
                    }
                    Again::Decided(outcome) => return Some(outcome),
                    Again::Disturbed | Again::Passed => rounds.next()?,
                };
                if matches!(again, Again::Passed) {
                    break;
                }
            }
        }
    }

    /// Looks whether the key has got a cell, or is about to get one, since it was decided at `at`.
    fn look_again(
        &self,
        identity: Identity,
        second: usize,
        (at_ns, charged): (u64, bool),
        ask: &Ask,
    ) -> Again {
        if planted(Fault::SpillUnscanned) {
            return Again::Stands;
        }
        // SeqCst: the other place that needs a total order. My charge comes before this look, another's claim
        // before he reads what the key owes; with the fence in between, at least one of us sees the other.
        if charged && !planted(Fault::SpillWithoutFence) {
            fence(Ordering::SeqCst);
        }
        for index in pair(identity.first, second) {
            let shard = self.shard(index);
            for cell in cells() {
                let word = shard.load(cell);
                if self.layout.is_live(word, identity.tag) {
                    return self
                        .hit(index, identity.tag, ask)
                        .map_or(Again::Disturbed, Again::Decided);
                }
                let rival = charged && self.layout.is_claim_of(word, identity.tag);
                if rival && !planted(Fault::SpillIgnoresClaims) && !shard.replace(cell, word, 0) {
                    return Again::Disturbed;
                }
            }
        }
        // After the words: who no longer sees a word of the key sees the floor that it was forgotten below.
        let passed = |header: Header| header.floor_ns() > at_ns;
        let is_passed = charged && self.headers(identity.first, second).into_iter().any(passed);
        if is_passed && !planted(Fault::SpillFloorsReadOnce) {
            return Again::Passed;
        }
        Again::Stands
    }

    /// The outcome of a request that was decided in the sketch. What there is to answer is worked out now:
    /// it is not the table's own word that will be asked.
    fn spilled(
        &self,
        spill: &Spill,
        identity: Identity,
        (told, at_ns): (Told, u64),
        fresh: &mut Fresh<'_>,
    ) -> Outcome {
        let Told { verdict, cost, held } = told;
        let (kernel, ask) = (&spill.rows.meter().kernel, fresh.ask);
        let (limit, late) = (kernel.limit(), kernel.lateness(ask.now_ns, at_ns));
        let ready_ns = if verdict == Verdict::Allowed || cost > limit {
            ask.now_ns
        } else {
            // By then a cell may be free, and its ticks coarser.
            let own = self.kernel().carried(held, kernel, at_ns);
            self.kernel().ready_ns(own, at_ns, cost).max(kernel.ready_ns(held, at_ns, cost))
        };
        let answers = Answers {
            limit,
            remaining: kernel.remaining(held, kernel.moment(at_ns), late),
            ready_ns,
            idle_ns: kernel.idle_ns(held, at_ns),
            spilled: true,
        };
        fresh.kernel = Some(Kernel::Log(answers));
        self.tallies.spilled(identity.first, u64::from(ask.charge));
        Outcome::of_idle(verdict, held, ask.now_ns, cost)
    }

    /// What a key owes that gets a cell at `at`, seen from there: what the spill knows of it, if anything
    /// that it was charged there may still count. For whoever holds a verified claim, and has read the
    /// floors; and for questions.
    pub(super) fn owed(&self, identity: Identity, second: usize, at_ns: u64) -> Held {
        let Some(spill) = &self.spill else { return Held::IDLE };
        // Relaxed: the claim's fence orders it, see the header.
        if spill.mark(identity, second).load(Ordering::Relaxed) <= at_ns
            || planted(Fault::EstimateLeftOut)
        {
            return Held::IDLE;
        }
        // Later the sketch's times stand still: what it holds is seen from there, as more.
        let seen_ns = at_ns.min(LATEST_NS);
        let estimate =
            spill.rows.estimate(&spill.places(identity, second), Timestamp::from_nanos(seen_ns));
        let held = spill.held(estimate, seen_ns);
        let own = self.kernel().carried(held, &spill.rows.meter().kernel, seen_ns);
        let is_idle = self.kernel().is_idle(own, self.kernel().moment(seen_ns));
        if is_idle { Held::IDLE } else { own }
    }
}
