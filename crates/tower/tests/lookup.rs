//! A key that is looked up before the limit is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Never, inner, is_ready, keyed, with};
use http::{Request, StatusCode};
use tollgate::{KeyedLimiter, ManualClock};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::keys::{Key, LookupLayer, NoKey, from_fn};
use tower::{Layer, ServiceExt};

#[derive(Clone)]
struct Account(u64);

/// Finds an account a second after the question, and counts the questions.
fn lookup(asked: &Arc<AtomicU32>) -> LookupLayer<Account> {
    let asked = Arc::clone(asked);
    LookupLayer::new(move |head| {
        asked.fetch_add(1, Ordering::Relaxed);
        let api_key = head.headers.get("x-api-key").map(|value| value.as_bytes().to_vec());
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match api_key?.as_slice() {
                b"one" | b"another of one" => Some(Account(1)),
                b"two" => Some(Account(2)),
                _ => None,
            }
        }
    })
}

fn by_account() -> impl tollgate_tower::keys::Extract {
    from_fn(|head, key| {
        let Account(id) = head.extensions.get().ok_or(NoKey::Missing)?;
        key.push(&id.to_be_bytes());
        Ok(())
    })
}

fn limited() -> (RateLimitLayer, Arc<KeyedLimiter<Key>>) {
    let limit = Arc::new(keyed("2/h", &ManualClock::new()));
    (RateLimitLayer::new(Arc::clone(&limit), by_account()), limit)
}

fn of(api_key: &str) -> Request<()> {
    with("203.0.113.7", &[("x-api-key", api_key)])
}

#[tokio::test(start_paused = true)]
async fn keys_of_one_account_share_its_limit() {
    let asked = Arc::default();
    let (limit, _) = limited();
    let service = lookup(&asked).layer(limit.layer(inner()));
    let mut told = Vec::new();
    for api_key in ["one", "another of one", "one", "two", "nobody's", "nobody's", "none"] {
        let answer = service.clone().oneshot(of(api_key)).await.unwrap();
        told.push(answer.status().as_u16());
    }
    // Requests without an account share one limit.
    assert_eq!(told, [200, 200, 429, 200, 200, 200, 429]);
    assert_eq!(asked.load(Ordering::Relaxed), 7);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_during_the_lookup_is_charged_nothing() {
    let asked = Arc::default();
    let (layer, limit) = limited();
    let service = lookup(&asked).layer(layer.layer(inner()));
    let call = service.clone().oneshot(of("one"));
    let waited = tokio::time::timeout(Duration::from_millis(999), call).await;
    assert!(waited.is_err());
    let mut key = Key::new();
    key.push(&1_u64.to_be_bytes());
    assert_eq!(limit.entry(&key).peek(1).remaining(), 2);
    assert_eq!(service.oneshot(of("one")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(limit.entry(&key).peek(1).remaining(), 1);
}

#[test]
fn it_is_ready_when_the_inner_service_is() {
    let layer = lookup(&Arc::default());
    assert!(is_ready(&mut layer.layer(inner())));
    assert!(!is_ready(&mut layer.layer(Never)));
}
