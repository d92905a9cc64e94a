//! Tests quotas for Envoys, over real streams.

use std::path::PathBuf;
use std::time::Duration;

use crate::common::{PATIENT, World, serve_with};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tollgate::ManualClock;
use tollgate_service::protocol::kinds::TokenBucket;
use tollgate_service::protocol::kinds::rate_limit_strategy::{BlanketRule, Strategy};
use tollgate_service::protocol::quota::rate_limit_quota_response::bucket_action::BucketAction;
use tollgate_service::protocol::quota::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
use tollgate_service::protocol::quota::rate_limit_quota_usage_reports::BucketQuotaUsage;
use tollgate_service::protocol::quota::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use tollgate_service::{Global, Options};
use tonic::{Code, Status, Streaming};

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: second, requests_per_unit: 100, algorithm: gcra, burst: 40}}
  - key: env
    value: prod
    descriptors:
      - {key: tenant, rate_limit: {unit: minute, requests_per_unit: 60}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: closed, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: both
    limits: [{unit: second, requests_per_unit: 10}, {unit: minute, requests_per_unit: 60}]
";

/// The maximum time for which assignments of an earlier service may be in force.
const BEFORE: Duration = Duration::from_secs(11);

const ALICE: [(&str, &str); 1] = [("user", "alice")];

/// The stream of an Envoy.
struct Stream {
    reports: mpsc::Sender<RateLimitQuotaUsageReports>,
    answers: Streaming<RateLimitQuotaResponse>,
}

impl Stream {
    async fn open(world: &World) -> Result<Self, Status> {
        let mut client = RateLimitQuotaServiceClient::new(world.channel().await);
        let (reports, sent) = mpsc::channel(8);
        let answers =
            client.stream_rate_limit_quotas(ReceiverStream::new(sent)).await?.into_inner();
        Ok(Self { reports, answers })
    }

    async fn send(&self, domain: &str, bucket_quota_usages: Vec<BucketQuotaUsage>) {
        let domain = domain.to_owned();
        let report = RateLimitQuotaUsageReports { domain, bucket_quota_usages };
        self.reports.send(report).await.expect("it is open");
    }

    /// The actions of the next answer.
    async fn told(&mut self) -> Result<Vec<BucketAction>, Status> {
        let answer =
            tokio::time::timeout(PATIENT, self.answers.message()).await.expect("in time")?;
        let answer = answer.expect("it is open");
        Ok(answer.bucket_action.into_iter().filter_map(|one| one.bucket_action).collect())
    }

    /// Reports one bucket and returns the strategy that it is assigned.
    async fn ask(&mut self, bucket: &[(&str, &str)], requests: u64) -> Strategy {
        self.send("shop", vec![usage(bucket, requests)]).await;
        strategy(&self.told().await.expect("an answer")[0])
    }
}

fn usage(bucket: &[(&str, &str)], requests: u64) -> BucketQuotaUsage {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
    BucketQuotaUsage {
        bucket_id: Some(BucketId { bucket: bucket.iter().map(pair).collect() }),
        num_requests_denied: requests,
        ..BucketQuotaUsage::default()
    }
}

fn strategy(action: &BucketAction) -> Strategy {
    let BucketAction::QuotaAssignmentAction(action) = action else { panic!("{action:?}") };
    assert_eq!(
        action.assignment_time_to_live.map(|time| (time.seconds, time.nanos)),
        Some((10, 0))
    );
    action.rate_limit_strategy.and_then(|one| one.strategy).expect("a strategy")
}

/// The tokens that a strategy's bucket gains in 1,000 s, and its burst.
fn bucket(strategy: &Strategy) -> (i64, u32) {
    let Strategy::TokenBucket(TokenBucket { max_tokens, tokens_per_fill, fill_interval }) =
        strategy
    else {
        panic!("{strategy:?}")
    };
    let interval = fill_interval.expect("an interval");
    assert_eq!(interval.nanos, 0);
    (i64::from(tokens_per_fill.expect("tokens")) * 1_000 / interval.seconds, *max_tokens)
}

/// A service that has run long enough to make assignments.
async fn serve(test: &str) -> (ManualClock, World) {
    let clock = ManualClock::new();
    let of_world = clock.clone().into();
    let world = serve_with(test, RULES, |options| Options { clock: of_world, ..options }).await;
    clock.advance(BEFORE);
    (clock, world)
}

#[tokio::test]
async fn a_bucket_gets_the_rule_that_its_entries_match_in_the_order_of_their_names() {
    let (_clock, world) = serve("quota_rules").await;
    let mut envoy = Stream::open(&world).await.expect("a stream");
    // Before its demand is known, an Envoy gets half of the rate that can be given out. That rate is 96.8 of 100.
    assert_eq!(bucket(&envoy.ask(&ALICE, 1).await), (48_400, 20));
    // The order of a bucket's entries makes no difference.
    assert_eq!(bucket(&envoy.ask(&[("tenant", "a"), ("env", "prod")], 1).await), (484, 30));
    let both = bucket(&envoy.ask(&[("both", "x")], 1).await);
    assert_eq!(both, (484, 5), "the slower rate, and the smaller burst");
    for (name, expected) in [
        ("free", BlanketRule::AllowAll),
        ("watched", BlanketRule::AllowAll),
        ("unknown", BlanketRule::AllowAll),
        ("closed", BlanketRule::DenyAll),
    ] {
        let told = envoy.ask(&[(name, "x")], 1).await;
        assert_eq!(told, Strategy::BlanketRule(expected.into()), "{name}");
    }
    world.until("tollgate_quota_buckets 3").await;
    world.until("tollgate_quota_assignments_total 7").await;
    world.until("tollgate_quota_reported_denied_total 7").await;
}

#[tokio::test]
async fn a_value_that_is_no_text_does_no_harm_and_a_bucket_that_is_not_reported_is_abandoned() {
    let (clock, world) = serve("quota_bytes").await;
    let mut envoy = Stream::open(&world).await.expect("a stream");
    let bytes = BucketId { bucket: [("user".to_owned(), vec![0xff, b'a'])].into() };
    let odd = BucketQuotaUsage { bucket_id: Some(bytes), ..usage(&[], 1) };
    envoy.send("shop", vec![odd, usage(&ALICE, 1)]).await;
    let told = envoy.told().await.expect("an answer");
    assert_eq!(told.len(), 1, "Envoy ends a stream with a value that is no text");
    assert_eq!(bucket(&strategy(&told[0])), (48_400, 20));
    world.until("tollgate_quota_refused_total 1").await;
    // Within a time to live nothing more is reported.
    clock.advance(Duration::from_secs(10));
    let told = envoy.told().await.expect("an answer");
    assert!(matches!(told[..], [BucketAction::AbandonAction(_)]), "{told:?}");
    world.until("tollgate_quota_buckets 0").await;
    world.until("tollgate_quota_abandoned_total 1").await;
}

#[tokio::test]
async fn streams_share_a_limit_and_never_have_more_than_it() {
    let (clock, world) = serve("quota_shared").await;
    let (mut envoys, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let mut envoy = Stream::open(&world).await.expect("a stream");
        rates.push(bucket(&envoy.ask(&ALICE, 1).await));
        envoys.push(envoy);
    }
    let sum = rates.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(sum.0 <= 100_000 && sum.1 <= 40, "{rates:?}");
    assert_eq!(rates[0], (48_400, 20));
    // Another user has a separate limit.
    let mut other = Stream::open(&world).await.expect("a stream");
    assert_eq!(bucket(&other.ask(&[("user", "bob")], 1).await), (48_400, 20));
    // The streams close. Their shares are given to others after their leases have ended.
    drop(envoys);
    world.until("tollgate_quota_streams 1").await;
    clock.advance(BEFORE);
    assert_eq!(bucket(&other.ask(&ALICE, 1).await).0, 48_400);
}

#[tokio::test]
async fn a_bad_report_ends_the_stream_and_says_what_is_wrong() {
    let (_clock, world) = serve("quota_bad").await;
    let good = || usage(&ALICE, 1);
    let many: Vec<(String, String)> = (0..33).map(|n| (n.to_string(), "x".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let form = "; send a map of names and values, none of them empty";
    for (domain, usages, expected) in [
        ("", vec![good()], "domain is empty; the first report names it".to_owned()),
        (
            "shop",
            vec![good(), BucketQuotaUsage::default()],
            format!("bucket_quota_usages[1].bucket_id is missing{form}"),
        ),
        ("shop", vec![usage(&[], 1)], format!("bucket_quota_usages[0].bucket_id is empty{form}")),
        (
            "shop",
            vec![usage(&[("user", "")], 1)],
            format!("bucket_quota_usages[0].bucket_id has an empty name or value{form}"),
        ),
        ("shop", vec![usage(&many, 1)], "bucket_quota_usages[0]: ".to_owned()),
    ] {
        let mut envoy = Stream::open(&world).await.expect("a stream");
        envoy.send(domain, usages).await;
        let refused = loop {
            if let Err(status) = envoy.told().await {
                break status;
            }
        };
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with(&expected), "{}", refused.message());
    }
    let mut envoy = Stream::open(&world).await.expect("a stream");
    envoy.ask(&ALICE, 1).await;
    // A report without a domain means the domain of the previous report.
    envoy.send("", vec![usage(&[("free", "x")], 1)]).await;
    envoy.told().await.expect("an answer");
    envoy.send("blog", vec![good()]).await;
    let refused = envoy.told().await.expect_err("another domain");
    let expected =
        "domain is 'blog', and was 'shop' before; open another stream for another domain";
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, expected));
}

