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

/// A reservation is denied after this many rounds in which it has met only slots that other requests have marked.
const ROUNDS: u32 = 8;

/// A quota as a log reads it: a number of units in each window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRule {
    /// The limit of the policy, plus `beyond` if the policy is soft.
    pub(crate) limit: u64,
    pub(crate) slots: usize,
    window_ns: u64,
    soft_bp: u16,
    /// Units by which the limit is softened.
    beyond: u64,
    pub(crate) counts_denials: bool,
    /// The longest wait in nanoseconds, and the most units before it.
    pub(crate) queue: Option<[u64; 2]>,
    /// The number of changes of the count so far, if it may change: a permit from before a change gives back nothing.
    changes: u64,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRequest {
    pub(crate) now_ns: u64,
    pub(crate) cost: u64,
    /// True if the cost is charged when it is admitted.
    pub(crate) charge: bool,
    pub(crate) verb: Verb,
}

/// The units that were charged, and the instant for which they were charged. (In a charge into debt each unit has its
/// own instant.)
#[derive(Clone, Copy)]
struct LogCharge {
    units: u64,
    turn_ns: u64,
}

impl LogRequest {
    /// After the latest time the clock stands still, as in every limiter.
    pub(crate) fn new(verb: Verb, cost: u64, now_ns: u64, charge: bool) -> Self {
        Self { now_ns: now_ns.min(LATEST_NS), cost, charge: charge && cost > 0, verb }
    }

    /// True if no state of the log could admit the request. A request for as much as fits can always be admitted.
    pub(crate) fn is_never(&self, limit: u64) -> bool {
        self.cost > limit && !matches!(self.verb, Verb::UpTo | Verb::Charge)
    }

    /// The cost that a denial is about. It is one unit if the request was for as much as fits.
    fn denied_cost(self) -> u64 {
        if self.verb == Verb::UpTo { self.cost.min(1) } else { self.cost }
    }
}

