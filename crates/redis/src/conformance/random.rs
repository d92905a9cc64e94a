//! Compares the script with the model in random sequences of requests: verdicts, units left, waits, and the units of
//! refunds and leases.

use tollgate::{Decision, DenialReason};

use super::policies::{POLICIES, RULED, SOFT};
use super::{
    NEVER_SET_BACK, NOW_US, TimedScript, ask, model, plan, server::Server, start, tick_ns, view,
};
use crate::script::plan::{LARGEST, ScriptPlan};
use crate::script::state::State;
use crate::script::view::StateView;
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::store::backoff::mixed;

/// The number of sequences. With this number, each pair of policy and verb occurs thousands of times. Each sequence has
/// its own limit, and ten requests on average.
const SEQUENCES: u64 = 100_000;
/// The number of sequences that run at the same time, so that the server gets many requests at once.
const TOGETHER: u64 = 2_000;

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = mixed(self.0);
        self.0 % bound
    }
}

pub(super) struct Sequence {
    pub(super) key: String,
    pub(super) plan: ScriptPlan,
    pub(super) oracle: tollgate_oracle::Oracle,
    pub(super) now_us: u64,
    /// For a log, the last time at which units were entered.
    pub(super) newest_us: u64,
}

impl Sequence {
    fn new(number: u64, random: &mut Random) -> Self {
        Self::of(&POLICIES, number, random)
    }

    pub(super) fn of(policies: &[&str], number: u64, random: &mut Random) -> Self {
        let plan = plan(policies[usize::try_from(number).unwrap() % policies.len()]);
        let now_us = match random.below(4) {
            0 => random.below(1_000_000),
            // This is any time up to the year 2100.
            1 => random.below(4_102_444_800_000_000),
            _ => NOW_US + random.below(100_000_000_000),
        };
        Self { key: number.to_string(), plan, oracle: model(&plan), now_us, newest_us: 0 }
    }

    /// Advances the time by some thousandths of the period or by a whole period, or sometimes sets it back.
    pub(super) fn go_on(&mut self, random: &mut Random) {
        let period_us = self.plan.drain_us(self.plan.policy().quota().count()).max(1);
        let step_us = match random.below(10) {
            0 => 0,
            1 => period_us,
            2 => period_us * random.below(4) + random.below(3),
            // In so short a time hardly any part of a full debt drains.
            3 => period_us / 100_000 * random.below(8),
            _ => period_us / 1_000 * random.below(400) + random.below(period_us / 1_000 + 3),
        };
        self.now_us = match random.below(12) {
            0 => self.now_us.saturating_sub(step_us / 3),
            _ => (self.now_us + step_us).min(4_102_444_800_000_000),
        };
    }

    /// The time that the model is given. For a log it is never earlier than the log's newest unit.
    pub(super) fn now_ns(&self) -> u64 {
        let is_log = self.plan.policy().algorithm() == tollgate::Algorithm::SlidingLog;
        let newest_us = if is_log { self.newest_us } else { 0 };
        tick_ns(&self.plan, self.now_us.max(newest_us))
    }

    /// Decides a request by the model.
    pub(super) fn check(&mut self, cost: u64) -> tollgate_oracle::Verdict {
        let now_ns = self.now_ns();
        let before = self.oracle.clone();
        let verdict = self.oracle.check(now_ns, cost);
        let counts = self.plan.policy().at_limit().count_denied != tollgate::CountDenied::No;
        let is_recorded = match verdict {
            tollgate_oracle::Verdict::Allowed => true,
            // A denial in the same granule as the last recorded denial is not recorded.
            tollgate_oracle::Verdict::Denied => counts && self.oracle != before,
            tollgate_oracle::Verdict::Never => false,
        };
        if is_recorded && cost > 0 {
            self.newest_us = now_ns / 1_000;
        }
        verdict
    }

    pub(super) fn cost(&self, random: &mut Random) -> u64 {
        let limit = self.plan.limit;
        match random.below(8) {
            0 => 0,
            1 => random.below(limit + 2),
            2 => limit + random.below(2),
            3 => random.below(limit / 2 + 2),
            _ => 1 + random.below(limit / 5 + 1),
        }
    }

