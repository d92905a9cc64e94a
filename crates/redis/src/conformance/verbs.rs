//! Tests of the verbs besides a check: take as many units as fit, charge units that were used without asking, take a
//! place in the queue, cancel it, and forget all charges.

use tollgate_oracle::{Oracle, Verdict};

use super::policies::{POLICIES, RULED, SOFT};
use super::random::{Random, Sequence};
use super::{NEVER_SET_BACK, NOW_US, TimedScript, ask, peek, plan, server::Server, start, view};
use crate::script::plan::{LARGEST, PlanKind};
use crate::script::{ScriptReply, ScriptVerb, Units};

/// The number of sequences. Each has 10 requests and its own limit.
const SEQUENCES: u64 = 9_600;
/// The number of sequences that run at the same time.
const TOGETHER: u64 = 960;

/// The last reserved place: its time and cost, what the script and the model held right after it, and the window to
/// which it was charged.
struct LastPlace {
    then_ns: u64,
    cost: u64,
    stamp: u64,
    left: u64,
    after: Oracle,
    window: tollgate_oracle::BigUint,
}

/// A limit, its model, and the last place that was taken in its queue.
struct Queue {
    sequence: Sequence,
    last: Option<LastPlace>,
    /// The time of the last reset. At that time the model was replaced by a new one, which cannot be asked about
    /// earlier times.
    since_us: u64,
}

/// A request, and the model's answer.
struct VerbStep {
    verb: ScriptVerb,
    units: Units,
    /// The units that are charged or given back; `None` for a denial.
    expected: Option<u64>,
    /// The reserved units, and their wait in nanoseconds.
    place: Option<(u64, u64)>,
}

impl Queue {
    fn new(sequence: Sequence) -> Self {
        Self { sequence, last: None, since_us: 0 }
    }

    fn is_gcra(&self) -> bool {
        matches!(self.sequence.plan.kind, PlanKind::Gcra { .. })
    }

    /// Returns true if ten requests can never reach the largest debt that the script can count. Debts
    /// that reach it have a test of their own.
    fn counts_debts(&self) -> bool {
        match self.sequence.plan.kind {
            PlanKind::Gcra { capacity, .. } => capacity < LARGEST / 64,
            _ => true,
        }
    }

    fn is_log(&self) -> bool {
        matches!(self.sequence.plan.kind, PlanKind::Log { .. })
    }

