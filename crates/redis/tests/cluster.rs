//! A cluster of three servers: limits in their slots, requests over several slots, and slots that move or nodes that
//! are away under load.

use std::time::{Duration, Instant};

use crate::common::cluster::Cluster;
use crate::common::load::{Load, planned};
use crate::common::{PATIENT, admitted, named, store_at, until};
use tollgate::DenialReason;
use tollgate_redis::{Fault, Mode, RedisLimiter, Settings, Source, Store, Weight, check_all};

/// A limit, and for each node of the cluster a client whose keys are on that node.
struct World {
    cluster: Cluster,
    store: Store,
    limit: RedisLimiter,
    clients: [String; 3],
}

async fn world(policy: &str) -> World {
    let cluster = Cluster::start();
    let store = store_at(&cluster.address()).await;
    let (limit, clients) = (exact(&store, policy, "shop"), cluster.client_on_each());
    World { cluster, store, limit, clients }
}

fn exact(store: &Store, policy: &str, name: &str) -> RedisLimiter {
    named(store, name, policy, Mode::Exact)
}

async fn left(limiter: &RedisLimiter, key: &str) -> u64 {
    let peeked = limiter.entry(key).peek(1).await;
    assert_eq!(peeked.fault(), None);
    peeked.decision().remaining()
}

/// Waits until this many units are left. Units that are given back may still be on their way.
async fn comes_to(limiter: &RedisLimiter, key: &str, units: u64) {
    until("the units come back", async || left(limiter, key).await == units).await;
}

#[tokio::test]
async fn every_client_is_kept_by_the_node_that_has_its_slot() {
    let World { cluster, store, limit, clients } = world("10/h").await;
    let twin = exact(&store_at(&cluster.address()).await, "10/h", "shop");
    for (n, client) in clients.iter().enumerate() {
        let mut admitted = 0;
        for n in 0..30 {
            let decision = if n % 2 == 0 { &limit } else { &twin }.check(client).await;
            assert_eq!((decision.source(), decision.fault()), (Source::Store, None));
            admitted += usize::from(decision.is_allowed());
        }
        assert_eq!(admitted, 10);
        let keys: Vec<String> = cluster.servers[n].run(&["KEYS", "test:shop:*"]);
        assert_eq!(keys, [format!("test:shop:{{{client}}}")]);
    }
    let leased = named(&store, "leased", "10/h burst 200", Mode::Leased);
    let admitted = admitted(&leased, &clients[1], 300).await;
    assert!((150..=200).contains(&admitted), "{admitted}");
    assert_eq!(store.stats().faults(Fault::Moved), 0);
}

/// 5,000 clients under six rules of one domain: 30,000 keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_a_domain_are_on_all_nodes_and_those_of_a_client_on_one() {
    let World { cluster, store, .. } = world("10/h").await;
    let rule = |n| {
        let settings = Settings::new("10/h".parse().unwrap()).mode(Mode::Exact).keys(100);
        RedisLimiter::new(&store, settings.name("shop").part(format!("rule{n}"))).unwrap()
    };
    let rules = [0, 1, 2, 3, 4, 5].map(rule);
    for some in (0..5_000).collect::<Vec<u32>>().chunks(200) {
        let checks = some.iter().map(|n| {
            let (rules, client) = (rules.clone(), format!("203.0.{}.{}", n / 256, n % 256));
            tokio::spawn(async move {
                let joint =
                    check_all(&rules.each_ref().map(|rule| rule.entry(&client).cost(1))).await;
                assert_eq!((joint.is_allowed(), joint.fault()), (true, None));
            })
        });
        for check in checks.collect::<Vec<_>>() {
            check.await.unwrap();
        }
    }
    let of_nodes: Vec<Vec<String>> =
        cluster.servers.iter().map(|server| server.run(&["KEYS", "test:shop:*"])).collect();
    let counts: Vec<usize> = of_nodes.iter().map(Vec::len).collect();
    println!("30,000 keys of one domain on three nodes: {counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 30_000);
    assert!(counts.iter().all(|count| (9_000..=11_000).contains(count)), "{counts:?}");
    // The six limits of a client are decided in one call.
    assert!(counts.iter().all(|count| count % 6 == 0), "{counts:?}");
    let calls = store.stats().calls;
    assert!(calls <= 5_000, "{calls}");
}

