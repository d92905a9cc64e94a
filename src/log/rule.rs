//! [`LogRule`]: a quota as a log reads it, and the decision on any slots.

use std::num::NonZeroU64;

use crate::algorithm::{Answers, ChargedSlots, Figures, GRANULES};
use crate::clock::LATEST_NS;
use crate::decision::{Decision, View};
use crate::policy::{Algorithm, CountDenied, Policy};
use crate::refund::Amendment;
use crate::sync::{Fault, planted, scale};
use crate::verb::Verb;
use crate::verdict::{Mark, Verdict};

use super::slots::{
    LATEST_TURN_NS, Slots, closed, free_at, is_closed, is_marked, queued, time, within,
};
use super::survey::{answers, count_free, survey};
use super::take::{Taken, Want, rewrite, take, take_each};

/// A reservation is denied after so many rounds in which it has met only slots that other requests have marked.
const ROUNDS: u32 = 8;

/// So many units in each window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRule {
    /// S: softened, if the policy is soft.
    pub(crate) limit: u64,
    pub(crate) slots: usize,
    window_ns: u64,
    soft_bp: u16,
    /// Units by which the limit is softened.
    beyond: u64,
    pub(crate) counts_denials: bool,
    /// The longest wait in nanoseconds, and behind how many units.
    pub(crate) queue: Option<[u64; 2]>,
    /// How often the count had changed, in a log whose count may: a permit of before gives back nothing.
    changes: u64,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRequest {
    pub(crate) now_ns: u64,
    pub(crate) cost: u64,
    /// Whether the cost is charged if it is admitted.
    pub(crate) charge: bool,
    pub(crate) verb: Verb,
}

/// What was charged: so many units, for one instant. (Of a charge into debt: each for its own.)
#[derive(Clone, Copy)]
struct LogCharge {
    units: u64,
    turn_ns: u64,
}

impl LogRequest {
    /// Past the latest time the clock stands still, as in every limiter.
    pub(crate) fn new(verb: Verb, cost: u64, now_ns: u64, charge: bool) -> Self {
        Self { now_ns: now_ns.min(LATEST_NS), cost, charge: charge && cost > 0, verb }
    }

    /// Whether no state of the log could admit it. As much as fits always may.
    pub(crate) fn is_never(&self, limit: u64) -> bool {
        self.cost > limit && !matches!(self.verb, Verb::UpTo | Verb::Charge)
    }

    /// The cost that a denial speaks of: of as much as fits not one unit does.
    fn denied_cost(self) -> u64 {
        if self.verb == Verb::UpTo { self.cost.min(1) } else { self.cost }
    }
}

