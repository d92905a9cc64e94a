//! A limit is raised, lowered and put back, on three nodes and a real server. The tests count the requests that all
//! nodes together admit, in each mode. Some clients go on, and others pause until every lease has expired.
//!
//! No unit drains while a test runs. So after each change max(0, limit in force - units spent) more units are admitted,
//! and over all changes no more than the largest limit that was in force.

use std::time::Duration;

use crate::common::load::MODES;
use crate::common::server::Server;
use crate::common::store;
use tollgate_redis::{Mode, RedisLimiter, Settings, Store};

const NODES: usize = 3;

/// A pause that is longer than the life of a lease and than the time for which counts are fresh.
const PAUSE: Duration = Duration::from_millis(1_100);

/// Three nodes, each with its own connection.
struct Nodes {
    _server: Server,
    stores: Vec<Store>,
    limiters: Vec<RedisLimiter>,
    mode: Mode,
    is_pausing: bool,
}

impl Nodes {
    async fn new(mode: Mode, is_pausing: bool) -> Self {
        let server = Server::start();
        let mut stores = Vec::new();
        for _ in 0..NODES {
            stores.push(store(&server).await);
        }
        Self { _server: server, stores, limiters: Vec::new(), mode, is_pausing }
    }

    fn set(&mut self, policy: &str) {
        let settings = Settings::new(policy.parse().unwrap()).name("api").mode(self.mode);
        let settings = settings.keys(100).nodes(3).interval(Duration::from_millis(20));
        self.limiters = self
            .stores
            .iter()
            .map(|store| RedisLimiter::new(store, settings.clone()).unwrap())
            .collect();
    }

    /// Sends `requests` requests of one unit to the nodes in turn, after a pause if `is_pausing` is set. Returns how
    /// many were admitted.
    async fn ask(&self, requests: usize) -> u64 {
        if self.is_pausing {
            tokio::time::sleep(PAUSE).await;
        }
        let mut admitted = 0;
        for n in 0..requests {
            admitted += u64::from(self.limiters[n % NODES].check("key").await.is_allowed());
            if self.mode == Mode::Async {
                // The requests are sent so slowly that each node knows the counts of the others. Otherwise the nodes
                // may admit more, within the bound of this mode.
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
        admitted
    }

    /// Plays one story, a list of policies and the number of requests to send under each. Returns how many were
    /// admitted under each.
    async fn story(&mut self, changes: &[(&str, usize)]) -> Vec<u64> {
        let mut admitted = Vec::new();
        for (policy, requests) in changes {
            self.set(policy);
            admitted.push(self.ask(*requests).await);
        }
        admitted
    }
}

fn limit(policy: &str) -> u64 {
    let policy: tollgate::Policy = policy.parse().unwrap();
    policy.quota().max_burst()
}

/// Checks the units that are admitted under each policy of a story: the limit minus the units admitted before. With
/// leases it may be one unit less. (When a lease is given back, the part that has drained does not come back. For the
/// leases of three nodes, these parts can add up to a unit.)
async fn holds(name: &'static str, changes: &[(&'static str, usize)]) {
    let mut stories = tokio::task::JoinSet::new();
    for (mode, is_pausing) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let changes = changes.to_vec();
        stories.spawn(async move {
            let admitted = Nodes::new(mode, is_pausing).await.story(&changes).await;
            let (mut spent, mut wrong, mut expected) = (0, Vec::new(), Vec::new());
            for ((policy, requests), admitted) in changes.iter().zip(&admitted) {
                let most = limit(policy).saturating_sub(spent).min(*requests as u64);
                let least = most.saturating_sub(u64::from(mode == Mode::Leased));
                if !(least..=most).contains(admitted) {
                    wrong.push(format!(
                        "{name}, {mode:?}, pausing: {is_pausing}, {policy}: {admitted} of {most}"
                    ));
                }
                spent += admitted;
                expected.push(most);
            }
            let clients = if is_pausing { "pause" } else { "go on" };
            println!("| {name} | {mode:?} | {clients} | {admitted:?} | {expected:?} |");
            wrong
        });
    }
    let wrong = stories.join_all().await.concat();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_raised_limit_admits_what_it_has_more_and_takes_nothing_away_from_clients_that_pause() {
    holds("raised", &[("100/30d", 40), ("101/30d", 120)]).await;
}

