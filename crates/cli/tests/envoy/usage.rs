//! Costs that are known only after the response, as with language models.

use crate::processes::until;
use crate::world::{ALICE, Setup, World};

/// Takes the cost from a header of the response.
const COST_OF_RESPONSE: &str = "- {name: envoy.filters.http.header_to_metadata, typed_config: {\"@type\": \
    type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config, response_rules: \
    [{header: x-cost, on_header_present: {metadata_namespace: usage, key: cost, type: NUMBER}}]}}";

const USER: &str = "actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]";

/// Waits until `left` units are left. Envoy charges the cost after the response, so a client may have the response
/// earlier.
#[track_caller]
fn until_left(world: &World, left: u32) {
    let expected = format!("\"remaining\":{left},");
    until(&expected, || {
        world
            .service()
            .http()
            .ask("/v1/peek?domain=shop&user=alice&cost=0", &[])
            .body
            .contains(&expected)
    });
}

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 10}}
";

/// Returns limits of a user: `before` is a field of the one of requests, and `after` the cost that a response adds.
fn filter(before: &str, after: &str) -> String {
    format!(
        "rate_limits: [{{{before}{USER}}}, {{apply_on_stream_done: true, hits_addend: {{{after}}}, {USER}}}]"
    )
}

const COST_AFTER: &str = "format: \"%DYNAMIC_METADATA(usage:cost)%\"";

fn world(rules: &str, filter: &str) -> World {
    let first = &[COST_OF_RESPONSE];
    World::start(&Setup { rules, filter: &[filter], first, ..Setup::default() })
}

/// Sends requests of alice whose responses say these costs, each followed by what it leaves.
#[track_caller]
fn assert_left(world: &World, costs: &[(u32, u32)]) {
    for (cost, left) in costs {
        assert_eq!(world.ask("/", &["x-user: alice", &format!("x-cost: {cost}")]).status, 200);
        until_left(world, *left);
    }
}

/// The limits of Envoy AI Gateway: Envoy asks with a cost of 0 before the request, and charges the whole cost after the
/// response.
#[test]
fn what_a_response_has_cost_is_charged_after_it_and_a_limit_that_is_used_up_denies() {
    let as_a_gateway = filter("hits_addend: {number: 0}, ", COST_AFTER);
    assert_left(&world(RULES, &as_a_gateway), &[(4, 6), (3, 3), (2, 1)]);
    let world = world(&RULES.replace("rate_limit", "usage: true, rate_limit"), &as_a_gateway);
    assert_left(&world, &[(4, 6), (3, 3), (8, 0)]);
    assert_eq!(world.ask("/", &["x-user: alice", "x-cost: 1"]).status, 429);
    assert_eq!(world.ask("/", &["x-user: bob", "x-cost: 1"]).status, 200);
    assert_eq!(world.upstream.seen(), 4);
}

#[test]
fn bytes_of_a_response_can_be_its_cost() {
    // The upstream's answer has 21 bytes, the limit 100.
    let rules = RULES.replace("requests_per_unit: 10", "requests_per_unit: 100");
    let world = world(&rules, &filter("", "format: \"%BYTES_SENT%\""));
    for left in [78, 56, 34, 12] {
        assert_eq!(world.ask("/", ALICE).status, 200);
        until_left(&world, left);
    }
}

#[test]
fn a_denied_request_is_charged_no_cost_after_it() {
    let world = world(RULES, &filter("hits_addend: {number: 11}, ", COST_AFTER));
    assert_eq!(world.ask("/", &["x-user: alice", "x-cost: 4"]).status, 429);
    assert_eq!(world.upstream.seen(), 0);
    until_left(&world, 10);
}

#[test]
fn what_a_response_did_not_use_is_given_back_by_negative_hits() {
    // Each request is charged 6 before it is passed on. Its response says how much of that was not used.
    let negative = format!("{COST_AFTER}, is_negative_hits: true");
    let world = world(RULES, &filter("hits_addend: {number: 6}, ", &negative));
    assert_left(&world, &[(4, 8), (5, 7), (1, 2)]);
    assert_eq!(world.ask("/", &["x-user: alice", "x-cost: 6"]).status, 429);
}

/// Returns the tokens that pass and the tokens that are charged, if `under_way` responses are under way at the same
/// time. The next requests are sent when the service knows the costs of the last ones.
fn passed(under_way: usize, rules: &str, filter: &str, serve: &[&str], asked: usize) -> [usize; 2] {
    let first = &[COST_OF_RESPONSE];
    let setup = Setup { rules, filter: &[filter], first, serve, ..Setup::default() };
    let world = World::start(&setup);
    let (mut requests, mut admitted) = (0, 0);
    let metric = |name: &str| {
        let page = world.service().http().ask("/metrics", &[]).body;
        let line = format!("tollgate_rule_{name}_total{{domain=\"shop\",rule=\"user\"}} ");
        let found: Option<usize> =
            page.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok());
        found.unwrap_or_else(|| panic!("no {name} in {page}"))
    };
    loop {
        let statuses = world.client().at_once(under_way, "/", &["x-user: alice", "x-cost: 300"]);
        let passed = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), under_way - passed);
        (requests, admitted) = (requests + under_way, admitted + passed);
        // A request that asks with a cost of 1 adds this 1, too, whether it is denied or not.
        until("the costs", || metric("hits") == admitted * COST + requests * asked);
        if passed == 0 {
            return [admitted * COST, metric("hits") - requests * asked - metric("uncharged")];
        }
    }
}

const BUDGET: usize = 10_000;
const COST: usize = 300;

/// Returns the figures of the page's table: the tokens under way at once, the bound, and the tokens that passed in a
/// run.
fn figures_of_page() -> Vec<Vec<usize>> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-envoy.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rows) = page.split_once("| Under way at once |").expect("the table");
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    let number = |cell: &str| cell.trim().replace(',', "").parse().ok();
    rows.map(|row| row.split('|').filter_map(number).collect()).collect()
}

/// Under the policies of both gateways Envoy asks in this way: with a cost of 0 or 1 before the request, and with the
/// whole cost after the response.
#[test]
fn what_is_under_way_at_once_is_all_that_passes_beyond_a_budget_and_it_is_remembered() {
    let limit = format!("rate_limit: {{unit: year, requests_per_unit: {BUDGET}}}");
    let least = BUDGET - COST;
    let mut measured = Vec::new();
    for under_way in [1, 8, 30, 100] {
        let bound = BUDGET + under_way * COST;
        let of = |keys: &str, serve: &[&str], asked: usize| {
            let rules = format!("domain: shop\ndescriptors:\n  - {{key: user, {keys}, {limit}}}\n");
            let filter = filter(&format!("hits_addend: {{number: {asked}}}, "), COST_AFTER);
            let [passed, remembered] = passed(under_way, &rules, &filter, serve, asked);
            assert!((least..=bound).contains(&passed), "{under_way} {keys}: {passed} of {bound}");
            assert_eq!(remembered, passed, "{under_way} {keys}");
            passed
        };
        let by_usage = of("usage: true", &[], 0);
        let by_quota = of("quota_mode: true", &["--compat"], 1);
        measured.push(vec![under_way, bound, by_usage, by_quota]);
    }
    println!("passed: {measured:?}");
    let told = figures_of_page();
    let heads = |rows: &[Vec<usize>]| rows.iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>();
    assert_eq!(heads(&told), heads(&measured), "measured: {measured:?}");
    for row in told {
        let is_kept = |passed: &usize| (least..=row[1]).contains(passed);
        assert!(row.len() == 4 && row[2..].iter().all(is_kept), "{row:?} of {measured:?}");
    }
}
