//! Compares the script with the reference model, decision by decision and answer by answer, on a real server.
//!
//! The tests use the shipped script, except for its first lines, which read the server's clock. They are replaced by a
//! line that takes the time from the test. The server does not expire keys by the test's time, so expiry has its own
//! tests with the server's clock.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod at_limit;
mod calendar;
mod change;
mod counting;
mod expiry;
mod groups;
mod log;
mod policies;
mod random;
mod set_back;
mod vectors;
mod verbs;

#[path = "../../tests/common/server.rs"]
mod server;

use redis::{Connection, Value};
use server::Server;
use tollgate::Algorithm;
use tollgate_oracle::{
    Algorithm as Model, AtLimit, CalendarSpan, CountDenied, Oracle, Penalty, Rounding,
};

use crate::script::calendar::WindowEnds;
use crate::script::plan::{PlanKind, ScriptPlan};
use crate::script::view::StateView;
use crate::script::{
    Invoked, ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units, command, replies,
};

/// A slack so large that the script, like the model, never treats the clock as set back, however far it goes back.
const NEVER_SET_BACK: &str = "math.huge";
/// The slack of the shipped script.
const SLACK_US: &str = "1000000";

const NOW_US: u64 = 1_790_000_000_000_000;
const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

fn text_with_told_time(slack_us: &str) -> String {
    let text = crate::script::text();
    let (_, body) = text.split_once("= time[1] * 1000000 + time[2], 0, 1000000\n").unwrap();
    let told = "local now_us, grace_ms, slack_us = tonumber(ARGV[#ARGV]), 1000000000, ";
    [told, slack_us, "\n", body].concat()
}

fn plan(policy: &str) -> ScriptPlan {
    ScriptPlan::new(policy.parse().unwrap()).unwrap()
}

/// The reference model with exact times. For `gcra` they are rational numbers.
fn model(plan: &ScriptPlan) -> Oracle {
    let quota = plan.policy().quota();
    let (limit, window_ns) = (quota.count(), u64::try_from(quota.period().as_nanos()).unwrap());
    let sliding = |rounding| Model::SlidingWindow { limit, window_ns, rounding };
    let algorithm = match plan.policy().algorithm() {
        Algorithm::Gcra => {
            Model::Gcra { count: limit, period_ns: window_ns, burst: quota.max_burst(), tick: None }
        }
        Algorithm::FixedWindow => Model::FixedWindow { limit, window_ns },
        Algorithm::FixedWindowFromFirst => {
            Model::FixedWindowFromFirst { limit, window_ns, quantum_ns: 1 }
        }
        Algorithm::SlidingWindow { rounding: tollgate::Rounding::Exact } => {
            sliding(Rounding::Exact)
        }
        Algorithm::SlidingWindow { rounding: tollgate::Rounding::Down } => sliding(Rounding::Down),
        Algorithm::SlidingWindow { rounding: tollgate::Rounding::Strict } => {
            sliding(Rounding::Strict)
        }
        Algorithm::SegmentedWindow { segments } => {
            Model::SegmentedWindow { limit, window_ns, segments: segments.into() }
        }
        Algorithm::Calendar(unit) => Model::Calendar { limit, unit: unit_of(unit) },
        Algorithm::SlidingLog => Model::SlidingLog { limit, window_ns },
        other => panic!("no model of {other:?}"),
    };
    let at_limit = plan.policy().at_limit();
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap();
    let count_denied = match at_limit.count_denied {
        tollgate::CountDenied::No => None,
        tollgate::CountDenied::Yes => Some(CountDenied { wait_ns: None }),
        tollgate::CountDenied::UpTo(wait) => Some(CountDenied { wait_ns: Some(nanos(wait)) }),
    };
    let penalty = at_limit.penalty.map(|penalty| Penalty {
        length_ns: nanos(penalty.length),
        after: penalty.after.into(),
        extended: penalty.extended,
        // The end of a penalty is rounded up to a whole tick.
        unit_ns: plan.tick_us * 1_000,
        quantum_ns: plan.tick_us * 1_000,
    });
    Oracle::with_rules(algorithm, AtLimit { soft_bp: plan.soft_bp.into(), count_denied, penalty })
}

