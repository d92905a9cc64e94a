//! If there are several limits, an answer reports the one that denied, or, if none did, the one with the least left.
//! This holds in every generation of headers, in the body, and in any order of the gates.

use crate::common::{Answer, ask, from, gate, keyed, served, text};
use http::StatusCode;
use tollgate::ManualClock;
use tollgate_tower::RateLimitLayer;
use tollgate_tower::headers::{HeaderStyle, Headers};

const ALL: [HeaderStyle; 2] = [HeaderStyle::Draft6, HeaderStyle::XRateLimit];

/// A gate: its name, its policy, and what a request costs there.
type Of = (&'static str, &'static str, u64);

/// Sends this many requests to these gates, and returns the last answer.
fn last(gates: &[Of], headers: impl Into<Headers>, requests: usize) -> Answer {
    let clock = ManualClock::new();
    let of = |(name, policy, cost): &Of| gate(name, keyed(policy, &clock)).cost(*cost);
    let layer = RateLimitLayer::all(gates.iter().map(of)).unwrap().headers(headers);
    let mut service = served(&layer);
    (0..requests).map(|_| ask(&mut service, from("203.0.113.7"))).last().unwrap()
}

/// Tests the gates in this order and in reverse.
fn both_ways<const N: usize>(mut gates: [Of; N], look: impl Fn(&[Of])) {
    look(&gates);
    gates.reverse();
    look(&gates);
}

#[track_caller]
fn assert_told(answer: &Answer, limit: &str, remaining: &str, reset: &str) {
    for prefix in ["ratelimit", "x-ratelimit"] {
        let of = |name: &str| text(answer.headers(), &format!("{prefix}-{name}"));
        assert_eq!((of("limit"), of("remaining")), (Some(limit), Some(remaining)), "{prefix}");
        assert_eq!(of("reset"), Some(reset), "{prefix}");
    }
}

#[track_caller]
fn assert_violated(answer: &Answer, name: &str) {
    let body = String::from_utf8(answer.body().to_vec()).unwrap();
    assert!(body.contains(&format!("\"violated-policies\":[\"{name}\"]")), "{body}");
}

/// The gate that denies has more units left than `few`, which still has room for the request.
const DENIES: [Of; 3] =
    [("roomy", "fixed-window 9/h", 1), ("over", "gcra 8/m", 5), ("few", "gcra 2/h", 1)];

#[test]
fn a_denial_tells_of_the_gate_that_denies_and_not_of_one_with_less_left() {
    both_ways(DENIES, |gates| {
        let draft_10 = last(gates, HeaderStyle::Draft10, 2);
        assert_eq!(draft_10.status(), StatusCode::TOO_MANY_REQUESTS);
        // Two more units come back in 15 s.
        assert_eq!(text(draft_10.headers(), "ratelimit"), Some("\"over\";r=3;t=15"));
        assert_eq!(text(draft_10.headers(), "retry-after"), Some("15"));
        assert_violated(&draft_10, "over");
        let draft_07 = last(gates, HeaderStyle::Draft7, 2);
        assert_eq!(text(draft_07.headers(), "ratelimit"), Some("limit=8, remaining=3, reset=15"));
        let others = last(gates, ALL, 2);
        assert_told(&others, "8", "3", "15");
        assert_eq!(text(others.headers(), "retry-after"), Some("15"));
    });
}

#[test]
fn of_several_gates_that_deny_the_one_that_does_longest_is_told() {
    both_ways(
        [("soon", "gcra 2/m", 1), ("late", "gcra 2/h", 1), ("room", "gcra 9/m", 1)],
        |gates| {
            let draft_10 = last(gates, HeaderStyle::Draft10, 3);
            assert_eq!(text(draft_10.headers(), "ratelimit"), Some("\"late\";r=0;t=1800"));
            assert_violated(&draft_10, "late");
            let draft_07 = last(gates, HeaderStyle::Draft7, 3);
            assert_eq!(
                text(draft_07.headers(), "ratelimit"),
                Some("limit=2, remaining=0, reset=1800")
            );
            assert_told(&last(gates, ALL, 3), "2", "0", "1800");
        },
    );
}

#[test]
fn an_admission_tells_of_the_gate_with_the_least_left() {
    both_ways(
        [("wide", "gcra 9/h", 1), ("tight", "gcra 60/m burst 4", 1), ("next", "gcra 5/m", 1)],
        |gates| {
            let draft_10 = last(gates, HeaderStyle::Draft10, 1);
            assert_eq!(draft_10.status(), StatusCode::OK);
            assert_eq!(text(draft_10.headers(), "ratelimit"), Some("\"tight\";r=3;t=1"));
            let draft_07 = last(gates, HeaderStyle::Draft7, 1);
            assert_eq!(
                text(draft_07.headers(), "ratelimit"),
                Some("limit=4, remaining=3, reset=1")
            );
            assert_told(&last(gates, ALL, 1), "4", "3", "1");
        },
    );
}

/// A shadow gate is never reported, however little it has left.
#[test]
fn a_gate_that_is_only_tried_is_never_told() {
    let clock = ManualClock::new();
    let of = |name, policy| gate(name, keyed(policy, &clock));
    let gates = [of("tried", "1/h").shadow(), of("real", "5/m"), of("wide", "9/m")];
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    for left in [4, 3] {
        let answer = ask(&mut service, from("203.0.113.7"));
        let told = text(answer.headers(), "ratelimit").unwrap();
        assert!(told.starts_with(&format!("\"real\";r={left};")), "{told}");
    }
}
