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

/// Prints what each contender takes, what the limits add, and that as a share of what theirs adds.
pub(crate) fn run(rounds: usize, requests: usize, clients: u16) {
    let mut apps = Contender::ALL.map(Contender::measured);
    let mut nanos: [Vec<f64>; Contender::ALL.len()] = Default::default();
    for round_number in 0..=rounds {
        // Each contender comes at each place equally often.
        for offset in 0..apps.len() {
            let which = (round_number + offset) % apps.len();
            let each = apps[which](requests, clients, usize::MAX);
            // The first round makes the clients known and the memory warm.
            if round_number > 0 {
                nanos[which].push(each);
            }
        }
    }
    // Each round against the same round of the others: a disturbance of the machine disturbs neighbours alike.
    let of = |who: Contender| &nanos[who as usize];
    let added = |who: Contender| -> Vec<f64> {
        of(who).iter().zip(of(Contender::Bare)).map(|(with, without)| with - without).collect()
    };
    let theirs = added(Contender::Theirs);
    println!("{rounds} rounds of {requests} requests from {clients} clients; median (quartiles)\n");
    println!("{:<22} {:>22} {:>22} {:>22}", "", "ns per request", "ns added", "share of theirs");
    for who in Contender::ALL {
        print!("{:<22} {:>22}", who.name(), spread(of(who)));
        if who == Contender::Bare {
            println!();
            continue;
        }
        let ours = added(who);
        let share: Vec<f64> =
            ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        println!(" {:>22} {:>22}", spread(&ours), spread(&share));
    }
}

fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
    let digits = if at(2) < 10.0 { 3 } else { 0 };
    format!("{:.digits$} ({:.digits$} - {:.digits$})", at(2), at(1), at(3))
}

/// A round of so many requests from so many clients, each of which is admitted so many times: nanoseconds per
/// request.
pub(crate) type Round = dyn FnMut(usize, u16, usize) -> f64;

pub(crate) fn rounds_of<S>(mut service: S, contender: Contender) -> Box<Round>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + 'static,
{
    Box::new(move |requests, clients, admits| {
        let (mut client, mut asked) = (0_u16, 0);
        let start = Instant::now();
        for _ in 0..requests {
            let answer = ask(&mut service, request(client));
            contender.look_at(&answer, asked < admits);
            black_box(answer);
            client += 1;
            if client == clients {
                (client, asked) = (0, asked + 1);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a mean, to be printed")]
        let each = start.elapsed().as_nanos() as f64 / requests as f64;
        each
    })
}

fn request(client: u16) -> Request<Body> {
    let [high, low] = client.to_be_bytes();
    let mut request = Request::new(Body::empty());
    let peer = SocketAddr::from(([10, 0, high, low], 4_711));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// The handler has nothing to wait for. Inlined for every contender alike.
#[inline(always)]
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
