//! A gate that delays: requests leave at the rate of the quota. They leave in the order in which they came, if the
//! limit has places.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{from, keyed, served, text};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tokio::time::Instant;
use tollgate::{Limiter, ManualClock, Quota, Timestamp};
use tollgate_tower::keys::Everyone;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::{Layer, ServiceExt};

/// 2 requests a second, 2 at once, and a wait of up to a second. The limit's clock stands still.
fn layer() -> RateLimitLayer {
    let gate = Gate::new(keyed("gcra 2/s burst 2", &ManualClock::new()), ClientAddress::peer());
    RateLimitLayer::of(gate.delay(Duration::from_secs(1), tokio::time::sleep))
}

const PEER: &str = "203.0.113.7";

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_and_no_longer_than_was_said() {
    let service = served(&layer());
    let start = Instant::now();
    let mut left_after = Vec::new();
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(service.clone().oneshot(from(PEER)))).collect();
    for call in calls {
        let answer = call.await.unwrap().unwrap();
        left_after.push((answer.status().as_u16(), start.elapsed().as_millis()));
        let told = text(answer.headers(), "ratelimit").unwrap();
        assert!(told.starts_with("\"default\";r="), "{told}");
    }
    // The fifth request would wait 1.5 s, so it is denied at once; the test looks at its answer last.
    assert_eq!(left_after, [(200, 0), (200, 0), (200, 500), (200, 1_000), (429, 1_000)]);
}

/// A sleep with which the limit's clock advances.
fn sleep_with(
    clock: &ManualClock,
) -> impl Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + use<> {
    let (clock, start, first) = (clock.clone(), Instant::now(), clock.now());
    move |pause| {
        let clock = clock.clone();
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            clock.set(first + start.elapsed());
        })
    }
}

/// A layer whose gate waits up to `max_wait`, by sleeps with which the limit's clock advances.
fn sleeping(policy: &str, max_wait: Duration) -> RateLimitLayer {
    let clock = ManualClock::new();
    let gate = Gate::new(keyed(policy, &clock), ClientAddress::peer());
    RateLimitLayer::of(gate.delay(max_wait, sleep_with(&clock)))
}

