//! Mistakes of clients and in configurations, by the numbers of the project's list of bad inputs (E, 73 to 89). Row 80,
//! what a client chooses within a route, is tested in `axum.rs`. Row 86, a service that is cloned for each connection,
//! is in `layer.rs`.

use std::convert::Infallible;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{ask, from, keyed, one, served, status, statuses, text, with};
use bytes::Bytes;
use http::{HeaderName, Method, Request, Response};
use tollgate::ManualClock;
use tollgate_tower::gates::PolicyName;
use tollgate_tower::keys::{Everyone, Extract, Head, Key, Methods, NormalPath};
use tollgate_tower::services::{Warning, Warnings};
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::{Layer, Service};

/// The client that a request is charged to.
fn client(by: &ClientAddress, request: &Request<()>) -> String {
    by.find(&Head::of(request)).map_or("nobody".to_owned(), |address| address.to_string())
}

fn key(by: &impl Extract, request: &Request<()>) -> Key {
    let mut key = Key::new();
    by.extract(&Head::of(request), &mut key).unwrap();
    key
}

fn proxies() -> ClientAddress {
    ClientAddress::trusting(["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()])
}

const XFF: &str = "x-forwarded-for";

#[test]
fn row_73_what_a_client_writes_at_the_left_is_ignored() {
    let forged = with("10.0.0.1", &[(XFF, "127.0.0.1, 198.51.100.9")]);
    assert_eq!(client(&ClientAddress::peer(), &forged), "10.0.0.1");
    assert_eq!(client(&ClientAddress::trusting_hops(1), &forged), "198.51.100.9");
    assert_eq!(client(&proxies(), &forged), "198.51.100.9");
    // There are two proxies. The outer one wrote the address of the client, and the inner one that of the outer one.
    let chain = with("10.0.0.1", &[(XFF, "127.0.0.1, 198.51.100.9, 10.0.0.2")]);
    assert_eq!(client(&ClientAddress::trusting_hops(2), &chain), "198.51.100.9");
    assert_eq!(client(&proxies(), &chain), "198.51.100.9");
    // The key of a client that reaches the server without the proxies is its own address.
    let direct = with("198.51.100.9", &[(XFF, "127.0.0.1")]);
    assert_eq!(client(&proxies(), &direct), "198.51.100.9");
    assert_eq!(client(&ClientAddress::trusting_hops(2), &direct), "198.51.100.9");
}

#[test]
fn row_74_several_lines_are_one_list() {
    let lines = [(XFF, "127.0.0.1"), (XFF, "198.51.100.9, 10.0.0.3"), (XFF, "10.0.0.2")];
    let request = with("10.0.0.1", &lines);
    assert_eq!(client(&ClientAddress::trusting_hops(3), &request), "198.51.100.9");
    assert_eq!(client(&proxies(), &request), "198.51.100.9");
}

#[test]
fn row_75_ten_thousand_entries_are_read_from_the_right_as_far_as_needed() {
    let list = |entry: &str, last: &str| format!("{}{last}", format!("{entry}, ").repeat(10_000));
    let request = |list: &str| with("10.0.0.1", &[(XFF, list)]);
    let hop = ClientAddress::trusting_hops(1);
    assert_eq!(client(&hop, &request(&list("127.0.0.1", "198.51.100.9"))), "198.51.100.9");
    // All addresses are trusted, so the walk ends at the leftmost one, a proxy.
    assert_eq!(client(&proxies(), &request(&list("10.0.0.7", "10.0.0.8"))), "10.0.0.7");
    // All forms of an address are in `extract/node.rs` of tollgate-http.
    for (entry, expected) in
        [("[2001:db8::17]:4711", "2001:db8::17"), ("garbage", "10.0.0.1"), ("", "10.0.0.1")]
    {
        let request = with("10.0.0.1", &[(XFF, entry)]);
        assert_eq!(client(&hop, &request), expected, "{entry}");
        assert_eq!(client(&proxies(), &request), expected, "{entry}");
    }
}

#[test]
fn row_76_headers_of_vendors_are_ignored_unless_declared_and_the_peer_is_trusted() {
    let vendors = [
        ("x-real-ip", "127.0.0.1"),
        ("true-client-ip", "127.0.0.1"),
        ("cf-connecting-ip", "198.51.100.9"),
    ];
    let request = |peer| with(peer, &vendors);
    assert_eq!(client(&proxies(), &request("10.0.0.1")), "10.0.0.1");
    assert_eq!(client(&ClientAddress::trusting_hops(1), &request("10.0.0.1")), "10.0.0.1");
    let declared = proxies().in_header(HeaderName::from_static("cf-connecting-ip"));
    assert_eq!(client(&declared, &request("10.0.0.1")), "198.51.100.9");
    assert_eq!(client(&declared, &request("203.0.113.7")), "203.0.113.7");
    // Two lines of a header that may have only one are ignored.
    let mut doubled = request("10.0.0.1");
    doubled.headers_mut().append("cf-connecting-ip", "127.0.0.1".parse().unwrap());
    assert_eq!(client(&declared, &doubled), "10.0.0.1");
}

#[test]
fn row_77_an_unknown_or_hidden_client_is_the_last_hop_that_is_neither() {
    let by = proxies().in_forwarded();
    for (value, expected) in [
        ("for=198.51.100.9", "198.51.100.9"),
        ("for=\"[2001:db8::17]:4711\";proto=https", "2001:db8::17"),
        ("for=unknown", "10.0.0.1"),
        ("for=_hidden", "10.0.0.1"),
        ("for=\"_hidden\", for=10.0.0.2", "10.0.0.2"),
        ("for=127.0.0.1, for=unknown, for=10.0.0.2", "10.0.0.2"),
        ("for=\"127.0.0.1", "10.0.0.1"),
        ("proto=https", "10.0.0.1"),
    ] {
        let request = with("10.0.0.1", &[("forwarded", value), (XFF, "127.0.0.1")]);
        assert_eq!(client(&by, &request), expected, "{value}");
    }
}

#[test]
fn row_78_no_client_is_exempt_for_what_a_header_says() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(one("1/h", &clock), Everyone)
        .exempt_peers(["127.0.0.0/8".parse().unwrap()]);
    let mut service = served(&layer);
    let forged = || {
        with(
            "203.0.113.7",
            &[(XFF, "127.0.0.1"), ("forwarded", "for=127.0.0.1"), ("x-real-ip", "127.0.0.1")],
        )
    };
    assert_eq!([1, 2].map(|_| status(&mut service, forged())), [200, 429]);
    assert_eq!(status(&mut service, from("127.0.0.1")), 200);
}

#[test]
fn row_79_all_spellings_of_a_path_are_one_key() {
    let path = |path: &str| key(&NormalPath, &Request::get(path).body(()).unwrap());
    // All spellings are in `extract/path.rs` of tollgate-http. A query is no part of a path.
    for spelling in ["/Login", "/x/../%6Cogin/", "/login?f"] {
        assert_eq!(path(spelling), path("/login"), "{spelling}");
    }
}

#[test]
fn row_81_head_is_get_and_a_header_changes_no_method() {
    let request = |method: Method| Request::builder().method(method).body(()).unwrap();
    assert_eq!(key(&Methods, &request(Method::HEAD)), key(&Methods, &request(Method::GET)));
    let mut overridden = request(Method::POST);
    overridden.headers_mut().insert("x-http-method-override", "GET".parse().unwrap());
    assert_eq!(key(&Methods, &overridden), key(&Methods, &request(Method::POST)));
    assert_ne!(key(&Methods, &overridden), key(&Methods, &request(Method::GET)));
}

#[test]
fn row_82_a_wait_of_less_than_a_second_is_told_as_one() {
    let clock = ManualClock::new();
    let mut service = served(&RateLimitLayer::new(one("1/400ms", &clock), Everyone));
    assert_eq!(status(&mut service, Request::new(())), 200);
    let denied = ask(&mut service, Request::new(()));
    assert_eq!(text(denied.headers(), "retry-after"), Some("1"));
    assert_eq!(text(denied.headers(), "ratelimit"), Some("\"default\";r=0;t=1"));
}

#[test]
fn row_83_clients_denied_together_come_back_spread_and_never_early() {
    let clock = ManualClock::new();
    let layer = |jitter| {
        RateLimitLayer::new(keyed("1/m", &clock), ClientAddress::peer())
            .jitter(Duration::from_secs(jitter))
    };
    let waits = |jitter| {
        let mut service = served(&layer(jitter));
        let wait = |n: u32| {
            let peer = std::net::Ipv4Addr::from_bits(0xcb00_7100 + n).to_string();
            assert_eq!(status(&mut service, from(&peer)), 200);
            let told = |answer: Response<Bytes>| -> u64 {
                text(answer.headers(), "retry-after").unwrap().parse().unwrap()
            };
            let first = told(ask(&mut service, from(&peer)));
            // Asking again gives no earlier time.
            assert_eq!(told(ask(&mut service, from(&peer))), first);
            first
        };
        (0..500).map(wait).collect::<Vec<_>>()
    };
    assert!(waits(0).iter().all(|&wait| wait == 60));
    let mut seen = [0; 10];
    for wait in waits(9) {
        seen[usize::try_from(wait - 60).unwrap()] += 1;
    }
    // 500 clients are spread over 10 seconds. No second is without a client (by chance it happens once in 10^22), and
    // no wait is out of bounds.
    assert!(seen.iter().all(|&clients| clients > 0), "{seen:?}");
}

#[test]
fn row_84_a_name_that_is_no_header_is_refused() {
    for name in ["a\r\nSet-Cookie: b=c", "a\0", "a\u{7f}", "caf\u{e9}", "", "\t", &"n".repeat(65)] {
        assert!(PolicyName::new(name).is_err(), "{name:?}");
    }
    let clock = ManualClock::new();
    let name = PolicyName::new("a\"b\\c, d;e=f").unwrap();
    let layer = RateLimitLayer::of(Gate::new(one("1/h", &clock), Everyone).named(name));
    let mut service = served(&layer);
    let answer = ask(&mut service, Request::new(()));
    let expected = r#""a\"b\\c, d;e=f";r=0;t=3600"#;
    assert_eq!(text(answer.headers(), "ratelimit"), Some(expected));
    let advice =
        tollgate_tower::headers::Advice::read(answer.headers(), std::time::SystemTime::now());
    assert_eq!(advice.limits[0].name.as_deref(), Some("a\"b\\c, d;e=f"));
}

#[test]
fn row_85_without_a_peer_all_share_one_limit_and_it_is_told_once() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(keyed("2/h", &clock), ClientAddress::peer());
    let mut service = served(&layer);
    assert_eq!(layer.warnings(), Warnings::NONE);
    assert_eq!([1, 2, 3].map(|_| status(&mut service, Request::new(()))), [200, 200, 429]);
    assert_eq!(layer.warnings().iter().collect::<Vec<_>>(), [Warning::NoPeerAddress]);
    // The exemption does not extend to other peers.
    assert_eq!(statuses(&mut service, "203.0.113.7", 3), [200, 200, 429]);
    // A peer without an address is in no trusted network. A count of hops does not need its address.
    let nameless = |by: &ClientAddress| {
        let mut request = Request::new(());
        request.headers_mut().insert(XFF, "198.51.100.9".parse().unwrap());
        client(by, &request)
    };
    assert_eq!(nameless(&proxies()), "nobody");
    assert_eq!(nameless(&ClientAddress::trusting_hops(1)), "198.51.100.9");
}

