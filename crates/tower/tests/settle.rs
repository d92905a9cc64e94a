//! The charge of a request is corrected, by a refund or a further charge, once its real cost is known.

use std::convert::Infallible;
use std::sync::mpsc::{Sender, channel};

use crate::common::{Answer, ask, from, gate, keyed, named, one, telling, text};
use http::Request;
use tollgate::ManualClock;
use tollgate_tower::gates::Settle;
use tollgate_tower::keys::Everyone;
use tollgate_tower::{Gate, RateLimitLayer};
use tower::{Layer, Service};

/// A handler that hands over the `Settle` of each request.
fn handing_over(
    to: Sender<Settle>,
) -> impl Service<Request<()>, Response = Answer, Error = Infallible> + Clone {
    telling(move |request| {
        to.send(request.extensions().get::<Settle>().unwrap().clone()).unwrap();
        ""
    })
}

#[test]
fn what_a_request_turned_out_to_cost_is_settled_once() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::all([
        Gate::new(one("10/h", &clock), Everyone).named(named("tokens")).cost(6),
        Gate::new(one("5/h", &clock), Everyone).named(named("requests")),
    ])
    .unwrap()
    .settle_later();
    let (sender, settles) = channel();
    let mut service = layer.layer(handing_over(sender));
    assert_eq!(ask(&mut service, from("203.0.113.7")).status(), 200);
    assert_eq!(ask(&mut service, from("203.0.113.7")).status(), 429);
    let settle = settles.recv().unwrap();
    let clone = settle.clone();
    assert_eq!(settle.refund_at("tokens", 4), Some(4));
    assert_eq!(clone.refund_at("tokens", 4), Some(2));
    assert_eq!(settle.refund_at("tokens", 4), Some(0));
    assert_eq!(settle.refund_at("nobody", 4), None);
    // 10 tokens and 4 requests are left.
    assert_eq!(ask(&mut service, from("203.0.113.7")).status(), 200);
    let settle = settles.recv().unwrap();
    assert_eq!(settle.charge_at("tokens", 10).unwrap().now(), Some(0));
    let denied = ask(&mut service, from("203.0.113.7"));
    // 16 units are charged to a limit of 10, so 12 must drain, at 10 an hour, before 6 fit.
    assert_eq!(text(denied.headers(), "retry-after"), Some("4320"));
    // This refunds at both gates. The gate of requests takes one unit back. The gate of tokens is in debt and takes
    // none back, so the minimum is 0.
    assert_eq!(settle.refund(2), 0);
    assert_eq!(settle.refund_at("requests", 1), Some(0));
    assert_eq!(settle.charge(1).now(), Some(0));
}

#[test]
fn a_denied_request_has_nothing_to_settle_and_an_admitted_one_only_if_asked_for() {
    let clock = ManualClock::new();
    let handler =
        telling(
            |request| {
                if request.extensions().get::<Settle>().is_some() { "yes" } else { "no" }
            },
        );
    let layer = RateLimitLayer::new(one("1/h", &clock), Everyone);
    assert_eq!(ask(&mut layer.layer(handler), from("203.0.113.7")).body(), "no");
}

#[test]
fn of_several_gates_the_largest_part_that_was_not_charged_is_told() {
    let clock = ManualClock::new();
    let gates = [
        gate("wide", keyed("fixed-window 10/h", &clock)),
        gate("tight", keyed("fixed-window 4/h", &clock)),
        Gate::new(one("gcra 2/h", &clock), Everyone).named(named("debt")),
    ];
    let layer = RateLimitLayer::all(gates).unwrap().settle_later();
    let (sender, settles) = channel();
    assert_eq!(ask(&mut layer.layer(handing_over(sender)), from("203.0.113.7")).status(), 200);
    let settle = settles.recv().unwrap();
    // Each gate has charged 1 unit: 9 more fit into one window and 3 into the other, and the third limit takes any
    // debt.
    assert_eq!(settle.charge(8).now(), Some(5));
    assert_eq!(settle.charge_at("wide", 3).unwrap().now(), Some(2));
    assert_eq!(settle.charge_at("tight", 3).unwrap().now(), Some(3));
    assert_eq!(settle.charge_at("debt", 3).unwrap().now(), Some(0));
    assert!(settle.charge_at("another", 3).is_none());
}
