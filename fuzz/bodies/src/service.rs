//! Requests to the service: messages of Envoy's protocol, as bytes and as JSON.

use std::collections::HashMap;
use std::fmt;

use arbitrary::Arbitrary;
use prost::Message;
use tollgate::ManualClock;
use tollgate_rules::RuleSettings;
use tollgate_service::offline::Offline;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::rate_limit_response::{Code, DescriptorStatus};
use tollgate_service::protocol::rls::{RateLimitRequest, RateLimitResponse};

use crate::json;
use tollgate_model::Plant;

/// The name of each limit begins with the number of units that it admits at once, so that an answer tells which limit
/// decided.
const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 7, name: '7 each'}}
  - {key: user, value: alice, rate_limit: {unit: minute, requests_per_unit: 3, name: '3 each'}}
  - {key: path, value: '/a*', share_threshold: true, rate_limit: {unit: day, requests_per_unit: 5, name: '5 shared'}}
  - key: plan
    value: free
    descriptors:
      - {key: user, metadata: {tier: [free, 1]}, rate_limit: {unit: year, requests_per_unit: 2, name: '2 each'}}
  - {key: burst, rate_limit: {window: 10m, requests_per_unit: 600, algorithm: gcra, burst: 4, name: '4 each'}}
  - {key: none, rate_limit: {unit: second, requests_per_unit: 0, name: '0 each'}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1, name: shadow}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 6, name: '6 each'}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: 'any*', rate_limit: {unit: week, requests_per_unit: 9, name: '9 each', replaces: [{name: '7 each'}]}}
";

/// A request can bring a limit of its own. Up to this limit per second its rate is counted exactly.
const MAX_OWN_EACH_SECOND: u64 = 2_248_262_313;

/// The number of the unit "second" in the protocol, for limits that requests bring.
const SECOND: i32 = 1;

fn service() -> Offline {
    let settings = RuleSettings {
        default_capacity: Some(64),
        override_capacity: 64,
        max_descriptors: 20,
        ..RuleSettings::default()
    };
    Offline::new(RULES, settings, ManualClock::new()).expect("good rules")
}

/// The target `rls_request`: any bytes are a series of requests, or none. Whatever the requests ask for, no limit
/// admits more than it says, and the service shows no additional metric.
///
/// Each message is preceded by its length in two bytes.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct RlsCase<'m>(pub &'m [u8]);

/// The target `json_body`: any body is a request or none. A request that is read stays the same when it is written in
/// any of its JSON forms, and gets the same decision as over gRPC.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct JsonCase<'b>(pub &'b [u8]);

impl fmt::Debug for RlsCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RlsCase(b\"{}\")", self.0.escape_ascii())
    }
}

impl fmt::Debug for JsonCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonCase(b\"{}\")", self.0.escape_ascii())
    }
}

impl RlsCase<'_> {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        let service = service();
        let mut spent = HashMap::new();
        let mut rest = self.0;
        while let Some((message, others)) = next(rest) {
            rest = others;
            let answered = service.rls(message);
            let request = RateLimitRequest::decode(message);
            match (answered, request) {
                (Err(reason), Err(_)) => assert!(!reason.is_empty()),
                (Err(reason), Ok(request)) => refused(&reason, &request, plant),
                (Ok(answer), Ok(request)) => {
                    let answer = RateLimitResponse::decode(&answer[..]).expect("an answer");
                    decided(&request, &answer, &mut spent, plant);
                }
                (Ok(_), Err(error)) => panic!("answered, and no request: {error}"),
            }
        }
        // The labels of metrics come from rules, so the number of lines does not depend on the requests.
        let [own, theirs] = metrics_lines(&service);
        assert_eq!(own, OWN_LINES.with(|lines| *lines));
        assert!(theirs <= MAX_OF_ENVOYPROXY, "{theirs}");
    }
}

thread_local! {
    static OWN_LINES: usize = metrics_lines(&service())[0];
}

/// The most lines of metrics under the names of envoyproxy/ratelimit. Counts of zero have no line. Each of the rules
/// above has at most one line in each of eight counters. There are also the lines of a histogram, and those for loads
/// and requests. Altogether they are less than two hundred.
const MAX_OF_ENVOYPROXY: usize = 200;

/// The number of lines under Tollgate's own names, and under those of envoyproxy/ratelimit.
fn metrics_lines(service: &Offline) -> [usize; 2] {
    let metrics = service.metrics();
    let is_theirs = |line: &&str| line.contains("ratelimit_service_");
    let theirs = metrics.lines().filter(is_theirs).count();
    [metrics.lines().count() - theirs, theirs]
}

/// Splits the bytes into the first message and the rest.
fn next(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    Some(rest.split_at(length))
}

