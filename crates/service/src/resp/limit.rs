//! The commands that ask for a decision.

use std::time::Duration;

use tollgate_rules::{
    Answer, DecisionMaker, Descriptor, DescriptorEntry, Pace, PacedAnswer, Purpose, Request,
    RequestError,
};

use super::parse::{MAX_WORDS, RequestWords, integer};
use super::refusal::RespRefusal;
use super::reply;
use crate::global::GlobalLimits;
use crate::metrics::RequestOutcome;
use crate::observe::{DeniedFrom, InWords};
use crate::service::Service;
use crate::wire::{tell, whole_seconds};

/// The Redis module or the server whose command is imitated. Requests of these commands bring their limit along.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `CL.THROTTLE` of redis-cell: `max_burst` units come in addition to the first, and 1 means denied.
    RedisCell,
    /// `THROTTLE` of throttlecrab: `max_burst` is the whole burst, and 1 means admitted.
    Throttlecrab,
}

const THROTTLE_TAKES: &str = "key max_burst count_per_period period [quantity]";

impl Dialect {
    fn command(self) -> &'static str {
        match self {
            Self::RedisCell => "cl.throttle",
            Self::Throttlecrab => "throttle",
        }
    }

    fn burst(self, found: &[u8]) -> Result<u64, RespRefusal<'_>> {
        match self {
            Self::RedisCell => Ok(number("max_burst", found, 0, i64::MAX - 1)? + 1),
            Self::Throttlecrab => number("max_burst", found, 1, i64::MAX),
        }
    }

    fn write(self, answer: &PacedAnswer, burst: u64, out: &mut Vec<u8>) {
        let limited = !answer.is_allowed;
        let wait = answer.retry_after.map(seconds);
        let reset = seconds(answer.reset_after);
        let numbers = match self {
            Self::RedisCell => [i64::from(limited), wait.unwrap_or(-1), reset],
            // The wait is 0 if the request was admitted, and -1 if its cost can never fit.
            Self::Throttlecrab => [i64::from(!limited), reset, wait.unwrap_or(-i64::from(limited))],
        };
        let [first, fourth, fifth] = numbers;
        reply::array(out, 5);
        for number in [first, signed(burst), signed(answer.remaining), fourth, fifth] {
            reply::integer(out, number);
        }
    }
}

/// Decides by a limit that comes with the request.
pub(super) fn throttle<'a>(
    service: &Service,
    from: DeniedFrom,
    dialect: Dialect,
    mut words: RequestWords<'a>,
    out: &mut Vec<u8>,
) -> Result<RequestOutcome, RespRefusal<'a>> {
    let command = dialect.command();
    if !(4..=5).contains(&words.len()) {
        return Err(RespRefusal::Words { command, takes: THROTTLE_TAKES });
    }
    if service.shared.is_some() {
        return Err(RespRefusal::InRedis { command });
    }
    let mut next = || words.next().unwrap_or_default();
    let key = next();
    let burst = dialect.burst(next())?;
    let count = number("count_per_period", next(), 1, i64::MAX)?;
    let period = number("period", next(), 1, i64::MAX)?;
    let cost = match words.next() {
        None => 1,
        Some(found) => number("quantity", found, 0, i64::MAX)?,
    };
    let pace = Pace::new(burst, count, Duration::from_secs(period)).map_err(RespRefusal::Pace)?;
    let answer = service.maker.pace(key, pace, cost).map_err(refused)?;
    if let Some(report) = &answer.report {
        tracing::warn!("{report}");
    }
    if let Some(denials) = service.observers.denials.as_ref().filter(|_| !answer.is_allowed) {
        denials.by_pace(key, cost, &answer, from);
    }
    dialect.write(&answer, burst, out);
    Ok(if answer.is_allowed { RequestOutcome::Allowed } else { RequestOutcome::OverLimit })
}

/// Makes the refusal of a request. If there are too many different limits, it also logs that, at most once a minute.
fn refused<'a>(error: RequestError) -> RespRefusal<'a> {
    if let RequestError::TooManyPaces { most, report: Some(requests) } = error {
        tracing::warn!(
            "limits that come with requests: {requests} more requests were refused, because a table has places for {most} \
             different limits; ask with fewer different numbers; own_limits_no_place counts such requests"
        );
    }
    RespRefusal::Request(error)
}

fn number<'a>(
    name: &'static str,
    found: &'a [u8],
    least: i64,
    most: i64,
) -> Result<u64, RespRefusal<'a>> {
    let number = integer(found).filter(|number| (least..=most).contains(number));
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.ok_or(RespRefusal::Number { name, found, least, most })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whole seconds. A rest of at least a millisecond is rounded up, as in redis-cell.
fn seconds(wait: Duration) -> i64 {
    signed(wait.as_secs() + u64::from(wait.subsec_millis() > 0))
}

/// The two commands that ask the rules: one charges, the other only looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ByRules {
    Check,
    Peek,
}

/// The result of a command that asks the rules: an outcome, or a request that the store has to decide.
pub(super) enum RulesAsked {
    Answered(RequestOutcome),
    InStore(StoreRequest),
}

