//! Tests limits in every kind of Redis: over TLS, behind a sentinel, in a cluster. Two services share the limits, and
//! the test counts the requests that both admit.
//!
//! Tests that need only a single server are in `global.rs`. Faults under load are covered by the tests of
//! `tollgate-redis`.

use std::time::Instant;

use crate::certificates::{Authority, files, write};
use crate::cluster::Cluster;
use crate::common::{PATIENT, World};
use crate::sentinel::Sentinel;
use crate::server::{Server, free_port};
use crate::{one_of_two, serve_two};
use serde_json::json;
use tokio::task::block_in_place;
use tollgate_service::{Global, Options};

/// The windows are so long that no unit comes back while a test runs.
fn rules(domain: &str) -> String {
    format!(
        "
domain: {domain}
descriptors:
  - {{key: exact, accuracy: exact, rate_limit: {{unit: year, requests_per_unit: 20}}}}
  - {{key: leased, rate_limit: {{unit: year, requests_per_unit: 200, algorithm: gcra}}}}
  - {{key: counted, accuracy: async, rate_limit: {{unit: year, requests_per_unit: 60}}}}
"
    )
}

/// Two services on one store.
struct Pair {
    worlds: [World; 2],
    domain: String,
}

impl Pair {
    async fn serve(test: &str, domain: &str, global: Global) -> Self {
        let worlds = serve_two(test, &rules(domain), global, |options| options).await;
        Self { worlds, domain: domain.to_owned() }
    }

    async fn until(&self, line: &str) {
        for world in &self.worlds {
            world.until(line).await;
        }
    }

    /// Sends `times` requests to each service at the same time; returns how many are admitted.
    async fn admitted(&self, rule: &str, client: &str, times: u64) -> u64 {
        let [one, other] = &self.worlds;
        let ask = async |world: &World| {
            let mut admitted = 0;
            for _ in 0..times {
                let descriptors = json!([{rule: client}]);
                admitted += u64::from(world.check(&self.domain, &descriptors, 1).await.0);
            }
            admitted
        };
        let (one, other) = tokio::join!(ask(one), ask(other));
        one + other
    }

    /// The units that the store has left for a client of a rule.
    async fn left(&self, rule: &str, client: &str) -> u64 {
        self.worlds[0].left(&self.domain, rule, client).await
    }

    /// The sum of a series over both services.
    async fn sum(&self, series: &str) -> u64 {
        let mut sum = 0;
        for world in &self.worlds {
            sum += world.count(series).await;
        }
        sum
    }

    /// Asserts for each accuracy that all admitted units are charged in the store, and that no more than the limit is
    /// admitted by `exact` and `leased`.
    async fn share_their_limits(&self, [x, y]: [&str; 2]) {
        assert_eq!(self.admitted("exact", x, 30).await, 20);
        assert_eq!(self.admitted("exact", y, 7).await, 14);
        assert_eq!(self.left("exact", y).await, 6);
        // The loop ends when the store has no units left, and neither service holds any.
        let (begun, mut admitted) = (Instant::now(), 0);
        loop {
            let more = self.admitted("leased", x, 20).await;
            admitted += more;
            if more == 0 && self.left("leased", x).await == 0 {
                break;
            }
            assert!(begun.elapsed() < PATIENT, "{admitted} admitted");
        }
        assert_eq!(self.sum("tollgate_store_leased_units_total").await, 200);
        // On a slow machine a lease may end before its units are spent. These units are lost.
        let expired = self.sum("tollgate_store_expired_units_total").await;
        assert_eq!(admitted, 200 - expired);
        // With `accuracy: async` each request is admitted at once, and the store is told later.
        assert_eq!(self.admitted("counted", x, 20).await, 40);
        let begun = Instant::now();
        while self.left("counted", x).await > 20 {
            assert!(begun.elapsed() < PATIENT, "the store does not hear of it");
        }
        assert_eq!(self.left("counted", x).await, 20);
        assert_eq!(self.sum(BY_SHARE).await, 0);
    }
}

/// The series of decisions that were made without the store.
const BY_SHARE: &str = "tollgate_store_decisions_total{by=\"share\",outcome=\"allowed\"}";

