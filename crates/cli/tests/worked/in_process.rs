//! The library, the middleware and the rules, on clocks that the test moves.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tollgate::{Claim, Entry, KeyedLimiter, Limiter, ManualClock, Policy, Timestamp, check_all};
use tollgate_oracle::WorkedExample;
use tollgate_rules::{DecisionMaker, Descriptor, RuleCache, RuleSettings, RuleText};
use tollgate_tower::gates::{Cost, PolicyName};
use tollgate_tower::keys::Everyone;
use tollgate_tower::{Gate, RateLimitLayer};
use tower::{Layer, ServiceExt};

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

pub(crate) fn letter(is_admitted: bool) -> char {
    if is_admitted { 'A' } else { 'D' }
}

/// Decides each request at its time.
fn at_times(
    example: &WorkedExample,
    clock: &ManualClock,
    mut is_admitted: impl FnMut(u64) -> bool,
) -> String {
    let decide = |(now_ns, cost)| {
        clock.set(Timestamp::from_nanos(now_ns));
        letter(is_admitted(cost))
    };
    example.asked().into_iter().map(decide).collect()
}

/// Decides by a check, or by a turn if the limit has a queue. Several limits are charged together.
fn is_admitted(entries: &[Entry<'_>], waits: bool, cost: u64) -> bool {
    match entries {
        [entry] if waits => entry.reserve(cost, Duration::MAX).is_ok(),
        [entry] => entry.check_n(cost).is_allowed(),
        entries => {
            let mut claims: Vec<Claim<'_>> = entries.iter().map(|entry| entry.cost(cost)).collect();
            check_all(&mut claims).is_allowed()
        }
    }
}

pub(crate) fn one(example: &WorkedExample, policies: &[&str]) -> String {
    let clock = ManualClock::new();
    let limiter = |text: &&str| Limiter::builder(policy(text)).clock(clock.clone()).build();
    let limiters: Vec<_> = policies.iter().map(limiter).collect();
    let entries: Vec<_> = limiters.iter().map(Limiter::entry).collect();
    at_times(example, &clock, |cost| is_admitted(&entries, example.waits(), cost))
}

pub(crate) fn keyed(example: &WorkedExample, policies: &[&str]) -> String {
    let clock = ManualClock::new();
    let limiter = |text: &&str| {
        KeyedLimiter::<str>::builder(policy(text)).clock(clock.clone()).build(100).unwrap()
    };
    let limiters: Vec<_> = policies.iter().map(limiter).collect();
    let entries: Vec<_> = limiters.iter().map(|limiter| limiter.entry("a")).collect();
    at_times(example, &clock, |cost| is_admitted(&entries, example.waits(), cost))
}

/// Asks a middleware with a gate for each policy; a request says in a header what it costs.
pub(crate) fn middleware(example: &WorkedExample, policies: &[&str]) -> String {
    fn served(_: Request<()>) -> Ready<Result<Response<Bytes>, Infallible>> {
        ready(Ok(Response::new(Bytes::new())))
    }
    let clock = ManualClock::new();
    let gates = policies.iter().enumerate().map(|(n, text)| {
        let limiter = Limiter::builder(policy(text)).clock(clock.clone()).build();
        let cost = Cost::from_fn(|head| {
            head.headers.get("cost").and_then(|cost| cost.to_str().ok()?.parse().ok()).unwrap()
        });
        let gate = Gate::new(limiter, Everyone).cost(cost);
        let gate = gate.named(PolicyName::new(&format!("p{n}")).unwrap());
        // The sleep ends at once, and the clock stands still meanwhile.
        if example.waits() { gate.delay(Duration::MAX, |_| ready(())) } else { gate }
    });
    let service = RateLimitLayer::all(gates).unwrap().layer(tower::service_fn(served));
    at_times(example, &clock, |cost| {
        let request = Request::builder().header("cost", cost).body(()).unwrap();
        let call = std::pin::pin!(service.clone().oneshot(request));
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.unwrap().status().is_success(),
            Poll::Pending => panic!("it waits"),
        }
    })
}

