//! Tests how hits near and over a limit of this process are counted in the metrics with the names of
//! envoyproxy/ratelimit.

use tollgate_rules::RuleSettings;
use tollgate_service::{MetricsNames, Options};

use crate::common::near_over::{RULES, hold};
use crate::common::serve_with;

#[tokio::test]
async fn the_metrics_of_envoyproxy_ratelimit_split_the_hits_of_a_request() {
    for compat in [false, true] {
        let test = format!("near_over_{compat}");
        let world = serve_with(&test, RULES, |options| Options {
            metrics_names: MetricsNames::Envoyproxy,
            settings: RuleSettings { compat, ..RuleSettings::default() },
            ..options
        });
        hold(&world.await).await;
    }
}