    /// The largest cost that the softened limit admits now.
    fn room(&self) -> u64 {
        let (now_ns, oracle) = (self.sequence.now_ns(), &self.sequence.oracle);
        let fits = |cost| oracle.peek(now_ns, cost) == Verdict::Allowed;
        let (mut low, mut high) = (0, oracle.most());
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            (low, high) = if fits(middle) { (middle, high) } else { (low, middle - 1) };
        }
        low
    }

    fn step(&mut self, random: &mut Random) -> VerbStep {
        self.sequence.go_on(random);
        self.sequence.now_us = self.sequence.now_us.max(self.since_us);
        let cost = self.sequence.cost(random).max(1);
        match random.below(9) {
            0 | 1 => self.take(cost, cost),
            2 => self.take(cost, 1),
            3 if self.counts_debts() => self.owe(cost + random.below(self.sequence.plan.limit + 1)),
            4 if random.below(3) == 0 => self.reset(),
            5 if self.counts_debts() => self.cancel(),
            // The model does not know which units of a log are given back first. The order has its own test.
            6 if self.counts_debts() && !self.is_log() => self.uncharge(random),
            _ if self.counts_debts() => self.reserve(cost.min(self.sequence.plan.limit), random),
            _ => self.take(cost, cost),
        }
    }

    fn entered(&mut self) {
        self.sequence.newest_us = self.sequence.now_ns() / 1_000;
    }

    fn take(&mut self, want: u64, least: u64) -> VerbStep {
        let taken = want.min(self.room().max(least));
        let verdict = self.sequence.check(taken);
        let expected = (verdict == Verdict::Allowed).then_some(taken);
        let units = Units { want, least, share: 1, stamp: 0 };
        VerbStep { verb: ScriptVerb::Check, units, expected, place: None }
    }

    fn owe(&mut self, units: u64) -> VerbStep {
        let now_ns = self.sequence.now_ns();
        let charged = match self.sequence.plan.kind {
            _ if self.sequence.oracle.is_penalised(now_ns) => 0,
            PlanKind::Gcra { .. } => units,
            PlanKind::Log { .. } => units.min(self.sequence.plan.limit),
            _ => units.min(self.room()),
        };
        self.sequence.oracle.charge(now_ns, charged);
        if charged > 0 {
            self.entered();
        }
        let (verb, units) = (ScriptVerb::Charge, Units::owed(units));
        VerbStep { verb, units, expected: Some(charged), place: None }
    }

    fn reset(&mut self) -> VerbStep {
        let now_ns = self.sequence.now_ns();
        self.sequence.oracle.reset(now_ns);
        (self.since_us, self.sequence.newest_us, self.last) = (self.sequence.now_us, 0, None);
        let (verb, units) = (ScriptVerb::Reset, Units::exactly(0));
        VerbStep { verb, units, expected: Some(0), place: None }
    }

    fn reserve(&mut self, cost: u64, random: &mut Random) -> VerbStep {
        if !self.is_gcra() {
            return self.take(cost, cost);
        }
        let (now_ns, plan) = (self.sequence.now_ns(), self.sequence.plan);
        let tick_ns = plan.tick_us * 1_000;
        let ticks = random.below(3 * plan.drain_us(cost) / plan.tick_us + 2);
        let wait_ns = ticks * tick_ns;
        let wait = tollgate::Wait::at_most(std::time::Duration::from_nanos(wait_ns));
        let (verb, units) = Units::place(&plan, cost, wait);
        let oracle = &mut self.sequence.oracle;
        let fits =
            !oracle.is_penalised(now_ns) && oracle.peek(now_ns + wait_ns, cost) == Verdict::Allowed;
        if !fits {
            // A check of the same cost is denied, too.
            assert_eq!(oracle.check(now_ns, cost), Verdict::Denied);
            return VerbStep { verb, units, expected: None, place: None };
        }
        oracle.charge(now_ns, cost);
        let turn = oracle.retry_after(now_ns, 0).unwrap();
        let place = Some((cost, u64::try_from(turn).unwrap()));
        VerbStep { verb, units, expected: Some(cost), place }
    }

    fn cancel(&mut self) -> VerbStep {
        let verb = ScriptVerb::Cancel;
        let Some(last) = self.last.take() else {
            // No place was reserved, so this cancels a charge that does not exist.
            let units = Units { stamp: LARGEST, ..Units::owed(1) };
            return VerbStep { verb, units, expected: Some(0), place: None };
        };
        let now_ns = self.sequence.now_ns();
        let oracle = &mut self.sequence.oracle;
        let is_last = *oracle == last.after && oracle.place(now_ns) == last.window;
        let back = if is_last { oracle.undo(now_ns, last.then_ns, last.cost) } else { 0 };
        let units = Units { share: last.left, stamp: last.stamp, ..Units::owed(last.cost) };
        VerbStep { verb, units, expected: Some(back), place: None }
    }

    /// Gives units back. Only units that are still owed are given back, and none of these have drained, so all of them
    /// come back. A window that is over gives nothing back.
    fn uncharge(&mut self, random: &mut Random) -> VerbStep {
        let (now_ns, newest_ns) = (self.sequence.now_ns(), self.sequence.newest_us * 1_000);
        let units = 1 + random.below(2 * self.sequence.plan.limit);
        let oracle = &mut self.sequence.oracle;
        let is_in_force = oracle.place(now_ns) == oracle.place(newest_ns);
        let back = if is_in_force { oracle.undo(now_ns, now_ns, units) } else { 0 };
        let (verb, units) = (ScriptVerb::Uncharge, Units::owed(units));
        VerbStep { verb, units, expected: Some(back), place: None }
    }

    fn compare(&mut self, step: &VerbStep, reply: &ScriptReply) {
        let (plan, now_ns) = (self.sequence.plan, self.sequence.now_ns());
        let VerbStep { verb, units, expected, place } = step;
        let what =
            format!("{verb:?} {units:?} of {} at {} us", plan.policy(), self.sequence.now_us);
        let seen = &reply.parts[0];
        let view = view(&plan, reply);
        if matches!(verb, ScriptVerb::Check | ScriptVerb::Reserve) {
            assert_eq!(reply.admitted, expected.is_some(), "{what}");
        }
        assert_eq!(seen.units, expected.unwrap_or(0), "{what}");
        let told = tollgate::Decision::from(view.told(true, seen.units));
        assert_eq!(told.remaining(), self.sequence.oracle.remaining(now_ns), "{what}");
        // The logs' own tests compare the units that are left after a cancellation.
        let reserved = match (place, expected) {
            (Some(place), _) => Some(*place),
            (None, Some(cost @ 1..)) if *verb == ScriptVerb::Check && !self.is_log() => {
                Some((*cost, 0))
            }
            _ => None,
        };
        if let Some((cost, wait_ns)) = reserved {
            if place.is_some() {
                let at_ns = now_ns + wait_ns;
                let turn_us = at_ns.div_ceil(plan.tick_us * 1_000) * plan.tick_us;
                let turn_us = if wait_ns == 0 { reply.now_us } else { turn_us };
                assert_eq!(reply.now_us + view.turn_us(), turn_us, "{what}");
            }
            let (stamp, left) = (view.stamp(), view.newest());
            let after = self.sequence.oracle.clone();
            let window = after.place(now_ns);
            self.last = Some(LastPlace { then_ns: now_ns, cost, stamp, left, after, window });
        }
    }
}