/// Returns a rule file with a rule for each policy, whose key is `p` and the policy's number.
pub(crate) fn rule_file(policies: &[&str]) -> String {
    let mut file = "domain: worked\ndescriptors:\n".to_owned();
    for (n, text) in policies.iter().enumerate() {
        file += &format!("  - {{key: p{n}, rate_limit: {{{}}}}}\n", limit_of(text));
    }
    file
}

/// Returns a policy in the words of a rule.
fn limit_of(text: &str) -> String {
    let mut words = text.split_whitespace();
    let mut algorithm = words.next().unwrap().to_owned();
    let (count, period) = words.next().unwrap().split_once('/').unwrap();
    let mut more = String::new();
    while let Some(word) = words.next() {
        match word {
            "burst" => more += &format!(", burst: {}", words.next().unwrap()),
            "queue" => more += &format!(", queue: {}", words.next().unwrap()),
            "count-denied" => more += ", count_rejected: true",
            "soft" if text.ends_with('%') => {
                more += &format!(", mode: soft {}", words.next().unwrap());
            }
            option => algorithm = format!("{algorithm} {option}"),
        }
    }
    format!("algorithm: {algorithm}, requests_per_unit: {count}, window: {period}{more}")
}

/// The time between the starts of two runs of requests. No window, and no debt of less than a day, reaches into the
/// next run.
const APART_NS: u64 = 3 * 86_400 * 1_000_000_000;

/// New clients on one clock. All requests of one client come before those of the next, so time never goes back.
pub(crate) struct Clients {
    clock: ManualClock,
    seen: Cell<u64>,
}

impl Clients {
    pub(crate) fn new(clock: ManualClock) -> Self {
        Self { clock, seen: Cell::new(0) }
    }

    /// Decides the requests of a new client, whose name `is_admitted` gets.
    pub(crate) fn decide(
        &self,
        example: &WorkedExample,
        mut is_admitted: impl FnMut(&str, u64) -> bool,
    ) -> String {
        let number = self.seen.get();
        self.seen.set(number + 1);
        let name = format!("client {number}");
        let decide = |(now_ns, cost)| {
            self.clock.set(Timestamp::from_nanos(number * APART_NS + now_ns));
            letter(is_admitted(&name, cost))
        };
        example.asked().into_iter().map(decide).collect()
    }
}

/// Returns the keys of the rules of these policies.
pub(crate) fn rule_keys(all: &[String], policies: &[&str]) -> Vec<String> {
    let key = |policy: &&str| all.iter().position(|known| known == policy).unwrap();
    policies.iter().map(|policy| format!("p{}", key(policy))).collect()
}

/// Rules of all policies.
pub(crate) struct Rules {
    maker: DecisionMaker,
    clients: Clients,
    policies: Vec<String>,
}

impl Rules {
    pub(crate) fn of(policies: &[&str]) -> Self {
        let clock = ManualClock::new();
        let settings = RuleSettings { default_capacity: Some(1_000), ..RuleSettings::default() };
        let cache = Arc::new(RuleCache::with_clock(settings, clock.clone()));
        cache.load(&[RuleText::new("worked.yaml", rule_file(policies))]).unwrap();
        let maker = DecisionMaker::new(cache).unwrap();
        let policies = policies.iter().map(ToString::to_string).collect();
        Self { maker, clients: Clients::new(clock), policies }
    }

    pub(crate) fn decide(&self, example: &WorkedExample, policies: &[&str]) -> String {
        let keys = rule_keys(&self.policies, policies);
        self.clients.decide(example, |name, cost| {
            let entries: Vec<_> = keys.iter().map(|key| [(key.as_str(), name)]).collect();
            let descriptors: Vec<_> = entries.iter().map(|of| Descriptor::new(of)).collect();
            let mut request = tollgate_rules::Request::new("worked", &descriptors);
            request.hits = u32::try_from(cost).unwrap();
            self.maker.check(&request).unwrap().is_allowed()
        })
    }
}
