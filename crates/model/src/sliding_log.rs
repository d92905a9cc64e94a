//! Compares a sliding log, alone and as a key of a table of logs, with the model and with the list of all units that it
//! admitted.
//!
//! While time does not run backward, every answer must be the model's. When it does, a request that fits the list must
//! be admitted. At all times no window of the list may hold more than the limit.

use std::collections::BTreeMap;
use std::time::Duration;

use ahash::RandomState;
use arbitrary::Arbitrary;
use tollgate::{
    CountDenied, Decision, DenialReason, KeyedLimiter, Limiter, ManualClock, Policy, Quota,
    RestoreError, Timestamp,
};
use tollgate_oracle::{BigUint, Oracle};

use crate::expect::{same, verdict};
use crate::fineness::{LATEST_NS, PLAIN};
use crate::keyed::hasher;
use crate::ops::{Observed, Op};
use crate::plant::Plant;
use crate::policy::{Period, period_ns};
use crate::rules::{RulesCase, ceiling};
use crate::snapshot::{seal, set_wall};
use crate::step::{STEPS_MAX, Span, StepCost, StepPace, Steps, nanos_of};

/// Target `log_ops`: requests of a sliding log, or of a few keys with a log each. It answers as the model does while
/// time runs forward. Whatever the times, no window holds more than its limit.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct SlidingLogCase {
    /// The limit is one unit more than this. If this number is 250 or more, the limit is thousands of units, which take
    /// several rows of slots.
    pub limit: u8,
    /// The window.
    pub window: Period,
    /// The capacity of a table of logs: this number modulo 20, plus 1, is the number of its keys. `None` stands for one
    /// log for all keys.
    pub capacity: Option<u8>,
    /// The operations.
    pub ops: Steps<Op>,
    /// The behaviour at the limit; a log takes no penalty.
    pub rules: RulesCase,
}

impl SlidingLogCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        // The time of a log ends after 2^63 ns, in 2262. No unit leaves its window later.
        let window = Duration::from_nanos(self.window.nanos() % (1 << 62));
        let more = u64::from(self.limit);
        let limit = if more < 250 { more + 1 } else { (more - 249) * 800 };
        let policy = Quota::try_per(limit, window).and_then(Policy::sliding_log);
        let Ok(policy) = policy.map(|policy| self.rules.apply(policy)) else { return };
        let Some(logs) = OneOrKeyedLog::new(policy, self.capacity) else { return };
        let mut observed = ObservedLogs::new(policy, logs, plant);
        observed.play(&self.ops.0);
        observed.no_window_holds_more();
        observed.a_restart_changes_nothing();
    }
}

/// One log for all keys, or one for each.
#[derive(Debug)]
enum OneOrKeyedLog {
    One(Box<Limiter>),
    Keyed(Box<KeyedLimiter<u8, RandomState>>),
}

impl OneOrKeyedLog {
    fn new(policy: Policy, capacity: Option<u8>) -> Option<Self> {
        match capacity {
            None => Some(Self::One(Box::new(
                Limiter::builder(policy).clock(ManualClock::new()).build(),
            ))),
            Some(more) => {
                let capacity = usize::from(more % 20) + 1;
                KeyedLimiter::builder(policy)
                    .clock(ManualClock::new())
                    .hasher(hasher())
                    .build(capacity)
                    .ok()
                    .map(|logs| Self::Keyed(Box::new(logs)))
            }
        }
    }

    /// A snapshot without the reading of the wall clock, so that it is the same in every run.
    fn saved(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let saved = match self {
            Self::One(log) => log.snapshot(&mut file),
            Self::Keyed(logs) => logs.snapshot(&mut file),
        };
        saved.expect("there is room");
        set_wall(&mut file, 0);
        file
    }

    fn restored(&self, file: &[u8]) -> Result<Self, RestoreError> {
        let clock = ManualClock::new();
        match self {
            Self::One(log) => Limiter::builder(log.policy())
                .clock(clock)
                .restore(file)
                .map(|log| Self::One(Box::new(log))),
            Self::Keyed(logs) => KeyedLimiter::builder(logs.policy())
                .clock(clock)
                .hasher(hasher())
                .restore(file)
                .map(|logs| Self::Keyed(Box::new(logs))),
        }
    }

