//! Tests rules with settings for requests at the limit, kept in Redis: two services decide like a single service.

use crate::server::Server;
use serde_json::{Value, json};

/// The windows are so long that no unit comes back while a test runs.
const RULES: &str = "
domain: shop
descriptors:
  - {key: exact, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: counted, accuracy: async, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: rejected, accuracy: exact, rate_limit: {unit: day, requests_per_unit: 4, algorithm: gcra, count_rejected: true}}
  - {key: strict, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 4, penalty: 800d after 3}}
  - {key: logged, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 5, algorithm: sliding-log}}
";

#[tokio::test]
async fn two_services_decide_at_the_limit_as_one() {
    let server = Server::start();
    let global = crate::one_of_two(server.address());
    let worlds = crate::serve_two("at_limit", RULES, global, |options| options).await;
    let ask = async |n: usize, rule: &str| {
        let (allowed, statuses) = worlds[n % 2].check("shop", &json!([{rule: "x"}]), 1).await;
        (allowed, statuses[0].clone())
    };
    let seconds = |status: &Value| status["retry_after"].as_u64().unwrap_or_default();
    // A soft rule admits its share more.
    for rule in ["exact", "leased", "counted"] {
        let mut admitted = 0;
        for _ in 0..20 {
            admitted += u64::from(ask(0, rule).await.0);
        }
        assert_eq!(admitted, 15, "{rule}");
    }
    // The units that the first service has admitted are also spent at the second.
    assert!(!ask(1, "exact").await.0);
    for rule in ["rejected", "strict"] {
        for n in 0..4 {
            assert!(ask(n, rule).await.0, "{rule}");
        }
    }
    // Each denial is charged like an admission. So the wait grows, at most to the time in which the whole limit comes
    // back.
    for (n, hours) in [12, 18, 24, 24, 24].into_iter().enumerate() {
        let (allowed, status) = ask(n, "rejected").await;
        assert_eq!((allowed, seconds(&status).div_ceil(3_600)), (false, hours), "denial {n}");
    }
    // The third denial in a row brings a penalty, whichever service denies.
    for (n, has_penalty) in [false, false, true].into_iter().enumerate() {
        let (allowed, status) = ask(n, "strict").await;
        assert_eq!((allowed, seconds(&status) > 799 * 86_400), (false, has_penalty), "denial {n}");
    }
    // The services share one log.
    for n in 0..12 {
        let (allowed, status) = ask(n, "logged").await;
        let expected = (n < 5, json!(4_usize.saturating_sub(n)));
        assert_eq!((allowed, status["remaining"].clone()), expected, "request {n}");
    }
    // If a request falls under two rules of different kinds, either both are charged or none.
    let both = json!([{"logged": "y"}, {"strict": "y"}]);
    assert!(worlds[0].check("shop", &both, 3).await.0);
    assert!(!worlds[1].check("shop", &both, 2).await.0);
    assert!(worlds[1].check("shop", &json!([{"logged": "y"}]), 2).await.0);
}
