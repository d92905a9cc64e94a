//! `/v1/reserve`, `/v1/cancel`, `/v1/refund` and `/v1/charge`: reservations in queues, costs that are known afterwards,
//! and their refunds.

#![expect(clippy::result_large_err, reason = "either is the response")]

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_rules::Purpose;

use super::check::{
    CheckRequest, Pairs, ParsedQuestion, answer, ended, error_response, fault_response, one,
    refused, reply,
};
use super::object::Object;
use super::whole;
use crate::metrics::Protocol;
use crate::observe::{Caller, ServiceCall};
use crate::service::Service;
use crate::tokens::{Charged, PLACES, Token};

/// The maximum number of bytes of a reservation's domain, keys and values, which the service keeps.
const MAX_KEPT_BYTES: usize = 1 << 10;

/// `{"domain": "shop", "descriptors": [{"user": "alice"}], "cost": 1, "max_wait_ms": 500}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveRequest {
    domain: String,
    descriptors: Vec<Pairs>,
    #[serde(default = "one", deserialize_with = "whole::number")]
    cost: u64,
    #[serde(default, deserialize_with = "whole::optional")]
    max_wait_ms: Option<u64>,
}

/// `{"token": "..."}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    token: String,
}

/// `{"token": "...", "units": 3}`; without `units` all units are refunded.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefundRequest {
    token: String,
    #[serde(default, deserialize_with = "whole::optional")]
    units: Option<u64>,
}

type Parsed<T> = Result<Json<Object<T>>, JsonRejection>;

pub(crate) async fn reserve(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Parsed<ReserveRequest>,
) -> Response {
    let mut call = ServiceCall::begin(&service.observers, Protocol::Plain, caller);
    let answer = match asked {
        Ok(Json(Object(asked))) => take_place(&service, asked, &mut call).await,
        Err(rejection) => Err(rejection.into_response()),
    };
    told(call, answer)
}

pub(crate) async fn charge(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: ParsedQuestion,
) -> Response {
    let mut call = ServiceCall::begin(&service.observers, Protocol::Plain, caller);
    let answer = answer(&service, asked, Purpose::Charge, Some(&mut call)).await;
    told(call, Ok(answer))
}

pub(crate) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Parsed<CancelRequest>,
) -> Response {
    let call = ServiceCall::begin(&service.observers, Protocol::Plain, caller);
    let answer = match asked {
        Ok(Json(Object(CancelRequest { token }))) => match charged(&service, &token) {
            Ok(charged) => charged.cancel().await.map_err(fault_response),
            Err(refusal) => Err(refusal),
        },
        Err(rejection) => Err(rejection.into_response()),
    };
    let answer = answer.map(|done| Json(serde_json::json!({ "cancelled": done })).into_response());
    told(call, answer)
}

pub(crate) async fn refund(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Parsed<RefundRequest>,
) -> Response {
    let call = ServiceCall::begin(&service.observers, Protocol::Plain, caller);
    let answer = match asked {
        Ok(Json(Object(RefundRequest { token, units }))) => match charged(&service, &token) {
            Ok(charged) => charged.refund(units.unwrap_or(u64::MAX)).await.map_err(fault_response),
            Err(refusal) => Err(refusal),
        },
        Err(rejection) => Err(rejection.into_response()),
    };
    let answer = answer.map(|units| Json(serde_json::json!({ "refunded": units })).into_response());
    told(call, answer)
}

async fn take_place(
    service: &Service,
    asked: ReserveRequest,
    call: &mut ServiceCall<'_>,
) -> Result<Response, Response> {
    let ReserveRequest { domain, descriptors, cost, max_wait_ms } = asked;
    let bytes_of = |Pairs(pairs): &Pairs| -> usize {
        pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    let bytes = domain.len() + descriptors.iter().map(bytes_of).sum::<usize>();
    if bytes > MAX_KEPT_BYTES {
        return Err(refused(format!(
            "descriptors and domain have {bytes} bytes; a reservation keeps at most {MAX_KEPT_BYTES}"
        )));
    }
    let purpose = Purpose::Reserve { max_wait: max_wait_ms.map(Duration::from_millis) };
    let asked = CheckRequest { domain, descriptors, cost, rules: None };
    let (answer, charged) =
        asked.decide(service, purpose, Some(call)).await.map_err(error_response)?;
    let token = charged.and_then(|charged| service.tokens.keep(charged));
    Ok(reply(&answer, &service.headers, token))
}

fn charged(service: &Service, token: &str) -> Result<Charged, Response> {
    let token: Token = token.parse().map_err(|error: String| refused(error))?;
    service.tokens.take(token).ok_or_else(|| {
        let reason = format!(
            "token is not known: it was used, it is of another service or of before a restart, or {PLACES} \
             reservations were made since"
        );
        (StatusCode::NOT_FOUND, reason).into_response()
    })
}

/// Returns the response, and counts the request.
fn told(call: ServiceCall<'_>, answer: Result<Response, Response>) -> Response {
    ended(call, answer.unwrap_or_else(|refusal| refusal))
}