/// Compares `count` sequences with the model.
fn compare(server: &Server, told: &mut TimedScript, count: u64) {
    let policies = [&POLICIES[..], &SOFT, &RULED].concat();
    let mut random = Random(4);
    for first in (0..count).step_by(usize::try_from(TOGETHER).unwrap()) {
        let new = |number| Queue::new(Sequence::of(&policies, number, &mut random));
        let mut queues: Vec<_> = (first..first + TOGETHER).map(new).collect();
        for _ in 0..10 {
            let steps: Vec<_> = queues.iter_mut().map(|queue| queue.step(&mut random)).collect();
            let calls: Vec<_> = queues
                .iter()
                .zip(&steps)
                .map(|(Queue { sequence, .. }, step)| {
                    let ask = ask(step.verb, &sequence.key, &sequence.plan, step.units);
                    (sequence.now_us, vec![ask])
                })
                .collect();
            let replies = told.calls(&calls);
            for ((queue, step), reply) in queues.iter_mut().zip(&steps).zip(&replies) {
                queue.compare(step, &reply[0]);
            }
        }
        server.run::<()>(&["FLUSHALL"]);
    }
}

#[test]
#[ignore = "needs redis-server"]
fn every_verb_is_carried_out_as_the_model_does() {
    let (server, mut told) = start(NEVER_SET_BACK);
    compare(&server, &mut told, SEQUENCES);
}