/// Panics if it is called without having been polled ready. Each clone has to be polled ready itself.
#[derive(Default)]
struct Strict {
    ready: AtomicBool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: AtomicBool::new(false), calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Bytes>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.ready.swap(false, Ordering::Relaxed), "called without being ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Bytes::new())))
    }
}

#[tokio::test(start_paused = true)]
async fn row_87_what_is_called_is_what_was_ready() {
    let clock = ManualClock::new();
    let gate = Gate::new(one("10/s burst 1", &clock), Everyone)
        .delay(Duration::from_secs(1), tokio::time::sleep);
    let strict = Strict::default();
    let calls = Arc::clone(&strict.calls);
    let mut service = RateLimitLayer::of(gate).layer(strict);
    let mut answers = Vec::new();
    for _ in 0..4 {
        std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
        answers.push(service.call(Request::new(())));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1); // the others wait
    for answer in answers {
        assert_eq!(answer.await.unwrap().status(), 200);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 4);
}

#[test]
fn row_87_a_denied_request_leaves_the_inner_service_ready() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(one("1/h", &clock), Everyone);
    let mut service = layer.layer(Strict::default());
    let mut cx = Context::from_waker(Waker::noop());
    let mut call = |request| {
        let _ = service.poll_ready(&mut cx);
        ask(&mut service, request).status().as_u16()
    };
    assert_eq!([1, 2, 3].map(|_| call(Request::new(()))), [200, 429, 429]);
}