#[tokio::test]
async fn without_rules_and_with_redis_there_are_no_quotas() {
    let mut world = serve_with("quota_none", "domain: ''", |options| options).await;
    world.reloaded().await;
    let mut envoy = Stream::open(&world).await.expect("a stream");
    envoy.send("shop", vec![usage(&ALICE, 1)]).await;
    assert_eq!(envoy.told().await.expect_err("no rules").code(), Code::Unavailable);
    let global = Some(Global::new("redis://127.0.0.1:1/"));
    let world = serve_with("quota_redis", RULES, |options| Options { global, ..options }).await;
    let refused = Stream::open(&world).await.err().expect("limits in Redis");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().starts_with("quotas are not given out while limits are kept in Redis")
    );
}

#[tokio::test]
async fn a_service_that_stops_ends_its_streams() {
    let (_clock, world) = serve("quota_stop").await;
    let mut envoy = Stream::open(&world).await.expect("a stream");
    envoy.ask(&ALICE, 1).await;
    // The service stops within its grace, and then no stream is open.
    world.running.stop().await;
    let end = envoy.answers.message().await;
    assert!(!matches!(end, Ok(Some(_))), "{end:?}");
}

/// A service on this clock whose state is in a directory of its own.
async fn serve_state(test: &str, clock: &ManualClock) -> World {
    let (state, state_every) = (state_of(test), Duration::from_secs(3_600));
    std::fs::create_dir_all(state.parent().expect("a directory")).expect("below target");
    let (clock, state) = (clock.clone().into(), Some(state));
    serve_with(test, RULES, |options| Options { clock, state, state_every, ..options }).await
}