    /// A random request, and the model's answer.
    fn request(&mut self, random: &mut Random) -> (ScriptRequest, Expected) {
        let verb = if random.below(6) == 0 { ScriptVerb::Peek } else { ScriptVerb::Check };
        let cost = self.cost(random);
        let now_ns = self.now_ns();
        let is_over = self.oracle.is_over(now_ns, cost);
        let verdict = match verb {
            ScriptVerb::Peek => self.oracle.peek(now_ns, cost),
            _ => self.check(cost),
        };
        let admitted = verdict == tollgate_oracle::Verdict::Allowed;
        let remaining = self.oracle.remaining(now_ns);
        // The model finds waits by a slow search, so only one request in 40 has them checked.
        let waits = (random.below(40) == 0).then(|| {
            let wait = |wait: tollgate_oracle::BigUint| u64::try_from(wait).unwrap();
            let fitting = cost.min(self.plan.limit);
            let ready = self.oracle.retry_after(now_ns, fitting).map(wait).unwrap();
            [(fitting, ready), (self.plan.limit, wait(self.oracle.reset_after(now_ns)))]
        });
        let units = if verb == ScriptVerb::Check && admitted { cost } else { 0 };
        // A peek charges no units, so its answer is marked as over the named limit only if that limit was exceeded
        // before.
        let is_over = match verb {
            ScriptVerb::Peek => self.oracle.is_over(now_ns, 0),
            _ => is_over,
        };
        let is_penalised = self.oracle.is_penalised(now_ns);
        let expected =
            Expected { admitted, is_over, is_penalised, units, remaining, waits, now_ns };
        (ask(verb, &self.key, &self.plan, Units::exactly(cost)), expected)
    }
}

struct Expected {
    admitted: bool,
    is_over: bool,
    is_penalised: bool,
    units: u64,
    remaining: u64,
    /// Two costs, each with the time until it fits.
    waits: Option<[(u64, u64); 2]>,
    now_ns: u64,
}

impl Expected {
    fn compare(&self, plan: &ScriptPlan, reply: &ScriptReply, what: &str) {
        let seen = &reply.parts[0];
        assert_eq!((reply.admitted, seen.units), (self.admitted, self.units), "{what}");
        assert!(!seen.broken, "{what}");
        let view = view(plan, reply);
        let decision = Decision::from(view.told(reply.admitted, seen.units));
        assert_eq!(decision.remaining(), self.remaining, "{what}");
        assert_eq!(decision.limit(), plan.policy().quota().max_burst(), "{what}");
        let (is_over, is_penalised) = match decision.into_result() {
            Ok(permit) => (permit.is_over(), false),
            Err(denial) => (false, denial.reason() == DenialReason::Penalty),
        };
        assert_eq!(is_over, self.admitted && self.is_over, "{what}");
        assert_eq!(is_penalised, self.is_penalised, "{what}");
        if seen.state == (State::Gcra { debt: LARGEST }) {
            return; // the clock went back so far that the debt was cut: see `State::Gcra`
        }
        for (cost, wait_ns) in self.waits.into_iter().flatten() {
            // In the script the cost fits from the first tick that begins at the model's time or later.
            let tick = (self.now_ns + wait_ns).div_ceil(plan.tick_us * 1_000);
            let expected_us = if wait_ns == 0 { reply.now_us } else { tick * plan.tick_us };
            assert_eq!(view.ready_us(cost), expected_us, "{what}, a wait for {cost}");
        }
    }
}

/// Compares `count` sequences, in groups that run at the same time. Returns the number of requests.
fn compare(server: &Server, told: &mut TimedScript, count: u64) -> u64 {
    let policies = [&POLICIES[..], &SOFT, &RULED].concat();
    let mut random = Random(1);
    let mut requests = 0_u64;
    for first in (0..count).step_by(usize::try_from(TOGETHER).unwrap()) {
        let mut sequences: Vec<_> = (first..first + TOGETHER)
            .map(|number| Sequence::of(&policies, number, &mut random))
            .collect();
        for _ in 0..5 {
            let mut calls = Vec::new();
            let mut all_expected = Vec::new();
            for sequence in &mut sequences {
                sequence.go_on(&mut random);
                // One call has up to three requests at the same time, as in a batch.
                let (asks, expected): (Vec<_>, Vec<_>) =
                    (0..=random.below(3)).map(|_| sequence.request(&mut random)).unzip();
                requests += asks.len() as u64;
                calls.push((sequence.now_us, asks));
                all_expected.push(expected);
            }
            let replies = told.calls(&calls);
            for ((sequence, call), (replies, expected)) in
                sequences.iter().zip(&calls).zip(replies.iter().zip(&all_expected))
            {
                let what = format!("{} at {} us: {:?}", sequence.plan.policy(), call.0, call.1);
                for (reply, expected) in replies.iter().zip(expected) {
                    expected.compare(&sequence.plan, reply, &what);
                }
            }
        }
        server.run::<()>(&["FLUSHALL"]);
    }
    requests
}

