//! Tests budgets for costs that are known only after the response. Envoy asks in every way, and the service runs in
//! every mode. Each budget holds, or the service reports that it does not. The table of `docs/from-envoy.md` shows the
//! results.

use std::fs;
use std::path::Path;

use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::common::rate_limit_descriptor::RateLimitOverride;
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient;
use tollgate_service::{Global, Options, rule_cache};
use tonic::transport::Channel;

use crate::common::{World, descriptor, request, serve_with};
use crate::server::Server;

/// The limit of the rule, in tokens per window. The next constants are the limit that comes with a request, and the
/// cost of a response.
const LIMIT: u64 = 100_000;
const OWN_LIMIT: u32 = 50_000;
const COST: u64 = 3_000;

/// The number of requests, more than any budget has tokens for. The response of each is charged.
const REQUESTS: u64 = 60;

/// The settings of a rule besides its limit: the name in the table, and the text in the rule.
const RULES: [(&str, &str); 4] = [
    ("plain", ""),
    ("`quota_mode`", "quota_mode: true, "),
    ("`usage`", "usage: true, "),
    ("`usage`, `quota_mode`", "usage: true, quota_mode: true, "),
];

/// The question that Envoy asks before a response.
#[derive(Clone, Copy, Debug)]
struct Asked {
    hits: u64,
    has_own_limit: bool,
}

const ASKED: [Asked; 4] = [
    Asked { hits: 1, has_own_limit: false },
    Asked { hits: 0, has_own_limit: false },
    Asked { hits: 1, has_own_limit: true },
    Asked { hits: 0, has_own_limit: true },
];

/// The options with which a service is started.
#[derive(Clone, Copy, Debug)]
struct ServiceMode {
    compat: bool,
    redis: bool,
    envoyproxy_keys: bool,
}

const FILES: ServiceMode = ServiceMode { compat: false, redis: false, envoyproxy_keys: false };
const COMPAT: ServiceMode = ServiceMode { compat: true, ..FILES };
const REDIS: ServiceMode = ServiceMode { redis: true, ..FILES };
const BOTH: ServiceMode = ServiceMode { compat: true, ..REDIS };
const THEIR_KEYS: ServiceMode = ServiceMode { envoyproxy_keys: true, ..BOTH };

const MODES: [(&str, ServiceMode); 5] = [
    ("files", FILES),
    ("`--compat`", COMPAT),
    ("`--redis`", REDIS),
    ("both", BOTH),
    ("keys of envoyproxy/ratelimit", THEIR_KEYS),
];

fn rules(keys: &str) -> String {
    format!(
        "domain: ai\ndescriptors:\n  - {{key: user, {keys}rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}}}\n"
    )
}

fn options(server: &Server, mode: ServiceMode) -> impl Fn(Options) -> Options {
    let address = server.address();
    let ServiceMode { compat, redis, envoyproxy_keys } = mode;
    move |options| {
        let envoyproxy = envoyproxy_keys.then(String::new);
        let global = redis.then(|| Global { envoyproxy, ..crate::one_of_two(address.clone()) });
        Options { settings: RuleSettings { compat, ..RuleSettings::default() }, global, ..options }
    }
}

async fn is_ok(
    client: &mut RateLimitServiceClient<Channel>,
    user: &str,
    hits: u64,
    own: Option<u32>,
) -> bool {
    // The unit 6 is YEAR.
    let limit = own.map(|requests_per_unit| RateLimitOverride { requests_per_unit, unit: 6 });
    let asked =
        RateLimitDescriptor { hits_addend: Some(hits), limit, ..descriptor(&[("user", user)]) };
    let answer = client.should_rate_limit(request("ai", &[asked])).await.expect("an answer");
    answer.into_inner().overall_code() == Code::Ok
}

/// The tokens that pass if responses come one after the other.
async fn passed(world: &World, user: &str, asked: Asked) -> u64 {
    let (mut client, own) = (world.client().await, asked.has_own_limit.then_some(OWN_LIMIT));
    let mut passed = 0;
    for _ in 0..REQUESTS {
        if is_ok(&mut client, user, asked.hits, own).await {
            passed += COST;
            is_ok(&mut client, user, COST, own).await;
        }
    }
    passed
}

