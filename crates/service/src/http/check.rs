//! `/v1/check`, `/v1/peek` and `/v1/reset`: questions in plain JSON, for clients that do not speak Envoy's protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use tollgate_http::headers::{Headers, LimitReport, PolicyName};
use tollgate_redis::Fault;
use tollgate_rules::{
    Answer, Code, Descriptor, DescriptorEntry, Purpose, Request, RequestError, RuleSet,
};

use super::object::Object;
use super::whole;
use crate::metrics::{Protocol, RequestOutcome};
use crate::observe::{Caller, InWords, ServiceCall};
use crate::service::Service;
use crate::tokens::{Charged, Token};
use crate::wire::{nearest_limit, tell, whole_seconds};

/// `{"domain": "shop", "descriptors": [{"user": "alice"}], "cost": 1}`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    pub(super) domain: String,
    pub(super) descriptors: Vec<Pairs>,
    #[serde(default = "one", deserialize_with = "whole::number")]
    pub(super) cost: u64,
    /// The rules from which `/v1/auth` made the descriptors, which then also decide the request; `None` for the rules
    /// in force.
    #[serde(skip)]
    pub(super) rules: Option<Arc<RuleSet>>,
}

pub(super) fn one() -> u64 {
    1
}

/// The members of an object in their order, which is the order of a rule's levels.
#[derive(Debug, PartialEq)]
pub(super) struct Pairs(pub(super) Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts, as in {\"user\": \"alice\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The answer for the request. Times are in seconds, waits in milliseconds, all rounded up.
#[derive(Debug, Serialize)]
struct CheckReply<'a> {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    /// Set if the request was given a place in a queue, and has to wait for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    statuses: Vec<StatusReply<'a>>,
}

/// The answer for one descriptor. If the descriptor has no limit, the numbers are absent.
#[derive(Debug, Default, Serialize)]
struct StatusReply<'a> {
    allowed: bool,
    /// `null` if no rule matches the descriptor, and otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Option<()>>,
    /// Set if the decision does not depend on the client's own requests alone, because the rule's table is full and has
    /// no cell for the client, or because the store of the limits does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    /// Set if the request was admitted above the limit, by a rule that is soft.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    over: bool,
    /// Set if the request was admitted above the limit, by the pool of its domain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    borrowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    /// The units of a charge that the limit could not record.
    #[serde(skip_serializing_if = "Option::is_none")]
    uncharged: Option<u64>,
}

pub(super) type ParsedQuestion = Result<Json<Object<CheckRequest>>, JsonRejection>;

pub(crate) async fn check(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: ParsedQuestion,
) -> Response {
    let mut call = ServiceCall::begin(&service.observers, Protocol::Plain, caller);
    let response = answer(&service, asked, Purpose::Check, Some(&mut call)).await;
    ended(call, response)
}

/// Ends the call, and returns the response.
pub(super) fn ended(call: ServiceCall<'_>, response: Response) -> Response {
    call.end(RequestOutcome::of(response.status()), response.status().as_u16());
    response
}

/// `/v1/peek?domain=shop&user=alice&cost=5`: one descriptor, its entries in the order of the query.
pub(crate) async fn peek(
    State(service): State<Arc<Service>>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let mut question = CheckRequest { cost: one(), ..CheckRequest::default() };
    let mut pairs = Vec::new();
    for (key, value) in query {
        match key.as_str() {
            "domain" => question.domain = value,
            "cost" => match value.parse() {
                Ok(cost) => question.cost = cost,
                Err(_) => {
                    return refused("cost is no whole number; write it in digits, as in cost=5");
                }
            },
            _ => pairs.push((key, value)),
        }
    }
    question.descriptors.push(Pairs(pairs));
    answer(&service, Ok(Json(Object(question))), Purpose::Peek, None).await
}

pub(crate) async fn reset(State(service): State<Arc<Service>>, asked: ParsedQuestion) -> Response {
    let asked = match asked {
        Ok(Json(Object(asked))) => asked,
        Err(rejection) => return rejection.into_response(),
    };
    let entries = asked.entries();
    let descriptors = asked.descriptors(&entries);
    let request = asked.request(&descriptors);
    let reset = match &service.shared {
        None => service.maker.reset(&request).map(Ok),
        Some(shared) => shared.reset(&service.maker, &request).await,
    };
    match reset {
        Ok(Ok(limits)) => Json(serde_json::json!({ "reset": limits })).into_response(),
        Ok(Err(fault)) => fault_response(fault),
        Err(error) => error_response(error),
    }
}

/// Answers the question. Without a `call`, no metric counts it.
pub(super) async fn answer(
    service: &Service,
    asked: ParsedQuestion,
    purpose: Purpose,
    call: Option<&mut ServiceCall<'_>>,
) -> Response {
    let asked = match asked {
        Ok(Json(Object(asked))) => asked,
        Err(rejection) => return rejection.into_response(),
    };
    match asked.decide(service, purpose, call).await {
        Ok((answer, _)) => reply(&answer, &service.headers, None),
        Err(error) => error_response(error),
    }
}