/// A request that the store has to decide. It owns its texts, because the input is already gone when the store answers.
#[derive(Debug)]
pub(super) struct StoreRequest {
    domain: String,
    entries: Vec<(String, String)>,
    cost: u64,
    purpose: Purpose,
}

impl StoreRequest {
    fn of(
        request: &Request<'_>,
        entries: &[DescriptorEntry<'_>],
        cost: u64,
        purpose: Purpose,
    ) -> Self {
        let owned = |(key, value): &DescriptorEntry<'_>| (String::from(*key), String::from(*value));
        let entries = entries.iter().map(owned).collect();
        Self { domain: request.domain.to_owned(), entries, cost, purpose }
    }

    pub(super) async fn decide(
        &self,
        maker: &DecisionMaker,
        shared: &GlobalLimits,
    ) -> Result<Answer, RequestError> {
        let entries = self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let entries: Vec<DescriptorEntry<'_>> = entries.collect();
        let descriptors = [Descriptor { hits: Some(self.cost), ..Descriptor::new(&entries) }];
        let request = Request::new(&self.domain, &descriptors);
        shared.decide(maker, &request, self.purpose).await.map(|(answer, _)| answer)
    }

    /// Whether a denial of this request is logged. For a peek it is not, since a peek denies nothing.
    pub(super) fn is_logged(&self) -> bool {
        self.purpose != Purpose::Peek
    }
}

impl InWords for StoreRequest {
    fn domain(&self) -> &str {
        &self.domain
    }

    fn entries(&self, each: &mut dyn FnMut(usize, &str, &[u8])) {
        self.entries.iter().for_each(|(key, value)| each(0, key, value.as_bytes()));
    }

    fn hits(&self, _: usize) -> u64 {
        self.cost
    }
}

const BY_RULES_TAKES: &str = "domain cost key value [key value ...]";

/// Decides by the limits of rules.
pub(super) fn by_rules<'a>(
    service: &Service,
    from: DeniedFrom,
    what: ByRules,
    mut words: RequestWords<'a>,
    out: &mut Vec<u8>,
) -> Result<RulesAsked, RespRefusal<'a>> {
    let command = match what {
        ByRules::Check => "tollgate.check",
        ByRules::Peek => "tollgate.peek",
    };
    if words.len() < 4 || words.len() % 2 == 1 {
        return Err(RespRefusal::Words { command, takes: BY_RULES_TAKES });
    }
    let domain = text("domain", words.next().unwrap_or_default())?;
    let cost = number("cost", words.next().unwrap_or_default(), 0, i64::MAX)?;
    let mut entries = [("", ""); MAX_WORDS / 2];
    let mut found = 0;
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        entries[found] = (text("key", key)?, text("value", value)?);
        found += 1;
    }
    let descriptors = [Descriptor { hits: Some(cost), ..Descriptor::new(&entries[..found]) }];
    let request = Request::new(domain, &descriptors);
    let maker = &service.maker;
    let purpose = match what {
        // The answer cannot express a wait: a request that would have to wait is denied, and takes no place in a queue.
        ByRules::Check => Purpose::CheckNow,
        ByRules::Peek => Purpose::Peek,
    };
    if service.shared.is_some() {
        let request = StoreRequest::of(&request, &entries[..found], cost, purpose);
        return Ok(RulesAsked::InStore(request));
    }
    let denials = service.observers.denials.as_ref().filter(|_| what == ByRules::Check);
    let answer = maker.decide(&request, purpose).map_err(RespRefusal::Request)?;
    if let Some(denials) = denials.filter(|_| !answer.is_allowed()) {
        denials.by_rules(&request, &answer, from);
    }
    Ok(RulesAsked::Answered(write(&answer, out)))
}

fn text<'a>(name: &'static str, found: &'a [u8]) -> Result<&'a str, RespRefusal<'a>> {
    std::str::from_utf8(found).map_err(|_| RespRefusal::Text { name, found })
}

/// Writes five numbers, as for `CL.THROTTLE`, and the name of the limit. Without a limit the last four numbers are -1.
pub(super) fn write(answer: &Answer, out: &mut Vec<u8>) -> RequestOutcome {
    tell(answer);
    let is_allowed = answer.is_allowed();
    let mut numbers = [i64::from(!is_allowed), -1, -1, -1, -1];
    let status = answer.statuses().first();
    if let Some((status, limit)) = status.and_then(|status| Some((status, status.limit?))) {
        let retry_after = status.retry_after.filter(|_| !is_allowed);
        numbers[1] = limit.requests_per_unit.into();
        numbers[2] = signed(status.remaining);
        numbers[3] = retry_after.map_or(-1, |wait| signed(whole_seconds(wait).max(1)));
        numbers[4] = signed(whole_seconds(status.reset_after));
    }
    reply::array(out, 6);
    numbers.into_iter().for_each(|number| reply::integer(out, number));
    reply::bulk(out, answer.limit_name(0).unwrap_or_default().as_bytes());
    if is_allowed { RequestOutcome::Allowed } else { RequestOutcome::OverLimit }
}
