//! Turns Envoy's request into a decision, and the answer into Envoy's response. gRPC and `/json` share this module.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use tollgate_rules::{
    Answer, Code, CurrentLimit, DecisionMaker, Descriptor, DescriptorEntry, Metadata, Override,
    Purpose, Request, RequestError, Status, Unit,
};

use crate::global::GlobalLimits;
use crate::metrics::RequestOutcome;
use crate::observe::InWords;
use crate::options::AnswerParts;
use crate::protocol::common::{
    RateLimitDescriptor,
    rate_limit_descriptor::{Entry, RateLimitOverride},
};
use crate::protocol::core::HeaderValue;
use crate::protocol::rls::rate_limit_response::{DescriptorStatus, RateLimit, rate_limit};
use crate::protocol::rls::{RateLimitRequest, RateLimitResponse, rate_limit_response};

/// The reason why a request gets no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    Request(RequestError),
    /// A limit that comes with the request has a unit of time that does not exist.
    Unit(i32),
}

impl fmt::Display for RequestRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Unit(unit) => {
                write!(f, "limit.unit {unit} is no unit; use SECOND 1 to YEAR 6, or WEEK 7")
            }
        }
    }
}

/// Decides a decoded request by limits of this process.
pub(crate) fn decide(
    maker: &DecisionMaker,
    request: &RateLimitRequest,
) -> Result<Answer, RequestRefusal> {
    let mut mended = Vec::new();
    let entries = read_entries(maker, request, &mut mended)?;
    let descriptors = read_descriptors(request, &entries)?;
    // Envoy cannot wait: a request that would have to wait is denied, and takes no place in a queue.
    let answer = maker.decide(&asked(request, &descriptors), Purpose::CheckEnvoy);
    answer.map_err(RequestRefusal::Request)
}

/// Decides a decoded request by limits in the store.
pub(crate) async fn decide_by(
    maker: &DecisionMaker,
    shared: &GlobalLimits,
    request: &RateLimitRequest,
) -> Result<Answer, RequestRefusal> {
    let mut mended = Vec::new();
    let entries = read_entries(maker, request, &mut mended)?;
    let descriptors = read_descriptors(request, &entries)?;
    let answer = shared.decide(maker, &asked(request, &descriptors), Purpose::CheckEnvoy).await;
    answer.map(|(answer, _)| answer).map_err(RequestRefusal::Request)
}

/// The entries of all descriptors. If some values are not UTF-8, `mended` gets all values, with the bad bytes replaced.
fn read_entries<'a>(
    maker: &DecisionMaker,
    request: &'a RateLimitRequest,
    mended: &'a mut Vec<Cow<'a, str>>,
) -> Result<Vec<DescriptorEntry<'a>>, RequestRefusal> {
    // The number of descriptors is checked before anything is allocated for them.
    let (found, most) = (request.descriptors.len(), maker.cache().settings().max_descriptors);
    if found > most {
        let error = RequestError::TooManyDescriptors { found, most };
        return Err(RequestRefusal::Request(error));
    }
    if let Some(texts) = texts(request) {
        return Ok(texts);
    }
    // Bytes that are not UTF-8 are replaced by U+FFFD. Different values may then share a limit, but no value escapes
    // its limit.
    mended.extend(entries(request).map(|entry| String::from_utf8_lossy(&entry.value)));
    let values = mended.iter().map(Cow::as_ref);
    Ok(entries(request).zip(values).map(|(entry, value)| (entry.key.as_str(), value)).collect())
}

/// The descriptors of a request. `entries` contains the entries of all of them, one after the other.
fn read_descriptors<'a>(
    request: &RateLimitRequest,
    mut entries: &'a [DescriptorEntry<'a>],
) -> Result<Vec<Descriptor<'a>>, RequestRefusal> {
    let mut descriptors = Vec::with_capacity(request.descriptors.len());
    for descriptor in &request.descriptors {
        let (own, others) = entries.split_at(descriptor.entries.len());
        entries = others;
        descriptors.push(read(descriptor, own)?);
    }
    Ok(descriptors)
}

fn asked<'a>(request: &'a RateLimitRequest, descriptors: &'a [Descriptor<'a>]) -> Request<'a> {
    Request { hits: request.hits_addend, ..Request::new(&request.domain, descriptors) }
}

