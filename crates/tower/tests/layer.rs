//! Tests of a layer: its services share one state, all gates are charged or none, and denials say when to return.

use std::time::Duration;

use crate::common::{
    Never, ask, from, gate, inner, is_ready, keyed, named, one, served, status, statuses, telling,
    text, with,
};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use tollgate::{ManualClock, Quota};
use tollgate_tower::gates::{Cost, Shadowed};
use tollgate_tower::headers::HeaderStyle;
use tollgate_tower::keys::{Everyone, NoKey, from_fn};
use tollgate_tower::services::LayerError;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::Layer;

const QUOTA_IS_SPENT: &str = "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\
     \"title\":\"The quota of this client is spent\",\"status\":429,\
     \"violated-policies\":[\"default\"]}";

#[test]
fn a_client_is_told_where_it_stands_until_it_is_denied_and_when_to_return() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(keyed("60/m burst 2", &clock), ClientAddress::peer());
    let mut service = served(&layer);
    for (left, reset) in [(1, 1), (0, 2)] {
        let answer = ask(&mut service, from("203.0.113.7"));
        assert_eq!(answer.status(), StatusCode::OK);
        let expected = format!("\"default\";r={left};t={reset}");
        assert_eq!(text(answer.headers(), "ratelimit"), Some(&*expected));
        assert_eq!(text(answer.headers(), "ratelimit-policy"), Some("\"default\";q=2;w=2"));
        assert_eq!(text(answer.headers(), "retry-after"), None);
        assert_eq!(answer.body(), "hello");
    }
    let denied = ask(&mut service, from("203.0.113.7"));
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(text(denied.headers(), "retry-after"), Some("1"));
    assert_eq!(text(denied.headers(), "ratelimit"), Some("\"default\";r=0;t=1"));
    assert_eq!(text(denied.headers(), "content-type"), Some("application/problem+json"));
    assert_eq!(text(denied.headers(), "cache-control"), Some("no-store"));
    assert_eq!(denied.body(), QUOTA_IS_SPENT);
    assert_eq!(status(&mut service, from("203.0.113.8")), 200);
    clock.advance(Duration::from_secs(1));
    assert_eq!(statuses(&mut service, "203.0.113.7", 2), [200, 429]);
}

#[test]
fn a_client_under_a_penalty_is_told_so_until_it_ends() {
    let clock = ManualClock::new();
    let limit = keyed("60/m burst 1 penalty 10m after 2", &clock);
    let mut service = served(&RateLimitLayer::new(limit, ClientAddress::peer()));
    assert_eq!(status(&mut service, from("203.0.113.7")), 200);
    // The first denial is by the quota, the second starts the penalty, the third is under it.
    let mut answers = Vec::new();
    for _ in 0..3 {
        let denied = ask(&mut service, from("203.0.113.7"));
        assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(text(denied.headers(), "content-type"), Some("application/problem+json"));
        let wait = text(denied.headers(), "retry-after").map(str::to_owned);
        answers.push((wait.unwrap(), String::from_utf8(denied.body().to_vec()).unwrap()));
    }
    let ban = "{\"type\":\"https://iana.org/assignments/http-problem-types#abnormal-usage-detected\",\
               \"title\":\"This client went on beyond its quota and is shut out for a while\",\
               \"status\":429,\"violated-policies\":[\"default\"]}";
    let expected = [("1", QUOTA_IS_SPENT), ("600", ban), ("600", ban)];
    assert_eq!(answers, expected.map(|(wait, body)| (wait.to_owned(), body.to_owned())));
    assert_eq!(status(&mut service, from("203.0.113.8")), 200, "it is one client's");
    clock.advance(Duration::from_secs(600));
    assert_eq!(status(&mut service, from("203.0.113.7")), 200);
}

#[test]
fn a_cost_that_never_fits_is_told_no_time_to_return() {
    let clock = ManualClock::new();
    let gate = Gate::new(one("10/s", &clock), Everyone).cost(11);
    let denied = ask(&mut served(&RateLimitLayer::of(gate)), from("203.0.113.7"));
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(text(denied.headers(), "retry-after"), None);
}

