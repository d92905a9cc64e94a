//! Tests scenario I of `scenarios.rs`: rules that change while they are served. `storm.rs` tests many changes under
//! load.

use crate::common::{World, codes, descriptor, request, serve_on_clock};
use tollgate_rules::{RuleSettings, Timing};
use tollgate_service::Options;
use tollgate_service::protocol::rls::rate_limit_response::Code;

const OTHER: &str = "
domain: other
descriptors:
  - {key: key1, rate_limit: {unit: minute, requests_per_unit: 7}}
";

const RELOAD: &str = "
domain: reload
descriptors:
  - {key: key1, rate_limit: {unit: second, requests_per_unit: 50}}
  - {key: block, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: one_per_minute, rate_limit: {unit: minute, requests_per_unit: 1}}
";

/// With this timing the service reads rules again only after a signal or a change, and then at once.
const AT_ONCE: Timing =
    Timing { poll: std::time::Duration::from_secs(3_600), settle: std::time::Duration::ZERO };

async fn serve(test: &str, rules: &str, settings: RuleSettings) -> World {
    let more = |options| Options { settings, timing: AT_ONCE, ..options };
    let (mut world, _) = serve_on_clock(test, rules, more).await;
    assert_eq!(world.reloaded().await, []);
    world
}

/// Writes the file, or removes it if it would be empty, and waits until the rules are loaded.
async fn load(world: &mut World, file: &str, rules: &str) {
    if rules.is_empty() {
        std::fs::remove_file(world.rules.join(file)).expect("the file");
        world.running.changed().notify();
    } else {
        world.put(file, rules);
    }
    assert_eq!(world.reloaded().await, []);
}

async fn asks(world: &World, domain: &str, key: &str) -> (Code, u32, bool) {
    let response = world.ask(request(domain, &[descriptor(&[(key, "foo")])])).await;
    let (_, left) = codes(&response)[0];
    (response.overall_code(), left, response.statuses[0].current_limit.is_some())
}

async fn loads(world: &World) -> [String; 2] {
    let count = async |name: &str| {
        world.metric(&format!("tollgate_config_load_{name}_total")).await.expect("a series")
    };
    [count("success").await, count("error").await]
}

/// Also tests row 105 of the bad inputs: see `bad_inputs.rs`.
#[tokio::test]
async fn i_row_105_a_domain_goes_with_its_file_and_a_bad_file_changes_nothing_and_is_told() {
    // Without `allow_empty` an emptied domain would stay: see the next test.
    let settings = RuleSettings { allow_empty: true, ..RuleSettings::default() };
    let mut world = serve("i_comes_and_goes", OTHER, settings).await;
    assert_eq!(asks(&world, "reload", "block").await, (Code::Ok, 0, false));
    assert_eq!(loads(&world).await, ["1", "0"]);
    load(&mut world, "reload.yaml", RELOAD).await;
    assert_eq!(loads(&world).await, ["2", "0"]);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 49, true));
    assert_eq!(asks(&world, "reload", "block").await, (Code::OverLimit, 0, true));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, (Code::Ok, 0, true));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, (Code::OverLimit, 0, true));
    load(&mut world, "reload.yaml", "").await;
    assert_eq!(loads(&world).await, ["3", "0"]);
    assert_eq!(asks(&world, "reload", "block").await, (Code::Ok, 0, false));
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 6, true));
    world.put("basic.yaml", "domain: other\ndescriptors: [{key: ''}]\n");
    let text = world.reloaded().await[0].to_string();
    assert!(text.contains("basic.yaml:2:15: descriptor has empty key"), "{text}");
    assert_eq!(loads(&world).await, ["3", "1"]);
    assert_eq!(world.metric("tollgate_config_refused").await.as_deref(), Some("1"));
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 200);
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 5, true));
    load(&mut world, "basic.yaml", OTHER).await;
    assert_eq!(world.metric("tollgate_config_refused").await.as_deref(), Some("0"));
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 4, true));
}

/// `absence.rs` of `crates/rules/tests` has every way in which rules can be missing for a moment.
#[tokio::test]
async fn i_a_file_that_is_half_written_or_written_anew_gives_no_client_anything_back() {
    let mut world = serve("i_half_written", RELOAD, RuleSettings::default()).await;
    let half = &RELOAD[..RELOAD.find("  - {key: one_per_minute").expect("the last rule")];
    let (spent, passed) = ((Code::OverLimit, 0, true), (Code::Ok, 0, false));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, (Code::Ok, 0, true));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 49, true));
    // The file is only half written, but valid.
    load(&mut world, "basic.yaml", half).await;
    assert_eq!(asks(&world, "reload", "one_per_minute").await, passed);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 48, true));
    assert_eq!(world.metric("tollgate_lingering_tables").await.as_deref(), Some("1"));
    load(&mut world, "basic.yaml", RELOAD).await;
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 47, true));
    assert_eq!(world.metric("tollgate_lingering_tables").await.as_deref(), Some("0"));
    // The file is removed, so the directory is empty.
    load(&mut world, "basic.yaml", "").await;
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(world.metric("tollgate_config_kept_domains").await.as_deref(), Some("1"));
    let (_, config) = world.admin("GET", "/rlconfig", "").await;
    assert!(config.ends_with("kept: reload: there are no rules any more\n"), "{config}");
    // A file with only the domain is written.
    load(&mut world, "basic.yaml", "domain: reload\n").await;
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    load(&mut world, "basic.yaml", RELOAD).await;
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 46, true));
    assert_eq!(world.metric("tollgate_config_kept_domains").await.as_deref(), Some("0"));
    assert_eq!(world.metric("tollgate_lingering_forgotten_total").await.as_deref(), Some("0"));
}
