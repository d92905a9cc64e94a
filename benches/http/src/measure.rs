//! Rounds of requests in one process, without a socket: the service is called as a server would call it.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use tower::Service;

use crate::contender::Contender;

/// Prints what each contender takes, and what the limits add.
pub(crate) fn run(rounds: usize, requests: usize, clients: u16) {
    let mut apps = Contender::ALL.map(Contender::rounds);
    let mut nanos: [Vec<f64>; 3] = Default::default();
    for round_number in 0..=rounds {
        // Each contender comes first, second and third equally often.
        for offset in 0..apps.len() {
            let which = (round_number + offset) % apps.len();
            let each = apps[which](requests, clients);
            // The first round makes the clients known and the memory warm.
            if round_number > 0 {
                nanos[which].push(each);
            }
        }
    }
    let [bare, ours, theirs] = &nanos;
    let added = |with: &[f64]| -> Vec<f64> {
        with.iter().zip(bare).map(|(with, without)| with - without).collect()
    };
    let (ours_added, theirs_added) = (added(ours), added(theirs));
    let ratio: Vec<f64> =
        ours_added.iter().zip(&theirs_added).map(|(ours, theirs)| ours / theirs).collect();
    println!("{rounds} rounds of {requests} requests from {clients} clients; median (quartiles)\n");
    row("no limit, ns per request", bare);
    row("Tollgate", ours);
    row("tower_governor", theirs);
    row("Tollgate adds", &ours_added);
    row("tower_governor adds", &theirs_added);
    row("ours / theirs", &ratio);
}

fn row(name: &str, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
    let digits = if at(2) < 10.0 { 3 } else { 0 };
    println!("{name:<26} {:>7.digits$} ({:.digits$} - {:.digits$})", at(2), at(1), at(3));
}

/// A round of so many requests from so many clients: nanoseconds per request.
pub(crate) type Round = dyn FnMut(usize, u16) -> f64;

pub(crate) fn rounds_of<S>(mut service: S, contender: Contender) -> Box<Round>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + 'static,
{
    Box::new(move |requests, clients| round(&mut service, contender, requests, clients))
}

fn round<S>(service: &mut S, contender: Contender, requests: usize, clients: u16) -> f64
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
{
    let mut client = 0_u16;
    let start = Instant::now();
    for _ in 0..requests {
        client = (client + 1) % clients;
        let answer = ask(service, request(client));
        contender.look_at(&answer);
        black_box(answer);
    }
    #[expect(clippy::cast_precision_loss, reason = "a mean, to be printed")]
    let each = start.elapsed().as_nanos() as f64 / requests as f64;
    each
}

fn request(client: u16) -> Request<Body> {
    let [high, low] = client.to_be_bytes();
    let mut request = Request::new(Body::empty());
    let peer = SocketAddr::from(([10, 0, high, low], 4_711));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// The handler has nothing to wait for.
fn ask<S>(service: &mut S, request: Request<Body>) -> Response
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))));
    match pin!(service.call(request)).poll(&mut cx) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => unreachable!("the handler is always ready"),
    }
}
