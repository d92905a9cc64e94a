//! A gate that delays: requests leave at the rate of the quota, in the order in which they came.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::time::Duration;

use common::{from, keyed, served, text};
use http::StatusCode;
use tokio::time::Instant;
use tollgate::ManualClock;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::ServiceExt;

/// 2 a second, one at once, up to a second of waiting.
fn layer(clock: &ManualClock) -> RateLimitLayer {
    let limit = keyed("gcra 2/s burst 2", clock);
    let gate = Gate::new(limit, ClientAddress::peer());
    RateLimitLayer::of(gate.delay(Duration::from_secs(1), tokio::time::sleep))
}

const PEER: &str = "203.0.113.7";

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_and_no_longer_than_was_said() {
    let clock = ManualClock::new();
    let service = served(&layer(&clock));
    let start = Instant::now();
    let mut left_after = Vec::new();
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(service.clone().oneshot(from(PEER)))).collect();
    for call in calls {
        let answer = call.await.unwrap().unwrap();
        left_after.push((answer.status().as_u16(), start.elapsed().as_millis()));
        let told = text(answer.headers(), "ratelimit").unwrap();
        assert!(told.starts_with("\"default\";r="), "{told}");
    }
    // The fifth would wait 1.5 s: it is denied at once, though the test looks at it last.
    assert_eq!(left_after, [(200, 0), (200, 0), (200, 500), (200, 1_000), (429, 1_000)]);
}

/// When each of six requests that come at once is answered, and how; of a client whose gate waits up to `max_wait`.
async fn six_at_once(policy: &str, max_wait: Duration) -> Vec<(u16, u128)> {
    let gate = Gate::new(keyed(policy, &ManualClock::new()), ClientAddress::peer());
    let service = served(&RateLimitLayer::of(gate.delay(max_wait, tokio::time::sleep)));
    let start = Instant::now();
    let call = |_| {
        let answer = service.clone().oneshot(from(PEER));
        tokio::spawn(async move {
            (answer.await.unwrap().status().as_u16(), start.elapsed().as_millis())
        })
    };
    let calls: Vec<_> = (0..6).map(call).collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn the_policys_queue_has_room_for_all_whose_turn_comes_in_time() {
    let served = [(200, 0), (200, 200), (200, 400)];
    let [in_time, denied] = [&served[..], &[(429, 0); 3]];
    let expected = [in_time, denied].concat();
    let short = Duration::from_millis(450);
    for (policy, max_wait) in [
        ("5/s burst 1 wait 450ms", short),
        ("5/s burst 1 wait 450ms", Duration::MAX),
        ("5/s burst 1 queue 50", short),
        ("5/s burst 1 queue 2", Duration::MAX),
    ] {
        assert_eq!(six_at_once(policy, max_wait).await, expected, "{policy}");
    }
    // Without a queue a key's word has room for twice its burst, and no more.
    let short_queue = six_at_once("5/s burst 1", short).await;
    assert_eq!(short_queue[..3], [(200, 0), (200, 200), (429, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_gives_its_place_back() {
    let clock = ManualClock::new();
    let service = served(&layer(&clock));
    for _ in 0..2 {
        assert_eq!(service.clone().oneshot(from(PEER)).await.unwrap().status(), StatusCode::OK);
    }
    for _ in 0..10 {
        let gives_up = service.clone().oneshot(from(PEER));
        let waited = tokio::time::timeout(Duration::from_millis(10), gives_up).await;
        assert!(waited.is_err(), "its turn comes in half a second");
    }
    // No request is queued before this one.
    let start = Instant::now();
    assert_eq!(service.clone().oneshot(from(PEER)).await.unwrap().status(), StatusCode::OK);
    assert_eq!(start.elapsed(), Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn a_window_has_no_queue_and_denies() {
    let clock = ManualClock::new();
    let gate = Gate::new(keyed("fixed-window 1/s", &clock), ClientAddress::peer());
    let layer = RateLimitLayer::of(gate.delay(Duration::from_secs(9), tokio::time::sleep));
    let service = served(&layer);
    let statuses = [1, 2].map(|_| service.clone().oneshot(from(PEER)));
    let mut seen = Vec::new();
    for status in statuses {
        seen.push(status.await.unwrap().status().as_u16());
    }
    assert_eq!(seen, [200, 429]);
}