#[test]
fn row_88_a_handler_that_panics_has_been_charged_and_nothing_else() {
    let clock = ManualClock::new();
    let handler = tower::service_fn(|request: Request<()>| {
        assert!(request.uri().path() != "/panic", "on request");
        ready(Ok::<_, Infallible>(Response::new(Bytes::new())))
    });
    let mut service = RateLimitLayer::new(one("3/h", &clock), Everyone).layer(handler);
    let panic = || Request::get("/panic").body(()).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| ask(&mut service, panic()))).is_err());
    let answer = ask(&mut service, Request::new(()));
    assert_eq!(text(answer.headers(), "ratelimit"), Some("\"default\";r=1;t=2400"));
}

/// A service that is ready every third time it is polled, like one that yields.
#[derive(Clone)]
struct Yields(u32);

impl Service<Request<()>> for Yields {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Bytes>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0 += 1;
        if self.0.is_multiple_of(3) {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Bytes::new())))
    }
}

#[test]
fn row_89_a_service_that_yields_before_it_is_ready_is_charged_once() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(one("3/h", &clock), Everyone);
    let mut service = layer.layer(Yields(0));
    let mut cx = Context::from_waker(Waker::noop());
    for left in (0..3).rev() {
        assert!(service.poll_ready(&mut cx).is_pending());
        assert!(service.poll_ready(&mut cx).is_pending());
        let answer = ask(&mut service, Request::new(()));
        let told = text(answer.headers(), "ratelimit").unwrap().to_owned();
        assert!(told.starts_with(&format!("\"default\";r={left};")), "{told}");
    }
}
