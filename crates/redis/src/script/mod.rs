//! The script that decides in the store, and the format of its requests and replies.
//!
//! One script serves every algorithm and every verb. So a batch of requests, with all limits of each request, is one
//! call, which is atomic and reads the clock once. The script takes a bounded number of steps for each limit. Its keys
//! are declared, and every key that it writes expires.
//!
//! Numbers are sent and returned as bytes, in blocks of doubles. So each limit takes one string, instead of a dozen
//! strings that both sides would have to format and parse. Stored values are readable text, except sliding logs.
//!
//! decide.lua decides the most common requests. request.lua decides all others, and uses states.lua for the states.
//! at_limit.lua makes the changes that a denial causes, log.lua handles sliding logs, and calendar.lua windows of the
//! calendar.

pub(crate) mod advance;
pub(crate) mod calendar;
pub(crate) mod plan;
pub(crate) mod rules;
pub(crate) mod state;
pub(crate) mod view;

use redis::{Cmd, Value};
use tollgate::Wait;

use crate::error::Fault;
use crate::script::calendar::WindowEnds;
use crate::script::plan::{LARGEST, PlanArguments, PlanKind, ScriptPlan};
use crate::script::state::State;
use crate::weight::Weight;

const DECIDE: &str = include_str!("decide.lua");
/// The first line of a Lua function whose body consists of the files below. Its `end` is in request.lua.
const OTHERS: &str = "local function others()\n";
const AT_LIMIT: &str = include_str!("at_limit.lua");
const LOG: &str = include_str!("log.lua");
const CALENDAR: &str = include_str!("calendar.lua");
const STATES: &str = include_str!("states.lua");
const REQUEST: &str = include_str!("request.lua");

/// Reads the server's clock in microseconds, so that all nodes use one clock. The third number is the slack, one
/// second. A state that lies further in the future than its policy and the slack allow was written before the clock was
/// set back.
const TIME_OF_THE_SERVER: &str = "local time = redis.call('TIME')\n\
    local now_us, grace_ms, slack_us = time[1] * 1000000 + time[2], 0, 1000000\n";

/// The whole script.
pub(crate) fn text() -> String {
    [TIME_OF_THE_SERVER, DECIDE, OTHERS, AT_LIMIT, LOG, CALENDAR, STATES, REQUEST].concat()
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptVerb {
    /// Charges all limits, or none.
    Check,
    Peek,
    /// Gives back units of a charge that have not drained.
    Refund,
    /// Charges each limit, whether it fits or not, for units that were admitted without asking.
    Add,
    /// Charges nothing, but a denial has the same effects as the denial of a check.
    Refuse,
    /// Charges units that were used without asking: GCRA goes into debt, a window takes as many units as fit.
    Charge,
    /// Deletes the key.
    Reset,
    /// Charges GCRA as a check does, even if the units fit only later.
    Reserve,
    /// Gives back a reservation, less the units that have drained since its turn, if nothing was charged after it.
    Cancel,
    /// Gives back units that are charged at present, whichever charge they belong to.
    Uncharge,
    /// Adds to a count of envoyproxy/ratelimit, and returns the count afterwards. The `share` is the count's time to
    /// live.
    Count,
    /// Returns a count of envoyproxy/ratelimit.
    LookAtCount,
    /// Subtracts from a count of envoyproxy/ratelimit, if it exists, but never below 0.
    Uncount,
}

impl ScriptVerb {
    /// Returns true for the verbs on the state of a limit, and false for those on a count of envoyproxy/ratelimit.
    pub(crate) fn is_of_a_state(self) -> bool {
        !matches!(self, Self::Count | Self::LookAtCount | Self::Uncount)
    }

    fn code(self) -> u8 {
        match self {
            Self::Check => 0,
            Self::Peek => 1,
            Self::Refund => 2,
            Self::Add => 3,
            Self::Refuse => 4,
            Self::Charge => 5,
            Self::Reset => 6,
            Self::Reserve => 7,
            Self::Cancel => 8,
            Self::Uncharge => 9,
            Self::Count => 10,
            Self::LookAtCount => 11,
            Self::Uncount => 12,
        }
    }
}

/// The units that a request wants, and the other numbers that its verb needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) want: u64,
    /// The least number of units. If fewer units fit, the request is denied.
    pub(crate) least: u64,
    /// In a check: the divisor of the units left. The request takes `want` units, or the quotient if that is less, but
    /// never fewer than `least`. In a reservation: the number of parts of a unit by which the debt may exceed the
    /// capacity. In a cancellation: the newest count right after the charge. In a refund: the time of the charge, in
    /// microseconds of the server's clock, or 1 if that is not known.
    pub(crate) share: u64,
    /// In a refund or a cancellation: the stamp of the charge.
    pub(crate) stamp: u64,
}

