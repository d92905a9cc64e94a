//! Cases of requests near and over a limit, and the counts that the metrics of envoyproxy/ratelimit must show for them.

use serde_json::json;

use super::World;

pub(crate) const RULES: &str = "
domain: d
descriptors:
  - {key: ten, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: seven, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 7}}
  - {key: tried, accuracy: exact, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 10}}
";

pub(crate) const METRICS: [&str; 6] = [
    "total_hits",
    "within_limit",
    "near_limit",
    "over_limit",
    "shadow_mode",
    "over_limit_with_local_cache",
];

/// Each case has a key, the hits before the request, the hits of the request, and the growth of each metric. Each case
/// has its own client. The split into near and over is tested in full in `crates/rules/src/decide/verdict.rs`.
const CASES: [(&str, u64, u64, [u64; 6]); 5] = [
    ("ten", 8, 1, [1, 1, 1, 0, 0, 0]),
    ("ten", 9, 3, [3, 0, 1, 2, 0, 0]),
    ("ten", 10, 7, [7, 0, 0, 7, 0, 0]),
    ("seven", 4, 3, [3, 3, 2, 0, 0, 0]),
    ("tried", 5, 10, [10, 0, 2, 5, 5, 0]),
];

/// The metrics of a rule.
pub(crate) async fn figures(world: &World, key: &str) -> [u64; 6] {
    let mut figures = [0; 6];
    for (figure, name) in figures.iter_mut().zip(METRICS) {
        let series = format!("ratelimit_service_rate_limit_{name}{{domain=\"d\",key1=\"{key}\"}}");
        // A metric that is zero is not printed.
        let value = world.metric(&series).await;
        *figure = value.map_or(0, |value| value.parse().expect("a number"));
    }
    figures
}

/// Tries all cases.
pub(crate) async fn hold(world: &World) {
    for (n, (key, before, hits, expected)) in CASES.into_iter().enumerate() {
        let client = json!([{ key: format!("client {n}") }]);
        world.check("d", &client, before).await;
        let start = figures(world, key).await;
        world.check("d", &client, hits).await;
        let end = figures(world, key).await;
        let grown: Vec<u64> = end.iter().zip(start).map(|(end, start)| end - start).collect();
        assert_eq!(grown, expected, "{METRICS:?} of {key}: {before}, then {hits}");
    }
}
