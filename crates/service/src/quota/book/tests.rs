//! What bounds the memory of quotas.

use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{RuleCache, RuleText, Settings};

use super::*;
use crate::protocol::quota::rate_limit_quota_usage_reports::BucketQuotaUsage;

const RULES: &str =
    "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: second, requests_per_unit: 100}}\n";

fn quotas() -> (ManualClock, Quotas, DecisionMaker) {
    let clock = ManualClock::new();
    let quotas = Quotas::new(clock.clone().into());
    let cache = Arc::new(RuleCache::with_clock(Settings::default(), clock.clone()));
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

/// Buckets, limits and bytes.
fn held(quotas: &Quotas) -> (usize, usize, usize) {
    let book = quotas.book();
    (book.holders.len(), book.pools.len(), book.bytes)
}

#[test]
fn there_are_so_many_streams_and_no_more() {
    let (_, quotas, _) = quotas();
    let open: Vec<_> = (0..MAX_STREAMS).map(|_| quotas.open().expect("room")).collect();
    let refused = quotas.open().expect_err("no room");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.message(), "there are 1024 streams, and there can be no more; try later");
    quotas.close(open[0].0);
    assert!(quotas.open().is_ok());
}

#[test]
fn buckets_take_so_many_bytes_and_no_more_and_give_them_back() {
    let (clock, quotas, maker) = quotas();
    let (stream, mut answers) = quotas.open().expect("room");
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
    // One that was there before is still served.
    quotas.report(&maker, stream, &reports([value(0)])).expect("a good report");
    quotas.close(stream);
    assert_eq!(held(&quotas).0, 0);
    // Limits are there until nothing of them is in force.
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
    let (stream, answers) = quotas.open().expect("room");
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
    let ((one, mut of_one), (other, mut of_other)) =
        (quotas.open().expect("room"), quotas.open().expect("room"));
    quotas.report(&maker, one, &reports(["x".to_owned()])).expect("a good report");
    clock.advance(Duration::from_secs(1));
    quotas.report(&maker, one, &reports(["x".to_owned()])).expect("a good report");
    while of_one.try_recv().is_ok() {}
    // The second bucket is none. But the first asks for a part of what the other stream has, which is to have less.
    let mut bad = reports(["x".to_owned()]);
    bad.bucket_quota_usages.push(BucketQuotaUsage::default());
    let refused = quotas.report(&maker, other, &bad).expect_err("a bad report");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(of_one.try_recv().is_ok(), "it has less");
    assert!(of_other.try_recv().is_err(), "all is given out: it waits");
}
