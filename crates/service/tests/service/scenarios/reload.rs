//! Scenario I, rules that change while they are served; the list is in `scenarios.rs`. Many changes under load are in
//! `storm.rs`.

use crate::common::{World, codes, descriptor, request, serve_with};
use tollgate::ManualClock;
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

/// With these settings the service reads rules again only after a signal or a change, and then at once.
const AT_ONCE: Timing =
    Timing { poll: std::time::Duration::from_secs(3_600), settle: std::time::Duration::ZERO };

async fn serve(test: &str, rules: &str, settings: RuleSettings) -> World {
    let mut world = serve_with(test, rules, |options| Options {
        settings,
        timing: AT_ONCE,
        clock: ManualClock::new().into(),
        ..options
    })
    .await;
    assert!(world.reloaded().await.is_empty());
    world
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

#[tokio::test]
async fn i_a_domain_comes_with_its_file_and_goes_with_it() {
    // Without `allow_empty` an emptied domain stays: see below.
    let settings = RuleSettings { allow_empty: true, ..RuleSettings::default() };
    let mut world = serve("i_comes_and_goes", OTHER, settings).await;
    assert_eq!(asks(&world, "reload", "block").await, (Code::Ok, 0, false));
    assert_eq!(loads(&world).await, ["1", "0"]);
    world.put("reload.yaml", RELOAD);
    assert!(world.reloaded().await.is_empty());
    assert_eq!(loads(&world).await, ["2", "0"]);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 49, true));
    assert_eq!(asks(&world, "reload", "block").await, (Code::OverLimit, 0, true));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, (Code::Ok, 0, true));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, (Code::OverLimit, 0, true));
    std::fs::remove_file(world.rules.join("reload.yaml")).expect("the file");
    world.running.changed().notify();
    assert!(world.reloaded().await.is_empty());
    assert_eq!(loads(&world).await, ["3", "0"]);
    assert_eq!(asks(&world, "reload", "block").await, (Code::Ok, 0, false));
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 6, true));
}

#[tokio::test]
async fn i_a_file_that_is_half_written_or_written_anew_gives_no_client_anything_back() {
    let mut world = serve("i_half_written", RELOAD, RuleSettings::default()).await;
    let half = &RELOAD[..RELOAD.find("  - {key: one_per_minute").expect("the last rule")];
    let (spent, passed) = ((Code::OverLimit, 0, true), (Code::Ok, 0, false));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, (Code::Ok, 0, true));
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 49, true));
    // The file is valid, but only half of it is there.
    world.put("basic.yaml", half);
    assert!(world.reloaded().await.is_empty());
    assert_eq!(asks(&world, "reload", "one_per_minute").await, passed);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 48, true));
    assert_eq!(world.metric("tollgate_lingering_tables").await.as_deref(), Some("1"));
    world.put("basic.yaml", RELOAD);
    assert!(world.reloaded().await.is_empty());
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 47, true));
    assert_eq!(world.metric("tollgate_lingering_tables").await.as_deref(), Some("0"));
    // The file is removed: the directory is empty.
    std::fs::remove_file(world.rules.join("basic.yaml")).expect("the file");
    world.running.changed().notify();
    assert!(world.reloaded().await.is_empty());
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(world.metric("tollgate_config_kept_domains").await.as_deref(), Some("1"));
    let (_, config) = world.admin("GET", "/rlconfig", "").await;
    assert!(config.ends_with("kept: reload: there are no rules any more\n"), "{config}");
    // The domain is written first.
    world.put("basic.yaml", "domain: reload\n");
    assert!(world.reloaded().await.is_empty());
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    world.put("basic.yaml", RELOAD);
    assert!(world.reloaded().await.is_empty());
    assert_eq!(asks(&world, "reload", "one_per_minute").await, spent);
    assert_eq!(asks(&world, "reload", "key1").await, (Code::Ok, 46, true));
    assert_eq!(world.metric("tollgate_config_kept_domains").await.as_deref(), Some("0"));
    assert_eq!(world.metric("tollgate_lingering_forgotten_total").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn i_a_bad_file_changes_nothing_and_is_told() {
    let mut world = serve("i_bad_file", OTHER, RuleSettings::default()).await;
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 6, true));
    world.put("basic.yaml", "domain: other\ndescriptors: [{key: ''}]\n");
    let errors = world.reloaded().await;
    let text = errors[0].to_string();
    assert!(text.contains("basic.yaml:2:15: descriptor has empty key"), "{text}");
    assert_eq!(loads(&world).await, ["1", "1"]);
    assert_eq!(world.metric("tollgate_config_refused").await.as_deref(), Some("1"));
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 5, true));
    world.put("basic.yaml", OTHER);
    assert!(world.reloaded().await.is_empty());
    assert_eq!(world.metric("tollgate_config_refused").await.as_deref(), Some("0"));
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 4, true));
}

