//! Tests how hits near and over a limit of this process are counted in the metrics with the names of
//! envoyproxy/ratelimit.

use tollgate_service::{MetricsNames, Options};

use crate::common::near_over::{RULES, hold};
use crate::common::serve_with;

/// `near_over.rs` of `crates/rules/tests` has the same cases with and without `compat`.
#[tokio::test]
async fn the_metrics_of_envoyproxy_ratelimit_split_the_hits_of_a_request() {
    let metrics_names = MetricsNames::Envoyproxy;
    let more = |options| Options { metrics_names, ..options };
    hold(&serve_with("near_over", RULES, more).await).await;
}
