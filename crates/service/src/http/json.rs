//! `/json`: Envoy's protocol in protobuf's JSON, as in envoyproxy/ratelimit.
//!
//! Answers have names in camel case and leave out default values. Requests may also use the names of the `.proto`, and
//! give an enumeration as a name or as a number.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::whole;
use crate::metrics::{Protocol, RequestOutcome};
use crate::observe::{Caller, ServiceCall};
use crate::protocol::common::{RateLimitDescriptor, rate_limit_descriptor};
use crate::protocol::rls::rate_limit_response::{DescriptorStatus, RateLimit, rate_limit};
use crate::protocol::rls::{RateLimitRequest, RateLimitResponse};
use crate::service::Service;
use crate::wire::{self, RequestRefusal};

pub(crate) async fn should_rate_limit(
    State(service): State<Arc<Service>>,
    caller: Caller,
    body: Bytes,
) -> Response {
    // The content type does not matter, because curl sends the content type of a form.
    let mut call = ServiceCall::begin(&service.observers, Protocol::Json, caller);
    let request = match read(&body) {
        Ok(request) => request,
        Err(reason) => {
            let status = StatusCode::BAD_REQUEST;
            call.end(RequestOutcome::Refused, status.as_u16());
            return (status, reason).into_response();
        }
    };
    let told = told(service.decide(&request, &mut call).await, call);
    match told {
        Ok((status, json)) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (status, kind, json).into_response()
        }
        Err(reason) => (StatusCode::BAD_REQUEST, reason).into_response(),
    }
}

/// Answers from limits of this process, without waiting.
pub(crate) fn answer(service: &Service, body: &[u8]) -> Result<(StatusCode, String), String> {
    let request = read(body)?;
    let mut call = ServiceCall::begin(&service.observers, Protocol::Json, Caller::default());
    told(service.decide_here(&request, &mut call), call)
}

/// Turns an answer into a status and a body, or into the reason why there is no decision.
fn told(
    answer: Result<RateLimitResponse, RequestRefusal>,
    call: ServiceCall<'_>,
) -> Result<(StatusCode, String), String> {
    let outcome = wire::outcome(&answer);
    let status = match outcome {
        RequestOutcome::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        RequestOutcome::Allowed => StatusCode::OK,
        RequestOutcome::Refused => StatusCode::BAD_REQUEST,
    };
    call.end(outcome, status.as_u16());
    let response = answer.map_err(|refusal| refusal.to_string())?;
    let json = serde_json::to_string(&JsonResponse::new(&response));
    Ok((status, json.map_err(|error| error.to_string())?))
}