    fn decide(&self, key: u8, cost: u64, now: Timestamp, charge: bool) -> Decision {
        match (self, charge) {
            (Self::One(log), true) => log.entry().at(now).check_n(cost),
            (Self::One(log), false) => log.entry().at(now).peek(cost),
            (Self::Keyed(logs), true) => logs.entry(&key).at(now).check_n(cost),
            (Self::Keyed(logs), false) => logs.entry(&key).at(now).peek(cost),
        }
    }
}

/// The model of one log, and the requests that it admitted, as times and costs.
#[derive(Debug)]
struct Known {
    model: Oracle,
    admitted: Vec<(u64, u64)>,
}

/// Logs, and the answers that are expected of them.
#[derive(Debug)]
struct ObservedLogs {
    policy: Policy,
    window_ns: u64,
    plant: Plant,
    logs: OneOrKeyedLog,
    pace: StepPace,
    known: BTreeMap<u8, Known>,
    /// Whether time never ran backward.
    forward: bool,
    requests: usize,
}

impl ObservedLogs {
    fn new(policy: Policy, logs: OneOrKeyedLog, plant: Plant) -> Self {
        // A log has no floor, and its times do not wrap. Spans that are named after these are just long times.
        let pace = StepPace::new(policy, LATEST_NS / 64, LATEST_NS / 4);
        let (window_ns, known) = (period_ns(policy), BTreeMap::new());
        Self { policy, window_ns, plant, logs, pace, known, forward: true, requests: 0 }
    }

    /// Whether a denied request changes the answer to the next one.
    fn counts_denials(&self) -> bool {
        self.policy.at_limit().count_denied != CountDenied::No
    }

    fn follow(
        &mut self,
        key: u8,
        cost: u64,
        charge: bool,
        decision: &Decision,
    ) -> Result<(), String> {
        let (now_ns, window_ns, limit) = (self.pace.now_ns, self.window_ns, ceiling(self.policy));
        let (policy, plant, counts) = (self.policy, self.plant, self.counts_denials());
        let known = self
            .known
            .entry(key)
            .or_insert_with(|| Known { model: PLAIN.model(policy, plant), admitted: Vec::new() });
        let full = matches!(decision, Decision::Denied(denial) if denial.reason() == DenialReason::TableFull);
        if full && self.plant == Plant::Cell {
            return Err("there is no entry left".to_owned());
        }
        let within = inside(&known.admitted, window_ns, now_ns);
        if charge && decision.is_allowed() {
            known.admitted.push((now_ns, cost));
        }
        if full {
            let idle = !self.forward || known.model.is_idle(now_ns);
            return if idle { Ok(()) } else { Err("a live key lost its entry".to_owned()) };
        }
        if self.forward {
            return agrees(&mut known.model, (now_ns, cost, charge), self.plant, decision);
        }
        let fits = within + u128::from(cost) <= u128::from(limit);
        if fits && !counts && !decision.is_allowed() && matches!(self.logs, OneOrKeyedLog::One(_)) {
            return Err(format!("denied, with {within} of {limit} taken"));
        }
        Ok(())
    }

    /// Checks that a request is admitted after the wait in its denial, and not before, if nothing else happens.
    fn a_wait_is_exact(&self, cost: u64, decision: &Decision) {
        let Decision::Denied(denial) = decision else { return };
        assert_eq!(denial.reason() == DenialReason::NeverFits, cost > ceiling(self.policy));
        let Some(wait) = denial.retry_after() else { return };
        let then_ns = self.pace.now_ns.saturating_add(nanos_of(wait));
        let admitted =
            |at_ns| self.logs.decide(0, cost, Timestamp::from_nanos(at_ns), false).is_allowed();
        if then_ns < LATEST_NS {
            let ready = [then_ns, then_ns - 1].map(admitted);
            assert_eq!(ready, [true, false], "{}, {cost}: told retry {wait:?}", self.policy);
        }
    }

    /// Checks that a restored log answers as before, and has the same snapshot. A file with a flipped bit must
    /// be refused. If its checksums are corrected, it may also be restored as another log, which must answer requests.
    fn a_restart_changes_nothing(&self) {
        let file = self.logs.saved();
        let restored = self.logs.restored(&file).expect("a whole snapshot");
        assert!(restored.saved() == file, "the snapshot of what was restored is another");
        let now = Timestamp::from_nanos(self.pace.now_ns);
        for &key in self.known.keys() {
            let [before, after] =
                [&self.logs, &restored].map(|logs| logs.decide(key, 1, now, false));
            assert_eq!(format!("{before:?}"), format!("{after:?}"), "key {key} after a restart");
        }
        // The place of the flipped bit follows from the operations, so that the fuzzer can choose it.
        let at = usize::try_from(self.pace.now_ns / 7).unwrap_or(0) % file.len();
        let mut turned = file;
        turned[at] ^= 1 << (self.requests % 8);
        assert!(self.logs.restored(&turned).is_err(), "a turned bit at {at} is not noticed");
        seal(&mut turned);
        if let Ok(other) = self.logs.restored(&turned) {
            let decision = other.decide(0, 1, now, true);
            assert!(decision.remaining() <= decision.limit());
        }
    }