/// The result of one row of the table in one mode.
async fn cell(n: usize, keys: &str, asked: Asked, mode: ServiceMode) -> String {
    let server = Server::start();
    let of = options(&server, mode);
    let cache = rule_cache(of(Options::new(""))).expect("settings that go together");
    let text = [tollgate_rules::RuleText::new("ai.yaml", rules(keys))];
    if cache.load(&text).is_err() {
        return "refused".to_owned();
    }
    let world = serve_with(&format!("budgets_{n}"), &rules(keys), of).await;
    if mode.redis {
        world.until("tollgate_store_degraded 0").await;
    }
    let limit = if asked.has_own_limit { u64::from(OWN_LIMIT) } else { LIMIT };
    let passed = passed(&world, "alice", asked).await;
    let denied = match asked.has_own_limit {
        true => "tollgate_own_limits_denied_costs_total",
        false => "tollgate_rule_denied_costs_total{domain=\"ai\",rule=\"user\"}",
    };
    let told = world.count(denied).await;
    if passed == REQUESTS * COST {
        assert!(told >= COST, "{keys} {asked:?} {mode:?}: it passes all, and nothing is told");
        return "told".to_owned();
    }
    // Only one response is under way at a time, so at most its cost passes above the limit. Less than the limit may
    // pass, because other leases may hold units.
    assert!(passed <= limit + COST, "{keys} {asked:?} {mode:?}: {passed}");
    assert!(passed >= limit - limit / 2 - COST, "{keys} {asked:?} {mode:?}: {passed}");
    assert_eq!(told, 0, "{keys} {asked:?} {mode:?}");
    "holds".to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_budget_holds_or_is_told() {
    let heads = MODES.map(|(name, ..)| name).join(" | ");
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for (row, (asked, (name, keys))) in
        ASKED.into_iter().flat_map(|asked| RULES.map(|rule| (asked, rule))).enumerate()
    {
        // `quota_mode` of a rule has no effect on a limit that comes with the request.
        if asked.has_own_limit && keys.contains("quota") {
            continue;
        }
        let mut cells = Vec::new();
        for (n, (_, mode)) in MODES.into_iter().enumerate() {
            cells.push(cell(row * 8 + n, keys, asked, mode).await);
        }
        // A budget gives the same result whichever way Envoy asks.
        match found.iter().find(|(known, _)| *known == name) {
            Some((_, known)) => assert_eq!(cells, *known, "{name}, {asked:?}"),
            None => found.push((name, cells)),
        }
    }
    let mut table = format!("| Rule | {heads} |\n|---|{}\n", "---|".repeat(MODES.len()));
    for (name, cells) in found {
        table += &format!("| {name} | {} |\n", cells.join(" | "));
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-envoy.md");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains(&table), "docs/from-envoy.md is to have this table:\n{table}");
}

/// Two services that share the limits which come with requests.
async fn pair(test: &str, server: &Server, keys: &str, mode: ServiceMode) -> [World; 2] {
    let of = options(server, mode);
    let global = of(Options::new("")).global.expect("a mode with Redis");
    crate::serve_two(test, &rules(keys), global, of).await
}

#[tokio::test]
async fn a_limit_that_comes_with_a_request_is_shared_by_all_nodes_and_none_admits_above_itself() {
    for (n, keys) in ["", "accuracy: exact, ", "accuracy: async, "].into_iter().enumerate() {
        for (m, mode) in [REDIS, BOTH, THEIR_KEYS].into_iter().enumerate() {
            let server = Server::start();
            let worlds = pair(&format!("budgets_pair_{n}_{m}"), &server, keys, mode).await;
            let mut clients = [worlds[0].client().await, worlds[1].client().await];
            // No rule matches the second user.
            for user in ["alice", "bob"] {
                let mut admitted = 0;
                for turn in 0..24 {
                    admitted += u64::from(is_ok(&mut clients[turn % 2], user, 1, Some(10)).await);
                }
                assert_eq!(admitted, 10, "{keys} {mode:?}");
                // A user has one count, whichever limit comes with the request. With `compat` denied units are counted,
                // too, as they are for the limits of rules.
                let more = is_ok(&mut clients[0], user, 2, Some(12)).await;
                assert_eq!(more, !mode.compat, "{keys} {mode:?}");
                assert!(!is_ok(&mut clients[1], user, 1, Some(12)).await);
            }
            let keys: Vec<String> = server.run(&["KEYS", "*alice*"]);
            assert_eq!(keys.len(), 1, "{keys:?}");
            let expected = if mode.envoyproxy_keys {
                "ai_user_alice_"
            } else {
                "tollgate:limit:#year:{ai,user,alice}"
            };
            assert!(keys[0].starts_with(expected), "{keys:?}");
            // There are nine different limits, more than a key in Redis keeps states for.
            let mut admitted = 0_u32;
            for turn in 0..90_usize {
                let limit = 10 + 2 * u32::try_from(turn % 9).expect("small");
                if is_ok(&mut clients[turn % 2], "carol", 1, Some(limit)).await {
                    admitted += 1;
                    assert!(admitted <= limit, "{mode:?}: {admitted} of {limit}");
                }
            }
            assert!(admitted >= 10, "{mode:?}: {admitted}");
        }
    }
}

#[tokio::test]
async fn without_redis_a_limit_that_comes_with_a_request_is_decided_as_its_rule_says() {
    for (keys, expected, reason) in [
        ("", 5, None),
        ("on_error: allow, ", 12, Some("store_down_allowed")),
        ("on_error: deny, ", 0, Some("store_down_denied")),
    ] {
        let server = Server::start();
        let test = format!("budgets_down_{expected}");
        let of = options(&server, REDIS);
        let world = serve_with(&test, &rules(keys), of).await;
        world.until("tollgate_store_degraded 0").await;
        drop(server);
        world.until("tollgate_store_degraded 1").await;
        let mut client = world.client().await;
        let mut admitted = 0;
        for _ in 0..12 {
            admitted += u64::from(is_ok(&mut client, "alice", 1, Some(10)).await);
        }
        // There are two nodes, and each has half of the limit.
        assert_eq!(admitted, expected, "{keys}");
        let limit = Some(RateLimitOverride { requests_per_unit: 10, unit: 6 });
        let asked = RateLimitDescriptor { limit, ..descriptor(&[("user", "bob")]) };
        let answer = world.ask(request("ai", &[asked])).await;
        let told =
            answer.response_headers_to_add.iter().find(|header| header.key == "X-Tollgate-Reason");
        if let Some(reason) = reason {
            assert_eq!(told.map(|header| header.value.as_str()), Some(reason));
        }
    }
}

#[tokio::test]
async fn a_limit_of_usage_that_comes_with_a_request_is_used_up_by_all_nodes_and_given_back_to_all()
{
    let server = Server::start();
    let worlds = pair("budgets_usage", &server, "usage: true, ", REDIS).await;
    let mut clients = [worlds[0].client().await, worlds[1].client().await];
    let mut admitted = 0;
    for turn in 0..10 {
        if is_ok(&mut clients[turn % 2], "alice", 0, Some(1_000)).await {
            admitted += 1;
            assert!(is_ok(&mut clients[(turn + 1) % 2], "alice", 300, Some(1_000)).await);
        }
    }
    assert_eq!(admitted, 4);
    let limit = Some(RateLimitOverride { requests_per_unit: 1_000, unit: 6 });
    let back = RateLimitDescriptor {
        hits_addend: Some(5),
        is_negative_hits: true,
        limit,
        ..descriptor(&[("user", "alice")])
    };
    let answer = worlds[0].ask(request("ai", &[back])).await;
    assert_eq!((answer.overall_code(), answer.statuses[0].limit_remaining), (Code::Ok, 5));
    assert!(is_ok(&mut clients[1], "alice", 0, Some(1_000)).await);
    // With a limit of 0 the store is not asked, and every request is denied.
    assert!(!is_ok(&mut clients[1], "carol", 1, Some(0)).await);
    assert!(!is_ok(&mut clients[1], "carol", 0, Some(0)).await);
}

#[tokio::test]
async fn rules_of_usage_in_quota_mode_deny_once_all_are_used_up_in_redis() {
    let server = Server::start();
    let rules = "domain: ai\ndescriptors:\n  \
        - {key: one, usage: true, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1000}}\n  \
        - {key: two, usage: true, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2000}}\n  \
        - {key: plain, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 3}}\n";
    let of = options(&server, REDIS);
    let world = serve_with("budgets_quota_usage", rules, of).await;
    world.until("tollgate_store_degraded 0").await;
    let ask = async |parts: &[(&str, u64)]| {
        let part = |(key, hits): &(&str, u64)| RateLimitDescriptor {
            hits_addend: Some(*hits),
            ..descriptor(&[(*key, "x")])
        };
        let asked: Vec<RateLimitDescriptor> = parts.iter().map(part).collect();
        world.ask(request("ai", &asked)).await.overall_code() == Code::Ok
    };
    let mut admitted = 0;
    for _ in 0..10 {
        if ask(&[("one", 0), ("two", 0)]).await {
            admitted += 1;
            ask(&[("one", 300), ("two", 300)]).await;
        }
    }
    assert_eq!(admitted, 7);
    // `one` is used up, but `plain` still has room for three requests.
    for expected in [true, true, true, false] {
        assert_eq!(ask(&[("one", 0), ("plain", 1)]).await, expected);
    }
}

/// As in envoyproxy/ratelimit, a request with no hits is over the limit only if the limit is exceeded.
#[tokio::test]
async fn under_compat_a_question_is_over_a_limit_that_is_exceeded_in_redis_too() {
    for (n, keys) in ["", "accuracy: exact, ", "quota_mode: true, "].into_iter().enumerate() {
        for mode in [BOTH, THEIR_KEYS] {
            let server = Server::start();
            let worlds =
                pair(&format!("budgets_over_{n}_{}", mode.envoyproxy_keys), &server, keys, mode)
                    .await;
            let mut clients = [worlds[0].client().await, worlds[1].client().await];
            for own in [None, Some(100_000)] {
                let user = if own.is_some() { "bob" } else { "alice" };
                assert!(is_ok(&mut clients[0], user, LIMIT, own).await);
                assert!(is_ok(&mut clients[1], user, 0, own).await, "{keys} {mode:?}");
                assert!(!is_ok(&mut clients[1], user, 300, own).await);
                for client in &mut clients {
                    assert!(!is_ok(client, user, 0, own).await, "{keys} {mode:?}");
                }
            }
        }
    }
}