#[test]
#[ignore = "needs redis-server"]
fn bad_input_37_a_hundred_thousand_random_sequences_are_decided_as_the_model_does() {
    let (server, mut told) = start(NEVER_SET_BACK);
    let requests = compare(&server, &mut told, SEQUENCES);
    println!("{SEQUENCES} sequences, {requests} requests");
}

/// Plants a mistake in the script for each algorithm. The mistakes leave most decisions right. Each mistake must be
/// found under the algorithm in which it was planted.
#[test]
#[ignore = "needs redis-server"]
fn a_script_that_computes_something_else_is_caught() {
    let mistakes = [
        ("gcra", "debt <= c and least <= room", "debt < c and least <= room"),
        (
            "fixed-window",
            "stored[1] >= window and stored or { window, 0 }",
            "stored[1] == window and stored or { window, 0 }",
        ),
        ("from-first", "now < stored[1] + a and stored", "now <= stored[1] + a and stored"),
        ("sliding-window", "div(held[2] * (a - into) + a - 1, a)", "div(held[2] * (a - into), a)"),
        ("segmented-window", "age >= passed and stored", "age > passed and stored"),
        ("calendar-", "stored[1] < this then", "stored[1] ~= this then"),
        ("sliding-log", "return instant > edge end", "return instant >= edge end"),
        (
            "sliding-log",
            "max(instant + limit.a - now_us, 0)",
            "max(instant + limit.a - now_us - 1, 0)",
        ),
        ("sliding-log", "log.now = max(now_us, log.last)", "log.now = now_us"),
        ("count-denied", "if raised > 0 and", "if raised < 0 or raised > 0 and"),
        ("count-denied", "state.b or 1), state.most)", "state.b or 1), 2 * state.most)"),
        ("sliding-log", "(log.now - oldest) * 1000 < a", "log.now < oldest"),
        ("count-denied", "raised * GRANULES >= wait", "raised * GRANULES >= 0"),
        ("penalty", "if state.denials >= state.after then", "if state.denials > state.after then"),
        (
            "penalty",
            "0, max(state.now + state.length, drained(state))",
            "0, state.now + state.length",
        ),
        ("penalty", "units > 0 then state.denials = 0 end", "units < 0 then state.denials = 0 end"),
        ("extended", "(ends - state.ends) * GRANULES < state.length", "ends <= state.ends"),
        ("extended", "(ends - state.ends) * GRANULES < state.length", "true"),
    ];
    let server = Server::start();
    for (place, right, wrong) in mistakes {
        let mut told = TimedScript::mistaken(&server, NEVER_SET_BACK, right, wrong);
        let compared = std::panic::AssertUnwindSafe(|| compare(&server, &mut told, 10 * TOGETHER));
        let panic = std::panic::catch_unwind(compared).expect_err(wrong);
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains(place), "{wrong}: {message}");
    }
}

