//! `/v1/headroom`: the program that does the work reports how much it can spare.
//!
//! Only the admin's address has this route. A report decides how much the pool of a domain lends to clients. A client
//! that may only ask for decisions must not be able to fill the pool that it borrows from.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_rules::HeadroomRefusal;

use super::check::refused;
use super::object::Object;
use super::whole;
use crate::service::Service;

/// `{"domain": "shop", "headroom": 0.4, "ttl_ms": 5000}`; without `ttl_ms` the report lasts ten seconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadroomReport {
    domain: String,
    headroom: f64,
    #[serde(default = "usual_ttl_ms", deserialize_with = "whole::number")]
    ttl_ms: u64,
}

fn usual_ttl_ms() -> u64 {
    10_000
}

pub(crate) async fn report(
    State(service): State<Arc<Service>>,
    asked: Result<Json<Object<HeadroomReport>>, JsonRejection>,
) -> Response {
    if service.shared.is_some() {
        let reason = "limits in Redis do not borrow; serve these rules without --redis";
        return (StatusCode::NOT_IMPLEMENTED, reason).into_response();
    }
    let HeadroomReport { domain, headroom, ttl_ms } = match asked {
        Ok(Json(Object(report))) => report,
        Err(rejection) => return rejection.into_response(),
    };
    let lasts = Duration::from_millis(ttl_ms);
    match service.cache().report_headroom(&domain, headroom, lasts) {
        Ok(()) => {
            let told = serde_json::json!({ "headroom": headroom, "ttl_ms": ttl_ms });
            Json(told).into_response()
        }
        Err(refusal @ (HeadroomRefusal::UnknownDomain { .. } | HeadroomRefusal::NoPool { .. })) => {
            (StatusCode::NOT_FOUND, refusal.to_string()).into_response()
        }
        Err(refusal) => refused(refusal.to_string()),
    }
}