#[test]
fn a_full_table_is_the_servers_fault() {
    let clock = ManualClock::new();
    let limit = tollgate::KeyedLimiter::builder(Quota::per_hour(1))
        .clock(clock)
        .when_full(tollgate::WhenFull::Deny)
        .build(1)
        .unwrap();
    let layer = RateLimitLayer::new(limit, ClientAddress::peer());
    let mut service = served(&layer);
    let denied = (0..=255)
        .map(|last| ask(&mut service, from(&format!("203.0.113.{last}"))))
        .find(|answer| answer.status() == StatusCode::SERVICE_UNAVAILABLE)
        .expect("256 clients in a table for one");
    assert!(denied.body().starts_with(
        b"{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\""
    ));
    // A cell is free when its key is certainly idle, which is after an hour and a moment.
    assert_eq!(text(denied.headers(), "retry-after"), Some("3601"));
}

#[test]
fn a_layer_can_stand_in_a_struct_and_its_clones_share_one_state() {
    struct App {
        limit: RateLimitLayer,
    }
    let clock = ManualClock::new();
    let app = App { limit: RateLimitLayer::new(one("4/h", &clock), Everyone) };
    let other = app.limit.clone();
    let (mut one, mut two) = (served(&app.limit), served(&other));
    let (mut three, mut four) = (one.clone(), app.limit.layer(*two.inner()));
    let mut ask = |which: usize| {
        let service = [&mut one, &mut two, &mut three, &mut four].into_iter().nth(which).unwrap();
        status(service, from("203.0.113.7"))
    };
    assert_eq!([0, 1, 2, 3, 0, 1, 2, 3].map(&mut ask), [200, 200, 200, 200, 429, 429, 429, 429]);
}

#[test]
fn several_gates_charge_all_or_none_and_the_tightest_is_told() {
    let clock = ManualClock::new();
    let gates = [gate("peer", keyed("2/s", &clock)), gate("auth", keyed("5/m", &clock))];
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    let told = |answer: &Response<Bytes>| text(answer.headers(), "ratelimit").unwrap().to_owned();
    let answer = ask(&mut service, from("203.0.113.7"));
    assert_eq!(
        text(answer.headers(), "ratelimit-policy"),
        Some("\"peer\";q=2;w=1, \"auth\";q=5;w=60")
    );
    assert_eq!(told(&answer), "\"peer\";r=1;t=1");
    assert_eq!(told(&ask(&mut service, from("203.0.113.7"))), "\"peer\";r=0;t=1");
    // The first gate denies. The second gate, which has 3 left, is not charged for any of these requests.
    for _ in 0..9 {
        assert_eq!(told(&ask(&mut service, from("203.0.113.7"))), "\"peer\";r=0;t=1");
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(statuses(&mut service, "203.0.113.7", 2), [200, 200]);
    clock.advance(Duration::from_secs(1));
    assert_eq!(told(&ask(&mut service, from("203.0.113.7"))), "\"auth\";r=0;t=58");
    // The second gate denies, and the first keeps its unit. The wait of the second is the longer one.
    let denied = ask(&mut service, from("203.0.113.7"));
    assert_eq!(told(&denied), "\"auth\";r=0;t=10");
    assert!(String::from_utf8_lossy(denied.body()).contains("\"violated-policies\":[\"auth\"]"));
}

#[test]
fn a_request_costs_what_its_method_its_route_or_a_function_says() {
    let cost = Cost::by_method([(Method::POST, 2), (Method::GET, 1)], 5);
    let of = |method: Method| {
        let mut request = Request::new(());
        *request.method_mut() = method;
        cost.of(&tollgate_tower::keys::Head::of(&request))
    };
    let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT];
    assert_eq!(methods.map(of), [1, 1, 2, 5]);
    let clock = ManualClock::new();
    let gate = Gate::new(one("10/h", &clock), Everyone)
        .cost(Cost::from_fn(|head| head.uri.path().len() as u64));
    let mut service = served(&RateLimitLayer::of(gate));
    let answer = ask(&mut service, Request::get("/four").body(()).unwrap());
    assert_eq!(text(answer.headers(), "ratelimit"), Some("\"default\";r=5;t=1800"));
    assert_eq!(status(&mut service, Request::get("/sixsix").body(()).unwrap()), 429);
}

#[test]
fn what_costs_nothing_is_told_where_it_stands_and_always_passes() {
    let clock = ManualClock::new();
    let cost = Cost::by_method([(Method::POST, 1)], 0);
    let layer = RateLimitLayer::of(Gate::new(one("1/h", &clock), Everyone).cost(cost));
    let mut service = served(&layer);
    let post = || Request::post("/").body(()).unwrap();
    assert_eq!([status(&mut service, post()), status(&mut service, post())], [200, 429]);
    let answer = ask(&mut service, Request::new(()));
    assert_eq!(answer.status(), 200);
    assert_eq!(text(answer.headers(), "ratelimit"), Some("\"default\";r=0;t=3600"));
}

