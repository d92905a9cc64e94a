//! Tests the number of clients that fit into `--table-bytes` if limits are kept in Redis. Besides its cell, each client
//! takes 80 bytes in this process, for its share of the limit and for its entry among the holders of units. These tests
//! need no Redis that answers.

use tollgate_rules::{Problem, RuleError, RuleSettings};
use tollgate_service::{Global, Options};

/// The bytes in this process, besides the cell, for each client of each limit that is kept in Redis.
const ELSEWHERE: u64 = 80;

const ONE: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 5}}
";

/// Three limits: two limits of a rule that is `exact`, and one of a rule that is `async`.
const THREE: &str = "
domain: shop
descriptors:
  - {key: user, accuracy: exact, limits: [{unit: day, requests_per_unit: 5}, {unit: minute, requests_per_unit: 2}]}
  - {key: path, accuracy: async, rate_limit: {unit: day, requests_per_unit: 5, algorithm: gcra}}
";

/// Loads rules for this many clients, with at most `most` bytes for all tables; returns the errors if they are refused.
async fn load(rules: &str, clients: usize, most: u64, in_redis: bool) -> Vec<RuleError> {
    let settings = RuleSettings {
        default_capacity: Some(clients),
        max_table_bytes: most,
        ..RuleSettings::default()
    };
    let global = in_redis.then(|| Global::new("redis://127.0.0.1:1/"));
    let test = format!("table_bytes_{}_{clients}_{most}_{in_redis}", rules.len());
    let with = |options| Options { settings, global, ..options };
    crate::common::serve_with(&test, rules, with).await.reloaded().await
}

/// The bytes that this many clients need, according to the errors that come with fewer bytes.
async fn needed(rules: &str, clients: usize, in_redis: bool) -> u64 {
    let (mut most, mut needed) = (0, 0);
    // The error names only the first limit that does not fit, so the bytes are raised for one limit after the other.
    while let [error] = &load(rules, clients, most, in_redis).await[..] {
        let Problem::TooMuchMemory { bytes, most: found, .. } = error.problem else {
            panic!("{error}");
        };
        assert_eq!(found, most);
        (most, needed) = (bytes, bytes);
    }
    needed
}

#[tokio::test]
async fn a_limit_in_redis_takes_80_bytes_more_for_each_client() {
    for (rules, limits) in [(ONE, 1), (THREE, 3)] {
        for clients in [1, 1_000, 12_345] {
            let here = needed(rules, clients, false).await;
            let there = needed(rules, clients, true).await;
            assert_eq!(there - here, limits * ELSEWHERE * clients as u64, "{clients}");
        }
    }
}

#[tokio::test]
async fn as_many_clients_fit_as_their_bytes_and_not_one_more() {
    for rules in [ONE, THREE] {
        let most = needed(rules, 1_000, true).await;
        assert_eq!(load(rules, 1_000, most, true).await, []);
        let refused = load(rules, 1_001, most, true).await;
        assert!(matches!(refused[0].problem, Problem::TooMuchMemory { .. }), "{refused:?}");
        // Without Redis one client more fits, because there are no shares.
        assert_eq!(load(rules, 1_001, most, false).await, []);
        let refused = load(rules, 1_000, most - 1, true).await;
        let [error] = &refused[..] else { panic!("{refused:?}") };
        let Problem::TooMuchMemory { bytes, most: found, fitting: Some(fitting) } = error.problem
        else {
            panic!("{error}");
        };
        assert_eq!((bytes, found), (most, most - 1));
        assert!((900..1_000).contains(&fitting), "{fitting}");
        if rules == ONE {
            let expected = format!(
                "/basic.yaml:4:29: with this rule the tables need {bytes} bytes and {found} are allowed \
                 (--table-bytes of serve and check); all fit with --capacity "
            );
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}