#[test]
#[ignore = "needs redis-server"]
fn a_script_that_carries_out_something_else_is_caught() {
    let mistakes = [
        ("Charge", "return min(limit.want, limit.room) end", "return limit.want end"),
        ("Charge", "if (state.ends or 0) > 0 then return 0 end", ""),
        ("Charge", "units = min(limit.want, limit.b)", "units = limit.want"),
        ("Reserve", "debt <= state.c + ahead and", "debt < state.c + ahead and"),
        ("Reserve", "return (state.ends or 0) == 0 and debt", "return debt"),
        ("Cancel", "or held[1] ~= left - drained then", "then"),
        ("Cancel", "return held[at] == left and give_back", "return give_back"),
        ("Cancel", "size - max(drained - max(left - max(size, state.c), 0), 0)", "size - drained"),
        ("Cancel", "if state.most and state.denials > 0 then return 0 end", ""),
        ("Uncharge", "or state.most and state.ends > 0 or held[at]", "or held[at]"),
        ("Uncharge", "div(owed, size) + (fmod(owed, size) > 0 and 1 or 0)", "div(owed, size)"),
        ("", "if byte(ARGV[at], 2) == RESET then call('DEL', key) end", ""),
    ];
    let server = Server::start();
    for (verb, right, wrong) in mistakes {
        let mut told = TimedScript::mistaken(&server, NEVER_SET_BACK, right, wrong);
        let compared = std::panic::AssertUnwindSafe(|| compare(&server, &mut told, SEQUENCES));
        let panic = std::panic::catch_unwind(compared).expect_err(right);
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains(verb), "{right}: {message}");
    }
}

/// Reserves more units than the burst, and reserves units behind a debt larger than the burst.
#[test]
#[ignore = "needs redis-server"]
fn places_of_any_size_wait_as_long_as_in_the_core() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let mut random = Random(5);
    for round in 0..400_u64 {
        let plan = plan(["10/s burst 3", "1/s burst 1", "100/m burst 40"][(round % 3) as usize]);
        let limiter = tollgate::Limiter::new(plan.policy());
        let mut now_us = 3_600_000_000 + random.below(1_000_000);
        for _ in 0..8 {
            now_us += random.below(2) * random.below(2_000_000);
            let entry = limiter.entry().at(tollgate::Timestamp::from_nanos(now_us * 1_000));
            let wait =
                tollgate::Wait::at_most(std::time::Duration::from_millis(random.below(40_000)))
                    .behind(random.below(30));
            let cost = 1 + random.below(2 * plan.limit);
            let (verb, units) = Units::place(&plan, cost, wait);
            let reply = told.call(now_us, ask(verb, &round.to_string(), &plan, units));
            let expected = entry.queue(cost, wait);
            assert_eq!(reply.admitted, expected.is_ok(), "{cost} {wait:?} of {}", plan.policy());
            let Ok(place) = expected else { continue };
            let view = view(&plan, &reply);
            let wait_us = u64::try_from(place.wait().as_nanos().div_ceil(1_000)).unwrap();
            assert!(view.turn_us().abs_diff(wait_us) <= 1, "{} {wait_us}", view.turn_us());
            if random.below(2) == 0 {
                now_us += random.below(400_000);
                let entry = limiter.entry().at(tollgate::Timestamp::from_nanos(now_us * 1_000));
                let units =
                    Units { share: view.newest(), stamp: view.stamp(), ..Units::owed(cost) };
                let ask = ask(ScriptVerb::Cancel, &round.to_string(), &plan, units);
                let back = told.call(now_us, ask).parts[0].units;
                assert_eq!(back > 0, entry.cancel(place), "{cost} of {}", plan.policy());
            }
        }
    }
}

/// The largest debt is reported exactly and stored as text, and a later request still finds it.
#[test]
#[ignore = "needs redis-server"]
fn a_debt_ends_where_the_script_can_no_longer_count_it() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    for policy in ["10/m burst 5", "1000003/d", "100/s", "10/m penalty 10m after 3"] {
        let plan = plan(policy);
        let empty = told.call(NOW_US, peek(policy, &plan));
        let chargeable = view(&plan, &empty).chargeable(u64::MAX);
        assert!(chargeable < LARGEST && chargeable > plan.limit, "{chargeable}");
        let owed = |units| ask(ScriptVerb::Charge, policy, &plan, Units::owed(units));
        let reply = told.call(NOW_US, owed(u64::MAX));
        assert_eq!(reply.parts[0].units, chargeable, "{policy}");
        let later = told.call(NOW_US, owed(7));
        assert_eq!((later.parts[0].units, later.parts[0].broken), (0, false), "{policy}");
        assert_eq!(later.parts[0].state, reply.parts[0].state, "{policy}");
    }
}