#[test]
fn exempt_requests_pass_as_if_there_were_no_layer() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(one("1/h", &clock), Everyone)
        .exempt(|head| head.uri.path() == "/healthz")
        .exempt_peers(["10.0.0.0/8".parse().unwrap()]);
    let mut service = served(&layer);
    for _ in 0..3 {
        let answer = ask(&mut service, Request::get("/healthz").body(()).unwrap());
        assert_eq!((answer.status().as_u16(), answer.headers().len()), (200, 0));
        // The exemption also holds for the IPv4-mapped form of the address.
        assert_eq!(status(&mut service, from("10.1.2.3")), 200);
        assert_eq!(status(&mut service, from("::ffff:10.1.2.3")), 200);
    }
    assert_eq!(statuses(&mut service, "203.0.113.7", 2), [200, 429]);
}

#[test]
fn a_limit_that_is_only_tried_marks_and_lets_through() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::all([
        Gate::new(one("3/h", &clock), Everyone).named(named("real")),
        Gate::new(one("1/h", &clock), Everyone).named(named("tried")).shadow(),
    ])
    .unwrap();
    let mut service = layer.layer(telling(|request| {
        let shadowed: Option<&Shadowed> = request.extensions().get();
        shadowed.map_or(String::new(), |it| it.by[0].to_string())
    }));
    for (left, by) in [(2, ""), (1, "tried"), (0, "tried")] {
        let answer = ask(&mut service, from("203.0.113.7"));
        assert_eq!(answer.body(), by);
        let (policy, state) = ("\"real\";q=3;w=3600", format!("\"real\";r={left}"));
        assert_eq!(text(answer.headers(), "ratelimit-policy"), Some(policy));
        assert!(text(answer.headers(), "ratelimit").unwrap().starts_with(&state));
    }
    assert_eq!(ask(&mut service, from("203.0.113.7")).status(), 429);
}

#[test]
fn a_request_without_a_key_shares_one_limit_or_passes_the_gate() {
    let clock = ManualClock::new();
    let by = || from_fn(|_, _| Err(NoKey::Missing));
    let gate = Gate::new(keyed("1/h", &clock), by());
    let mut shared = served(&RateLimitLayer::of(gate));
    assert_eq!([1, 2].map(|_| status(&mut shared, Request::new(()))), [200, 429]);
    let gate = Gate::new(keyed("1/h", &clock), by()).pass_without_key();
    let mut passed = served(&RateLimitLayer::of(gate));
    assert_eq!([1, 2].map(|_| status(&mut passed, Request::new(()))), [200, 200]);
}

#[test]
fn ipv6_networks_within_networks_have_rising_limits() {
    let steps = [(64, Quota::per_hour(2)), (56, Quota::per_hour(3)), (48, Quota::per_hour(4))];
    let gates = Gate::steps(&ClientAddress::peer(), "net", &steps, 1_000).unwrap();
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    assert_eq!(statuses(&mut service, "2001:db8:0:1::1", 3), [200, 200, 429]);
    // First another /64 asks, whose /56 has one left. Then another /56 asks, whose /48 has one left.
    assert_eq!(statuses(&mut service, "2001:db8:0:2::1", 2), [200, 429]);
    assert_eq!(statuses(&mut service, "2001:db8:0:100::1", 2), [200, 429]);
    assert_eq!(statuses(&mut service, "2001:db8:1::1", 3), [200, 200, 429]);
    // Only the first gate applies to IPv4 clients.
    for last in 1..=9 {
        assert_eq!(statuses(&mut service, &format!("203.0.113.{last}"), 3), [200, 200, 429]);
    }
}

#[test]
fn gates_that_cannot_work_together_are_refused_by_name() {
    let clock = ManualClock::new();
    let gate = |name: &str| Gate::new(one("1/h", &clock), Everyone).named(named(name));
    let told = |gates: Vec<Gate>| RateLimitLayer::all(gates).unwrap_err().to_string();
    assert_eq!(told(vec![]), "a layer of no gates limits nothing; give it 1 to 8");
    let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(gate);
    assert_eq!(told(nine.into()), "9 gates on one request; use up to 8");
    assert!(told(vec![gate("a"), gate("b"), gate("a")]).starts_with("two gates are named"));
    let delaying = gate("slow").delay(Duration::from_secs(1), tokio::time::sleep);
    assert!(told(vec![gate("a"), delaying]).contains("\"slow\") delays, but is not alone"));
    let steps =
        |steps: &[(u8, Quota)]| Gate::steps(&ClientAddress::peer(), "net", steps, 100).unwrap_err();
    let quota = Quota::per_hour(9);
    assert_eq!(steps(&[(64, quota), (56, quota)]), LayerError::Steps { bits: 56 });
    assert_eq!(steps(&[(56, quota), (64, Quota::per_hour(10))]), LayerError::Steps { bits: 64 });
    assert!(matches!(steps(&[(129, quota)]), LayerError::Key(_)));
    let unnamed = Gate::steps(&ClientAddress::peer(), "\n", &[(64, quota)], 100).unwrap_err();
    assert!(matches!(unnamed, LayerError::Name(_)));
}