fn entries(request: &RateLimitRequest) -> impl Iterator<Item = &Entry> {
    request.descriptors.iter().flat_map(|descriptor| &descriptor.entries)
}

/// All entries, if all values are text.
fn texts(request: &RateLimitRequest) -> Option<Vec<DescriptorEntry<'_>>> {
    let count = request.descriptors.iter().map(|descriptor| descriptor.entries.len()).sum();
    let mut texts = Vec::with_capacity(count);
    for descriptor in &request.descriptors {
        for entry in &descriptor.entries {
            texts.push((entry.key.as_str(), str::from_utf8(&entry.value).ok()?));
        }
    }
    Some(texts)
}

fn read<'a>(
    descriptor: &RateLimitDescriptor,
    entries: &'a [DescriptorEntry<'a>],
) -> Result<Descriptor<'a>, RequestRefusal> {
    let limit = descriptor.limit.as_ref().map(read_override).transpose()?;
    let (hits, is_negative) = (descriptor.hits_addend, descriptor.is_negative_hits);
    Ok(Descriptor { entries, hits, limit, is_negative })
}

fn read_override(limit: &RateLimitOverride) -> Result<Override, RequestRefusal> {
    let unit = match limit.unit {
        1 => Unit::Second,
        2 => Unit::Minute,
        3 => Unit::Hour,
        4 => Unit::Day,
        5 => Unit::Month,
        6 => Unit::Year,
        // The enumeration of the response has the unit WEEK, but that of the request has not.
        7 => Unit::Week,
        other => return Err(RequestRefusal::Unit(other)),
    };
    Ok(Override { requests_per_unit: limit.requests_per_unit, unit })
}

impl InWords for RateLimitRequest {
    fn domain(&self) -> &str {
        &self.domain
    }

    fn entries(&self, each: &mut dyn FnMut(usize, &str, &[u8])) {
        for (n, descriptor) in self.descriptors.iter().enumerate() {
            descriptor.entries.iter().for_each(|entry| each(n, &entry.key, &entry.value));
        }
    }

    fn hits(&self, descriptor: usize) -> u64 {
        let own = self.descriptors.get(descriptor).and_then(|descriptor| descriptor.hits_addend);
        own.unwrap_or_else(|| u64::from(self.hits_addend.max(1)))
    }
}

/// Logs the rules whose tables are full, at most once a minute for each rule. Also logs when a rule for the first time
/// leaves units uncharged, or denies a cost of more than 1.
pub(crate) fn tell(answer: &Answer) {
    for report in answer.reports() {
        tracing::warn!("{report}");
    }
    let statuses = answer.statuses().iter().enumerate();
    for (n, status) in statuses.filter(|(_, told)| told.is_first_uncharged) {
        let Some(rule) = answer.rule(n) else { continue };
        tracing::warn!(
            "{}.{}: {} units were used that its limit has no room to remember, so nobody pays for them; a larger `debt` \
             remembers more, and rule_uncharged counts all of them",
            rule.domain().escape_debug(),
            rule.path().escape_debug(),
            status.uncharged
        );
    }
    let statuses = answer.statuses().iter().enumerate();
    for (n, _) in statuses.filter(|(_, told)| told.is_first_denied_cost) {
        let Some(rule) = answer.rule(n) else {
            tracing::warn!(
                "a cost of more than 1 under a limit that came with its request was denied, and is charged nowhere: if it had \
                 been used already, as the tokens of a response, say `usage: true` in the rule, or start with --compat; \
                 own_limits_denied_costs counts such units"
            );
            continue;
        };
        tracing::warn!(
            "{}.{}: a cost of more than 1 was denied, and is charged nowhere: if it had been used already, as the tokens of a \
             response, say `usage: true` in the rule, or start with --compat; if not, say `usage: false`, and this is not told; \
             rule_denied_costs counts such units",
            rule.domain().escape_debug(),
            rule.path().escape_debug()
        );
    }
}