fn state_of(test: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}_state")).join("state")
}

/// The file of quotas of this test. With `ending`, the file to which it is renamed.
fn quotas_of(test: &str, ending: &str) -> PathBuf {
    state_of(test).with_file_name(format!("state.quotas{ending}"))
}

/// A service without a saved state, which runs long enough to make assignments.
async fn serve_first(test: &str) -> (ManualClock, World) {
    let _ = std::fs::remove_dir_all(state_of(test).parent().expect("a directory"));
    let clock = ManualClock::new();
    let world = serve_state(test, &clock).await;
    clock.advance(BEFORE);
    (clock, world)
}

#[tokio::test]
async fn a_service_that_stops_and_starts_prolongs_what_an_envoy_has_at_its_first_report() {
    let test = "quota_restart";
    let (clock, world) = serve_first(test).await;
    let mut envoy = Stream::open(&world).await.expect("a stream");
    envoy.ask(&ALICE, 1).await;
    clock.advance(Duration::from_secs(1));
    let assigned = envoy.ask(&ALICE, 1).await;
    assert_eq!(bucket(&assigned).0, 96_800);
    clock.advance(Duration::from_secs(2));
    world.running.stop().await;
    assert!(quotas_of(test, "").exists());
    clock.advance(Duration::from_secs(1));
    let world = serve_state(test, &clock).await;
    assert!(!quotas_of(test, "").exists(), "it is true once");
    let mut envoy = Stream::open(&world).await.expect("a stream");
    assert_eq!(envoy.ask(&ALICE, 1).await, assigned);
    // An Envoy that comes now is new, and nothing is left for it.
    let mut other = Stream::open(&world).await.expect("a stream");
    other.send("shop", vec![usage(&ALICE, 1), usage(&[("free", "x")], 1)]).await;
    assert_eq!(other.told().await.expect("an answer").len(), 1);
    world.running.stop().await;
}

#[tokio::test]
async fn a_service_that_was_killed_or_finds_a_damaged_file_waits_until_all_is_over() {
    let test = "quota_killed";
    let (clock, world) = serve_first(test).await;
    let mut envoy = Stream::open(&world).await.expect("a stream");
    envoy.ask(&ALICE, 1).await;
    // The service is dropped and not stopped, so it writes no file.
    drop(world);
    for is_damaged in [false, true] {
        assert!(!quotas_of(test, "").exists());
        if is_damaged {
            std::fs::write(quotas_of(test, ""), "TOLLQUOT, or not").expect("below target");
        }
        let world = serve_state(test, &clock).await;
        let errors = world.metric("tollgate_state_errors_total").await;
        assert_eq!(errors, Some(u8::from(is_damaged).to_string()));
        assert_eq!(quotas_of(test, ".bad").exists(), is_damaged);
        let mut envoy = Stream::open(&world).await.expect("a stream");
        envoy.send("shop", vec![usage(&ALICE, 1), usage(&[("free", "x")], 1)]).await;
        assert_eq!(envoy.told().await.expect("an answer").len(), 1, "{is_damaged}");
        drop(world);
    }
}