impl LogRule {
    /// That of a policy, if it is one of sliding logs.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        (policy.algorithm() == Algorithm::SlidingLog).then(|| Self::in_slots(policy))
    }

    /// That of a policy that is kept in slots.
    pub(crate) fn in_slots(policy: &Policy) -> Self {
        let (limit, window_ns) = (policy.ceiling(), policy.quota().period_ns());
        let at_limit = policy.at_limit();
        // A log that exists has a million at most.
        let slots = usize::try_from(limit).unwrap_or(usize::MAX);
        // None, if it is hard.
        let beyond = limit - policy.named_limit();
        let (soft_bp, counts_denials) =
            (at_limit.soft.hundredths(), at_limit.count_denied != CountDenied::No);
        let queue = at_limit.queue.map(|wait| wait.bounds());
        Self { limit, slots, window_ns, soft_bp, beyond, counts_denials, queue, changes: 0 }
    }

    /// The same, after so many changes of the count.
    pub(super) fn since(self, changes: u64) -> Self {
        Self { changes, ..self }
    }

    /// The decision that charges nothing and gives these answers.
    pub(crate) fn decision(
        &self,
        ask: LogRequest,
        verdict: Verdict,
        answers: Answers,
        at_ns: u64,
    ) -> Decision {
        Decision::new(verdict, self.view(ask, verdict, answers, at_ns))
    }

    /// The denial of a key for which there is no room before `at_ns`.
    pub(crate) fn no_room(&self, ask: LogRequest, answers: Answers, at_ns: u64) -> Decision {
        let view = self.view(ask, Verdict::Denied, answers, at_ns);
        Decision::new(Verdict::Denied, View { mark: Mark::TableFull, ..view })
    }

    fn view(&self, ask: LogRequest, verdict: Verdict, answers: Answers, at_ns: u64) -> View {
        let (figures, now_ns) = (Figures::Known(answers), ask.now_ns);
        // What would be admitted has charged nothing.
        let (cost, mark) = match verdict {
            Verdict::Allowed => (0, self.mark(answers, ask.cost)),
            Verdict::Denied => (ask.denied_cost(), Mark::None),
        };
        View { figures, at_ns, now_ns, cost, soft_bp: self.soft_bp, mark }
    }

    /// Whether what is admitted is over the limit that a soft policy names: fewer are left than it is softened by, less
    /// what was only asked for. A unit that another thread takes just before this is read counts, too.
    fn mark(&self, answers: Answers, unpaid: u64) -> Mark {
        let is_over = answers.remaining < self.beyond.saturating_add(unpaid);
        if self.soft_bp > 0 && is_over { Mark::Over } else { Mark::None }
    }

    /// Decides one request, or says that the slots are not the key's any more.
    pub(crate) fn decide(&self, slots: &impl Slots, ask: LogRequest) -> Option<Decision> {
        let LogRequest { now_ns, cost, charge, .. } = ask;
        let none = LogCharge { units: 0, turn_ns: now_ns };
        // Only asked: nothing is taken. `None`: the entry is another key's by now, and the caller finds it anew.
        let charged = if charge { self.charge(slots, ask)? } else { none };
        // What was not charged was denied, and is counted before the answers are read.
        let is_denied = charge && charged.units == 0 && self.refuses(slots, ask)?;
        let told_cost = ask.denied_cost();
        // A model that does not look at answers saves their reads.
        let answers = if charge && !scale::tells_answers() {
            let (limit, ready_ns, idle_ns) = (self.limit, now_ns, now_ns);
            Answers { limit, remaining: 0, ready_ns, idle_ns, spilled: false, slots: None }
        } else {
            answers(slots, self.limit, now_ns, told_cost)
        };
        if charged.units > 0 {
            return Some(self.permit(ask, charged, answers));
        }
        let is_there = || match ask.verb {
            // Asked whether there is a place.
            Verb::Reserve { wait_ns, behind, .. } if !ask.is_never(self.limit) && cost > 0 => {
                let want = self.want(now_ns, cost);
                self.turn(slots, want, within(now_ns, wait_ns), behind).is_some()
            }
            _ => cost <= answers.remaining,
        };
        let is_allowed = !is_denied && (charge || is_there());
        // What was read is of another key. A unit that was taken was confirmed with it.
        if !slots.is_same() {
            return None;
        }
        let verdict = if is_allowed { Verdict::Allowed } else { Verdict::Denied };
        Some(self.decision(ask, verdict, answers, now_ns))
    }

    /// Whether what was not charged is denied: all but a denial that would be none by now. Where denials count, it is
    /// recorded. `None`: the slots are not the key's any more.
    fn refuses(&self, slots: &impl Slots, ask: LogRequest) -> Option<bool> {
        let (now_ns, units) = (ask.now_ns, ask.denied_cost());
        if ask.verb == Verb::Refuse && units <= self.limit && count_free(slots, now_ns) >= units {
            return Some(false);
        }
        // A try leaves that to the refusal that follows it, a charge is never denied, and what never fits is not counted.
        let is_counted =
            ask.verb.counts_its_denial() && ask.verb != Verb::Charge && units <= self.limit;
        let is_counted = is_counted && self.counts_denials && !self.is_fresh(slots, now_ns);
        if is_counted && !planted(Fault::DenialNotWritten) {
            self.record(slots, self.want(now_ns, units))?;
        }
        Some(true)
    }

    /// Whether all recorded units are of the last granule, which is a thousandth of the window. A denial would raise no slot by as
    /// much then, and is not recorded. So denials raise each slot once a granule at most. Of the newest units, counted from
    /// the newest on, each is less than a granule older than if every denial were recorded. The slots may change after they
    /// were read, but their times only rise, unless a unit is given back.
    fn is_fresh(&self, slots: &impl Slots, now_ns: u64) -> bool {
        let older_ns = self.window_ns - self.window_ns.div_ceil(GRANULES);
        count_free(slots, free_at(now_ns, older_ns)) == 0
    }

    /// Records units that were denied: of these and of all that is recorded the newest are kept, as many as there are
    /// slots. So the slots with the earliest times are raised, if they are earlier.
    fn record(&self, slots: &impl Slots, want: Want) -> Option<()> {
        let Want { now_ns, units, .. } = want;
        let free_ns = want.free_ns();
        let (mut missing, mut last_ns, mut round) = (units, 0, 0);
        // Lock-free: a round that raises fewer than it has found has lost them to other threads, which have raised them or
        // have marked them; these are met a few times only, and then the rest is not recorded.
        while missing > 0 && round < ROUNDS {
            // As many as are missing are free by then: these are the earliest.
            let ready_ns = survey(slots, now_ns).ready_ns(slots, now_ns, missing);
            // A late denial may be older than all that is there.
            let latest_ns = ready_ns.min(free_ns - 1);
            // Those before the last, and then as many of the last as are missing.
            for at_ns in [latest_ns.saturating_sub(1).max(now_ns), latest_ns] {
                let want = Want { now_ns: at_ns, units: missing, ..want };
                missing -= if missing > 0 { take_each(slots, want, |_| free_ns)? } else { 0 };
            }
            // Whatever is left is as new.
            if latest_ns < ready_ns {
                return Some(());
            }
            round = if ready_ns == last_ns { round + 1 } else { 1 };
            last_ns = ready_ns;
        }
        Some(())
    }

    /// Takes what is asked for: nothing, if it is denied. `None`: the slots are not the key's any more.
    fn charge(&self, slots: &impl Slots, ask: LogRequest) -> Option<LogCharge> {
        let LogRequest { now_ns, cost, verb, .. } = ask;
        let (turn_ns, want) = (now_ns, self.want(now_ns, cost));
        let units = match verb {
            Verb::UpTo => take_each(slots, want, |_| want.free_ns())?,
            Verb::Charge => self.charge_into_debt(slots, want)?,
            // It never fits; or is the second half of a check, which charges nothing.
            _ if ask.is_never(self.limit) || verb == Verb::Refuse => 0,
            Verb::Reserve { wait_ns, behind, .. } => {
                let latest_ns = within(now_ns, wait_ns).min(LATEST_TURN_NS);
                return self.reserve(slots, want, latest_ns, behind);
            }
            _ => match take(slots, want) {
                Taken::All => cost,
                Taken::TooFew => 0,
                Taken::Lost => return None,
            },
        };
        Some(LogCharge { units, turn_ns })
    }

    fn want(&self, now_ns: u64, units: u64) -> Want {
        Want { now_ns, window_ns: self.window_ns, units }
    }

    /// What is free, and then what is free the soonest, each slot for that instant, up to a window from now: so a debt
    /// is at most what the log admits in one window, and a charge ends.
    fn charge_into_debt(&self, slots: &impl Slots, want: Want) -> Option<u64> {
        let (now_ns, latest_ns) = (want.now_ns, within(want.now_ns, self.window_ns));
        // Each for the instant from which it is free, which is no earlier than the log.
        let from_ns = now_ns.max(slots.base_ns());
        let next = |old: u64| free_at(old.max(from_ns), self.window_ns);
        let (mut units, mut at_ns) = (0, now_ns);
        loop {
            let missing = want.units - units;
            match take_each(slots, Want { now_ns: at_ns, units: missing, ..want }, next) {
                // What was taken before the slots went to another counts: the rest is not charged.
                None if units > 0 => return Some(units),
                // Nothing more is free within a window; or other threads have just taken it all.
                Some(0) if at_ns > now_ns => return Some(units),
                taken => units += taken?,
            }
            if units == want.units {
                return Some(units);
            }
            let enough = (want.units - units).min(self.limit);
            let ready_ns = survey(slots, now_ns).ready_ns(slots, now_ns, enough);
            at_ns = ready_ns.clamp(now_ns + 1, latest_ns);
        }
    }

    /// The first instant at which all units are free, if that comes in time and not behind too many. Takes nothing.
    fn turn(&self, slots: &impl Slots, want: Want, latest_ns: u64, behind: u64) -> Option<u64> {
        let seen = survey(slots, want.now_ns);
        let turn_ns = seen.ready_ns(slots, want.now_ns, want.units);
        let waiting = want.units.saturating_sub(seen.free);
        // Read only for a caller that limits the queue.
        let queue = if behind == u64::MAX || waiting == 0 {
            0
        } else {
            queued(slots, want.now_ns, self.window_ns).saturating_add(waiting)
        };
        (turn_ns <= latest_ns && queue <= behind).then_some(turn_ns)
    }

    /// Takes all units for the first instant at which they are free, if that comes in time and not behind too many.
    fn reserve(
        &self,
        slots: &impl Slots,
        want: Want,
        latest_ns: u64,
        behind: u64,
    ) -> Option<LogCharge> {
        let denied = Some(LogCharge { units: 0, turn_ns: want.now_ns });
        let (mut last_ns, mut round) = (0, 0);
        // Lock-free: if a round ends without the places that it has found, other threads have taken some, and the next
        // finds later ones; or have marked some, which are waited for through a few rounds only.
        while round < ROUNDS {
            let Some(turn_ns) = self.turn(slots, want, latest_ns, behind) else { return denied };
            // For a model's fault alone: a window from now on, which is over too early.
            let late_ns = if planted(Fault::ReservedFromNow) { turn_ns - want.now_ns } else { 0 };
            let window_ns = self.window_ns.saturating_sub(late_ns);
            match take(slots, Want { now_ns: turn_ns, window_ns, ..want }) {
                Taken::All => return Some(LogCharge { units: want.units, turn_ns }),
                Taken::Lost => return None,
                Taken::TooFew => round = if turn_ns == last_ns { round + 1 } else { 1 },
            }
            last_ns = turn_ns;
        }
        denied
    }

    /// The permit of a charge. It holds what each of its slots does, by which they are found again, and of which change.
    fn permit(&self, ask: LogRequest, charged: LogCharge, answers: Answers) -> Decision {
        let LogCharge { units, turn_ns } = charged;
        // Never `None`: a window is longer than nothing.
        let word = NonZeroU64::new(free_at(turn_ns, self.window_ns));
        let slots = word.map(|word| ChargedSlots { word, changes: self.changes });
        let answers = Answers { ready_ns: turn_ns, slots, ..answers };
        let view = self.view(ask, Verdict::Allowed, answers, ask.now_ns);
        let mark = self.mark(answers, 0);
        Decision::new(Verdict::Allowed, View { cost: units, mark, ..view })
    }

    /// The instant that a permit's units were taken for, and what each of its slots holds, if it is one of such a log.
    fn turn_of(&self, charge: &View) -> Option<(u64, u64)> {
        let Answers { limit, ready_ns: turn_ns, slots, .. } = *charge.of_charged_log()?;
        let ChargedSlots { word, changes } = slots?;
        // Of the same count, but of before a change and one back: see `changing.rs`.
        let is_before = changes != self.changes && !planted(Fault::PermitOutlivesChange);
        let is_own =
            limit == self.limit && !is_before && word.get() == free_at(turn_ns, self.window_ns);
        is_own.then_some((turn_ns, word.get()))
    }

    /// Gives units back, and says how many.
    ///
    /// Each slot is for itself: one that another has taken since stays taken. And each is free again from the
    /// instant that it was taken for, so a reservation that is given back leaves its places free from its turn on.
    pub(crate) fn amend(&self, slots: &impl Slots, now_ns: u64, amendment: Amendment<'_>) -> u64 {
        let now_ns = now_ns.min(LATEST_NS);
        match amendment {
            Amendment::Refund(charge) | Amendment::Undo(charge) => {
                // Not of this log, or its units have left the window by themselves.
                let own = self.turn_of(charge).filter(|(_, mine)| *mine > now_ns);
                let Some((turn_ns, mine)) = own else { return 0 };
                rewrite(slots, charge.cost, |word| (word == mine).then_some(turn_ns))
            }
            // What counts now. What is promised for later is another request's place.
            Amendment::Uncharge(units) => {
                let is_used =
                    |time_ns| time_ns > now_ns && time_ns <= free_at(now_ns, self.window_ns);
                // What is not in use counts beyond the limit: it goes first.
                let is_beyond = |word| is_closed(word) && is_used(time(word));
                let units_beyond = if planted(Fault::SlotsInUseFirst) { 0 } else { units };
                let beyond =
                    rewrite(slots, units_beyond, |word| is_beyond(word).then(|| closed(now_ns)));
                let is_used = |word| !is_marked(word) && is_used(word);
                beyond + rewrite(slots, units - beyond, |word| is_used(word).then_some(now_ns))
            }
            // Not 0: requests with an earlier time still wait until then, as in every limiter.
            Amendment::Reset => {
                // What is not in use is forgiven, too: it may be in use again before it is free. In one reading, so that no
                // slot is passed over that is closed or opened meanwhile.
                let given = rewrite(slots, u64::MAX, |word| match is_closed(word) {
                    true => (time(word) > now_ns).then(|| closed(now_ns)),
                    false => (!is_marked(word) && word > now_ns).then_some(now_ns),
                });
                // Also where no slot is given back: a thread that stalled in a reading of before another reset may have
                // raised the bound behind that one, and this one mends it.
                (0..slots.rows()).for_each(|row| slots.lower_low(row, now_ns));
                given
            }
        }
    }
}