/// The time and the status of the answers to six requests that one client sends at once, at a gate that waits up to
/// `max_wait`.
async fn six_at_once(policy: &str, max_wait: Duration) -> Vec<(u16, u128)> {
    let service = served(&sleeping(policy, max_wait));
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

/// The same answers, sorted, for limits whose requests are served in any order.
async fn six_in_any_order(policy: &str, max_wait: Duration) -> Vec<(u16, u128)> {
    let mut answers = six_at_once(policy, max_wait).await;
    answers.sort_unstable();
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
    // Without a queue in the policy a key's word has room for twice its burst. Later requests sleep and ask again,
    // repeatedly.
    let short_queue = six_in_any_order("5/s burst 1", short).await;
    assert_eq!(short_queue, [(200, 0), (200, 200), (200, 400), (429, 400), (429, 400), (429, 400)]);
    let long = six_in_any_order("5/s burst 1", Duration::from_secs(1)).await;
    assert_eq!(long, [0, 200, 400, 600, 800, 1_000].map(|at| (200, at)));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_gives_its_place_back() {
    let service = served(&layer());
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

/// A window has no place to give: requests sleep until it turns, and ask again.
#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_window_and_no_longer_than_was_said() {
    for policy in ["fixed-window 2/s", "sliding-log 2/s"] {
        let answers = six_in_any_order(policy, Duration::from_millis(2_500)).await;
        let expected = [0, 0, 1_000, 1_000, 2_000, 2_000].map(|at| (200, at));
        assert_eq!(answers, expected, "{policy}");
    }
    // Requests that do not fit into the next window are denied when they ask in it.
    let answers = six_in_any_order("fixed-window 2/s", Duration::from_millis(1_500)).await;
    assert_eq!(
        answers,
        [(200, 0), (200, 0), (200, 1_000), (200, 1_000), (429, 1_000), (429, 1_000)]
    );
    let answers = six_in_any_order("fixed-window 2/s", Duration::from_millis(999)).await;
    assert_eq!(answers, [(200, 0), (200, 0), (429, 0), (429, 0), (429, 0), (429, 0)]);
}

/// A denial or an admission after a wait reports the figures of the moment at which it was decided.
#[tokio::test(start_paused = true)]
async fn an_answer_after_a_wait_tells_what_was_decided_last() {
    let layer = sleeping("fixed-window 3/s", Duration::from_secs(1));
    let service = served(&layer.settle_later());
    let calls: Vec<_> = (0..7).map(|_| tokio::spawn(service.clone().oneshot(from(PEER)))).collect();
    let mut told = Vec::new();
    for call in calls {
        let answer = call.await.unwrap().unwrap();
        let limit = text(answer.headers(), "ratelimit").unwrap().to_owned();
        told.push((answer.status().as_u16(), limit));
    }
    told.sort_unstable();
    let left = |left: u64| (200, format!("\"default\";r={left};t=1"));
    let expected = [left(0), left(0), left(1), left(1), left(2), left(2)];
    assert_eq!(told[..6], expected);
    assert_eq!(told[6], (429, "\"default\";r=0;t=1".to_owned()));
}

/// A request that is dropped while it sleeps without a place was charged nothing, and is charged nothing later.
#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_without_a_place_owes_nothing() {
    let service = served(&sleeping("fixed-window 1/s", Duration::from_secs(9)));
    assert_eq!(service.clone().oneshot(from(PEER)).await.unwrap().status(), StatusCode::OK);
    for _ in 0..10 {
        let gives_up = service.clone().oneshot(from(PEER));
        assert!(tokio::time::timeout(Duration::from_millis(10), gives_up).await.is_err());
    }
    // The limit's clock advances only with a sleep that ends.
    let start = Instant::now();
    assert_eq!(service.clone().oneshot(from(PEER)).await.unwrap().status(), StatusCode::OK);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

/// A request that waited and was served has used its place, so it gives nothing back when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_request_that_waited_and_was_served_keeps_its_place_charged() {
    for policy in ["gcra 2/s burst 2", "sliding-log 2/1s", "fixed-window 2/s"] {
        let service = served(&sleeping(policy, Duration::from_secs(9)));
        let start = Instant::now();
        let mut served_at = Vec::new();
        for _ in 0..7 {
            let answer = service.clone().oneshot(from(PEER)).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            served_at.push(start.elapsed().as_millis());
        }
        let expected = match policy {
            "gcra 2/s burst 2" => [0, 0, 500, 1_000, 1_500, 2_000, 2_500],
            _ => [0, 0, 1_000, 1_000, 2_000, 2_000, 3_000],
        };
        assert_eq!(served_at, expected, "{policy}");
    }
}

/// The same holds while the handler still runs: the place is used from the moment at which the service is called.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_while_it_is_served_keeps_its_place_charged() {
    let clock = ManualClock::new();
    let limit = Arc::new(Limiter::builder(Quota::per_second(1)).clock(clock.clone()).build());
    let gate = Gate::new(Arc::clone(&limit), Everyone);
    let layer = RateLimitLayer::of(gate.delay(Duration::from_secs(9), sleep_with(&clock)));
    let hangs = layer.layer(tower::service_fn(|_: Request<()>| {
        std::future::pending::<Result<Response<Bytes>, Infallible>>()
    }));
    // The first request is served at once, the second after a second. Both are dropped while they are served.
    for at in [0, 1_000].map(Duration::from_millis) {
        let call = hangs.clone().oneshot(from(PEER));
        assert!(tokio::time::timeout(at, call).await.is_err());
        assert_eq!(clock.now(), Timestamp::default() + at);
        assert_eq!(limit.entry().peek(0).reset_after(), Duration::from_secs(1));
    }
}
