//! The status page: shows how many requests are decided, how many of them are denied, and by which rules.
//!
//! It shows rules and counts, and no part of any request; on the admin's address it also shows the clients that rules
//! deny most. A task samples the counts each second, so requests do no work for the page. A page is made from the
//! samples, without reading a table.

mod figures;
mod render;
mod worst;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::service::Service;
use render::Reader;

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(1);

/// Browsers load nothing from other sites, and run no script but this service's.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page for everyone, without names of clients.
pub(crate) async fn page(State(service): State<Arc<Service>>) -> Response {
    respond(&service, Reader::Anyone)
}

/// The page for the admin, which names clients.
pub(crate) async fn admin_page(State(service): State<Arc<Service>>) -> Response {
    respond(&service, Reader::Admin)
}

fn respond(service: &Service, reader: Reader) -> Response {
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(render::page(service, reader).into_string())).into_response()
}

/// The script that refreshes the page.
pub(crate) async fn script() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, include_str!("status.js")).into_response()
}

/// Samples the counts each second until `stopped` is set. It also logs reports of headroom that have expired, series
/// beyond their maximum number, and steps of the system's clock.
pub(crate) async fn watch(service: Arc<Service>, mut stopped: watch::Receiver<bool>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                service.history.take(Instant::now(), &service.metrics.requests, service.cache());
                service.tell_expired();
                service.tell_series();
                service.tell_clock();
            }
            // An error means that the sender is gone, which also ends the loop.
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}
