//! The public routes, and those for the admin's address.

mod auth;
mod check;
mod connections;
mod guard;
mod headroom;
pub(crate) mod json;
mod object;
mod reserve;
mod whole;

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use tollgate_redis::Outage;

use crate::apart;
use crate::global::GlobalLimits;
use crate::host_name::HostName;
use crate::page;
use crate::service::Service;

pub(crate) use connections::{HttpRoutes, listen};

/// The answer to a connection beyond the maximum number if it asks for anything but health or metrics.
pub(crate) const BEYOND_MAX: &str =
    "too many connections: beyond the maximum only health and metrics are answered";

/// The maximum size of a body. Over gRPC larger requests are accepted, because Envoy lets a request pass if the service
/// refuses to read it.
const MAX_BODY_BYTES: usize = 256 << 10;

/// The routes for the public address. Connections beyond the maximum number may only ask for health and metrics.
pub(crate) fn routes(service: &Arc<Service>) -> HttpRoutes {
    let reserved = Router::new()
        .route("/healthcheck", get(health))
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::SERVICE_UNAVAILABLE, BEYOND_MAX) })
        .with_state(Arc::clone(service));
    HttpRoutes { ordinary: public_routes(Arc::clone(service)), reserved }
}

/// The paths of the public address. The document at `/openapi.json` describes these.
fn public_paths() -> [(&'static str, MethodRouter<Arc<Service>>); 13] {
    [
        ("/json", post(json::should_rate_limit)),
        ("/v1/check", post(check::check)),
        ("/v1/peek", get(check::peek)),
        ("/v1/auth", any(auth::auth)),
        ("/v1/reserve", post(reserve::reserve)),
        ("/v1/cancel", post(reserve::cancel)),
        ("/v1/refund", post(reserve::refund)),
        ("/v1/charge", post(reserve::charge)),
        ("/healthcheck", get(health)),
        ("/metrics", get(metrics)),
        ("/openapi.json", get(openapi)),
        ("/", get(page::page)),
        ("/status.js", get(page::script)),
    ]
}

fn public_routes(service: Arc<Service>) -> Router {
    public_paths()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| router.route(path, methods))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(service)
}

/// The OpenAPI document of the public address.
const OPENAPI: &str = include_str!("../../openapi.json");

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// The routes for an address that serves only metrics.
pub(crate) fn metrics_routes(service: Arc<Service>) -> HttpRoutes {
    let all = Router::new().route("/metrics", get(metrics)).with_state(service);
    HttpRoutes { ordinary: all.clone(), reserved: all }
}

/// The routes for the admin's address, for requests to these names or to an IP address. Connections beyond the maximum
/// number are answered, too, so that an operator can find out which clients take the places.
pub(crate) fn admin_routes(service: Arc<Service>, names: &[HostName]) -> HttpRoutes {
    let all = Router::new()
        .route("/healthcheck", get(health))
        .route("/v1/reset", post(check::reset))
        .route("/v1/headroom", post(headroom::report))
        .route("/rlconfig", get(config))
        .route("/metrics", get(metrics))
        .route("/", get(page::admin_page))
        .route("/status.js", get(page::script))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(names.into(), guard::guard))
        .with_state(service);
    HttpRoutes { ordinary: all.clone(), reserved: all }
}

/// The health check succeeds even if the store does not answer, since each rule's `on_error` still decides. If the
/// check failed, a supervisor would kill all services at once. The body of the answer mentions the outage.
async fn health(State(service): State<Arc<Service>>) -> Response {
    if !service.is_healthy() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "no rules, or shutting down").into_response();
    }
    match service.shared.as_ref().and_then(GlobalLimits::outage) {
        None => "OK".into_response(),
        Some(outage) => degraded(&outage, SystemTime::now()).into_response(),
    }
}

fn degraded(outage: &Outage, now: SystemTime) -> String {
    let since = httpdate::fmt_http_date(now.checked_sub(outage.lasts).unwrap_or(now));
    let fault = outage.fault.map_or_else(String::new, |fault| format!(": {fault}"));
    let said = outage.said.as_ref().map_or_else(String::new, |said| format!(": {said}"));
    let store = &outage.store;
    format!(
        "degraded: {store} has not answered since {since}{fault}{said}; rules decide by on_error"
    )
}

/// Answers in OpenMetrics if the reader accepts it, as Prometheus does; else in the older format.
async fn metrics(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text";
    let is_open_metrics = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accepted| accepted.to_str().is_ok_and(|accepted| accepted.contains(OPEN_METRICS)));
    let kind = if is_open_metrics {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    };
    let made = apart::make(move || {
        service.tell_expired();
        service.metrics.text(is_open_metrics)
    });
    match made.await {
        Some(Ok(page)) => {
            ([(header::CONTENT_TYPE, kind), (header::VARY, "accept")], page).into_response()
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Lists the rules in force, one line each, as `tollgate check` prints them. Then come the descriptors of
/// `forward_auth`, the pools with the headroom in force, the domains that keep their last good rules because the newest
/// files have no rules for them, and the errors of the last load.
async fn config(State(service): State<Arc<Service>>) -> Response {
    let made = apart::make(move || in_force(&service)).await;
    made.map_or_else(
        || StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        IntoResponse::into_response,
    )
}

fn in_force(service: &Service) -> String {
    let mut page = String::new();
    if let Some(rules) = service.cache().rules() {
        rules.rules().iter().for_each(|rule| page += &format!("{rule}\n"));
        rules.all_forwards().for_each(|forward| page += &format!("{forward}\n"));
        for pool in rules.pools() {
            let (domain, quota, headroom) = (pool.domain(), pool.quota(), pool.headroom());
            page += &format!("{}: pool {quota}, headroom {headroom}\n", domain.escape_debug());
        }
        for domain in rules.kept_domains() {
            page += &format!("kept: {}: there are no rules any more\n", domain.escape_debug());
        }
    }
    for error in service.cache().status().errors {
        page += &format!("refused: {error}\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::{Duration, UNIX_EPOCH};

    use tollgate_redis::{Fault, Store};

    use super::*;

    #[test]
    fn the_openapi_document_has_the_paths_of_the_public_address_and_no_others() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let described: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
        let served: BTreeSet<&str> = public_paths().iter().map(|(path, _)| *path).collect();
        assert_eq!(described, served);
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }

    #[tokio::test]
    async fn a_service_without_its_store_says_since_when_and_why() {
        let store = Store::open("redis://limiter:secret@127.0.0.1:1/").expect("an address");
        let mut outage = store.outage().expect("nothing listens there");
        outage.lasts = Duration::from_secs(90);
        let noon = UNIX_EPOCH + Duration::from_secs(1_789_992_000);
        let expected = |fault: &str| {
            format!(
                "degraded: redis://127.0.0.1:1/ has not answered since \
                 Mon, 21 Sep 2026 11:58:30 GMT{fault}; rules decide by on_error"
            )
        };
        (outage.fault, outage.said) = (None, None);
        assert_eq!(degraded(&outage, noon), expected(""));
        outage.fault = Some(Fault::ReadOnly);
        assert_eq!(degraded(&outage, noon), expected(": the server is a read-only replica"));
        outage.said = Some("READONLY You can't write against a read only replica.".into());
        let words = ": the server is a read-only replica: READONLY You can't write against a read only replica.";
        assert_eq!(degraded(&outage, noon), expected(words));
    }
}