pub(crate) fn response(answer: &Answer, answers: AnswerParts) -> RateLimitResponse {
    tell(answer);
    let statuses = answer.statuses().iter().enumerate();
    let statuses = statuses.map(|(n, status)| descriptor_status(answer, n, status)).collect();
    let mut headers = if answers.headers { headers(answer) } else { Vec::new() };
    let reason = reason(answer);
    // This header is sent even if headers are switched off. Without it the answer would look as if the limit were used
    // up.
    headers.extend(reason.map(|reason| HeaderValue {
        key: REASON_HEADER.to_owned(),
        value: reason.to_owned(),
        raw_value: Vec::new(),
    }));
    let uncharged = uncharged(answer);
    headers.extend(uncharged.map(|units| HeaderValue {
        key: UNCHARGED_HEADER.to_owned(),
        value: units.to_string(),
        raw_value: Vec::new(),
    }));
    let metadata = answers.metadata.then(|| metadata(answer)).flatten();
    RateLimitResponse {
        overall_code: code(answer.code()).into(),
        statuses,
        response_headers_to_add: headers,
        dynamic_metadata: with_told(metadata, reason, uncharged),
        ..RateLimitResponse::default()
    }
}

/// The outcome of a request, for metrics.
pub(crate) fn outcome(answer: &Result<RateLimitResponse, RequestRefusal>) -> RequestOutcome {
    match answer.as_ref().map(RateLimitResponse::overall_code) {
        Ok(rate_limit_response::Code::OverLimit) => RequestOutcome::OverLimit,
        Ok(_) => RequestOutcome::Allowed,
        Err(_) => RequestOutcome::Refused,
    }
}

fn code(code: Code) -> rate_limit_response::Code {
    match code {
        Code::Ok => rate_limit_response::Code::Ok,
        Code::OverLimit => rate_limit_response::Code::OverLimit,
    }
}

