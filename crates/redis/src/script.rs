//! The script that decides, and how requests and replies are written for it.
//!
//! One script serves every algorithm and every verb, so that a batch of requests, and all limits of one
//! request, are one call: atomic, and with one reading of the clock. What it does for one limit takes a
//! bounded number of steps. Its keys are declared, and every key that it writes expires.

use redis::{Cmd, Value};

use crate::error::Fault;
use crate::plan::{LARGEST, Plan};
use crate::state::State;

const BODY: &str = include_str!("decide.lua");

/// The time of the server that decides, in microseconds: one clock for all nodes.
const TIME_OF_THE_SERVER: &str =
    "local time = redis.call('TIME')\nlocal now_us, grace_ms = time[1] * 1000000 + time[2], 0\n";

/// The whole script.
pub(crate) fn text() -> String {
    [TIME_OF_THE_SERVER, BODY].concat()
}

/// What a request does with its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Charges all limits, or none.
    Check,
    Peek,
    /// Gives back what has not drained.
    Refund,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Peek => "peek",
            Self::Refund => "refund",
        }
    }
}

/// How many units, and which of them will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) want: u64,
    /// Fewer are a denial.
    pub(crate) least: u64,
    /// No more than this part of what is left, 1 being all of it; but `least` in any case.
    pub(crate) share: u64,
    /// Of a refund: what the charge left as its stamp.
    pub(crate) stamp: u64,
}

impl Units {
    /// All or nothing.
    pub(crate) fn exactly(cost: u64) -> Self {
        Self { want: cost, least: cost, share: 1, stamp: 0 }
    }
}

/// The part of one limit in a request.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) key: Vec<u8>,
    pub(crate) plan: Plan,
    pub(crate) units: Units,
}

/// One request: a verb, and the limits that it concerns.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) verb: Verb,
    pub(crate) parts: Vec<Part>,
}

/// What the script says of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether this limit admits by itself.
    pub(crate) admits: bool,
    /// Whether what was stored could not be read, and was taken for a full limit.
    pub(crate) broken: bool,
    /// Charged, or given back.
    pub(crate) units: u64,
    pub(crate) state: State,
}

/// What the script says of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) now_us: u64,
    pub(crate) admitted: bool,
    pub(crate) parts: Vec<Seen>,
}

/// The command that carries out requests, by the script's digest or, if the server does not know that,
/// its text.
pub(crate) fn command<'a>(script: Invoked<'_>, asks: impl Iterator<Item = &'a Ask> + Clone) -> Cmd {
    let mut command = match script {
        Invoked::ByDigest(digest) => redis::cmd("EVALSHA").arg(digest).take(),
        Invoked::ByText(text) => redis::cmd("EVAL").arg(text).take(),
    };
    let parts = || asks.clone().flat_map(|ask| &ask.parts);
    command.arg(parts().count());
    for part in parts() {
        command.arg(part.key.as_slice());
    }
    command.arg(asks.clone().count());
    for ask in asks {
        command.arg(ask.verb.name()).arg(ask.parts.len());
        for Part { plan, units, .. } in &ask.parts {
            let Units { want, least, share, stamp } = *units;
            command.arg(plan.arguments().as_slice());
            // Beyond what doubles hold exactly nothing fits in any limit.
            command.arg([want, least, share, stamp].map(|number| number.min(LARGEST)).as_slice());
        }
    }
    command
}

/// How the script is named in a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Invoked<'a> {
    ByDigest(&'a str),
    ByText(&'a str),
}

/// Reads the numbers of a reply one after the other.
struct Numbers(std::vec::IntoIter<Value>);

impl Numbers {
    fn next(&mut self) -> Result<u64, Fault> {
        match self.0.next() {
            Some(Value::Int(number)) => u64::try_from(number).map_err(|_| Fault::Unexpected),
            _ => Err(Fault::Unexpected),
        }
    }
}

/// The replies to requests, in their order. A reply of another form is a fault, never a panic.
pub(crate) fn replies<'a>(
    value: Value,
    asks: impl Iterator<Item = &'a Ask>,
) -> Result<Vec<Reply>, Fault> {
    let Value::Array(values) = value else { return Err(Fault::Unexpected) };
    let mut numbers = Numbers(values.into_iter());
    let now_us = numbers.next()?;
    let mut replies = Vec::new();
    for ask in asks {
        let admitted = numbers.next()? == 1;
        let mut parts = Vec::with_capacity(ask.parts.len());
        for part in &ask.parts {
            let [admits, broken] = [numbers.next()? == 1, numbers.next()? == 1];
            let units = numbers.next()?;
            let state = State::read(&part.plan, || numbers.next())?;
            parts.push(Seen { admits, broken, units, state });
        }
        replies.push(Reply { now_us, admitted, parts });
    }
    if numbers.0.next().is_some() {
        return Err(Fault::Unexpected);
    }
    Ok(replies)
}
