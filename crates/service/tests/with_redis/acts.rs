//! Tests places, charges and refunds of limits in Redis: two services give out places in one queue, and take them back.

use crate::common::{World, descriptor, request};
use crate::server::Server;
use serde_json::{Value, json};
use tollgate_rules::RuleSettings;
use tollgate_service::Options;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::rate_limit_response::Code;

/// A unit takes hours or longer to come back, so none comes back while a test runs.
const RULES: &str = "
domain: shop
descriptors:
  - key: queue
    accuracy: exact
    rate_limit: {unit: day, requests_per_unit: 1, algorithm: gcra, burst: 1, queue: 2}
  - {key: bucket, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 10, algorithm: gcra, burst: 10}}
  - {key: fixed, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: trial, accuracy: exact, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 10, algorithm: gcra, burst: 10}}
  - {key: one, accuracy: exact, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: tokens, accuracy: exact, usage: true, rate_limit: {unit: year, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
  - {key: lent, usage: true, rate_limit: {unit: year, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
  - {key: window, accuracy: exact, usage: true, rate_limit: {unit: year, requests_per_unit: 1000}}
  - {key: lent_window, usage: true, rate_limit: {unit: year, requests_per_unit: 1000}}
  - {key: used_trial, usage: true, accuracy: exact, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1000, algorithm: gcra, burst: 1000}}
  - {key: two, accuracy: exact, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
";

const DAY_MS: u64 = 86_400_000;

fn options(compat: bool) -> impl Fn(Options) -> Options {
    move |options| {
        let settings = RuleSettings { compat, ..RuleSettings::default() };
        Options { settings, ..options }
    }
}

async fn serve(test: &str, server: &Server, compat: bool) -> World {
    crate::serve_connected(test, RULES, crate::one_of_two(server.address()), options(compat)).await
}

async fn serve_two(test: &str, server: &Server, compat: bool) -> [World; 2] {
    crate::serve_two(test, RULES, crate::one_of_two(server.address()), options(compat)).await
}

/// The body of a request from one client, with a descriptor for each key.
fn of(keys: &[&str], cost: u64) -> Value {
    let descriptors: Vec<Value> = keys.iter().map(|key| json!({*key: "alice"})).collect();
    json!({"domain": "shop", "descriptors": descriptors, "cost": cost})
}

/// The wait of a place in days.
fn days(told: &Value) -> u64 {
    told["wait_ms"].as_u64().unwrap_or_default().div_ceil(DAY_MS)
}

#[tokio::test]
async fn places_of_two_services_are_in_one_order_and_the_last_can_be_given_back() {
    let server = Server::start();
    let worlds = serve_two("places", &server, false).await;
    let mut tokens = Vec::new();
    for n in 0..3 {
        let (status, mut told) = worlds[n % 2].post("/v1/reserve", of(&["queue"], 1)).await;
        assert_eq!((status, days(&told)), (200, n as u64), "{told}");
        tokens.push(told["token"].take());
    }
    let (status, denied) = worlds[1].post("/v1/reserve", of(&["queue"], 1)).await;
    assert_eq!((status, &denied["token"]), (429, &Value::Null));
    // The place before the last cannot be cancelled, because another place is behind it. A token is known only to the
    // service that gave it.
    let cancel = async |n: usize, token: usize| {
        worlds[n].post("/v1/cancel", json!({"token": tokens[token]})).await
    };
    assert_eq!(cancel(0, 1).await.0, 404);
    assert_eq!(cancel(1, 1).await, (200, json!({"cancelled": false})));
    assert_eq!(cancel(0, 2).await, (200, json!({"cancelled": true})));
    // A peek returns the wait and takes no place. Envoy cannot wait, so it is denied. A check takes the place.
    let (_, told) = worlds[0].http("GET", "/v1/peek?domain=shop&queue=alice", "").await;
    assert_eq!(days(&serde_json::from_str(&told).expect("JSON")), 2, "{told}");
    let body = json!({"domain": "shop", "descriptors": [{"entries": [{"key": "queue", "value": "alice"}]}]});
    assert_eq!(worlds[0].post("/json", body).await.0, 429);
    assert_eq!(days(&worlds[1].post("/v1/check", of(&["queue"], 1)).await.1), 2);
    assert_eq!(worlds[0].post("/v1/check", of(&["queue"], 1)).await.0, 429);
}

#[tokio::test]
async fn under_several_limits_all_give_a_place_or_none() {
    let server = Server::start();
    let world = serve("places_all", &server, false).await;
    assert_eq!(world.post("/v1/reserve", of(&["bucket", "fixed", "trial"], 6)).await.0, 200);
    assert_eq!(
        [world.left("shop", "bucket", "alice").await, world.left("shop", "fixed", "alice").await],
        [4, 4]
    );
    assert_eq!(world.post("/v1/charge", of(&["fixed"], 2)).await.0, 200);
    // The second limit has no room, so the place in the first limit is given back.
    let (status, told) = world.post("/v1/reserve", of(&["bucket", "fixed"], 3)).await;
    assert_eq!(status, 429);
    let allowed = [&told["statuses"][0]["allowed"], &told["statuses"][1]["allowed"]];
    assert_eq!(allowed, [&json!(true), &json!(false)], "{told}");
    assert_eq!(
        [world.left("shop", "bucket", "alice").await, world.left("shop", "fixed", "alice").await],
        [4, 2]
    );
    // If several rules in quota mode match, it is enough that one of them has room.
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(world.post("/v1/reserve", of(&["one", "two"], 1)).await.0);
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(world.left("shop", "trial", "alice").await, 1);
}

#[tokio::test]
async fn what_was_not_used_is_refunded_once_in_each_mode() {
    let server = Server::start();
    let world = serve("refunds", &server, false).await;
    for key in ["fixed", "bucket", "leased"] {
        let (_, told) = world.post("/v1/reserve", of(&[key], 8)).await;
        let asked = || json!({"token": told["token"], "units": 5});
        assert_eq!(world.post("/v1/refund", asked()).await, (200, json!({"refunded": 5})), "{key}");
        assert_eq!(world.post("/v1/refund", asked()).await.0, 404);
        assert_eq!(world.left("shop", key, "alice").await, 7, "{key}");
    }
}

#[tokio::test]
async fn a_charge_need_not_fit_and_both_services_deny_then() {
    let server = Server::start();
    let worlds = serve_two("charges", &server, false).await;
    let (status, told) = worlds[0].post("/v1/charge", of(&["bucket", "fixed"], 12)).await;
    assert_eq!((status, &told["allowed"]), (200, &json!(true)));
    // The bucket goes into debt. The window is charged only as much as fits.
    let uncharged = |n: usize| &told["statuses"][n]["uncharged"];
    assert_eq!([uncharged(0), uncharged(1)], [&Value::Null, &json!(2)], "{told}");
    for key in ["bucket", "fixed"] {
        assert_eq!(worlds[1].post("/v1/check", of(&[key], 1)).await.0, 429, "{key}");
    }
    // Two units of debt and the next unit come back in three tenths of a year.
    let wait = told["statuses"][0]["retry_after"].as_u64().expect("a wait");
    assert_eq!(wait.div_ceil(365 * 86_400 / 10), 3, "{told}");
}

#[tokio::test]
async fn with_compat_each_descriptor_is_decided_by_itself_and_a_denial_uses_up_what_was_left() {
    let server = Server::start();
    let worlds = serve_two("compat", &server, true).await;
    let (status, told) = worlds[0].post("/v1/check", of(&["fixed", "bucket"], 6)).await;
    assert_eq!((status, &told["statuses"][0]["remaining"]), (200, &json!(4)));
    let mut both = of(&["fixed"], 6);
    both["descriptors"] = json!([{"fixed": "alice"}, {"fixed": "bob"}]);
    let (status, told) = worlds[1].post("/v1/check", both).await;
    assert_eq!(status, 429);
    // The first descriptor does not fit, and what was left is used up. The second fits and is charged.
    let remaining = |n: usize| &told["statuses"][n]["remaining"];
    assert_eq!([remaining(0), remaining(1)], [&json!(0), &json!(4)], "{told}");
    assert_eq!(worlds[0].post("/v1/check", of(&["fixed"], 1)).await.0, 429);
    // A denial does not use up the units of a rule of a kind that envoyproxy/ratelimit does not have: the bucket keeps
    // 4 of 10.
    assert_eq!(worlds[1].post("/v1/check", of(&["bucket"], 6)).await.0, 429);
    assert_eq!(worlds[1].post("/v1/check", of(&["bucket"], 4)).await.0, 200);
}

#[tokio::test]
async fn what_one_service_charges_afterwards_both_answer_over_limit_to() {
    for compat in [false, true] {
        let server = Server::start();
        let worlds = serve_two("usage", &server, compat).await;
        // First the test asks through Envoy's protocol, and then through `/v1/check`.
        let envoy = async |n: usize, key: &str, hits: u64| {
            let own = descriptor(&[(key, "alice")]);
            let asked = RateLimitDescriptor { hits_addend: Some(hits), ..own };
            worlds[n % 2].ask(request("shop", &[asked])).await.overall_code()
        };
        for key in ["tokens", "lent", "window", "lent_window"] {
            let mut answers = Vec::new();
            for n in 0..6 {
                answers.push(envoy(n, key, 0).await);
                if answers.last() == Some(&Code::Ok) {
                    assert_eq!(envoy(n + 1, key, 300).await, Code::Ok, "{key}");
                }
            }
            let expected = [[Code::Ok; 4].as_slice(), &[Code::OverLimit; 2]].concat();
            assert_eq!(answers, expected, "{key} {compat}");
            // When nothing is left, usage is answered with a denial, but still charged.
            assert_eq!(envoy(0, key, 5).await, Code::OverLimit, "{key}");
        }
        let (status, told) = worlds[1].post("/v1/check", of(&["tokens", "fixed"], 1)).await;
        assert_eq!(status, 429);
        // The other descriptor is charged only if each descriptor is decided by itself.
        let expected = if compat { 9 } else { 10 };
        assert_eq!(told["statuses"][1]["remaining"], expected, "{told}");
        // The client has used 1,206 units of 1,000 a year, and asks for one more. So it waits for 207 thousandths of a
        // year.
        let wait = told["statuses"][0]["retry_after"].as_u64().expect("a wait");
        assert_eq!(wait.div_ceil(365 * 86_400 / 1_000), 207, "{told}");
    }
}

#[tokio::test]
async fn over_redis_what_was_used_is_charged_in_full_and_comes_back_as_far_as_it_is() {
    for compat in [false, true] {
        let server = Server::start();
        let world = serve("usage_comes_back", &server, compat).await;
        let ask_all = async |key: &str, asked: &[(u64, bool)]| {
            let of = |(hits, is_negative_hits): &(u64, bool)| RateLimitDescriptor {
                hits_addend: Some(*hits),
                is_negative_hits: *is_negative_hits,
                ..descriptor(&[(key, "alice")])
            };
            let asked: Vec<RateLimitDescriptor> = asked.iter().map(of).collect();
            let response = world.ask(request("shop", &asked)).await;
            let left = response.statuses.iter().map(|status| status.limit_remaining);
            (response.overall_code(), left.collect::<Vec<u32>>())
        };
        // A rule in shadow mode counts in the same way, and denies nothing.
        for (key, over) in [("tokens", Code::OverLimit), ("used_trial", Code::Ok)] {
            for (hits, is_negative, told) in [
                (0, false, (Code::Ok, 1_000)),
                (300, false, (Code::Ok, 700)),
                (900, false, (Code::Ok, 0)),
                (0, false, (over, 0)),
                // The client is 200 units in debt.
                (100, true, (Code::Ok, 0)),
                (0, false, (over, 0)),
                (150, true, (Code::Ok, 50)),
                (5_000, true, (Code::Ok, 1_000)),
            ] {
                let (code, left) = ask_all(key, &[(hits, is_negative)]).await;
                assert_eq!((code, left[0]), told, "{key} {hits} {compat}");
            }
        }
        // A window cannot go into debt.
        assert_eq!(ask_all("lent_window", &[(1_200, false)]).await, (Code::Ok, vec![0]));
        assert_eq!(ask_all("lent_window", &[(50, true)]).await, (Code::Ok, vec![50]));
        // A request gives units back before it is charged. The statuses are in the order of the request. Each status
        // has the units that were left when its descriptor was decided.
        assert_eq!(ask_all("fixed", &[(10, false)]).await, (Code::Ok, vec![0]));
        let both = ask_all("fixed", &[(1, false), (5, true)]).await;
        assert_eq!(both, (Code::Ok, vec![4, 5]), "{compat}");
    }
}
