//! Tests of the bounds on the memory of quotas, of assignments after a reload, and of the assignments of Envoys that
//! come back after a restart.

use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{RuleCache, RuleSettings, RuleText, StateError};

use super::*;
use crate::protocol::kinds::TokenBucket;
use crate::protocol::quota::BucketId;
use crate::protocol::quota::rate_limit_quota_usage_reports::BucketQuotaUsage;
use crate::quota::SavedQuotas;

/// An address that streams come from.
const ENVOY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

const RULES: &str =
    "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: second, requests_per_unit: 100}}\n";

fn quotas() -> (ManualClock, Quotas, DecisionMaker) {
    let clock = ManualClock::new();
    let quotas = Quotas::new(clock.clone().into());
    let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), clock.clone()));
    cache.load(&[RuleText::new("rules.yaml", RULES)]).expect("good rules");
    clock.advance(Duration::from_nanos(IN_FORCE));
    (clock, quotas, DecisionMaker::new(cache).expect("memory"))
}

fn reports(values: impl IntoIterator<Item = String>) -> RateLimitQuotaUsageReports {
    let usage = |value| BucketQuotaUsage {
        bucket_id: Some(BucketId { bucket: [("k".to_owned(), String::into_bytes(value))].into() }),
        num_requests_allowed: 1,
        ..BucketQuotaUsage::default()
    };
    let bucket_quota_usages = values.into_iter().map(usage).collect();
    RateLimitQuotaUsageReports { domain: "d".to_owned(), bucket_quota_usages }
}

/// The numbers of buckets, of limits, and of bytes.
fn held(quotas: &Quotas) -> (usize, usize, usize) {
    let book = quotas.book();
    (book.holders.len(), book.pools.len(), book.bytes)
}

#[test]
fn there_are_so_many_streams_and_no_more() {
    let (_, quotas, _) = quotas();
    let open: Vec<_> = (0..MAX_STREAMS).map(|_| quotas.open(ENVOY).expect("room")).collect();
    let refused = quotas.open(ENVOY).expect_err("no room");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.message(), "there are 1024 streams, and there can be no more; try later");
    quotas.close(open[0].id);
    assert!(quotas.open(ENVOY).is_ok());
}