/// A lease takes a part of the units that are left. Several limits are charged together or not at all.
#[test]
#[ignore = "needs redis-server"]
fn leases_and_several_limits_at_once_are_what_the_model_makes_of_their_parts() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let mut random = Random(2);
    for round in 0..4_000 {
        let mut sequences: Vec<_> =
            (0..3).map(|n| Sequence::new(round * 7 + n * 3, &mut random)).collect();
        for sequence in &mut sequences {
            sequence.now_us = NOW_US + round;
            sequence.key = format!("{round} {}", sequence.key);
        }
        for _ in 0..6 {
            sequences[0].go_on(&mut random);
            let now_us = sequences[0].now_us;
            let wants: Vec<Units> = sequences
                .iter()
                .map(|sequence| {
                    let want = sequence.cost(&mut random).max(1);
                    let least = 1 + random.below(want);
                    Units { want, least, share: 1 + random.below(3), stamp: 0 }
                })
                .collect();
            let parts = sequences.iter().zip(&wants).map(|(sequence, units)| {
                ScriptPart::new(sequence.key.as_bytes().to_vec(), sequence.plan, *units)
            });
            let reply = told
                .call(now_us, ScriptRequest { verb: ScriptVerb::Check, parts: parts.collect() });
            for sequence in &mut sequences {
                sequence.now_us = now_us;
            }
            let room = |s: &Sequence| s.oracle.remaining(s.now_ns());
            let fits: Vec<bool> =
                sequences.iter().zip(&wants).map(|(s, units)| units.least <= room(s)).collect();
            assert_eq!(reply.admitted, fits.iter().all(|fits| *fits));
            for ((sequence, units), (seen, fits)) in
                sequences.iter_mut().zip(&wants).zip(reply.parts.iter().zip(&fits))
            {
                let Units { want, least, share, .. } = *units;
                assert_eq!(seen.admits, *fits);
                let part = (room(sequence) / share).max(least).min(want);
                let expected = if reply.admitted { part } else { 0 };
                assert_eq!(seen.units, expected, "{} {units:?}", sequence.plan.policy());
                sequence.check(expected);
                let view = StateView { plan: &sequence.plan, state: &seen.state, now_us };
                assert_eq!(view.remaining(), room(sequence), "{}", sequence.plan.policy());
            }
        }
    }
}

/// A refund does the same as in the core: units that have drained do not come back, and a window gives back only units
/// that were charged to it.
#[test]
#[ignore = "needs redis-server"]
fn a_refund_gives_back_what_the_core_gives_back() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let mut random = Random(3);
    for round in 0..4_000_u64 {
        let mut sequence = Sequence::new(round, &mut random);
        let limiter = tollgate::Limiter::new(sequence.plan.policy());
        // The core's packed state is exact only with ticks of a microsecond, no quanta, and times of a few hours, so
        // only such policies are compared.
        if sequence.plan.tick_us > 1 {
            continue;
        }
        sequence.now_us = 3_600_000_000 + random.below(1_000_000);
        let at = |now_us: u64| tollgate::Timestamp::from_nanos(now_us * 1_000);
        let cost = 1 + random.below(sequence.plan.limit);
        let charge = ask(ScriptVerb::Check, &sequence.key, &sequence.plan, Units::exactly(cost));
        let reply = told.call(sequence.now_us, charge);
        let stamp = view(&sequence.plan, &reply).stamp();
        let mut permit =
            limiter.entry().at(at(sequence.now_us)).check_n(cost).into_result().unwrap();
        for _ in 0..2 {
            sequence.now_us += random.below(2_000_000);
            let units = random.below(permit.cost() + 1);
            let refund = Units { stamp, ..Units::exactly(units) };
            let refund = ask(ScriptVerb::Refund, &sequence.key, &sequence.plan, refund);
            let reply = told.call(sequence.now_us, refund);
            let expected = limiter.entry().at(at(sequence.now_us)).refund(permit.split_off(units));
            let given = reply.parts[0].units;
            let view = view(&sequence.plan, &reply);
            let policy = sequence.plan.policy();
            let is_gcra = policy.algorithm() == tollgate::Algorithm::Gcra;
            let is_log = policy.algorithm() == tollgate::Algorithm::SlidingLog;
            if !is_gcra && !is_log && view.stamp() != stamp {
                // A new window has begun. (In the core the old window stays in the packed word until the next charge.)
                assert_eq!(given, 0, "{policy}");
                break;
            }
            // Under GCRA the last fraction of a unit may count as drained in the script and not in the core, or the
            // other way round.
            let apart = u64::from(is_gcra);
            assert!(given.abs_diff(expected) <= apart, "{policy}: {given}, {expected}");
            let left = limiter.entry().at(at(sequence.now_us)).peek(1).remaining();
            assert!(view.remaining().abs_diff(left) <= apart, "{policy}");
        }
    }
}