#[tokio::test]
async fn a_lowered_limit_admits_no_more_than_it_has_left_of_what_was_spent() {
    holds("lowered, below what was spent", &[("100/30d", 40), ("10/30d", 60)]).await;
    holds("lowered, above what was spent", &[("100/30d", 40), ("60/30d", 60)]).await;
}

#[tokio::test]
async fn a_limit_that_is_put_back_has_what_was_spent_before_and_since() {
    // In between, an operator sets a policy of another kind by mistake.
    let mistake = ("fixed-window 1/30d from-first", 20);
    holds("put back", &[("100/30d", 40), mistake, ("100/30d", 120)]).await;
}

#[tokio::test]
async fn to_and_fro_never_more_than_the_largest_limit_that_was_in_force() {
    let to_and_fro: Vec<_> = [("100/30d", 120), ("1/30d", 3)].repeat(4);
    holds("four times to and fro", &to_and_fro).await;
    // A key cannot keep states for this many policies.
    let many = [
        ("100/30d", 60),
        ("1/30d", 3),
        ("2/30d", 3),
        ("3/30d", 3),
        ("4/30d", 3),
        ("5/30d", 3),
        ("100/30d", 120),
    ];
    holds("through five other limits", &many).await;
}

#[tokio::test]
async fn a_window_that_changes_to_and_fro_admits_no_more_than_its_largest_limit() {
    let from_first =
        [("fixed-window 100/30d from-first", 60), ("fixed-window 9/30d from-first", 9)];
    holds("a window, to and fro", &from_first.repeat(3)).await;
    let sliding = [("sliding-window 100/30d exact", 60), ("sliding-window 9/30d exact", 9)];
    holds("a sliding window, to and fro", &sliding.repeat(3)).await;
}

/// Under a lowered limit a client waits until one unit fits, and not until all spent units have drained at the lower
/// rate. This also holds if the nodes have had the lower limit before.
#[tokio::test]
async fn under_a_lowered_limit_a_client_waits_for_one_unit_of_that() {
    for (higher, lower, unit_s) in [
        ("1000/h", "10/h", 360),
        ("sliding-window 1000/h exact", "sliding-window 10/h exact", 2 * 3_600),
        ("fixed-window 1000/h from-first", "fixed-window 10/h from-first", 3_600),
    ] {
        let mut nodes = Nodes::new(Mode::Exact, false).await;
        for policy in [lower, higher, lower] {
            nodes.set(policy);
            let limiter = &nodes.limiters[0];
            while limiter.check("key").await.is_allowed() {}
        }
        let denial = nodes.limiters[1].check("key").await.into_result().unwrap_err();
        let wait = denial.retry_after().unwrap().as_secs_f64();
        assert!(wait <= f64::from(unit_s), "{lower} after {higher}: {wait} s");
    }
}

/// Of 10,000 units 3,000 are spent, and the leases that are left expire in a pause. After the limit is raised to
/// 10,001, 7,001 more units are admitted.
#[tokio::test]
async fn a_raised_limit_has_the_units_of_leases_that_expired_under_the_old_one() {
    let mut nodes = Nodes::new(Mode::Leased, true).await;
    nodes.set("10000/30d");
    assert_eq!(nodes.ask(3_000).await, 3_000);
    nodes.set("10001/30d");
    let more = nodes.ask(8_000).await;
    // The last units may be in leases of nodes whose turn has passed, so 300 more requests are sent. One unit may be
    // missing, as in `holds`.
    let rest = nodes.ask(300).await;
    assert!((7_000..=7_001).contains(&(more + rest)), "{more} and {rest}");
}