#[test]
fn buckets_take_so_many_bytes_and_no_more_and_give_them_back() {
    let (clock, quotas, maker) = quotas();
    let OpenedStream { id: stream, mut answers } = quotas.open(ENVOY).expect("room");
    let value = |n: usize| format!("{n:060000}");
    let fitting = MAX_BYTES / (2 * 60_000);
    for n in 0..fitting + 100 {
        quotas.report(&maker, stream, &reports([value(n)])).expect("a good report");
        let _ = answers.try_recv();
    }
    let (buckets, limits, bytes) = held(&quotas);
    assert!(buckets < fitting && limits == buckets, "{buckets} {limits}");
    assert!(bytes <= MAX_BYTES && bytes > MAX_BYTES - 200_000, "{bytes}");
    let mut page = prometheus_client::registry::Registry::default();
    page.register_collector(Box::new(quotas.metrics()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &page).expect("text");
    let refused = format!("quota_refused_total {}", fitting + 100 - buckets);
    assert!(text.lines().any(|line| line == refused), "{refused} in {text}");
    // A bucket that was there before is still served.
    quotas.report(&maker, stream, &reports([value(0)])).expect("a good report");
    quotas.close(stream);
    assert_eq!(held(&quotas).0, 0);
    // A limit stays until none of its leases is in force.
    for _ in 0..3 {
        quotas.tick();
        clock.advance(Duration::from_nanos(IN_FORCE));
    }
    quotas.tick();
    assert_eq!(held(&quotas), (0, 0, 0));
}

#[test]
fn a_stream_that_takes_no_answers_ends() {
    let (clock, quotas, maker) = quotas();
    let OpenedStream { id: stream, answers } = quotas.open(ENVOY).expect("room");
    for n in 0..MAX_WAITING {
        quotas.report(&maker, stream, &reports([n.to_string()])).expect("a good report");
    }
    assert_eq!(answers.len(), MAX_WAITING);
    clock.advance(Duration::from_secs(1));
    quotas.report(&maker, stream, &reports(["more".to_owned()])).expect("it was read");
    let refused = quotas.report(&maker, stream, &reports(["more".to_owned()]));
    assert_eq!(
        refused.expect_err("it has ended").message(),
        "the stream does not take its responses"
    );
    assert!(answers.is_closed() && held(&quotas).0 == 0);
}

#[test]
fn what_a_refused_report_changes_for_other_streams_is_told_them() {
    let (clock, quotas, maker) = quotas();
    let OpenedStream { id: one, answers: mut of_one } = quotas.open(ENVOY).expect("room");
    let OpenedStream { id: other, answers: mut of_other } = quotas.open(ENVOY).expect("room");
    quotas.report(&maker, one, &reports(["x".to_owned()])).expect("a good report");
    clock.advance(Duration::from_secs(1));
    quotas.report(&maker, one, &reports(["x".to_owned()])).expect("a good report");
    while of_one.try_recv().is_ok() {}
    // The report is refused because its second bucket is not valid. But its first bucket has already taken a part of
    // the other stream's share, so the other stream is told of its smaller share.
    let mut bad = reports(["x".to_owned()]);
    bad.bucket_quota_usages.push(BucketQuotaUsage::default());
    let refused = quotas.report(&maker, other, &bad).expect_err("a bad report");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(of_one.try_recv().is_ok(), "it has less");
    assert!(of_other.try_recv().is_err(), "all is given out: it waits");
}

const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// The assignments in an answer: the value of each bucket, and its tokens per fill.
fn told(answers: &mut mpsc::Receiver<QuotaAnswer>) -> Vec<(Vec<u8>, u32)> {
    let of = |(value, bucket): (_, TokenBucket)| (value, bucket.tokens_per_fill.expect("tokens"));
    token_buckets(answers).into_iter().map(of).collect()
}

/// The assignments in an answer: the value of each bucket, and its token bucket.
fn token_buckets(answers: &mut mpsc::Receiver<QuotaAnswer>) -> Vec<(Vec<u8>, TokenBucket)> {
    let mut told = Vec::new();
    while let Ok(Ok(answer)) = answers.try_recv() {
        for action in answer.bucket_action {
            let Some(Act::QuotaAssignmentAction(action_of)) = action.bucket_action else {
                continue;
            };
            let strategy = action_of.rate_limit_strategy.and_then(|one| one.strategy);
            let Some(Strategy::TokenBucket(bucket)) = strategy else { panic!("{strategy:?}") };
            let value = action.bucket_id.expect("a bucket").bucket["k"].clone();
            told.push((value, bucket));
        }
    }
    told
}

#[test]
fn after_a_reload_an_envoy_that_has_not_reported_gets_the_new_fill_interval_too() {
    let (clock, _, maker) = quotas();
    // These quotas assign nothing for 11 s.
    let quotas = Quotas::new(clock.clone().into());
    let mut streams = [ENVOY, OTHER].map(|address| quotas.open(address).expect("room"));
    let report = |stream: &OpenedStream| {
        let reported = quotas.report(&maker, stream.id, &reports(["x".to_owned()]));
        reported.expect("a good report");
    };
    clock.advance(Duration::from_secs(7));
    streams.iter().for_each(report);
    let hourly = RULES.replace("second", "hour");
    maker.cache().load(&[RuleText::new("rules.yaml", hourly)]).expect("good rules");
    clock.advance(Duration::from_secs(2));
    report(&streams[0]);
    clock.advance(Duration::from_secs(2));
    quotas.tick();
    for (place, stream) in streams.iter_mut().enumerate() {
        let given = token_buckets(&mut stream.answers);
        let seconds = |(_, bucket): &(Vec<u8>, TokenBucket)| {
            bucket.fill_interval.as_ref().map(|interval| interval.seconds)
        };
        let seconds: Vec<_> = given.iter().map(seconds).collect();
        assert_eq!(seconds, [Some(36_000)], "Envoy {place}");
    }
}

/// The quotas of the next service, which starts a second after this service has stopped.
fn restarted(clock: &ManualClock, before: &Quotas) -> Quotas {
    let file = before.end().to_bytes();
    clock.advance(Duration::from_secs(1));
    let after = Quotas::new(clock.clone().into());
    let saved = SavedQuotas::read(&file[..]).expect("as it was written");
    assert_eq!(saved.to_bytes(), file);
    after.restore(&saved).expect("a good file");
    after
}

/// Quotas with a stream from each of these addresses. Each stream has had a share of the bucket `x` for 3 s, and the
/// first stream also a share of `y`.
fn given(addresses: &[IpAddr]) -> (ManualClock, Quotas, DecisionMaker) {
    let (clock, quotas, maker) = quotas();
    let buckets = |place| ["x", "y"].into_iter().take(if place == 0 { 2 } else { 1 });
    for (place, address) in addresses.iter().enumerate() {
        let OpenedStream { id: stream, mut answers } = quotas.open(*address).expect("room");
        let report = reports(buckets(place).map(str::to_owned));
        quotas.report(&maker, stream, &report).expect("a good report");
        assert_eq!(told(&mut answers).len(), if place == 0 { 2 } else { 1 });
    }
    clock.advance(Duration::from_secs(3));
    (clock, quotas, maker)
}

/// Reports `x` and `y` on a stream; returns the assignments that answer it.
fn reported(
    quotas: &Quotas,
    maker: &DecisionMaker,
    stream: &mut OpenedStream,
) -> Vec<(Vec<u8>, u32)> {
    let report = reports(["x", "y"].map(str::to_owned));
    quotas.report(maker, stream.id, &report).expect("a good report");
    told(&mut stream.answers)
}

/// The assignments that answer the first report of a new stream.
fn first_told(quotas: &Quotas, maker: &DecisionMaker, address: IpAddr) -> Vec<(Vec<u8>, u32)> {
    reported(quotas, maker, &mut quotas.open(address).expect("room"))
}

fn ids(quotas: &Quotas) -> Vec<u64> {
    let mut ids: Vec<u64> = quotas.book().holders.keys().copied().collect();
    ids.sort_unstable();
    ids
}

#[test]
fn the_next_stream_from_an_address_has_what_the_only_one_from_there_had() {
    let (clock, before, maker) = given(&[ENVOY, OTHER]);
    let after = restarted(&clock, &before);
    let orphans: Vec<u64> = after
        .book()
        .orphans
        .values()
        .flat_map(|of| of.buckets.values())
        .map(|one| one.id)
        .collect();
    assert_eq!(orphans.len(), 3);
    // The streams are kept, because dropping a stream's receiver would close the stream.
    let mut streams = vec![after.open(ENVOY).expect("room")];
    assert_eq!(reported(&after, &maker, &mut streams[0]).len(), 2);
    let came_back = ids(&after);
    assert!(came_back.len() == 2 && came_back.iter().all(|id| orphans.contains(id)));
    // A second stream from the same address counts as a new Envoy. A stream from the other address counts as the Envoy
    // that was there before.
    for (address, back) in [(ENVOY, 2), (OTHER, 3)] {
        let mut stream = after.open(address).expect("room");
        reported(&after, &maker, &mut stream);
        assert_eq!(ids(&after).iter().filter(|id| orphans.contains(id)).count(), back);
        streams.push(stream);
    }
    // In the end no bytes are counted any more.
    streams.iter().for_each(|stream| after.close(stream.id));
    for _ in 0..3 {
        clock.advance(Duration::from_nanos(IN_FORCE));
        after.tick();
    }
    assert_eq!(held(&after), (0, 0, 0));
}

#[test]
fn of_two_streams_from_an_address_nothing_is_known_until_what_they_had_is_over() {
    let (clock, before, maker) = given(&[ENVOY, ENVOY]);
    let after = restarted(&clock, &before);
    // A new lease for `x` would be smaller than the old one, which both streams still hold. `y` belonged to one of the
    // two streams, but the service does not know which.
    assert_eq!(first_told(&after, &maker, ENVOY), []);
    // A stream from another address gets the free part at once.
    assert_ne!(first_told(&after, &maker, OTHER), []);
    // The leases were given 3 s before the end of the old service, which was a second ago.
    clock.advance(Duration::from_nanos(IN_FORCE) - Duration::from_secs(4));
    after.tick();
    assert!(after.book().orphans.is_empty());
    assert!(first_told(&after, &maker, ENVOY).len() == 2);
}

#[test]
fn a_stream_that_has_not_said_its_domain_may_be_of_each() {
    let (clock, before, maker) = given(&[ENVOY]);
    let _nameless = before.open(ENVOY).expect("room");
    let after = restarted(&clock, &before);
    assert_eq!(first_told(&after, &maker, ENVOY), []);
}

#[test]
fn who_has_not_come_back_between_two_restarts_is_known_after_both() {
    let (clock, before, maker) = given(&[ENVOY, OTHER]);
    let between = restarted(&clock, &before);
    let after = restarted(&clock, &between);
    assert_eq!(after.book().orphans.len(), 2);
    assert_eq!(first_told(&after, &maker, ENVOY).len(), 2);
    assert_eq!(after.book().orphans.len(), 1);
}

#[test]
fn quotas_that_have_ended_give_nothing_any_more() {
    let (clock, before, maker) = given(&[ENVOY]);
    let OpenedStream { id: stream, mut answers } = before.open(OTHER).expect("room");
    before.end();
    clock.advance(Duration::from_nanos(IN_FORCE));
    before.tick();
    let refused = before.report(&maker, stream, &reports(["x".to_owned()])).expect_err("it ended");
    assert_eq!(
        (refused.code(), refused.message()),
        (tonic::Code::Unavailable, "the service stops")
    );
    assert_eq!(before.open(ENVOY).expect_err("it ended").code(), tonic::Code::Unavailable);
    before.close(stream);
    assert!(answers.try_recv().is_err() && answers.is_closed());
}

#[test]
fn quotas_that_differ_in_any_byte_or_are_of_later_are_refused() {
    let (clock, before, _) = given(&[ENVOY, OTHER]);
    let file = before.end().to_bytes();
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        let refused = SavedQuotas::read(&changed[..]).expect_err("damaged");
        assert!(matches!(refused, StateError::Damaged(_)), "byte {at}: {refused}");
        let refused = SavedQuotas::read(&file[..at]).expect_err("cut");
        assert!(matches!(refused, StateError::Damaged(_)), "cut at {at}: {refused}");
    }
    let saved = SavedQuotas::read(&file[..]).expect("whole");
    let earlier = Quotas::new(ManualClock::new().into());
    let from = earlier.book().from;
    let refused = earlier.restore(&saved).expect_err("the clock was set back").to_string();
    assert_eq!(refused, "the state is of a later time than the system's clock shows");
    assert_eq!((held(&earlier), earlier.book().from), ((0, 0, 0), from));
    let after = Quotas::new(clock.into());
    let mut nowhere = saved.clone();
    nowhere.pools[0].holders[0].address = "nowhere".to_owned();
    let refused = after.restore(&nowhere).expect_err("no address").to_string();
    assert_eq!(refused, r#"the state has an address "nowhere", which is none"#);
    let mut twice = saved.clone();
    twice.pools.push(saved.pools[0].clone());
    let refused = after.restore(&twice).expect_err("twice").to_string();
    assert_eq!(refused, "the state has a limit twice");
    assert_eq!(held(&after), (0, 0, 0));
}