impl Units {
    /// Asks for up to `most` units, of which at least one must fit: for merged requests of one unit each.
    pub(crate) fn up_to(most: u64) -> Self {
        Self { want: most, least: 1, share: 1, stamp: 0 }
    }

    /// Asks for a place of this many units in the queue. Also returns the verb to use, which is a check if the policy
    /// has no queue.
    pub(crate) fn place(plan: &ScriptPlan, units: u64, wait: Wait) -> (ScriptVerb, Self) {
        match plan.ahead(wait) {
            Some(share) => (ScriptVerb::Reserve, Self { share, ..Self::exactly(units) }),
            None => (ScriptVerb::Check, Self::exactly(units)),
        }
    }

    /// Asks for this many units, whether they fit or not.
    pub(crate) fn owed(units: u64) -> Self {
        Self { want: units, least: 0, share: 1, stamp: 0 }
    }

    /// Asks for exactly this many units, or none.
    pub(crate) fn exactly(cost: u64) -> Self {
        Self { want: cost, least: cost, share: 1, stamp: 0 }
    }
}

/// The part of one limit in a request.
#[derive(Clone, Debug)]
pub(crate) struct ScriptPart {
    pub(crate) key: Vec<u8>,
    pub(crate) plan: ScriptPlan,
    pub(crate) units: Units,
    pub(crate) say: Weight,
    /// Whether a new group begins with this limit. The first limit of a request always begins a group.
    pub(crate) begins: bool,
    /// The ends of the windows around the node's clock, if the policy has windows of the calendar.
    pub(crate) turns: Option<WindowEnds>,
}

impl ScriptPart {
    /// Makes the part of a limit that is the only one in its group.
    pub(crate) fn new(key: Vec<u8>, plan: ScriptPlan, units: Units) -> Self {
        let turns = match plan.kind {
            PlanKind::Calendar { unit, .. } => Some(WindowEnds::now(unit)),
            _ => None,
        };
        Self { key, plan, units, say: Weight::Denies, begins: true, turns }
    }

    /// The block of bytes that the script reads for this limit.
    fn block(&self, verb: ScriptVerb, is_first: bool) -> Vec<u8> {
        let PlanArguments { kind, tick_us, a, b, c } = self.plan.arguments();
        let begins = if is_first { 2 } else { u8::from(self.begins) };
        let Units { want, least, share, stamp } = self.units;
        let mark = self.plan.mark();
        let turns = self.turns.iter().flat_map(|turns| turns.0);
        let mut block = Vec::with_capacity(BLOCK + 6 * 8 + mark.len());
        block.extend([begins, verb.code(), self.say.code(), kind]);
        for number in [tick_us, a, b, c, want, least, share, stamp].into_iter().chain(turns) {
            block.extend(double(number).to_le_bytes());
        }
        block.extend(mark);
        block
    }
}

/// The length of a limit's block, without the calendar windows and the mark at its end: four bytes and eight doubles.
const BLOCK: usize = 4 + 8 * 8;

/// Converts a number to a double. A cost above 2^53 is rounded, which makes no difference, since it fits in no limit.
#[expect(clippy::cast_precision_loss, reason = "none up to 2^53")]
fn double(number: u64) -> f64 {
    number.min(LARGEST) as f64
}

/// One request: a verb, and the limits that it concerns.
#[derive(Clone, Debug)]
pub(crate) struct ScriptRequest {
    pub(crate) verb: ScriptVerb,
    pub(crate) parts: Vec<ScriptPart>,
}