/// Reads the request, or returns the reason why it cannot be read.
pub(crate) fn read(body: &[u8]) -> Result<RateLimitRequest, String> {
    const EXAMPLE: &str =
        r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}"#;
    // serde would also read a struct from a list of its fields' values. No protocol has that form, so it is refused.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(format!("the body is no JSON object; write one as in {EXAMPLE}"));
    }
    let request: JsonRequest = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no request: {error}; write one as in {EXAMPLE}"))?;
    request.read()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct JsonRequest {
    domain: String,
    descriptors: Vec<JsonDescriptor>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct JsonDescriptor {
    entries: Vec<JsonEntry>,
    limit: Option<JsonLimit>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct JsonEntry {
    key: String,
    value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct JsonLimit {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Number>,
    unit: Option<EnumValue>,
}

/// Protobuf's JSON writes numbers of 64 bits as text, and accepts text for all numbers.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a whole number that is not negative was expected, as in 5 or \"5\"")]
enum Number {
    Plain(#[serde(deserialize_with = "whole::number")] u64),
    Text(String),
}

/// A value of an enumeration.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a unit was expected, as in \"HOUR\" or 3")]
enum EnumValue {
    Number(i32),
    /// A number that is written as in 2.0.
    Whole(#[serde(deserialize_with = "whole::number")] u64),
    Text(String),
}

impl Number {
    /// The number, if it is at most `most`.
    fn read(&self, name: &str, most: u64) -> Result<u64, String> {
        let refused = |found: &dyn std::fmt::Display| {
            format!("{name} {found} is no whole number from 0 to {most} in digits")
        };
        match self {
            Self::Plain(number) if *number > most => Err(refused(number)),
            Self::Plain(number) => Ok(*number),
            Self::Text(text) => match text.parse::<u64>() {
                Ok(number) if number <= most => Ok(number),
                _ => Err(refused(&shown(text))),
            },
        }
    }
}

/// A client's text in the form in which an error message quotes it.
fn shown(text: &str) -> String {
    format!("'{}'", text.chars().take(64).collect::<String>().escape_debug())
}

/// An absent number is 0. A number that is too large makes the request invalid.
fn narrow(number: Option<&Number>, name: &str) -> Result<u32, String> {
    let number = number.map_or(Ok(0), |number| number.read(name, u32::MAX.into()))?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX)) // `read` refuses larger ones
}

impl JsonRequest {
    fn read(self) -> Result<RateLimitRequest, String> {
        Ok(RateLimitRequest {
            hits_addend: narrow(self.hits_addend.as_ref(), "hitsAddend")?,
            domain: self.domain,
            descriptors: self
                .descriptors
                .into_iter()
                .map(JsonDescriptor::read)
                .collect::<Result<_, String>>()?,
        })
    }
}

impl JsonDescriptor {
    fn read(self) -> Result<RateLimitDescriptor, String> {
        let hits = self.hits_addend.map(|hits| hits.read("hitsAddend of a descriptor", u64::MAX));
        let entry =
            |JsonEntry { key, value }| rate_limit_descriptor::Entry { key, value: value.into() };
        Ok(RateLimitDescriptor {
            entries: self.entries.into_iter().map(entry).collect(),
            limit: self.limit.map(|limit| limit.read()).transpose()?,
            hits_addend: hits.transpose()?,
            is_negative_hits: self.is_negative_hits,
        })
    }
}

impl JsonLimit {
    fn read(&self) -> Result<rate_limit_descriptor::RateLimitOverride, String> {
        let unit = match &self.unit {
            None => 0,
            Some(EnumValue::Number(number)) => *number,
            // No unit has a number that does not fit.
            Some(EnumValue::Whole(number)) => i32::try_from(*number).unwrap_or(i32::MAX),
            Some(EnumValue::Text(name)) => rate_limit::Unit::from_str_name(name)
                .ok_or_else(|| {
                    let found = shown(name);
                    format!("limit.unit {found} is no unit; use SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR")
                })?
                .into(),
        };
        let requests_per_unit = narrow(self.requests_per_unit.as_ref(), "limit.requestsPerUnit")?;
        Ok(rate_limit_descriptor::RateLimitOverride { requests_per_unit, unit })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonResponse<'a> {
    overall_code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statuses: Vec<JsonStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<JsonHeader<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonStatus<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<JsonCurrentLimit<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonCurrentLimit<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    unit: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct JsonHeader<'a> {
    key: &'a str,
    value: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> JsonResponse<'a> {
    fn new(response: &'a RateLimitResponse) -> Self {
        let headers = response.response_headers_to_add.iter();
        Self {
            overall_code: response.overall_code().as_str_name(),
            statuses: response.statuses.iter().map(JsonStatus::new).collect(),
            response_headers_to_add: headers
                .map(|header| JsonHeader { key: &header.key, value: &header.value })
                .collect(),
        }
    }
}

impl<'a> JsonStatus<'a> {
    fn new(status: &'a DescriptorStatus) -> Self {
        let limit = |limit: &'a RateLimit| JsonCurrentLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit().as_str_name(),
            name: &limit.name,
        };
        Self {
            code: status.code().as_str_name(),
            current_limit: status.current_limit.as_ref().map(limit),
            limit_remaining: status.limit_remaining,
            duration_until_reset: status
                .duration_until_reset
                .map(|wait| format!("{}s", wait.seconds)),
        }
    }
}
