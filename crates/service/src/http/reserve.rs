//! `/v1/reserve`, `/v1/cancel`, `/v1/refund` and `/v1/charge`: places in queues, costs that are known afterwards, and
//! what gives them back.

#![expect(clippy::result_large_err, reason = "either is the response")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_rules::{Act, Receipt};

use super::check::{CheckRequest, Pairs, ParsedQuestion, ask, error_response, one, refused, reply};
use crate::metrics::{Protocol, RequestOutcome};
use crate::service::Service;
use crate::tokens::{PLACES, Token};

/// The most bytes of domain, keys and values of a reservation, which the service keeps.
const MAX_KEPT_BYTES: usize = 1 << 10;

/// `{"domain": "shop", "descriptors": [{"user": "alice"}], "cost": 1, "max_wait_ms": 500}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveRequest {
    domain: String,
    descriptors: Vec<Pairs>,
    #[serde(default = "one")]
    cost: u64,
    max_wait_ms: Option<u64>,
}

/// `{"token": "..."}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    token: String,
}

/// `{"token": "...", "units": 3}`; without units all of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefundRequest {
    token: String,
    units: Option<u64>,
}

type Parsed<T> = Result<Json<T>, JsonRejection>;

pub(crate) async fn reserve(
    State(service): State<Arc<Service>>,
    asked: Parsed<ReserveRequest>,
) -> Response {
    let begun = Instant::now();
    let answer = here(&service, asked).and_then(|asked| reserve_here(&service, asked));
    told(&service, answer, begun)
}

pub(crate) async fn charge(State(service): State<Arc<Service>>, asked: ParsedQuestion) -> Response {
    let begun = Instant::now();
    let answer = here(&service, asked).and_then(|question| {
        let charged = ask(&question, |request| service.maker.act(request, Act::Charge));
        charged.map_err(error_response)
    });
    let answer = answer.map(|answer| reply(&answer, &service.headers, None));
    told(&service, answer, begun)
}

pub(crate) async fn cancel(
    State(service): State<Arc<Service>>,
    asked: Parsed<CancelRequest>,
) -> Response {
    let begun = Instant::now();
    let receipt = here(&service, asked).and_then(|asked| receipt(&service, &asked.token));
    let answer = receipt
        .map(|receipt| Json(serde_json::json!({ "cancelled": receipt.cancel() })).into_response());
    told(&service, answer, begun)
}

pub(crate) async fn refund(
    State(service): State<Arc<Service>>,
    asked: Parsed<RefundRequest>,
) -> Response {
    let begun = Instant::now();
    let answer = here(&service, asked).and_then(|RefundRequest { token, units }| {
        let units = units.unwrap_or(u64::MAX);
        let refunded = receipt(&service, &token)?.refund(units);
        Ok(Json(serde_json::json!({ "refunded": refunded })).into_response())
    });
    told(&service, answer, begun)
}

/// The question, if the limits are those of this process.
fn here<T>(service: &Service, asked: Parsed<T>) -> Result<T, Response> {
    if service.keeper.is_some() {
        let reason = "limits in Redis have no reserve, cancel, refund or charge; use /v1/check and /v1/peek, or \
                      serve these rules without --redis";
        return Err((StatusCode::NOT_IMPLEMENTED, reason).into_response());
    }
    let Json(asked) = asked.map_err(IntoResponse::into_response)?;
    Ok(asked)
}

fn reserve_here(service: &Service, asked: ReserveRequest) -> Result<Response, Response> {
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
    let act = Act::Reserve { max_wait: max_wait_ms.map(Duration::from_millis) };
    let question = CheckRequest { domain, descriptors, cost };
    let mut answer =
        ask(&question, |request| service.maker.act(request, act)).map_err(error_response)?;
    let token = answer.take_receipt().and_then(|receipt| service.tokens.keep(receipt));
    Ok(reply(&answer, &service.headers, token))
}

fn receipt(service: &Service, token: &str) -> Result<Receipt, Response> {
    let token: Token = token.parse().map_err(|error: String| refused(error))?;
    service.tokens.take(token).ok_or_else(|| {
        let reason = format!(
            "token is not known: it was used, it is of another service or of before a restart, or {PLACES} \
             reservations were made since"
        );
        (StatusCode::NOT_FOUND, reason).into_response()
    })
}

/// The response, counted.
fn told(service: &Service, answer: Result<Response, Response>, begun: Instant) -> Response {
    let response = answer.unwrap_or_else(|refusal| refusal);
    let outcome = RequestOutcome::of(response.status());
    service.metrics.requests.answered(Protocol::Plain, outcome, begun.elapsed());
    response
}