    /// Checks everything that was admitted. It suffices to check windows that begin at an admission.
    fn no_window_holds_more(&self) {
        let most = u128::from(ceiling(self.policy) - u64::from(self.plant == Plant::Bound));
        for (key, known) in &self.known {
            for &(from_ns, _) in &known.admitted {
                let window = u128::from(from_ns)..u128::from(from_ns) + u128::from(self.window_ns);
                let inside = known.admitted.iter().filter(|(at, _)| window.contains(&(*at).into()));
                let units: u128 = inside.map(|&(_, cost)| u128::from(cost)).sum();
                assert!(
                    units <= most,
                    "{}, key {key}: {units} from {from_ns}: more than its bound",
                    self.policy
                );
            }
        }
    }
}

impl Observed for ObservedLogs {
    fn move_by(&mut self, span: Span, fine: i8, backward: bool) {
        let before_ns = self.pace.now_ns;
        self.pace.move_by(span, fine, backward);
        self.pace.now_ns = self.pace.now_ns.min(LATEST_NS);
        self.forward &= self.pace.now_ns >= before_ns;
    }

    fn request(&mut self, key: u8, cost: StepCost, charge: bool) {
        if self.requests == STEPS_MAX {
            return;
        }
        self.requests += 1;
        let key = if matches!(self.logs, OneOrKeyedLog::One(_)) { 0 } else { key };
        let now = Timestamp::from_nanos(self.pace.now_ns);
        let remaining = self.logs.decide(key, 0, now, false).remaining();
        let cost = cost.units(ceiling(self.policy), remaining);
        let peeked = self.logs.decide(key, cost, now, false);
        let decision = self.logs.decide(key, cost, now, charge);
        let told =
            format!("{}, request {}, key {key}, {cost} at {now:?}", self.policy, self.requests);
        assert_eq!(peeked.is_allowed(), decision.is_allowed(), "{told}: asked first, {peeked:?}");
        self.pace.heard(&decision);
        if let Err(reason) = self.follow(key, cost, charge, &decision) {
            panic!("{told}: {reason}");
        }
        if matches!(self.logs, OneOrKeyedLog::One(_)) {
            self.a_wait_is_exact(cost, &decision);
        }
    }
}

/// The units that were admitted less than a window ago, or are of later times.
fn inside(admitted: &[(u64, u64)], window_ns: u64, now_ns: u64) -> u128 {
    let is_inside = |at_ns: u64| u128::from(at_ns) + u128::from(window_ns) > u128::from(now_ns);
    admitted.iter().filter(|(at_ns, _)| is_inside(*at_ns)).map(|&(_, cost)| u128::from(cost)).sum()
}

/// Applies the request to the model, and compares every figure of the answer.
fn agrees(
    model: &mut Oracle,
    (now_ns, cost, charge): (u64, u64, bool),
    plant: Plant,
    decision: &Decision,
) -> Result<(), String> {
    let over = model.is_over(now_ns, cost);
    if let Decision::Allowed(permit) = decision {
        same("over", permit.is_over(), over)?;
    }
    let expected = if charge { model.check(now_ns, cost) } else { model.peek(now_ns, cost) };
    same("verdict", verdict(decision), expected)?;
    same("told remaining", decision.remaining(), model.remaining(now_ns))?;
    let less = u32::from(plant == Plant::Answer);
    let expected = |wait: BigUint| {
        let wait_ns = u64::try_from(wait).unwrap_or(u64::MAX);
        Duration::from_nanos(wait_ns.saturating_sub(less.into()))
    };
    same("told reset", decision.reset_after(), expected(model.reset_after(now_ns)))?;
    if let Decision::Denied(denial) = decision {
        let wait = model.retry_after(now_ns, cost).map(expected);
        same("told retry", denial.retry_after(), wait)?;
    }
    Ok(())
}