impl LogRule {
    /// The rule of a policy, if that is one of sliding logs.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        (policy.algorithm() == Algorithm::SlidingLog).then(|| Self::in_slots(policy))
    }

    /// The rule of a policy that is kept in slots.
    pub(crate) fn in_slots(policy: &Policy) -> Self {
        let (limit, window_ns) = (policy.ceiling(), policy.quota().period_ns());
        let at_limit = policy.at_limit();
        // A log that exists has a million slots at most.
        let slots = usize::try_from(limit).unwrap_or(usize::MAX);
        // There are no further units if the limit is hard.
        let beyond = limit - policy.named_limit();
        let (soft_bp, counts_denials) =
            (at_limit.soft.hundredths(), at_limit.count_denied != CountDenied::No);
        let queue = at_limit.queue.map(|wait| wait.bounds());
        Self { limit, slots, window_ns, soft_bp, beyond, counts_denials, queue, changes: 0 }
    }

    /// The same rule after this number of changes of the count.
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
        // A question that would be admitted has charged nothing.
        let (cost, mark) = match verdict {
            Verdict::Allowed => (0, self.mark(answers, ask.cost)),
            Verdict::Denied => (ask.denied_cost(), Mark::None),
        };
        View { figures, at_ns, now_ns, cost, soft_bp: self.soft_bp, mark }
    }

    /// True if an admission is over the limit that a soft policy names. This is so if fewer units are left than the
    /// number by which the limit is softened. The units of a question are treated as taken. A unit that another thread
    /// has taken just before this reading is included, too.
    fn mark(&self, answers: Answers, unpaid: u64) -> Mark {
        let is_over = answers.remaining < self.beyond.saturating_add(unpaid);
        if self.soft_bp > 0 && is_over { Mark::Over } else { Mark::None }
    }

    /// Decides one request, or says that the slots are not the key's any more.
    pub(crate) fn decide(&self, slots: &impl Slots, ask: LogRequest) -> Option<Decision> {
        let LogRequest { now_ns, cost, charge, .. } = ask;
        let none = LogCharge { units: 0, turn_ns: now_ns };
        // A question takes nothing. `None` means that the entry is another key's by now, and the caller finds it anew.
        let charged = if charge { self.charge(slots, ask)? } else { none };
        // A request that was not charged is denied, and counted before the answers are read.
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
            // A question for a reservation asks if there is a turn that is soon enough.
            Verb::Reserve { wait_ns, behind, .. } if !ask.is_never(self.limit) && cost > 0 => {
                let want = self.want(now_ns, cost);
                self.turn(slots, want, within(now_ns, wait_ns), behind).is_some()
            }
            _ => cost <= answers.remaining,
        };
        let is_allowed = !is_denied && (charge || is_there());
        // The readings are of another key's slots. A unit that was taken was confirmed by its own header.
        if !slots.is_same() {
            return None;
        }
        let verdict = if is_allowed { Verdict::Allowed } else { Verdict::Denied };
        Some(self.decision(ask, verdict, answers, now_ns))
    }

    /// True if a request that was not charged is denied. It is not denied if it would be admitted by now. If the policy
    /// counts denials, the denial is recorded. `None` means that the slots are not the key's any more.
    fn refuses(&self, slots: &impl Slots, ask: LogRequest) -> Option<bool> {
        let (now_ns, units) = (ask.now_ns, ask.denied_cost());
        if ask.verb == Verb::Refuse && units <= self.limit && count_free(slots, now_ns) >= units {
            return Some(false);
        }
        // A try leaves the counting to the refusal that follows it, a charge is never denied, and a cost that never
        // fits is not counted.
        let is_counted =
            ask.verb.counts_its_denial() && ask.verb != Verb::Charge && units <= self.limit;
        let is_counted = is_counted && self.counts_denials && !self.is_fresh(slots, now_ns);
        if is_counted && !planted(Fault::DenialNotWritten) {
            self.record(slots, self.want(now_ns, units))?;
        }
        Some(true)
    }

    /// True if all recorded units are of the last granule, which is a thousandth of the window. Then a denial would
    /// raise no slot by a granule, and is not recorded. So denials raise each slot once a granule at most. Compared
    /// with a log of all denials, each of the newest units is less than a granule older. The slots may change after
    /// they were read, but their times only rise, unless a unit is given back.
    fn is_fresh(&self, slots: &impl Slots, now_ns: u64) -> bool {
        let older_ns = self.window_ns - self.window_ns.div_ceil(GRANULES);
        count_free(slots, free_at(now_ns, older_ns)) == 0
    }

    /// Records units that were denied. The newest of these and of all recorded units are kept, as many as there are
    /// slots. So the slots with the earliest times are raised, if they are earlier.
    fn record(&self, slots: &impl Slots, want: Want) -> Option<()> {
        let Want { now_ns, units, .. } = want;
        let free_ns = want.free_ns();
        let (mut missing, mut last_ns, mut round) = (units, 0, 0);
        // Lock-free: if a round raises fewer slots than it has found, other threads have raised them or marked them.
        // Marked slots are met a few times only, and then the rest is not recorded.
        while missing > 0 && round < ROUNDS {
            // At `ready_ns` as many slots are free as are missing: these are the earliest.
            let ready_ns = survey(slots, now_ns).ready_ns(slots, now_ns, missing);
            // A late denial may be older than all recorded units.
            let latest_ns = ready_ns.min(free_ns - 1);
            // First the slots before the last instant are raised. Then slots with that instant are raised, until there
            // are enough.
            for at_ns in [latest_ns.saturating_sub(1).max(now_ns), latest_ns] {
                let want = Want { now_ns: at_ns, units: missing, ..want };
                missing -= if missing > 0 { take_each(slots, want, |_| free_ns)? } else { 0 };
            }
            // All slots hold units that are as new as these, so no more are recorded.
            if latest_ns < ready_ns {
                return Some(());
            }
            round = if ready_ns == last_ns { round + 1 } else { 1 };
            last_ns = ready_ns;
        }
        Some(())
    }

    /// Takes the units of a request, or none if it is denied. `None` means that the slots are not the key's any more.
    fn charge(&self, slots: &impl Slots, ask: LogRequest) -> Option<LogCharge> {
        let LogRequest { now_ns, cost, verb, .. } = ask;
        let (turn_ns, want) = (now_ns, self.want(now_ns, cost));
        let units = match verb {
            Verb::UpTo => take_each(slots, want, |_| want.free_ns())?,
            Verb::Charge => self.charge_into_debt(slots, want)?,
            // The cost never fits, or this is the second half of a check, which charges nothing.
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

    /// Takes the free slots, and then those that are free the soonest, each for that instant, up to a window from now.
    /// So a debt is at most the units that the log admits in one window, and a charge ends.
    fn charge_into_debt(&self, slots: &impl Slots, want: Want) -> Option<u64> {
        let (now_ns, latest_ns) = (want.now_ns, within(want.now_ns, self.window_ns));
        // Each slot is taken for the instant from which it is free, but for none before the log began.
        let from_ns = now_ns.max(slots.base_ns());
        let next = |old: u64| free_at(old.max(from_ns), self.window_ns);
        let (mut units, mut at_ns) = (0, now_ns);
        loop {
            let missing = want.units - units;
            match take_each(slots, Want { now_ns: at_ns, units: missing, ..want }, next) {
                // The slots have gone to another key. Units that were taken before that stay charged, and the rest is
                // not charged.
                None if units > 0 => return Some(units),
                // No more slots are free within a window, or other threads have just taken them.
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

    /// Returns the first instant at which all units are free, if it comes in time and not behind too many units. Takes
    /// nothing.
    fn turn(&self, slots: &impl Slots, want: Want, latest_ns: u64, behind: u64) -> Option<u64> {
        let seen = survey(slots, want.now_ns);
        let turn_ns = seen.ready_ns(slots, want.now_ns, want.units);
        let waiting = want.units.saturating_sub(seen.free);
        // The queue is read only for a caller that limits it.
        let queue = if behind == u64::MAX || waiting == 0 {
            0
        } else {
            queued(slots, want.now_ns, self.window_ns).saturating_add(waiting)
        };
        (turn_ns <= latest_ns && queue <= behind).then_some(turn_ns)
    }

    /// Takes all units for the first instant at which they are free, if it comes in time and not behind too many units.
    fn reserve(
        &self,
        slots: &impl Slots,
        want: Want,
        latest_ns: u64,
        behind: u64,
    ) -> Option<LogCharge> {
        let denied = Some(LogCharge { units: 0, turn_ns: want.now_ns });
        let (mut last_ns, mut round) = (0, 0);
        // Lock-free: a round fails only if other threads have taken or marked some of the slots that it has found. If
        // slots were taken, the next round finds a later turn. For marked slots the loop goes on for a few rounds only.
        while round < ROUNDS {
            let Some(turn_ns) = self.turn(slots, want, latest_ns, behind) else { return denied };
            // Only a model that plants the fault takes this branch: the window then begins now, and is over too early.
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

    /// The permit of a charge. It holds the instant that stands in each of its slots, by which the slots are found
    /// again, and the number of changes.
    fn permit(&self, ask: LogRequest, charged: LogCharge, answers: Answers) -> Decision {
        let LogCharge { units, turn_ns } = charged;
        // It is never `None`, since a window is longer than 0.
        let word = NonZeroU64::new(free_at(turn_ns, self.window_ns));
        let slots = word.map(|word| ChargedSlots { word, changes: self.changes });
        let answers = Answers { ready_ns: turn_ns, slots, ..answers };
        let view = self.view(ask, Verdict::Allowed, answers, ask.now_ns);
        let mark = self.mark(answers, 0);
        Decision::new(Verdict::Allowed, View { cost: units, mark, ..view })
    }

    /// The instant for which a permit's units were taken, and the instant in each of its slots, if it is of this log.
    fn turn_of(&self, charge: &View) -> Option<(u64, u64)> {
        let Answers { limit, ready_ns: turn_ns, slots, .. } = *charge.of_charged_log()?;
        let ChargedSlots { word, changes } = slots?;
        // The count may be the same although it was changed and changed back after the permit: see `changing.rs`.
        let is_before = changes != self.changes && !planted(Fault::PermitOutlivesChange);
        let is_own =
            limit == self.limit && !is_before && word.get() == free_at(turn_ns, self.window_ns);
        is_own.then_some((turn_ns, word.get()))
    }

    /// Gives units back, and returns how many.
    ///
    /// Each slot is given back by itself. A slot stays taken if another request has taken it since. Each is free again
    /// from the instant for which it was taken, so a reservation that is given back leaves its places free from its
    /// turn on.
    pub(crate) fn amend(&self, slots: &impl Slots, now_ns: u64, amendment: Amendment<'_>) -> u64 {
        let now_ns = now_ns.min(LATEST_NS);
        match amendment {
            Amendment::Refund(charge) | Amendment::Undo(charge) => {
                // The permit is not of this log, or its units have left the window by themselves.
                let own = self.turn_of(charge).filter(|(_, mine)| *mine > now_ns);
                let Some((turn_ns, mine)) = own else { return 0 };
                rewrite(slots, charge.cost, |word| (word == mine).then_some(turn_ns))
            }
            // Only units that count now are taken back. A unit that is promised for later is another request's place.
            Amendment::Uncharge(units) => {
                let is_used =
                    |time_ns| time_ns > now_ns && time_ns <= free_at(now_ns, self.window_ns);
                // Units in slots that are not in use are beyond the limit, so they are given back first.
                let is_beyond = |word| is_closed(word) && is_used(time(word));
                let units_beyond = if planted(Fault::SlotsInUseFirst) { 0 } else { units };
                let beyond =
                    rewrite(slots, units_beyond, |word| is_beyond(word).then(|| closed(now_ns)));
                let is_used = |word| !is_marked(word) && is_used(word);
                beyond + rewrite(slots, units - beyond, |word| is_used(word).then_some(now_ns))
            }
            // The slot is not set to 0: requests with an earlier time still wait until then, as in every limiter.
            Amendment::Reset => {
                // Slots that are not in use are forgiven, too, since they may be in use again before they are free. All
                // are read in one pass, so that none is missed that is closed or opened meanwhile.
                let given = rewrite(slots, u64::MAX, |word| match is_closed(word) {
                    true => (time(word) > now_ns).then(|| closed(now_ns)),
                    false => (!is_marked(word) && word > now_ns).then_some(now_ns),
                });
                // This is done even if no slot is given back: a thread whose reading is from before another reset may
                // have raised the bound after that reset, and this one mends it.
                (0..slots.rows()).for_each(|row| slots.lower_low(row, now_ns));
                given
            }
        }
    }
}
