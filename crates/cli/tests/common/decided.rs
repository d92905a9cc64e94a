//! Places that decide the same requests: limiters and the middleware, on a clock that the test moves, and commands. A
//! request is its time in nanoseconds, and its cost.

#![allow(dead_code)] // each test program uses only a part

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tollgate::{Claim, Entry, KeyedLimiter, Limiter, ManualClock, Policy, Timestamp, check_all};
use tollgate_tower::gates::{Cost, PolicyName};
use tollgate_tower::keys::Everyone;
use tollgate_tower::{Gate, RateLimitLayer};
use tower::{Layer, ServiceExt};

use crate::common::Scratch;

/// For each request, true if it was admitted. The error is what a layer says that refuses the policy.
pub(crate) type Answers = Result<Vec<bool>, String>;

pub(crate) fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

/// Decides each request at its time.
pub(crate) fn at_times(
    requests: &[(u64, u64)],
    clock: &ManualClock,
    mut is_admitted: impl FnMut(u64) -> bool,
) -> Vec<bool> {
    let decide = |&(now_ns, cost): &(u64, u64)| {
        clock.set(Timestamp::from_nanos(now_ns));
        is_admitted(cost)
    };
    requests.iter().map(decide).collect()
}

/// Returns whether requests can wait under a policy.
fn waits(text: &str) -> bool {
    policy(text).at_limit().queue.is_some()
}

/// Returns whether a request is admitted. Under a policy with a queue a request that has to wait for its turn is
/// admitted, too.
pub(crate) fn has_turn(entry: Entry<'_>, text: &str, cost: u64) -> bool {
    if waits(text) {
        entry.reserve(cost, Duration::MAX).is_ok()
    } else {
        entry.check_n(cost).is_allowed()
    }
}

/// Returns whether a request is admitted by limits under these policies. Several are charged together.
fn all_admit(entries: &[Entry<'_>], policies: &[&str], cost: u64) -> bool {
    match entries {
        [entry] => has_turn(*entry, policies[0], cost),
        entries => {
            let mut claims: Vec<Claim<'_>> = entries.iter().map(|entry| entry.cost(cost)).collect();
            check_all(&mut claims).is_allowed()
        }
    }
}

pub(crate) fn limiter(requests: &[(u64, u64)], policies: &[&str]) -> Vec<bool> {
    let clock = ManualClock::new();
    let limiter = |text: &&str| Limiter::builder(policy(text)).clock(clock.clone()).build();
    let limiters: Vec<_> = policies.iter().map(limiter).collect();
    let entries: Vec<_> = limiters.iter().map(Limiter::entry).collect();
    at_times(requests, &clock, |cost| all_admit(&entries, policies, cost))
}

pub(crate) fn keyed(requests: &[(u64, u64)], policies: &[&str]) -> Answers {
    let clock = ManualClock::new();
    let limiter = |text: &&str| {
        let limiter = KeyedLimiter::<str>::builder(policy(text)).clock(clock.clone()).build(100);
        limiter.map_err(|error| error.to_string())
    };
    let limiters = policies.iter().map(limiter).collect::<Result<Vec<_>, _>>()?;
    let entries: Vec<_> = limiters.iter().map(|limiter| limiter.entry("a")).collect();
    Ok(at_times(requests, &clock, |cost| all_admit(&entries, policies, cost)))
}

/// Asks a middleware with a gate for each policy; a request says in a header what it costs.
pub(crate) fn middleware(requests: &[(u64, u64)], policies: &[&str]) -> Vec<bool> {
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
        if waits(text) { gate.delay(Duration::MAX, |_| ready(())) } else { gate }
    });
    let service = RateLimitLayer::all(gates).unwrap().layer(tower::service_fn(served));
    at_times(requests, &clock, |cost| {
        let request = Request::builder().header("cost", cost).body(()).unwrap();
        now_or_never(service.clone().oneshot(request)).unwrap().status().is_success()
    })
}

/// Returns the result of a future that waits for nothing.
pub(crate) fn now_or_never<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// Returns what the command `simulate` decides. Each request costs one unit.
pub(crate) fn simulate(scratch: &Scratch, requests: &[(u64, u64)], policy: &str) -> Answers {
    let seconds =
        |(ns, _): &(u64, u64)| format!("{}.{:09}\n", ns / 1_000_000_000, ns % 1_000_000_000);
    scratch.file("times.csv", requests.iter().map(seconds).collect::<String>());
    let args = ["simulate", "--times", "times.csv", "--policy", policy, "--csv", "out.csv"];
    let run = scratch.run(&args);
    if run.code != Some(0) {
        return Err(run.err);
    }
    assert_eq!(run.err, "", "{policy}");
    let csv = scratch.read("out.csv");
    Ok(csv.lines().skip(1).map(|line| line.split(',').nth(2) == Some("true")).collect())
}

/// A replay tells how many requests it admits, but not which. So it is asked for these beginnings of the log. Between
/// two of them all requests are admitted, or none.
pub(crate) fn by_beginnings(
    beginnings: impl Iterator<Item = usize>,
    mut admitted: impl FnMut(usize) -> Result<u64, String>,
) -> Answers {
    let (mut answers, mut before) = (Vec::new(), 0);
    for upto in beginnings {
        let (now, new) = (admitted(upto)?, upto - answers.len());
        let some = now - before;
        assert!(some == 0 || some == new as u64, "{some} of {new} up to {upto}");
        answers.extend(std::iter::repeat_n(some > 0, new));
        before = now;
    }
    Ok(answers)
}