#[test]
fn eight_gates_work_together_and_one_that_delays_alone() {
    let clock = ManualClock::new();
    let gate = |name: &str| Gate::new(one("1/h", &clock), Everyone).named(named(name));
    let eight = ["a", "b", "c", "d", "e", "f", "g", "h"].map(gate);
    let mut service = served(&RateLimitLayer::all(eight).unwrap());
    let answer = ask(&mut service, from("203.0.113.7"));
    assert_eq!(answer.status(), StatusCode::OK);
    let quotas: Vec<_> = text(answer.headers(), "ratelimit-policy").unwrap().split(", ").collect();
    assert_eq!((quotas.len(), quotas[7]), (8, "\"h\";q=1;w=3600"));
    assert_eq!(status(&mut service, from("203.0.113.7")), 429);
    let delaying = gate("slow").delay(Duration::from_secs(1), tokio::time::sleep);
    let mut service = served(&RateLimitLayer::all([delaying]).unwrap());
    assert_eq!(statuses(&mut service, "203.0.113.7", 2), [200, 429]);
}

#[test]
fn answers_are_yours_if_you_want_and_headers_are_added() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(one("1/h", &clock), Everyone)
        .headers(HeaderStyle::XRateLimit)
        .deny_with(|denied| {
            let body = format!("{} {}", denied.policy, denied.retry_after_secs.unwrap());
            Response::builder().status(418).body(Bytes::from(body)).unwrap()
        });
    let mut service = served(&layer);
    let answer = ask(&mut service, from("203.0.113.7"));
    assert_eq!(text(answer.headers(), "x-ratelimit-limit"), Some("1"));
    let denied = ask(&mut service, from("203.0.113.7"));
    assert_eq!((denied.status().as_u16(), &**denied.body()), (418, &b"default 3600"[..]));
    assert_eq!(text(denied.headers(), "retry-after"), Some("3600"));
    assert_eq!(text(denied.headers(), "x-ratelimit-remaining"), Some("0"));
    assert_eq!(text(denied.headers(), "ratelimit"), None);
}

#[test]
fn layers_around_layers_each_have_their_say() {
    let clock = ManualClock::new();
    let outer = RateLimitLayer::new(one("9/h", &clock), Everyone);
    let narrow = Gate::new(one("1/h", &clock), Everyone).named(named("inner"));
    let mut service = outer.layer(RateLimitLayer::of(narrow).layer(inner()));
    let both = |answer: &Response<Bytes>| -> Vec<String> {
        let lines = answer.headers().get_all("ratelimit").iter();
        lines.map(|line| line.to_str().unwrap().to_owned()).collect()
    };
    let answer = ask(&mut service, from("203.0.113.7"));
    assert_eq!(both(&answer), ["\"inner\";r=0;t=3600", "\"default\";r=8;t=400"]);
    let denied = ask(&mut service, from("203.0.113.7"));
    assert_eq!(denied.status(), 429);
    assert_eq!(both(&denied), ["\"inner\";r=0;t=3600", "\"default\";r=7;t=800"]);
    assert_eq!(text(denied.headers(), "retry-after"), Some("3600"));
}

#[test]
fn headers_beside_a_denial_do_not_depend_on_what_the_client_sends() {
    let clock = ManualClock::new();
    let mut service = served(&RateLimitLayer::new(one("1/h", &clock), Everyone));
    let request = || with("203.0.113.7", &[("ratelimit", "\"x\";r=9"), ("retry-after", "9")]);
    assert_eq!(status(&mut service, request()), 200);
    assert_eq!(text(ask(&mut service, request()).headers(), "retry-after"), Some("3600"));
}

#[test]
fn a_service_is_ready_when_the_inner_one_is() {
    let clock = ManualClock::new();
    let mut service = RateLimitLayer::new(one("1/h", &clock), Everyone).layer(Never);
    assert!(!is_ready(&mut service));
}
