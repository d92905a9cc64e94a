//! A client that obeys `Retry-After` to the second is admitted, under any policies, any load before, and any jitter.

use std::time::{Duration, SystemTime};

use crate::common::{ask, gate, policy, served};
use http::Request;
use proptest::prelude::*;
use tollgate::{KeyedLimiter, ManualClock};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::gates::Cost;
use tollgate_tower::headers::{Advice, HeaderStyle};
use tollgate_tower::keys::PeerAddress;

/// One request, with its client, its cost, and the time since the previous request.
#[derive(Clone, Debug)]
struct Load {
    client: u8,
    cost: u64,
    after_ms: u64,
}

fn loads() -> impl Strategy<Value = Vec<Load>> {
    let load = (0_u8..4, 1_u64..12, prop_oneof![Just(0), 1_u64..50, 0_u64..20_000])
        .prop_map(|(client, cost, after_ms)| Load { client, cost, after_ms });
    prop::collection::vec(load, 1..60)
}

fn policies() -> impl Strategy<Value = Vec<String>> {
    let window = prop_oneof![Just("10ms"), Just("900ms"), Just("1s"), Just("7s"), Just("m")];
    let policy =
        (0..6, 1_u64..40, window, 1_u64..30).prop_map(|(kind, count, window, burst)| match kind {
            0 => format!("gcra {count}/{window} burst {burst}"),
            1 => format!("fixed-window {count}/{window}"),
            2 => format!("fixed-window {count}/{window} from-first"),
            3 => format!("sliding-window {count}/{window} exact"),
            4 => format!("segmented-window {count}/{window} x2"),
            _ => format!("gcra {count}/{window}"),
        });
    prop::collection::vec(policy, 1..4)
}

fn request(load: &Load) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(PeerAddress([203, 0, 113, load.client].into()));
    request.extensions_mut().insert(load.cost);
    request
}

/// Sends requests, and retries each denied one `early` seconds before the stated time. Returns the number of denied
/// requests and the number of denied retries.
fn obey(policies: &[String], jitter: u64, loads: &[Load], early: u64) -> (u32, u32) {
    let clock = ManualClock::new();
    let gates = policies.iter().enumerate().filter_map(|(index, text)| {
        let limit = KeyedLimiter::builder(policy(text)).clock(clock.clone()).build(100).ok()?;
        let cost = Cost::from_fn(|head| *head.extensions.get::<u64>().unwrap());
        Some(gate(&index.to_string(), limit).cost(cost))
    });
    let Ok(layer) = RateLimitLayer::all(gates) else {
        return (0, 0); // none of the policies fits in a keyed word
    };
    let layer = layer.jitter(Duration::from_secs(jitter));
    let mut service = served(&layer.headers([HeaderStyle::Draft10, HeaderStyle::Draft6]));
    let (mut denied, mut denied_again) = (0, 0);
    for load in loads {
        clock.advance(Duration::from_millis(load.after_ms));
        let answer = ask(&mut service, request(load));
        let advice = Advice::read(answer.headers(), SystemTime::now());
        if answer.status() == 200 {
            assert_eq!(advice.retry_after, None);
            continue;
        }
        let Some(wait) = advice.retry_after else {
            continue; // such a cost never fits
        };
        assert!(wait >= Duration::from_secs(1));
        assert_eq!(advice.limits[0].reset, Some(wait), "the fields agree");
        denied += 1;
        clock.advance(wait.saturating_sub(Duration::from_secs(early)));
        denied_again += u32::from(ask(&mut service, request(load)).status() != 200);
    }
    (denied, denied_again)
}

proptest! {
    #[test]
    fn an_obedient_client_is_admitted(policies in policies(), jitter in 0_u64..3, loads in loads()) {
        let (_, denied_again) = obey(&policies, jitter, &loads, 0);
        prop_assert_eq!(denied_again, 0);
    }
}

#[test]
fn a_client_that_comes_a_second_early_is_caught() {
    // This is the control: if every retry were admitted, however early, the property would prove nothing.
    let loads: Vec<Load> = (0..40).map(|n| Load { client: n % 2, cost: 5, after_ms: 10 }).collect();
    let (denied, denied_again) = obey(&["gcra 10/m burst 10".to_owned()], 0, &loads, 1);
    assert!(denied > 10 && denied_again == denied, "{denied_again} of {denied}");
    assert_eq!(obey(&["gcra 10/m burst 10".to_owned()], 0, &loads, 0).1, 0);
}
