//! Tests of requests under limits in several slots of a cluster, which are charged all or none. Nodes and connections
//! fail at random moments between the steps of a request.
//!
//! In each cycle 16 requests of two services want units of three limits, each on another node. Meanwhile one node has a
//! fault. Afterwards, for each limit:
//!
//! * no more units are admitted than the limit, and every admitted unit was charged;
//! * some units may be charged and not admitted, so that later requests lack them. They are at most the cost of the
//!   calls whose outcome the services do not know, which the services count as faults. Without a fault there are none.
//!
//! `TOLLGATE_SLOT_CYCLES` says how many cycles there are.

use std::time::{Duration, Instant};

use crate::common::cluster::{Cluster, NODES};
use crate::common::load::number;
use crate::common::proxy::Proxy;
use crate::common::{PATIENT, until};
use tollgate_redis::{Fault, Mode, OnError, RedisClaim, RedisLimiter, Settings, Store, check_all};

const LIMIT: u64 = 7;
const REQUESTS: u64 = 16;
/// The largest cost of a request under one limit.
const DEAREST: u64 = 2;
const DEADLINE: Duration = Duration::from_millis(25);

/// The way in which a request is decided: as the library does it, or with a planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    AllOrNothing,
    /// Takes units of one limit after another. If a limit denies, the units that were taken before are kept.
    GivesNothingBack,
    /// Takes units of one limit after another. If a limit denies, the units that were taken before are given back
    /// twice.
    GivesBackTwice,
    /// A request without an answer is admitted.
    AdmitsFaults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Havoc {
    /// A connection breaks.
    Cut,
    /// A connection breaks, and for some time no new connection is accepted.
    Away,
    /// The node carries out the call, but the answer is lost.
    LostReply,
    /// Answers come after the deadline.
    Late,
    /// The node stops for longer than the deadline.
    Stopped,
}

const HAVOC: [Havoc; 5] = [Havoc::Cut, Havoc::Away, Havoc::LostReply, Havoc::Late, Havoc::Stopped];

/// The numbers of a splitmix64 sequence. Every run has the same cycles, apart from the timing of the machine.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

struct World {
    cluster: Cluster,
    proxies: Vec<Proxy>,
    stores: [Store; 2],
    clients: [String; NODES],
    random: Random,
    way: Way,
}

/// The totals of all cycles.
#[derive(Debug, Default)]
struct Tally {
    admitted: u64,
    denied: u64,
    faults: u64,
    /// The units that were charged and not admitted. `max_lost` is the largest number allowed.
    lost: u64,
    max_lost: u64,
    violations: Vec<String>,
}

async fn world(way: Way) -> World {
    let mut cluster = tokio::task::block_in_place(Cluster::start);
    let mut proxies = Vec::new();
    for server in &cluster.servers {
        proxies.push(Proxy::start(server.port).await);
    }
    let ports: Vec<u16> = proxies.iter().map(|proxy| proxy.port).collect();
    tokio::task::block_in_place(|| cluster.announce(ports.try_into().unwrap()));
    let store = || Store::with(&cluster.address(), DEADLINE, "test").unwrap();
    let stores = [store(), store()];
    let clients = tokio::task::block_in_place(|| cluster.client_on_each());
    World { cluster, proxies, stores, clients, random: Random(1), way }
}

impl World {
    /// Waits until both services reach all nodes.
    async fn recovered(&self) {
        for store in &self.stores {
            tokio::time::timeout(PATIENT, store.ready()).await.expect("a service does not recover");
        }
    }

    /// The number of calls whose outcome a service does not know.
    fn unknown(&self) -> u64 {
        let faults = [Fault::Disconnected, Fault::Deadline, Fault::Unexpected];
        let of =
            |store: &Store| faults.map(|fault| store.stats().faults(fault)).iter().sum::<u64>();
        self.stores.iter().map(of).sum()
    }

    fn limiters(&self, cycle: u64) -> [RedisLimiter; 2] {
        let on_error = if self.way == Way::AdmitsFaults { OnError::Allow } else { OnError::Deny };
        self.stores.each_ref().map(|store| {
            let policy = format!("fixed-window {LIMIT}/90d from-first").parse().unwrap();
            let settings = Settings::new(policy).name("shop").part(format!("cycle{cycle}"));
            let settings = settings.mode(Mode::Exact).on_error(on_error).keys(10);
            RedisLimiter::new(store, settings).unwrap()
        })
    }

