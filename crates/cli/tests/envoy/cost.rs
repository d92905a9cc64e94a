//! The time that a limit costs a request through Envoy. It is compared with the same Envoy without a limiter, and with
//! the rate limit that is built into Envoy.
//!
//! ```sh
//! cargo test --release -p tollgate-cli --features serve --test envoy -- --ignored --nocapture
//! ```
//!
//! The servers are asked in turn, in rounds. Each ratio compares times of one round, so that a disturbance of the
//! machine affects all servers alike. The median of the ratios is printed. No time makes the test fail.

use crate::world::{Setup, World};

const ROUNDS: usize = 15;
/// Requests of each round.
const REQUESTS: usize = 2_000;

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1000000000}}
";

/// The rate limit that is built into Envoy. It never denies here.
const LOCAL: &str = "- {name: envoy.filters.http.local_ratelimit, typed_config: {\"@type\": \
    type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit, stat_prefix: local, \
    token_bucket: {max_tokens: 1000000000, tokens_per_fill: 1000000000, fill_interval: 1s}, \
    filter_enabled: {default_value: {numerator: 100}}, filter_enforced: {default_value: {numerator: 100}}}}";

/// The median and the 99th percentile, in microseconds.
type Quantiles = [f64; 2];

fn quantiles(mut times: Vec<f64>) -> Quantiles {
    times.sort_by(f64::total_cmp);
    [0.5, 0.99].map(|share| {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below the length"
        )]
        let at = (times.len() as f64 * share) as usize;
        times[at]
    })
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut of: Vec<f64> = of.collect();
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
#[ignore = "measures; it is for an optimised build on a machine that does nothing else"]
fn what_a_limit_costs_a_request() {
    let plain = Setup { services: 0, limiter: false, ..Setup::default() };
    let local = Setup { services: 0, limiter: false, first: &[LOCAL], ..Setup::default() };
    let served = Setup { rules: RULES, filter: &["failure_mode_deny: true"], ..Setup::default() };
    let worlds =
        [("no limiter", plain), ("Envoy's local limit", local), ("tollgate serve", served)];
    let worlds = worlds.map(|(name, setup)| (name, World::start(&setup)));
    for together in [1, 16] {
        let ask = |world: &World, requests| {
            let times = world.client().times(requests, &["x-user: alice"], together);
            assert_eq!(times.len(), requests, "every request is admitted");
            quantiles(times)
        };
        for (_, world) in &worlds {
            ask(world, REQUESTS);
        }
        let round = |n: usize| {
            let mut of_round = [[0.0; 2]; 3];
            for turn in 0..worlds.len() {
                let at = (n + turn) % worlds.len();
                of_round[at] = ask(&worlds[at].1, REQUESTS);
            }
            of_round
        };
        let rounds: Vec<[Quantiles; 3]> = (0..ROUNDS).map(round).collect();
        println!("\n{together} at a time, {REQUESTS} requests in each of {ROUNDS} rounds");
        println!("| | p50 | ratio | p99 | ratio |\n|---|--:|--:|--:|--:|");
        for (at, (name, _)) in worlds.iter().enumerate() {
            let time = |quantile: usize| median(rounds.iter().map(|round| round[at][quantile]));
            let ratio = |quantile: usize| {
                median(rounds.iter().map(|round| round[at][quantile] / round[0][quantile]))
            };
            let [[p50, r50], [p99, r99]] = [0, 1].map(|quantile| [time(quantile), ratio(quantile)]);
            println!("| {name} | {p50:.0} µs | {r50:.2} | {p99:.0} µs | {r99:.2} |");
        }
    }
    let (_, served) = &worlds[2];
    assert_eq!(served.service().asked("over_limit") + served.service().asked("refused"), 0);
}
