//! [`LogRule`]: the quota of a log, and the decisions on its slots.

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

/// A reservation is denied, and a denial is not recorded, after this many rounds in which other requests have marked
/// the slots that it needs.
const ROUNDS: u32 = 8;

/// The quota of a log: a number of units in each window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRule {
    /// The limit of the policy, plus `beyond` if the policy is soft.
    pub(crate) limit: u64,
    pub(crate) slots: usize,
    window_ns: u64,
    soft_bp: u16,
    /// The number of units by which the limit is softened.
    beyond: u64,
    pub(crate) counts_denials: bool,
    /// The longest wait in nanoseconds, and the largest number of units behind which a request may wait; `u64::MAX`
    /// means that there is no bound.
    pub(crate) queue: Option<[u64; 2]>,
    /// The number of changes of the count so far. A permit from before a change gives back nothing.
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

/// The number of units that were charged, and the instant for which they were charged. (In a charge into debt each unit
/// has its own instant.)
#[derive(Clone, Copy)]
struct LogCharge {
    units: u64,
    turn_ns: u64,
}

impl LogRequest {
    /// A time after the latest time is replaced by the latest time.
    pub(crate) fn new(verb: Verb, cost: u64, now_ns: u64, charge: bool) -> Self {
        Self { now_ns: now_ns.min(LATEST_NS), cost, charge: charge && cost > 0, verb }
    }

    /// True if the request would be denied in every state of the log. A request for as much as fits and a charge into
    /// debt are never such requests.
    pub(crate) fn is_never(&self, limit: u64) -> bool {
        self.cost > limit && !matches!(self.verb, Verb::UpTo | Verb::Charge)
    }

    /// The cost that a denial reports: one unit if the request was for as much as fits, and the whole cost otherwise.
    fn denied_cost(self) -> u64 {
        if self.verb == Verb::UpTo { self.cost.min(1) } else { self.cost }
    }
}