/// The errors of envoyproxy/ratelimit, each file beside good rules that are served.
#[tokio::test]
async fn i_every_bad_file_is_refused_with_its_text() {
    let mut world = serve("i_every_bad_file", OTHER, RuleSettings::default()).await;
    let limit =
        |limit: &str| format!("domain: d\ndescriptors:\n  - {{key: k, rate_limit: {{{limit}}}}}\n");
    let with = |descriptor: &str| format!("domain: d\ndescriptors:\n  - {descriptor}\n");
    let twice = "domain: d\ndescriptors:\n  - {key: k, value: v}\n  - {key: k, value: v}\n";
    let cases = [
        ("domain: ''\n".to_owned(), "config file cannot have empty domain"),
        (OTHER.to_owned(), "duplicate domain 'other' in config file"),
        (with("{key: ''}"), "descriptor has empty key"),
        (twice.to_owned(), "duplicate descriptor composite key 'd.k_v'"),
        (limit("unit: foo, requests_per_unit: 5"), "invalid rate limit unit 'foo'"),
        (limit("unlimited: true, unit: day"), "should not specify rate limit unit when unlimited"),
        (limit("unit: day, replaces: [{name: ''}]"), "should not have an empty replaces entry"),
        (
            limit("unit: day, name: n, replaces: [{name: n}]"),
            "replaces should not contain name of same descriptor",
        ),
        (with("{ratelimit: {}}"), "config error, unknown key 'ratelimit'"),
        ("domain: d\n[1]: 5\n".to_owned(), "config error, key is not of type string"),
        (with("key"), "config error, yaml file contains list of type other than map"),
        (limit("unit: day, requests_per_unit: 0.5"), "error checking config"),
        ("domain: [".to_owned(), "error loading config file"),
        (with("{key: k, value: v, share_threshold: true}"), "share_threshold"),
    ];
    for (n, (file, text)) in cases.iter().enumerate() {
        world.put("z.yaml", file);
        let errors = world.reloaded().await;
        let told = errors.first().map(ToString::to_string).unwrap_or_default();
        assert!(told.contains("z.yaml:") && told.contains(text), "{file}\n{told}\n{text}");
        assert_eq!(loads(&world).await, ["1".to_owned(), (n + 1).to_string()]);
    }
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 6, true));
}

#[tokio::test]
async fn i_two_files_of_one_domain_are_merged_if_asked() {
    let settings = RuleSettings { merge_domains: true, ..RuleSettings::default() };
    let mut world = serve("i_merge", OTHER, settings).await;
    world.put("more.yaml", &OTHER.replace("key1", "key2").replace(": 7", ": 8"));
    assert!(world.reloaded().await.is_empty());
    assert_eq!(asks(&world, "other", "key1").await, (Code::Ok, 6, true));
    assert_eq!(asks(&world, "other", "key2").await, (Code::Ok, 7, true));
    // A duplicate key is an error all the same.
    world.put("more.yaml", OTHER);
    let errors = world.reloaded().await;
    let text = errors[0].to_string();
    assert!(
        text.contains("more.yaml:4:5: duplicate descriptor composite key 'other.key1'"),
        "{text}"
    );
}