    /// Causes the fault, and ends it.
    async fn befall(&mut self, havoc: Havoc) {
        let (node, moment_us) = (self.random.below(NODES as u64), self.random.below(2_500));
        let (server, proxy) = {
            let node = usize::try_from(node).unwrap();
            (&self.cluster.servers[node], &self.proxies[node])
        };
        // This loop does not use a timer of tokio, which counts whole milliseconds.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(moment_us) {
            tokio::task::yield_now().await;
        }
        let long = DEADLINE + Duration::from_millis(10);
        match havoc {
            Havoc::Cut => proxy.cut(false),
            Havoc::LostReply => proxy.lose_a_reply(),
            Havoc::Away => {
                proxy.cut(true);
                tokio::time::sleep(Duration::from_millis(5)).await;
                proxy.cut(false);
            }
            Havoc::Late => {
                proxy.delay(long);
                tokio::time::sleep(long).await;
                proxy.delay(Duration::ZERO);
            }
            Havoc::Stopped => {
                tokio::task::block_in_place(|| server.signal("-STOP"));
                tokio::time::sleep(long).await;
                tokio::task::block_in_place(|| server.signal("-CONT"));
            }
        }
    }

    async fn cycle(&mut self, cycle: u64, havoc: Option<Havoc>, tally: &mut Tally) {
        self.recovered().await;
        let (limiters, before) = (self.limiters(cycle), self.unknown());
        let mut requests = Vec::new();
        for n in 0..REQUESTS {
            let mut costs = [0; NODES].map(|_: u64| self.random.below(DEAREST + 1));
            costs[usize::try_from(n % 3).unwrap()] = 1;
            let limiter = limiters[usize::try_from(n % 2).unwrap()].clone();
            let (clients, way) = (self.clients.clone(), self.way);
            requests.push((costs, tokio::spawn(ask(limiter, clients, costs, way))));
        }
        if let Some(havoc) = havoc {
            self.befall(havoc).await;
        }
        let mut admitted = [0; NODES];
        for (costs, request) in requests {
            let (is_allowed, fault) = request.await.unwrap();
            tally.faults += u64::from(fault.is_some());
            tally.denied += u64::from(!is_allowed && fault.is_none());
            tally.admitted += u64::from(is_allowed);
            if is_allowed {
                admitted.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
            }
        }
        self.audit((cycle, havoc), &limiters[0], (admitted, before), tally).await;
    }

    async fn audit(
        &self,
        what: (u64, Option<Havoc>),
        limiter: &RedisLimiter,
        (admitted, before): ([u64; NODES], u64),
        tally: &mut Tally,
    ) {
        let begun = Instant::now();
        loop {
            self.recovered().await;
            let Some(used) = used(limiter, &self.clients).await else { continue };
            if let Some(n) = (0..NODES).find(|n| admitted[*n] > used[*n] || used[*n] > LIMIT) {
                let found = format!("{what:?}: {} admitted, {} charged", admitted[n], used[n]);
                return tally.violations.push(found);
            }
            let most = DEAREST * (self.unknown() - before);
            let lost: u64 = used.iter().zip(admitted).map(|(used, admitted)| used - admitted).sum();
            if lost <= most {
                (tally.lost, tally.max_lost) = (tally.lost + lost, tally.max_lost + most);
                return;
            }
            // Units that are given back may still be on their way. While a node is away, the call is repeated for a
            // minute at most.
            if begun.elapsed() > Duration::from_secs(5) {
                return tally.violations.push(format!("{what:?}: {lost} lost, {most} at most"));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// The units that each client has used. `None` if the store does not answer.
async fn used(limiter: &RedisLimiter, clients: &[String; NODES]) -> Option<[u64; NODES]> {
    let mut used = [0; NODES];
    for (client, used) in clients.iter().zip(&mut used) {
        let seen = limiter.entry(client).peek(1).await;
        *used = LIMIT - seen.decision().remaining();
        if seen.fault().is_some() {
            return None;
        }
    }
    Some(used)
}

async fn ask(
    limiter: RedisLimiter,
    clients: [String; NODES],
    costs: [u64; NODES],
    way: Way,
) -> (bool, Option<Fault>) {
    let wanted = || clients.iter().zip(costs).filter(|(_, cost)| *cost > 0);
    if matches!(way, Way::AllOrNothing | Way::AdmitsFaults) {
        let claims: Vec<RedisClaim<'_>> =
            wanted().map(|(client, cost)| limiter.entry(client).cost(cost)).collect();
        let joint = check_all(&claims).await;
        return (joint.is_allowed(), joint.fault());
    }
    let mut taken = Vec::new();
    for (client, cost) in wanted() {
        let decision = limiter.check_n(client, cost).await;
        let fault = decision.fault();
        match decision.into_result() {
            Ok(permit) => taken.push((client, permit)),
            Err(_) => {
                for (client, permit) in taken.into_iter().filter(|_| way == Way::GivesBackTwice) {
                    let units = permit.permit().cost();
                    _ = limiter.entry(client).refund(permit).await;
                    _ = limiter.entry(client).uncharge(units).await;
                }
                return (false, fault);
            }
        }
    }
    (true, None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_or_nothing_over_slots_holds_its_bound_under_faults() {
    let mut world = world(Way::AllOrNothing).await;
    let (cycles, begun) = (number("TOLLGATE_SLOT_CYCLES", 1_000), Instant::now());
    let (mut tally, mut befallen) = (Tally::default(), [0; HAVOC.len()]);
    for cycle in 0..cycles {
        // One cycle in eight has no fault. In that cycle, all units that are taken and not admitted come back.
        let n = usize::try_from(cycle % 8).unwrap();
        let havoc = HAVOC.get(if n == 7 { n } else { n % HAVOC.len() }).copied();
        if havoc.is_some() {
            befallen[n % HAVOC.len()] += 1;
        }
        world.cycle(cycle, havoc, &mut tally).await;
        assert_eq!(tally.violations, [""; 0], "cycle {cycle}");
    }
    println!(
        "{cycles} cycles in {:.1} s, {befallen:?} of {HAVOC:?}: {} requests admitted, {} denied, {} without an \
         answer; {} units charged and not admitted, {} at most",
        begun.elapsed().as_secs_f64(),
        tally.admitted,
        tally.denied,
        tally.faults,
        tally.lost,
        tally.max_lost,
    );
    // If there were no faults or denials, the cycles would not test the bound.
    assert!(tally.admitted > cycles && tally.denied > cycles && tally.faults > cycles, "{tally:?}");
    assert!(tally.lost > cycles / 20, "{tally:?}");
}

/// Units that are lost come back when the window ends, as if they had been spent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_are_lost_come_back_with_the_window() {
    let world = world(Way::AllOrNothing).await;
    world.recovered().await;
    let policy = format!("fixed-window {LIMIT}/500ms from-first").parse().unwrap();
    let settings = Settings::new(policy).name("brief").mode(Mode::Exact).on_error(OnError::Deny);
    let limiter = RedisLimiter::new(&world.stores[0], settings.keys(10)).unwrap();
    for n in 0..10 {
        let claims = world.clients.each_ref().map(|client| limiter.entry(client).cost(DEAREST));
        let loses = async { world.proxies[n % NODES].lose_a_reply() };
        _ = tokio::join!(check_all(&claims), check_all(&claims), loses);
        tokio::time::sleep(Duration::from_millis(600)).await;
        let are_back = async || used(&limiter, &world.clients).await == Some([0; NODES]);
        until("the units come back", are_back).await;
        world.recovered().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_planted_mistake_is_caught() {
    for (way, havoc) in [
        (Way::GivesNothingBack, None),
        (Way::GivesBackTwice, None),
        (Way::AdmitsFaults, Some(Havoc::Cut)),
    ] {
        let (mut world, mut tally) = (world(way).await, Tally::default());
        for cycle in 0..100 {
            world.cycle(cycle, havoc, &mut tally).await;
            if !tally.violations.is_empty() {
                break;
            }
        }
        assert_ne!(
            tally.violations, [""; 0],
            "{way:?} breaks nothing that is looked at: {tally:?}"
        );
    }
}
