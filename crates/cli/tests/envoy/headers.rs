//! The headers that tell clients of Envoy about their limits.

use crate::client::Answer;
use crate::world::{ALICE, Setup, World, of_headers};

/// A limit that is full again after two hours: it has room for one request each half hour.
const HOURLY: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: gcra, burst: 4, name: hourly}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 9, algorithm: gcra}}
  - {key: odd, rate_limit: {window: 90m, requests_per_unit: 1, algorithm: gcra}}
";

pub(crate) const DRAFT_03: &str = "enable_x_ratelimit_headers: DRAFT_VERSION_03";
const OF_ENVOY: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
const OF_THE_SERVICE: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];

/// The descriptors of the limits of a user and of the day.
const BOTH: &str = "
    {actions: [{generic_key: {descriptor_key: day, descriptor_value: any}}]},
    {actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}";

/// Asserts that a header has this number of seconds, to within a minute: a busy machine may be slow, and for limits as
/// slow as these a table counts time in steps of seconds.
#[track_caller]
pub(crate) fn assert_seconds(answer: &Answer, header: &str, seconds: u64) {
    let told: u64 = answer.header(header).and_then(|told| told.parse().ok()).expect("a number");
    assert!(told.abs_diff(seconds) < 60, "{header}: {told}, not {seconds}");
}

#[test]
fn draft_03_tells_the_quota_its_window_and_its_name_also_of_a_denial() {
    let limits = of_headers(&["user", "odd"]);
    let filter = &[DRAFT_03];
    let world = World::start(&Setup { rules: HOURLY, limits: &limits, filter, ..Setup::default() });
    let answer = world.ask("/", ALICE);
    assert_eq!(answer.all(OF_ENVOY)[..2], ["2, 2;w=3600;name=\"hourly\"", "3"]);
    assert_seconds(&answer, "x-ratelimit-reset", 1_800);
    assert_eq!(answer.all(OF_THE_SERVICE), [""; 3]);
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    let answer = world.ask("/", ALICE);
    assert_eq!(answer.status, 429);
    assert_eq!(answer.all(OF_ENVOY)[..2], ["2, 2;w=3600;name=\"hourly\"", "0"]);
    assert_seconds(&answer, "x-ratelimit-reset", 7_200);
    // A window for which Envoy has no unit is left out.
    let answer = world.ask("/", &["x-odd: any"]);
    assert_eq!(answer.all(OF_ENVOY)[..2], ["1", "0"]);
    assert_seconds(&answer, "x-ratelimit-reset", 5_400);
}

#[test]
fn draft_03_tells_of_the_limit_with_the_least_left_and_lists_all() {
    let setup = Setup { rules: HOURLY, limits: BOTH, filter: &[DRAFT_03], ..Setup::default() };
    let world = World::start(&setup);
    let answer = world.ask("/", ALICE);
    let all = "2, 9;w=86400, 2;w=3600;name=\"hourly\"";
    assert_eq!(answer.all(OF_ENVOY)[..2], [all, "3"]);
    assert_seconds(&answer, "x-ratelimit-reset", 1_800);
}

#[test]
fn draft_03_can_be_chosen_for_one_descriptor() {
    let limits = BOTH.replace(
        "{actions: [{request",
        "{x_ratelimit_option: DRAFT_VERSION_03, actions: [{request",
    );
    let world = World::start(&Setup { rules: HOURLY, limits: &limits, ..Setup::default() });
    assert_eq!(world.ask("/", ALICE).all(OF_ENVOY)[..2], ["2, 2;w=3600;name=\"hourly\"", "3"]);
}

#[test]
fn without_a_choice_there_are_no_headers() {
    let world = World::start(&Setup { rules: HOURLY, ..Setup::default() });
    let answer = world.ask("/", ALICE);
    assert_eq!((answer.all(OF_ENVOY), answer.all(OF_THE_SERVICE)), ([""; 3], [""; 3]));
    assert_eq!(answer.header("retry-after"), None);
}

#[test]
fn the_services_own_headers_are_added_and_envoy_keeps_its_retry_after() {
    let setup = Setup {
        rules: HOURLY,
        serve: &["--response-headers"],
        filter: &["enable_retry_after_header: true"],
        ..Setup::default()
    };
    let world = World::start(&setup);
    let answer = world.ask("/", ALICE);
    assert_eq!(answer.all(OF_THE_SERVICE)[..2], ["2", "3"]);
    assert_seconds(&answer, "ratelimit-reset", 1_800);
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    let answer = world.ask("/", ALICE);
    assert_eq!((answer.status, &answer.all(OF_THE_SERVICE)[..2]), (429, &["2", "0"][..]));
    assert_seconds(&answer, "ratelimit-reset", 7_200);
    // This is the time after which a request fits.
    assert_seconds(&answer, "retry-after", 1_800);
}

#[test]
fn envoys_retry_after_is_when_the_limit_is_whole() {
    let filter = &["enable_retry_after_header: true"];
    let world = World::start(&Setup { rules: HOURLY, filter, ..Setup::default() });
    assert_eq!(world.ask("/", ALICE).header("retry-after"), None);
    assert_eq!(world.statuses(3, "/", ALICE), [200; 3]);
    assert_seconds(&world.ask("/", ALICE), "retry-after", 7_200);
}

#[test]
fn a_denial_tells_of_the_limit_that_denies() {
    let setup =
        Setup { rules: HOURLY, limits: BOTH, serve: &["--response-headers"], ..Setup::default() };
    let world = World::start(&setup);
    assert_eq!(world.statuses(4, "/", ALICE), [200; 4]);
    let denied = world.ask("/", ALICE);
    assert_eq!((denied.status, &denied.all(OF_THE_SERVICE)[..2]), (429, &["2", "0"][..]));
    assert_seconds(&denied, "retry-after", 1_800);
    // Denied requests were not charged to the day: five of nine are left, and another user takes one of them.
    assert_eq!(world.ask("/", &["x-user: bob"]).all(OF_THE_SERVICE)[..2], ["2", "3"]);
}

#[test]
fn the_metadata_of_a_rule_reaches_headers_and_the_access_log() {
    let rules = "
domain: shop
descriptors:
  - key: user
    metadata: {tier: gold, contact: {team: payments}}
    rate_limit: {unit: year, requests_per_unit: 1}
";
    let setup = Setup {
        rules,
        serve: &["--metadata"],
        route: &["response_headers_to_add: [{header: {key: x-tier, value: '%DYNAMIC_METADATA(\
                  envoy.filters.http.ratelimit:metadata:tier)%'}}]"],
        access: "%RESPONSE_CODE% %RESPONSE_CODE_DETAILS% %RESPONSE_FLAGS% %DYNAMIC_METADATA(\
                 envoy.filters.http.ratelimit:metadata:contact:team)%",
        ..Setup::default()
    };
    let world = World::start(&setup);
    assert_eq!(world.ask("/", ALICE).header("x-tier"), Some("gold"));
    assert_eq!(world.ask("/", ALICE).status, 429);
    assert_eq!(
        world.access_log(2),
        ["200 via_upstream - payments", "429 request_rate_limited RL -"]
    );
}