impl CheckRequest {
    /// Decides, looks or resets, as the question asks; returns the answer, and the charges, so that they can be given
    /// back.
    pub(super) async fn decide(
        &self,
        service: &Service,
        purpose: Purpose,
        call: Option<&mut ServiceCall<'_>>,
    ) -> Result<(Answer, Option<Charged>), RequestError> {
        let entries = self.entries();
        let descriptors = self.descriptors(&entries);
        let request = self.request(&descriptors);
        let (answer, charged) = match &service.shared {
            None => {
                let mut answer = service.maker.decide(&request, purpose)?;
                let receipt = answer.take_receipt().map(Charged::Here);
                (answer, receipt)
            }
            Some(shared) => {
                let asks = shared.decide(&service.maker, &request, purpose);
                let (answer, charges) = match &call {
                    Some(call) => call.store(asks).await,
                    None => asks.await,
                }?;
                let keeps = matches!(purpose, Purpose::Reserve { .. }) && answer.is_allowed();
                (answer, charges.filter(|_| keeps).map(Charged::Stored))
            }
        };
        if let Some(call) = call {
            call.decided(self, &answer);
        }
        Ok((answer, charged))
    }

    fn entries(&self) -> Vec<Vec<DescriptorEntry<'_>>> {
        let entries = self.descriptors.iter().map(|Pairs(pairs)| {
            pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
        });
        entries.collect()
    }

    fn descriptors<'a>(&self, entries: &'a [Vec<DescriptorEntry<'a>>]) -> Vec<Descriptor<'a>> {
        let descriptor = |entries: &'a Vec<DescriptorEntry<'a>>| Descriptor {
            hits: Some(self.cost),
            ..Descriptor::new(entries)
        };
        entries.iter().map(descriptor).collect()
    }

    fn request<'a>(&'a self, descriptors: &'a [Descriptor<'a>]) -> Request<'a> {
        Request { rules: self.rules.as_ref(), ..Request::new(&self.domain, descriptors) }
    }
}

impl InWords for CheckRequest {
    fn domain(&self) -> &str {
        &self.domain
    }

    fn entries(&self, each: &mut dyn FnMut(usize, &str, &[u8])) {
        for (n, Pairs(pairs)) in self.descriptors.iter().enumerate() {
            pairs.iter().for_each(|(key, value)| each(n, key, value.as_bytes()));
        }
    }

    fn hits(&self, _: usize) -> u64 {
        self.cost
    }
}

pub(super) fn reply(answer: &Answer, headers: &Headers, token: Option<Token>) -> Response {
    tell(answer);
    let statuses = answer.statuses().iter().enumerate().map(|(n, status)| {
        let allowed = status.code == Code::Ok;
        let Some(limit) = status.limit else {
            let (name, rule) = (answer.limit_name(n), answer.is_unmatched(n).then_some(None));
            return StatusReply { allowed, rule, name, ..StatusReply::default() };
        };
        StatusReply {
            allowed,
            rule: None,
            reason: status.reason(),
            name: answer.limit_name(n),
            limit: Some(limit.requests_per_unit),
            window: Some(whole_seconds(limit.window)),
            remaining: Some(status.remaining),
            over: allowed && status.is_within_soft,
            borrowed: allowed && status.is_borrowed,
            reset_after: Some(whole_seconds(status.reset_after)),
            retry_after: status.retry_after.map(|wait| whole_seconds(wait).max(1)),
            wait_ms: wait_ms(status.wait),
            uncharged: Some(status.uncharged).filter(|units| *units > 0),
        }
    });
    let retry_after = answer.retry_after().map(|wait| whole_seconds(wait).max(1));
    let allowed = answer.is_allowed();
    let (wait_ms, token) = (wait_ms(answer.wait()), token.map(|token| token.to_string()));
    let statuses = statuses.collect();
    let reply = Json(CheckReply { allowed, retry_after, wait_ms, token, statuses });
    let status = if allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut response = (status, reply).into_response();
    let fields = response.headers_mut();
    if let Some(report) = report(answer) {
        report.put(headers, fields);
    }
    if let Some(seconds) = retry_after.filter(|_| !allowed) {
        fields.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The wait in milliseconds, rounded up; `None` if there is nothing to wait for.
fn wait_ms(wait: Duration) -> Option<u64> {
    let ms = wait.as_nanos().div_ceil(1_000_000);
    (ms > 0).then(|| u64::try_from(ms).unwrap_or(u64::MAX))
}

/// The limit that the headers report. `nearest_limit` chooses it among all limits, soft or not.
fn report(answer: &Answer) -> Option<LimitReport> {
    let (n, status, limit) = nearest_limit(answer)?;
    let is_denied = status.code == Code::OverLimit;
    // A rule's name may be too long for a header, or contain characters that no header may have.
    let name = answer.limit_name(n).and_then(|name| PolicyName::new(name).ok());
    Some(LimitReport {
        name: name.unwrap_or_default(),
        quota: limit.requests_per_unit.into(),
        window: limit.window,
        remaining: status.remaining,
        reset_after: status.reset_after,
        retry_after: status.retry_after.filter(|_| is_denied),
        is_over: answer.is_allowed()
            && answer.statuses().iter().any(|status| status.is_within_soft),
    })
}

pub(super) fn error_response(error: RequestError) -> Response {
    match error {
        RequestError::NotLoaded => {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
        _ => refused(error.to_string()),
    }
}

/// The response if the store did not do what it was asked to do, or did not confirm it.
pub(super) fn fault_response(fault: Fault) -> Response {
    let reason = format!("{fault}; whether Redis has done it is not known: look, and ask again");
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

pub(super) fn refused(reason: impl Into<String>) -> Response {
    (StatusCode::BAD_REQUEST, reason.into()).into_response()
}