fn unit_of(unit: tollgate::CalendarUnit) -> CalendarSpan {
    match unit {
        tollgate::CalendarUnit::Month => CalendarSpan::Month,
        tollgate::CalendarUnit::Year => CalendarSpan::Year,
        tollgate::CalendarUnit::Week(begins) => CalendarSpan::Week { begins: begins as u8 },
        other => panic!("no model of {other:?}"),
    }
}

/// The time that the model gets: the beginning of the tick that contains `now_us`.
fn tick_ns(plan: &ScriptPlan, now_us: u64) -> u64 {
    now_us / plan.tick_us * plan.tick_us * 1_000
}

fn ask(verb: ScriptVerb, key: &str, plan: &ScriptPlan, units: Units) -> ScriptRequest {
    ScriptRequest { verb, parts: vec![ScriptPart::new(key.as_bytes().to_vec(), *plan, units)] }
}

fn check(key: &str, plan: &ScriptPlan, cost: u64) -> ScriptRequest {
    ask(ScriptVerb::Check, key, plan, Units::exactly(cost))
}

fn peek(key: &str, plan: &ScriptPlan) -> ScriptRequest {
    ask(ScriptVerb::Peek, key, plan, Units::exactly(1))
}

/// The part of a reply that is about the request's first limit.
fn view<'a>(plan: &'a ScriptPlan, reply: &'a ScriptReply) -> StateView<'a> {
    StateView { plan, state: &reply.parts[0].state, now_us: reply.now_us }
}

/// Calls the shipped script, which reads the server's clock.
fn at_its_own_time(connection: &mut Connection, ask: &ScriptRequest) -> ScriptReply {
    let text = crate::script::text();
    let call = command(Invoked::ByText(&text), std::iter::once(ask));
    let value: Value = call.query(connection).unwrap();
    replies(&value, std::iter::once(ask)).unwrap().remove(0)
}

/// The same request from a node whose clock reads this time.
fn in_windows_of(now_us: u64, ask: &ScriptRequest) -> ScriptRequest {
    let mut ask = ask.clone();
    for part in &mut ask.parts {
        if let PlanKind::Calendar { unit, .. } = part.plan.kind {
            part.turns = Some(WindowEnds::around(unit, now_us));
        }
    }
    ask
}

/// The script, at times that the test gives.
struct TimedScript {
    connection: Connection,
    digest: String,
}

/// A server of the test's own, and on it the script with this slack. A clock that goes back by less is not treated as
/// set back.
fn start(slack_us: &str) -> (Server, TimedScript) {
    let server = Server::start();
    let told = TimedScript::load(&server, text_with_told_time(slack_us));
    (server, told)
}

impl TimedScript {
    /// Empties the server, and loads the script with a planted mistake: `wrong` in place of `right`.
    fn mistaken(server: &Server, slack_us: &str, right: &str, wrong: &str) -> Self {
        server.run::<()>(&["FLUSHALL"]);
        let text = text_with_told_time(slack_us);
        assert_eq!(text.matches(right).count(), 1, "{right}");
        Self::load(server, text.replace(right, wrong))
    }

    fn load(server: &Server, text: String) -> Self {
        let mut connection = server.connection();
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(text);
        let digest = load.query(&mut connection).unwrap();
        Self { connection, digest }
    }

    /// Makes many calls at once, each at its own time.
    fn calls(&mut self, calls: &[(u64, Vec<ScriptRequest>)]) -> Vec<Vec<ScriptReply>> {
        let mut pipeline = redis::Pipeline::with_capacity(calls.len());
        for (now_us, asks) in calls {
            let asks: Vec<_> = asks.iter().map(|ask| in_windows_of(*now_us, ask)).collect();
            let mut call = command(Invoked::ByDigest(&self.digest), asks.iter());
            call.arg(*now_us);
            pipeline.add_command(call);
        }
        let values: Vec<Value> = pipeline.query(&mut self.connection).unwrap();
        values
            .into_iter()
            .zip(calls)
            .map(|(value, (_, asks))| replies(&value, asks.iter()).unwrap())
            .collect()
    }

    fn call(&mut self, now_us: u64, ask: ScriptRequest) -> ScriptReply {
        self.calls(&[(now_us, vec![ask])]).remove(0).remove(0)
    }
}