#[tokio::test]
async fn limits_in_several_slots_are_charged_together_or_not_at_all() {
    let World { limit, clients: [a, b, c], cluster: _cluster, .. } =
        world("fixed-window 5/d from-first").await;
    let all = async |cost| {
        check_all(&[limit.entry(&c).cost(1), limit.entry(&a).cost(1), limit.entry(&b).cost(cost)])
            .await
    };
    let left = async || [left(&limit, &a).await, left(&limit, &b).await, left(&limit, &c).await];
    let first = all(3).await;
    assert!(first.is_allowed());
    // The joint answer is the permit with the fewest units left.
    let first = first.into_joint();
    assert_eq!(first.decision().unwrap().remaining(), 2);
    assert_eq!((first.reported_by(), first.denied_by()), (Some(2), None));
    let second = all(3).await;
    assert_eq!((second.is_allowed(), second.fault()), (false, None));
    assert_eq!(second.into_joint().denied_by(), Some(2));
    assert_eq!(left().await, [4, 2, 4]);
    assert!(all(2).await.is_allowed());
    assert_eq!(left().await, [3, 0, 3]);
}

#[tokio::test]
async fn groups_in_several_slots_have_their_say() {
    let World { limit, clients: [a, b, c], cluster: _cluster, .. } =
        world("fixed-window 2/d from-first").await;
    let claims = [
        limit.entry(&a).cost(1),
        limit.entry(&b).cost(2).in_group(1, Weight::Counts),
        limit.entry(&c).cost(1).in_group(2, Weight::DeniesTogether),
    ];
    let seen = async || {
        let decision = check_all(&claims).await;
        let over = decision.decisions().iter().map(|one| !one.is_allowed()).collect::<Vec<_>>();
        (decision.is_allowed(), over)
    };
    assert_eq!(seen().await, (true, vec![false, false, false]));
    assert_eq!(seen().await, (true, vec![false, true, false]));
    assert_eq!(seen().await, (false, vec![true, true, true]));
    for client in [a, b, c] {
        assert_eq!(left(&limit, &client).await, 0);
    }
}

/// Many requests at the same time want the last units of limits in three slots. Each request gets units of all its
/// limits, or gives back those that it took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_a_later_slot_denies_are_given_back() {
    let World { limit, clients, cluster: _cluster, .. } =
        world("fixed-window 40/d from-first").await;
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let (limit, clients) = (limit.clone(), clients.clone());
            tokio::spawn(async move {
                let [a, b, c] = clients.each_ref().map(|client| limit.entry(client).cost(1));
                // The requests are for two of the limits, in every order, and for all three.
                let joint = match n % 4 {
                    0 => check_all(&[a, b]).await,
                    1 => check_all(&[c, a]).await,
                    2 => check_all(&[b, c]).await,
                    _ => check_all(&[c, b, a]).await,
                };
                assert_eq!(joint.fault(), None);
                (n % 4, joint.is_allowed())
            })
        })
        .collect();
    let mut admitted = [0; 4];
    for task in tasks {
        let (kind, allowed) = task.await.unwrap();
        admitted[kind] += u64::from(allowed);
    }
    let [ab, ca, bc, all] = admitted;
    for (client, used) in clients.iter().zip([ab + ca + all, ab + bc + all, ca + bc + all]) {
        assert!(used <= 40, "{admitted:?}");
        comes_to(&limit, client, 40 - used).await;
    }
    assert!(admitted.iter().sum::<u64>() >= 40, "{admitted:?}");
}

/// Bad input 114: the client follows `MOVED` and `ASK`, and a call that gets `TRYAGAIN` is divided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_a_slot_that_moves_under_load_is_followed_and_the_bound_holds() {
    const WHAT: &str = "Cluster slot move";
    let cluster = tokio::task::block_in_place(Cluster::start);
    let mut load = Load::on(&cluster.address()).await;
    // The limits of the three modes have the same client, so all are in one slot.
    let slot = cluster.slot("hot");
    let mut owner = cluster.first_owner(slot);
    for _ in 0..planned(WHAT) {
        Load::wait(150).await;
        let ways = [owner, (owner + 1) % 3];
        tokio::task::block_in_place(|| cluster.begin_move(slot, ways));
        Load::wait(50).await;
        tokio::task::block_in_place(|| cluster.move_key(slot, ways));
        Load::wait(50).await;
        tokio::task::block_in_place(|| cluster.end_move(slot, ways));
        owner = ways[1];
        load.audit("moved");
        load.survives(WHAT).await;
    }
    load.end(&[WHAT]);
}