fn descriptor_status(answer: &Answer, n: usize, status: &Status) -> DescriptorStatus {
    let limit = status.limit.map(|limit| RateLimit {
        requests_per_unit: limit.requests_per_unit,
        unit: limit.unit.map_or(rate_limit::Unit::Unknown, unit).into(),
        name: answer.limit_name(n).unwrap_or_default().to_owned(),
    });
    DescriptorStatus {
        code: code(status.code).into(),
        duration_until_reset: limit.is_some().then(|| prost_types::Duration {
            // Envoy reads only whole seconds. The time is rounded up, so that a client that waits for it does not come
            // too early.
            seconds: i64::try_from(whole_seconds(status.reset_after)).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        current_limit: limit,
        limit_remaining: u32::try_from(status.remaining).unwrap_or(u32::MAX),
        quota: None,
    }
}

fn unit(unit: Unit) -> rate_limit::Unit {
    match unit {
        Unit::Second => rate_limit::Unit::Second,
        Unit::Minute => rate_limit::Unit::Minute,
        Unit::Hour => rate_limit::Unit::Hour,
        Unit::Day => rate_limit::Unit::Day,
        Unit::Week => rate_limit::Unit::Week,
        Unit::Month => rate_limit::Unit::Month,
        Unit::Year => rate_limit::Unit::Year,
    }
}

/// A wait in whole seconds, rounded up.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The descriptor that the headers report, with its limit. It is the descriptor that denies the request. If several
/// deny, it is the descriptor with the longest wait, because a client that comes back earlier is denied again. If none
/// denies, it is the descriptor with the fewest units left.
pub(crate) fn nearest_limit(answer: &Answer) -> Option<(usize, &Status, CurrentLimit)> {
    let denies = |status: &Status| {
        let is_denial = status.code == Code::OverLimit;
        // A cost that can never fit counts as the longest wait.
        is_denial.then(|| status.retry_after.unwrap_or(Duration::MAX))
    };
    let weight = |status: &Status| (Reverse(denies(status)), status.remaining);
    let statuses = answer.statuses().iter().enumerate();
    let limited = statuses.filter_map(|(n, status)| Some((n, status, status.limit?)));
    limited.min_by_key(|(_, status, _)| weight(status))
}

fn headers(answer: &Answer) -> Vec<HeaderValue> {
    let Some((_, status, limit)) = nearest_limit(answer) else { return Vec::new() };
    let header = |key: &str, value: u64| HeaderValue {
        key: key.to_owned(),
        value: value.to_string(),
        raw_value: Vec::new(),
    };
    let mut headers = vec![
        header("RateLimit-Limit", u64::from(limit.requests_per_unit)),
        header("RateLimit-Remaining", status.remaining),
        header("RateLimit-Reset", whole_seconds(status.reset_after)),
    ];
    // Envoy's own `Retry-After` (`enable_retry_after_header`) is the time until the reset. That is too late under GCRA,
    // where a limit has room long before all of its units are back. Envoy keeps the header that comes from here.
    let wait = answer.retry_after();
    headers.extend(wait.map(|wait| header("Retry-After", whole_seconds(wait).max(1))));
    headers
}

/// The header with the reason why a decision does not depend on the client's own requests alone: [`Status::reason`].
const REASON_HEADER: &str = "X-Tollgate-Reason";

/// The reason of the first descriptor that has one. If the request is denied, only the descriptors that deny it count.
fn reason(answer: &Answer) -> Option<&'static str> {
    let statuses = answer.statuses().iter();
    let denies = |status: &&Status| answer.is_allowed() || status.code == Code::OverLimit;
    statuses.filter(denies).find_map(Status::reason)
}

/// The header with the number of units that a limit could not record, or could not give back.
const UNCHARGED_HEADER: &str = "X-Tollgate-Uncharged";

/// The largest number of units that any limit of the request could not record, or could not give back.
fn uncharged(answer: &Answer) -> Option<u64> {
    answer.statuses().iter().map(|status| status.uncharged).max().filter(|units| *units > 0)
}

/// Adds the values of these headers to the dynamic metadata, for Envoy's filters and its access log. A number in the
/// metadata has only 53 bits.
fn with_told(
    metadata: Option<prost_types::Struct>,
    reason: Option<&str>,
    uncharged: Option<u64>,
) -> Option<prost_types::Struct> {
    use prost_types::value::Kind;
    let reason = reason.map(|reason| ("reason", Kind::StringValue(reason.to_owned())));
    #[expect(clippy::cast_precision_loss, reason = "a count needs its first 15 digits")]
    let uncharged = uncharged.map(|units| ("uncharged", Kind::NumberValue(units as f64)));
    let mut told = [reason, uncharged].into_iter().flatten().peekable();
    if told.peek().is_none() {
        return metadata;
    }
    let mut metadata = metadata.unwrap_or_default();
    for (name, kind) in told {
        metadata.fields.insert(name.to_owned(), prost_types::Value { kind: Some(kind) });
    }
    Some(metadata)
}

/// Collects, under `metadata`, the metadata of the rules whose descriptors pass. If several entries have the same name,
/// the first is used. Adds `borrowed` if a pool has lent units that a limit denied.
fn metadata(answer: &Answer) -> Option<prost_types::Struct> {
    let mut merged = prost_types::Struct::default();
    let passed = answer.statuses().iter().enumerate().filter(|(_, status)| status.code == Code::Ok);
    for (n, _) in passed {
        if let Some(Metadata::Map(pairs)) = answer.rule(n).and_then(|rule| rule.metadata()) {
            merge(&mut merged, pairs);
        }
    }
    let mut told = prost_types::Struct::default();
    let mut tell = |name: &str, kind| {
        told.fields.insert(name.to_owned(), prost_types::Value { kind: Some(kind) });
    };
    if !merged.fields.is_empty() {
        tell("metadata", prost_types::value::Kind::StructValue(merged));
    }
    if answer.is_allowed() && answer.statuses().iter().any(|status| status.is_borrowed) {
        tell("borrowed", prost_types::value::Kind::BoolValue(true));
    }
    (!told.fields.is_empty()).then_some(told)
}

fn merge(into: &mut prost_types::Struct, pairs: &[(String, Metadata)]) {
    use prost_types::value::Kind;
    for (name, value) in pairs {
        match (into.fields.get_mut(name).and_then(|there| there.kind.as_mut()), value) {
            (None, value) => {
                into.fields.insert(name.clone(), to_value(value));
            }
            (Some(Kind::StructValue(there)), Metadata::Map(pairs)) => merge(there, pairs),
            (Some(_), _) => {}
        }
    }
}

fn to_value(metadata: &Metadata) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match metadata {
        Metadata::Null => Kind::NullValue(0),
        Metadata::Bool(truth) => Kind::BoolValue(*truth),
        Metadata::Number(number) => Kind::NumberValue(*number),
        Metadata::Text(text) => Kind::StringValue(text.clone()),
        Metadata::List(items) => {
            Kind::ListValue(prost_types::ListValue { values: items.iter().map(to_value).collect() })
        }
        Metadata::Map(pairs) => {
            let mut map = prost_types::Struct::default();
            merge(&mut map, pairs);
            Kind::StructValue(map)
        }
    };
    prost_types::Value { kind: Some(kind) }
}
