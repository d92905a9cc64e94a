//! Computes how the keys of one limit are spread over 100 nodes of a cluster, and the load of each node. The figures in
//! docs/scale.md come from this test.
//!
//! `TOLLGATE_KEYS=1000000000 cargo test --release -p tollgate-redis simulation::cluster -- --nocapture` places that
//! many keys. Without the variable it places a million keys.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::world::{Setup, WorldSize, run};
use crate::hash_slot::{SLOTS, of_key};
use crate::key::StoredKeys;
use crate::script::plan::ScriptPlan;
use crate::store::backoff::mixed;

const NODES: usize = 100;
const ALL_KEYS: u64 = 1_000_000_000;
/// The bytes of a key in a redis-server: see docs/scale.md.
const BYTES_OF_A_KEY: u64 = 209;

fn placed() -> u64 {
    let text = std::env::var("TOLLGATE_KEYS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(ALL_KEYS / 1_000)
}

/// The keys of one limit: a client is an address.
struct Domain(StoredKeys);

impl Domain {
    fn new() -> Self {
        let plan = ScriptPlan::new("100/s burst 200".parse().unwrap()).unwrap();
        Self(StoredKeys::new("tollgate", "shop", "remote_address", &plan))
    }

    /// The slot of the n-th client. The addresses are all different, and in no order.
    fn slot(&self, n: u64) -> usize {
        let n = u32::try_from(n).unwrap();
        let client = Ipv4Addr::from_bits(n.wrapping_mul(0x9e37_79b1)).to_string();
        of_key(&self.0.of(client.as_bytes())).into()
    }
}

/// The node of a slot. Each node has a range of slots, and no range is more than one slot longer than another, as
/// `redis-cli --cluster create` assigns them.
fn node_of(slot: usize) -> usize {
    slot * NODES / usize::from(SLOTS)
}

/// The smallest count, the mean and the largest count.
fn spread(counts: &[u64]) -> [u64; 3] {
    let mean = counts.iter().sum::<u64>() / counts.len() as u64;
    [*counts.iter().min().unwrap(), mean, *counts.iter().max().unwrap()]
}

#[test]
fn the_keys_of_a_domain_are_spread_evenly_over_a_hundred_nodes() {
    let (domain, keys) = (Domain::new(), placed());
    let (mut of_nodes, mut slots) = ([0_u64; NODES], [0_u64; NODES]);
    (0..keys).for_each(|n| of_nodes[node_of(domain.slot(n))] += 1);
    (0..usize::from(SLOTS)).for_each(|slot| slots[node_of(slot)] += 1);
    let [least, mean, most] = spread(&of_nodes);
    let gigabytes = |count: u64| (count * (ALL_KEYS / keys) * BYTES_OF_A_KEY) as f64 / 1e9;
    let percent = |count: u64| (count as f64 / mean as f64 - 1.0) * 100.0;
    println!(
        "{keys} keys on {NODES} nodes: {least} to {most} each ({:+.2} % to {:+.2} %); 1e9 keys: {:.2} to {:.2} GB each",
        percent(least),
        percent(most),
        gigabytes(least),
        gigabytes(most),
    );
    for (count, slots) in of_nodes.into_iter().zip(slots) {
        // The expected count is that of keys that choose their slots at random. The real count must be within five
        // standard deviations of it.
        let expected = keys as f64 * slots as f64 / f64::from(SLOTS);
        let off = (count as f64 - expected).abs();
        assert!(off < 5.0 * expected.sqrt(), "{count} keys in {slots} slots, {expected} expected");
        assert!(percent(count).abs() < 10.0, "{count} keys, {mean} in the mean");
    }
}

/// Simulates a second with 1e6 requests for 1e9 keys. The requests are spread evenly over the keys, or by popularity:
/// the n-th most popular client makes 1/n as many requests as the most popular one.
#[test]
fn a_million_requests_a_second_are_ten_thousand_calls_for_each_node() {
    const REQUESTS: u64 = 1_000_000;
    /// The nodes that ask for one hot key, and their load. With leases, a hotter key would cost the store no more calls
    /// in a second than the key in this world.
    const ASKING: WorldSize = WorldSize { nodes: 50, rate: 10_000, load: 20 };
    let leased = run(Setup::scaled(1, ASKING)).calls / 2;
    let domain = Domain::new();
    let mut random = 1;
    for is_even in [true, false] {
        let mut of_keys: HashMap<u64, u64> = HashMap::new();
        for _ in 0..REQUESTS {
            random = mixed(random);
            let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
            let all = ALL_KEYS as f64;
            #[expect(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                reason = "at most 1e9"
            )]
            let key = if is_even { share * all } else { all.powf(share) - 1.0 } as u64;
            *of_keys.entry(key.min(ALL_KEYS - 1)).or_default() += 1;
        }
        let calls = |most: u64| {
            let mut of_nodes = [0_u64; NODES];
            for (key, count) in &of_keys {
                of_nodes[node_of(domain.slot(*key))] += (*count).min(most);
            }
            spread(&of_nodes)
        };
        let (exact, held, hottest) =
            (calls(u64::MAX), calls(leased), of_keys.values().max().unwrap());
        let of = if is_even { "evenly" } else { "by popularity" };
        println!(
            "{of}: hottest key {hottest}/s; calls/s of a node, least, mean, most: exact {exact:?}, leased {held:?}"
        );
        let most =
            if is_even { 10 * REQUESTS / 1_000 * 11 / 10 } else { 10_000 + hottest + 10_000 };
        assert!(exact[2] <= most && held[2] <= exact[2], "{exact:?}, {held:?}");
    }
}