/// The script's reply about one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartReply {
    /// Whether this limit alone would admit the request.
    pub(crate) admits: bool,
    /// Whether the stored value could not be read, and was taken for a limit with no units left.
    pub(crate) broken: bool,
    /// Whether the server's time is in none of the calendar windows that were sent. If so, nothing was charged.
    pub(crate) astray: bool,
    /// The units that were charged or given back.
    pub(crate) units: u64,
    pub(crate) state: State,
}

/// The script's reply to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptReply {
    pub(crate) now_us: u64,
    pub(crate) admitted: bool,
    pub(crate) parts: Vec<PartReply>,
}

impl ScriptReply {
    /// A reply with the state of one limit, and no charge.
    #[cfg(test)]
    pub(crate) fn told(now_us: u64, state: State) -> Self {
        let seen = PartReply { admits: true, broken: false, astray: false, units: 0, state };
        Self { now_us, admitted: true, parts: vec![seen] }
    }

    /// Returns a fault if the server's time is in none of the calendar windows that were sent.
    pub(crate) fn in_a_window(self) -> Result<Self, Fault> {
        let is_astray = self.parts.iter().any(|seen| seen.astray);
        if is_astray { Err(Fault::ClocksApart) } else { Ok(self) }
    }
}

/// The command that calls the script. It names the script by its digest, or contains the script's text for a server
/// that does not have it.
pub(crate) fn command<'a>(
    script: Invoked<'_>,
    asks: impl Iterator<Item = &'a ScriptRequest> + Clone,
) -> Cmd {
    let mut command = match script {
        Invoked::ByDigest(digest) => redis::cmd("EVALSHA").arg(digest).take(),
        Invoked::ByText(text) => redis::cmd("EVAL").arg(text).take(),
    };
    let parts = || asks.clone().flat_map(|ask| &ask.parts);
    command.arg(parts().count());
    for part in parts() {
        command.arg(part.key.as_slice());
    }
    for ask in asks {
        for (n, part) in ask.parts.iter().enumerate() {
            command.arg(part.block(ask.verb, n == 0));
        }
    }
    command
}

/// How a call names the script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Invoked<'a> {
    ByDigest(&'a str),
    ByText(&'a str),
}

/// Reads a reply from its beginning.
struct ReplyReader<'a>(&'a [u8]);

impl ReplyReader<'_> {
    fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self.0.split_first().ok_or(Fault::Unexpected)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// Reads one double, which must be a whole number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at before")]
    fn number(&mut self) -> Result<u64, Fault> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Fault::Unexpected)?;
        self.0 = rest;
        let number = f64::from_le_bytes(*bytes);
        let is_whole = (0.0..=double(LARGEST)).contains(&number) && number.fract() == 0.0;
        if is_whole { Ok(number as u64) } else { Err(Fault::Unexpected) }
    }
}

/// Reads the replies to requests, in the order of the requests. A reply in another format is a fault, never a panic.
pub(crate) fn replies<'a>(
    value: &Value,
    asks: impl Iterator<Item = &'a ScriptRequest>,
) -> Result<Vec<ScriptReply>, Fault> {
    let Value::BulkString(bytes) = value else { return Err(Fault::Unexpected) };
    let mut reader = ReplyReader(bytes);
    let now_us = reader.number()?;
    let mut replies = Vec::with_capacity(asks.size_hint().0);
    for ask in asks {
        let mut admitted = false;
        let mut parts = Vec::with_capacity(ask.parts.len());
        for part in &ask.parts {
            let flags = reader.byte()?;
            let [says, admits, broken, astray] = [1, 2, 4, 8].map(|flag| flags & flag != 0);
            admitted = says;
            let units = reader.number()?;
            let state = State::read(&part.plan, || reader.number())?;
            parts.push(PartReply { admits, broken, astray, units, state });
        }
        replies.push(ScriptReply { now_us, admitted, parts });
    }
    if reader.0.is_empty() { Ok(replies) } else { Err(Fault::Unexpected) }
}