/// While a slot moves, some keys of a call are at the old node and some are at the new node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_keys_of_a_slot_that_moves_are_decided_one_by_one() {
    let World { cluster, store, clients: [client, ..], .. } = world("10/h").await;
    let slot = cluster.slot(&client);
    let limits: Vec<_> = (0..80).map(|n| exact(&store, "10/h", &format!("limit{n}"))).collect();
    for limiter in &limits[..40] {
        assert!(limiter.check(&client).await.is_allowed());
    }
    tokio::task::block_in_place(|| {
        cluster.begin_move(slot, [0, 1]);
        for _ in 0..20 {
            assert!(cluster.move_key(slot, [0, 1]));
        }
    });
    let tasks: Vec<_> = limits
        .iter()
        .cloned()
        .map(|limiter| {
            let client = client.clone();
            tokio::spawn(async move { limiter.check(client).await })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        let decision = task.await.unwrap();
        assert_eq!(decision.fault(), None, "{n}");
        assert_eq!(decision.decision().remaining(), if n < 40 { 8 } else { 9 }, "{n}");
    }
    tokio::task::block_in_place(|| cluster.end_move(slot, [0, 1]));
    assert_eq!(limits[0].check(&client).await.decision().remaining(), 7);
    assert_eq!(store.stats().faults(Fault::Moved), 0);
}

/// Bad input 108, for one node of three: limits on the other nodes are not affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_108_a_node_that_dies_takes_only_its_own_clients_along() {
    let World { mut cluster, store: _store, clients, .. } = world("10/h").await;
    let store = Store::with(&cluster.address(), Duration::from_millis(50), "test").unwrap();
    let limit = exact(&store, "1000/h", "many");
    store.ready().await;
    cluster.servers[1].kill();
    let is_alone = async || limit.check(&clients[1]).await.source() == Source::Share;
    until("the node decides alone", is_alone).await;
    // The store decides most of these requests. Some may miss their deadline, since the machine is also busy with other
    // tests.
    let mut by_store = 0;
    for n in 0..200 {
        let asked = Instant::now();
        let decision = limit.check(&clients[n % 2 * 2]).await;
        by_store += u32::from(decision.source() == Source::Store);
        assert!(asked.elapsed() < Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(by_store > 100, "{by_store}");
    assert!(store.is_degraded());
    // Even without the store, limits in several slots are charged together or not at all.
    let joint =
        check_all(&[limit.entry(&clients[0]).cost(1), limit.entry(&clients[1]).cost(1)]).await;
    assert!(joint.fault().is_some());
    tokio::task::block_in_place(|| cluster.servers[1].restart());
    tokio::time::timeout(PATIENT, store.ready()).await.expect("it does not come back");
    assert_eq!(limit.check(&clients[1]).await.source(), Source::Store);
}

/// Bad input 123, in a cluster: a user with only the rights that a cluster requires.
#[tokio::test]
async fn bad_input_123_a_user_with_few_rights_is_enough_in_a_cluster() {
    let cluster = Cluster::start();
    let rules = "ACL SETUSER limiter on >secret ~test:* -@all +script|load +evalsha +eval +time +get +set \
                 +hello +client +ping +asking +cluster|slots";
    let words: Vec<&str> = rules.split_whitespace().collect();
    cluster.servers.iter().for_each(|server| server.run::<()>(&words));
    let address = cluster.address().replace("://", "://limiter:secret@");
    let limit = exact(&store_at(&address).await, "10/h", "shop");
    for client in cluster.client_on_each() {
        assert_eq!(limit.check(client).await.source(), Source::Store);
    }
    let foreign = Store::with(&address, PATIENT, "other").unwrap();
    let _limiter = exact(&foreign, "10/h", "any");
    let is_forbidden = async || foreign.stats().faults(Fault::Forbidden) > 0;
    until("something is forbidden", is_forbidden).await;
}

/// No script can read two slots. So a peek finds the limits that deny, and a second call makes these limits count the
/// denial.
#[tokio::test]
async fn a_denial_of_a_request_over_several_slots_counts_in_the_slot_that_denied() {
    let world = world("fixed-window 4/60d penalty 90d after 2").await;
    let (limit, [a, b, c]) = (&world.limit, &world.clients);
    let is_penalised = async |client: &str| {
        let denial = limit.entry(client).peek(1).await.into_result().err();
        denial.is_some_and(|denial| denial.reason() == DenialReason::Penalty)
    };
    let all = async |cost| check_all(&[limit.entry(a).cost(1), limit.entry(b).cost(cost)]).await;
    assert!(all(1).await.is_allowed());
    for n in 0..2 {
        assert!(!is_penalised(b).await, "{n}");
        assert!(!all(4).await.is_allowed());
    }
    assert!(is_penalised(b).await && !is_penalised(a).await);
    // A limit that only counts denies nothing, but counts the requests that it would deny.
    let tried = async |cost| {
        let tried = limit.entry(c).cost(cost).in_group(1, Weight::Counts);
        check_all(&[limit.entry(a).cost(1), tried]).await
    };
    assert!(tried(3).await.is_allowed());
    assert!(!is_penalised(c).await);
    assert!(tried(2).await.is_allowed());
    assert!(!is_penalised(c).await);
    assert_eq!(tried(2).await.decisions()[1].remaining(), 0);
    assert!(is_penalised(c).await && !is_penalised(a).await);
}