impl LogRule {
    /// The rule of a policy, if the policy is a sliding log.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        (policy.algorithm() == Algorithm::SlidingLog).then(|| Self::in_slots(policy))
    }

    /// The rule of a policy that is stored in slots.
    pub(crate) fn in_slots(policy: &Policy) -> Self {
        let (limit, window_ns) = (policy.ceiling(), policy.quota().period_ns());
        let at_limit = policy.at_limit();
        // This does not saturate for a log that exists, which has about a million slots at most.
        let slots = usize::try_from(limit).unwrap_or(usize::MAX);
        // This is 0 if the limit is not soft.
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

    /// A decision that charges nothing and has these answers.
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
        // The permit of a peek has a cost of 0, since nothing was charged.
        let (cost, mark) = match verdict {
            Verdict::Allowed => (0, self.mark(answers, ask.cost)),
            Verdict::Denied => (ask.denied_cost(), Mark::None),
        };
        View { figures, at_ns, now_ns, cost, soft_bp: self.soft_bp, mark }
    }

    /// The mark of an admission. An admission is over the limit that a soft policy names if fewer units are left than
    /// the number by which the limit is softened. The units of a peek count as taken. The number of units that are left
    /// may also be lower because another thread took units just before it was read.
    fn mark(&self, answers: Answers, unpaid: u64) -> Mark {
        let is_over = answers.remaining < self.beyond.saturating_add(unpaid);
        if self.soft_bp > 0 && is_over { Mark::Over } else { Mark::None }
    }

    /// Decides one request. `None` means that the slots do not belong to the key any more.
    pub(crate) fn decide(&self, slots: &impl Slots, ask: LogRequest) -> Option<Decision> {
        let LogRequest { now_ns, cost, charge, .. } = ask;
        let none = LogCharge { units: 0, turn_ns: now_ns };
        // A peek takes nothing. If `charge` returns `None`, the slots belong to another key now, and the caller
        // searches for the key again.
        let charged = if charge { self.charge(slots, ask)? } else { none };
        // A request that was not charged is denied, and the denial is counted before the answers are read.
        let is_denied = charge && charged.units == 0 && self.refuses(slots, ask)?;
        let told_cost = ask.denied_cost();
        // A model that does not use the answers does not read them.
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
            // The peek of a reservation is admitted if its turn is soon enough.
            Verb::Reserve { wait_ns, behind, .. } if !ask.is_never(self.limit) && cost > 0 => {
                let want = self.want(now_ns, cost);
                self.turn(slots, want, within(now_ns, wait_ns), behind).is_some()
            }
            _ => cost <= answers.remaining,
        };
        let is_allowed = !is_denied && (charge || is_there());
        // If the slots belong to another key now, the values that were read are of no use. A charge does not need this
        // test, since each unit was confirmed when it was taken.
        if !slots.is_same() {
            return None;
        }
        let verdict = if is_allowed { Verdict::Allowed } else { Verdict::Denied };
        Some(self.decision(ask, verdict, answers, now_ns))
    }

    /// True if a request that was not charged is denied. The second half of a check (a refusal) is not a denial if the
    /// request would be admitted now. If the policy counts denials, the denial is recorded. `None` means that the slots
    /// do not belong to the key any more.
    fn refuses(&self, slots: &impl Slots, ask: LogRequest) -> Option<bool> {
        let (now_ns, units) = (ask.now_ns, ask.denied_cost());
        if ask.verb == Verb::Refuse && units <= self.limit && count_free(slots, now_ns) >= units {
            return Some(false);
        }
        // A try leaves the counting to the refusal that follows it. A charge that takes nothing does not count as a
        // denial, and neither does a cost that never fits.
        let is_counted =
            ask.verb.counts_its_denial() && ask.verb != Verb::Charge && units <= self.limit;
        let is_counted = is_counted && self.counts_denials && !self.is_fresh(slots, now_ns);
        if is_counted && !planted(Fault::DenialNotWritten) {
            self.record(slots, self.want(now_ns, units))?;
        }
        Some(true)
    }

    /// True if all recorded units are from the last granule, which is a thousandth of the window. Then a denial would
    /// raise no slot by a granule or more, and is not recorded. So denials raise each slot at most once in a granule.
    /// Compared with a log that records all denials, each of the newest units in this log is less than a granule older.
    /// The slots may change after they were read, but their times only rise, unless a unit is given back.
    fn is_fresh(&self, slots: &impl Slots, now_ns: u64) -> bool {
        let older_ns = self.window_ns - self.window_ns.div_ceil(GRANULES);
        count_free(slots, free_at(now_ns, older_ns)) == 0
    }

    /// Records units that were denied. The log keeps the newest of the denied and the recorded units, one in each slot.
    /// So the slots with the earliest times are raised, if they are earlier than the denied units.
    fn record(&self, slots: &impl Slots, want: Want) -> Option<()> {
        let Want { now_ns, units, .. } = want;
        let free_ns = want.free_ns();
        let (mut missing, mut last_ns, mut round) = (units, 0, 0);
        // Lock-free: if a round raises fewer slots than it has found, other threads have raised them or marked them.
        // After a few rounds with marked slots, the remaining units are not recorded.
        while missing > 0 && round < ROUNDS {
            // `ready_ns` is the first instant at which `missing` slots are free: the slots with the earliest times.
            let ready_ns = survey(slots, now_ns).ready_ns(slots, now_ns, missing);
            // A denied request that is late may be older than all recorded units.
            let latest_ns = ready_ns.min(free_ns - 1);
            // The slots before `latest_ns` are raised first. Then slots at `latest_ns` are raised, until there are
            // enough.
            for at_ns in [latest_ns.saturating_sub(1).max(now_ns), latest_ns] {
                let want = Want { now_ns: at_ns, units: missing, ..want };
                missing -= if missing > 0 { take_each(slots, want, |_| free_ns)? } else { 0 };
            }
            // The units in all other slots are as new as the denied units, so no more units are recorded.
            if latest_ns < ready_ns {
                return Some(());
            }
            round = if ready_ns == last_ns { round + 1 } else { 1 };
            last_ns = ready_ns;
        }
        Some(())
    }

    /// Takes the units of a request, or none if the request is denied. `None` means that the slots do not belong to the
    /// key any more.
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

    /// Takes the free slots first, and then the slots that become free the soonest, up to a window from now. Each slot
    /// is taken for the instant at which it becomes free. So the debt is at most the number of units that the log
    /// admits in one window. This also means that the loop of a charge ends.
    fn charge_into_debt(&self, slots: &impl Slots, want: Want) -> Option<u64> {
        let (now_ns, latest_ns) = (want.now_ns, within(want.now_ns, self.window_ns));
        // Each slot is taken for the instant at which it becomes free, but for no instant before now or before the log
        // began.
        let from_ns = now_ns.max(slots.base_ns());
        let next = |old: u64| free_at(old.max(from_ns), self.window_ns);
        let (mut units, mut at_ns) = (0, now_ns);
        loop {
            let missing = want.units - units;
            match take_each(slots, Want { now_ns: at_ns, units: missing, ..want }, next) {
                // The slots belong to another key now. The units that were taken before stay charged, and the others
                // are not charged.
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

    /// Returns the first instant at which all units are free, if it is not after `latest_ns` and not behind too many
    /// units. Takes nothing.
    fn turn(&self, slots: &impl Slots, want: Want, latest_ns: u64, behind: u64) -> Option<u64> {
        let seen = survey(slots, want.now_ns);
        let turn_ns = seen.ready_ns(slots, want.now_ns, want.units);
        let waiting = want.units.saturating_sub(seen.free);
        // The length of the queue is computed only if the caller has a bound for it.
        let queue = if behind == u64::MAX || waiting == 0 {
            0
        } else {
            queued(slots, want.now_ns, self.window_ns).saturating_add(waiting)
        };
        (turn_ns <= latest_ns && queue <= behind).then_some(turn_ns)
    }

    /// Takes all units for the first instant at which they are free, if it is not after `latest_ns` and not behind too
    /// many units.
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
        // slots were taken, the next round finds a later turn. If slots are marked, the loop ends after a few rounds.
        while round < ROUNDS {
            let Some(turn_ns) = self.turn(slots, want, latest_ns, behind) else { return denied };
            // `late_ns` is not 0 only in a model that plants the fault: the window then begins now, and ends too early.
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

    /// The permit of a charge. It stores the content of the charged slots, by which a refund finds them again, and the
    /// number of changes of the count.
    fn permit(&self, ask: LogRequest, charged: LogCharge, answers: Answers) -> Decision {
        let LogCharge { units, turn_ns } = charged;
        // `word` is never `None`, since a window is longer than 0.
        let word = NonZeroU64::new(free_at(turn_ns, self.window_ns));
        let slots = word.map(|word| ChargedSlots { word, changes: self.changes });
        let answers = Answers { ready_ns: turn_ns, slots, ..answers };
        let view = self.view(ask, Verdict::Allowed, answers, ask.now_ns);
        let mark = self.mark(answers, 0);
        Decision::new(Verdict::Allowed, View { cost: units, mark, ..view })
    }

    /// The instant for which a permit's units were taken, and the content of its slots, if the permit is from this log.
    fn turn_of(&self, charge: &View) -> Option<(u64, u64)> {
        let Answers { limit, ready_ns: turn_ns, slots, .. } = *charge.of_charged_log()?;
        let ChargedSlots { word, changes } = slots?;
        // An equal limit does not prove that the permit is valid, since the count may have been changed and changed
        // back. See `changing.rs`.
        let is_before = changes != self.changes && !planted(Fault::PermitOutlivesChange);
        let is_own =
            limit == self.limit && !is_before && word.get() == free_at(turn_ns, self.window_ns);
        is_own.then_some((turn_ns, word.get()))
    }

    /// Gives units back, and returns how many units.
    ///
    /// Each slot is given back separately, and stays taken if another request has taken it since. A slot is free again
    /// from the instant for which it was taken, so the slots of a reservation are free from its turn on.
    pub(crate) fn amend(&self, slots: &impl Slots, now_ns: u64, amendment: Amendment<'_>) -> u64 {
        let now_ns = now_ns.min(LATEST_NS);
        match amendment {
            Amendment::Refund(charge) | Amendment::Undo(charge) => {
                // `None` means that the permit is not from this log, or that its units have already left the window.
                let own = self.turn_of(charge).filter(|(_, mine)| *mine > now_ns);
                let Some((turn_ns, mine)) = own else { return 0 };
                rewrite(slots, charge.cost, |word| (word == mine).then_some(turn_ns))
            }
            // Only units that count now are taken back. A unit for a later instant is the place of a reservation.
            Amendment::Uncharge(units) => {
                let is_used =
                    |time_ns| time_ns > now_ns && time_ns <= free_at(now_ns, self.window_ns);
                // Units in closed slots are beyond the limit, so they are given back first.
                let is_beyond = |word| is_closed(word) && is_used(time(word));
                let units_beyond = if planted(Fault::SlotsInUseFirst) { 0 } else { units };
                let beyond =
                    rewrite(slots, units_beyond, |word| is_beyond(word).then(|| closed(now_ns)));
                let is_used = |word| !is_marked(word) && is_used(word);
                beyond + rewrite(slots, units - beyond, |word| is_used(word).then_some(now_ns))
            }
            // A slot is set to now and not to 0, so that a request with an earlier time still waits until now.
            Amendment::Reset => {
                // Closed slots are reset, too, since they may be opened again before they are free. Open and closed
                // slots are handled in the same pass, so that no slot is missed if it is closed or opened meanwhile.
                let given = rewrite(slots, u64::MAX, |word| match is_closed(word) {
                    true => (time(word) > now_ns).then(|| closed(now_ns)),
                    false => (!is_marked(word) && word > now_ns).then_some(now_ns),
                });
                // The bounds are lowered even if no slot is given back. A thread that read the slots before an earlier
                // reset may have raised a bound after that reset, and this reset corrects the bound.
                (0..slots.rows()).for_each(|row| slots.lower_low(row, now_ns));
                given
            }
        }
    }
}