/// Checks that the request contains the reason why it was refused.
fn refused(reason: &str, request: &RateLimitRequest, plant: Plant) {
    let units =
        |one: &RateLimitDescriptor| one.limit.is_some_and(|limit| !(1..=7).contains(&limit.unit));
    let bytes = |one: &RateLimitDescriptor| -> usize {
        one.entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum()
    };
    let all = &request.descriptors;
    let expected = request.domain.is_empty()
        || all.is_empty()
        || all.len() > 20
        || all.iter().any(|one| units(one) || one.entries.len() > 32)
        || request.domain.len() + all.iter().map(bytes).sum::<usize>() > 1 << 20;
    assert_eq!(expected, plant != Plant::Answer, "refused: {reason}");
}

/// A client and the limit that counts it: the name of the limit, and the key of the client.
type LimitedClient = (String, String);

fn decided(
    request: &RateLimitRequest,
    answer: &RateLimitResponse,
    spent: &mut HashMap<LimitedClient, u128>,
    plant: Plant,
) {
    assert_eq!(answer.statuses.len(), request.descriptors.len(), "one status for each descriptor");
    assert_ne!(answer.overall_code(), Code::Unknown, "which Envoy lets pass");
    let admitted = answer.overall_code() == Code::Ok;
    let cost =
        |one: &RateLimitDescriptor| one.hits_addend.unwrap_or(request.hits_addend.max(1).into());
    // The service gives units back first, then answers questions, which have a cost of 0, and charges last. So a
    // question is told what was left before the costs of its own request. (A rule with `usage: true` charges in
    // between; there is none here.)
    let step = |one: &RateLimitDescriptor| match (one.is_negative_hits, cost(one)) {
        (true, _) => 0,
        (false, 0) => 1,
        (false, _) => 2,
    };
    let mut told: Vec<_> = request.descriptors.iter().zip(&answer.statuses).collect();
    told.sort_by_key(|(asked, _)| step(asked));
    for (asked, status) in told {
        let Some((client, most)) = counted(request, asked, status) else { continue };
        let cost = cost(asked);
        if asked.is_negative_hits {
            assert_eq!(status.code(), Code::Ok, "{client:?}: denied what was given back");
            let spent = spent.entry(client.clone()).or_default();
            *spent = spent.saturating_sub(u128::from(cost));
        } else if admitted && status.code() == Code::Ok {
            *spent.entry(client.clone()).or_default() += u128::from(cost);
        }
        let spent = spent.get(&client).copied().unwrap_or_default();
        let most = u128::from(most) - u128::from(plant == Plant::Limit && most > 0);
        let own = asked.limit.is_some();
        // A request may bring a lower limit than the one before it, and then more units are counted than the new limit
        // allows.
        assert!(
            spent <= most || (own && (cost == 0 || !admitted)),
            "{client:?}: {spent} of {most}"
        );
        let left = u128::from(status.limit_remaining);
        assert!(
            left + spent <= most || left == 0,
            "{client:?}: {spent} spent and {left} left of {most}"
        );
    }
}

/// The counted client and its limit. `None` in shadow mode, or without a limit.
fn counted(
    request: &RateLimitRequest,
    asked: &RateLimitDescriptor,
    status: &DescriptorStatus,
) -> Option<(LimitedClient, u64)> {
    let limit = status.current_limit.as_ref()?;
    let entries = || format!("{:?}", asked.entries);
    if let Some(own) = &asked.limit {
        // For limits that requests bring there is one count for each unit of time, whatever the limit.
        let client = (format!("own {}", own.unit), format!("{} {}", request.domain, entries()));
        let most = if own.unit == SECOND { MAX_OWN_EACH_SECOND } else { u64::MAX };
        return Some((client, u64::from(own.requests_per_unit).min(most)));
    }
    let (most, scope) = limit.name.split_once(' ')?;
    let counted = if scope == "shared" { String::new() } else { entries() };
    Some(((limit.name.clone(), counted), most.parse().expect("a number")))
}

impl JsonCase<'_> {
    /// Panics if a body is read wrongly.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if a body is not read as expected.
    pub fn run_against(&self, plant: Plant) {
        let (status, body) = service().json(self.0);
        let Some(request) = Offline::read_json(self.0) else {
            assert_eq!(status, 400);
            assert!(!body.is_empty(), "refused without a reason");
            return;
        };
        for style in json::STYLES {
            let text = json::write(&request, style);
            let again = Offline::read_json(text.as_bytes());
            assert_eq!(again.as_ref(), Some(&request), "read again, from {text}");
        }
        let bytes = request.encode_to_vec();
        assert_eq!(RateLimitRequest::decode(&bytes[..]).as_ref(), Ok(&request), "over the wire");
        let other = if plant == Plant::Answer { RateLimitRequest::default() } else { request };
        match service().decide(&other) {
            Err(reason) => assert_eq!((status, body), (400, reason), "another answer"),
            Ok(answer) => {
                let is_over = answer.overall_code() == Code::OverLimit;
                assert_eq!(status, if is_over { 429 } else { 200 }, "another answer");
                json::is_told(&body, &answer);
            }
        }
    }
}