/// The server accepts only TLS, and requires client certificates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_services_share_their_limits_and_one_that_is_not_trusted_has_its_share_alone() {
    let authority = Authority::new();
    let ((path, of_server), (_, of_client)) = (files("over_tls_server"), files("over_tls_client"));
    authority.issue().write(&of_server);
    authority.issue().write(&of_client);
    let trusted = write(&path.join("ca.crt"), &authority.pem());
    let port = free_port().to_string();
    let [certificate, key, ca] = [&of_server.certificate, &of_server.key, &trusted]
        .map(|path| path.to_str().expect("UTF-8"));
    let arguments = [
        ["--tls-port", &port],
        ["--tls-cert-file", certificate],
        ["--tls-key-file", key],
        ["--tls-ca-cert-file", ca],
        ["--tls-auth-clients", "yes"],
    ];
    let _server = Server::start_with(&arguments.concat());
    let global = Global {
        authority: Some(trusted),
        certificate: Some(of_client.certificate),
        key: Some(of_client.key),
        ..one_of_two(format!("rediss://localhost:{port}/"))
    };
    let pair = Pair::serve("over_tls", "shop", global.clone()).await;
    pair.share_their_limits(["x", "y"]).await;
    // The server does not trust the certificate of this service.
    let (_, of_stranger) = files("over_tls_stranger");
    Authority::new().issue().write(&of_stranger);
    let global = Some(Global {
        certificate: Some(of_stranger.certificate),
        key: Some(of_stranger.key),
        ..global
    });
    let more = |options| Options { global, ..options };
    let world = crate::common::serve_with("over_tls_refused", &rules("shop"), more).await;
    let mut admitted = 0;
    for _ in 0..30 {
        admitted += u64::from(world.check("shop", &json!([{"exact": "z"}]), 1).await.0);
    }
    // This node is one of two, so its share is half of 20.
    assert_eq!(admitted, 10);
    assert_eq!(world.metric("tollgate_store_degraded").await.as_deref(), Some("1"));
    assert_eq!(world.metric("tollgate_store_connections_total").await.as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_sentinel_two_services_share_their_limits_also_after_a_failover() {
    let mut sentinel = block_in_place(Sentinel::start);
    let pair = Pair::serve("behind_a_sentinel", "shop", one_of_two(sentinel.address())).await;
    pair.share_their_limits(["x", "y"]).await;
    assert_eq!(pair.admitted("exact", "z", 6).await, 12);
    block_in_place(|| sentinel.has_been_told());
    block_in_place(|| sentinel.kill(0));
    // A service notices the outage only when it gets a request.
    let begun = Instant::now();
    for world in &pair.worlds {
        while world.metric("tollgate_store_degraded").await.as_deref() == Some("0") {
            world.check("shop", &json!([{"exact": "other"}]), 1).await;
            assert!(begun.elapsed() < PATIENT, "nobody misses the master");
        }
    }
    sentinel.replaced_by(1).await;
    pair.until("tollgate_store_degraded 0").await;
    let shares = pair.sum(BY_SHARE).await;
    assert_eq!(pair.admitted("exact", "z", 20).await, 20 - 12);
    assert_eq!(pair.admitted("exact", "x", 20).await, 0);
    assert_eq!(pair.sum(BY_SHARE).await, shares);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_two_services_share_the_limits_of_every_node() {
    let cluster = block_in_place(Cluster::start);
    for node in 0..crate::cluster::NODES {
        let (test, domain) = (format!("in_a_cluster_{node}"), format!("shop{node}"));
        let pair = Pair::serve(&test, &domain, one_of_two(cluster.address())).await;
        let [client, another] =
            [node, (node + 1) % crate::cluster::NODES].map(|n| cluster.client_on(n));
        pair.share_their_limits([&client, &another]).await;
        let pattern = format!("tollgate:{domain}:*");
        let mut keys: Vec<String> =
            block_in_place(|| cluster.servers[node].run(&["KEYS", &pattern]));
        keys.sort_unstable();
        let of_client = |rule| format!("tollgate:{domain}:{rule}:{{{client}}}");
        assert_eq!(keys, ["counted", "exact", "leased"].map(of_client));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_limit_that_moves_to_another_node_stays_the_same() {
    let mut cluster = block_in_place(Cluster::start);
    let pair = Pair::serve("in_a_cluster_moves", "shop", one_of_two(cluster.address())).await;
    let slot = cluster.slot(&cluster.client_on(0));
    let [x, y] = &cluster.two_clients_in(slot);
    assert_eq!(pair.admitted("exact", x, 6).await, 12);
    block_in_place(|| cluster.begin_move(slot, [0, 1]));
    // During the move, keys of the slot are at both nodes.
    assert_eq!(pair.admitted("exact", y, 2).await, 4);
    block_in_place(|| cluster.end_move(slot, [0, 1]));
    assert_eq!(pair.admitted("exact", x, 20).await, 20 - 12);
    assert_eq!(pair.admitted("exact", y, 20).await, 20 - 4);
    assert_eq!(pair.sum(BY_SHARE).await, 0);
    // When the node that now holds the key is killed, each service decides by its own share.
    cluster.servers[1].kill();
    assert_eq!(pair.admitted("exact", x, 30).await, 2 * 10);
    assert_eq!(pair.sum(BY_SHARE).await, 2 * 10);
}
