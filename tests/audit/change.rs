//! A quota changes while four threads decide. Any interval then admits at most the sum of the larger burst, the units
//! that the old rate gives before the change, and the units that the new rate gives after it. A decision under one
//! quota may lie on the other side of the change by some time. So the bound also includes the units that each rate
//! gives in the longest such time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tollgate::{Changing, Decision, KeyedLimiter, Limiter, ManualClock, Timestamp};

use crate::bound::excess_of;
use crate::common::policy;
use crate::run::{Random, rounds, run};

const OLD: &str = "gcra 40000/s burst 100";
const NEW: &str = "gcra 100000/s burst 60";
const START_NS: u64 = 1_000_000_000;
const STEP_NS: u64 = 1_000;

/// The number of requests after which the threads wait for each other, so that no thread is far on the other side of
/// the change.
const IN_STEP: u64 = 1_000;

/// A limit whose quota may be changed.
trait Subject: Sync {
    fn check(&self, key: u64, cost: u64, now: Timestamp) -> Decision;
    /// Changes the quota at the current time of its clock.
    fn change(&self, text: &str);
}

impl Subject for Changing<Limiter> {
    fn check(&self, _: u64, cost: u64, now: Timestamp) -> Decision {
        self.entry().at(now).check_n(cost)
    }

    fn change(&self, text: &str) {
        self.set_quota(policy(text)).unwrap();
    }
}

/// The second tier of a table. The first tier gets no requests.
impl Subject for Changing<KeyedLimiter<u64>> {
    fn check(&self, key: u64, cost: u64, now: Timestamp) -> Decision {
        self.entry(&key).tier(1).unwrap().at(now).check_n(cost)
    }

    fn change(&self, text: &str) {
        self.set_tier_quota(1, policy(text)).unwrap();
    }
}

/// Changes the quota in the middle of a round, and checks every interval of every key.
fn audit(
    (subject, clock): (&impl Subject, &ManualClock),
    [from, to]: [&str; 2],
    keys: u64,
    count: u64,
) -> usize {
    let [old, new] = [from, to].map(|text| policy(text).quota());
    let change_ns = START_NS + count / 8 * STEP_NS;
    clock.set(Timestamp::from_nanos(change_ns));
    // The time by which decisions under each quota lie on the other quota's side of the change.
    let (late, early, changed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let check = |key, now_ns: u64, cost| {
        // The first thread that reaches the time of the change makes the change, while the other threads decide.
        if now_ns >= change_ns && !changed.swap(true, Relaxed) {
            subject.change(to);
        }
        let decision = subject.check(key, cost, Timestamp::from_nanos(now_ns));
        if decision.limit() == old.max_burst() {
            late.fetch_max(now_ns.saturating_sub(change_ns), Relaxed);
        } else {
            assert_eq!(decision.limit(), new.max_burst());
            early.fetch_max(change_ns.saturating_sub(now_ns), Relaxed);
        }
        decision
    };
    let request = |random: &mut Random, n: u64| {
        let now_ns = START_NS + n * STEP_NS + random.below(200_000);
        (random.below(keys), now_ns, random.below(3) + 1)
    };
    let mut admissions = run(count, IN_STEP, request, check);
    assert!(changed.into_inner());
    let [old_rate, new_rate] = [old, new].map(|quota| i128::from(quota.count()));
    let (change, second) = (i128::from(change_ns), i128::from(1_000_000_000_u64));
    let flow = |now_ns: u64| {
        let now = i128::from(now_ns);
        old_rate * now.min(change) + new_rate * (now - change).max(0)
    };
    let [late, early] = [late, early].map(|ns| i128::from(ns.into_inner()));
    let [old_burst, new_burst] = [old, new].map(|quota| i128::from(quota.max_burst()) * second);
    let most = (old_burst + old_rate * late).max(new_burst) + new_rate * early;
    let above = excess_of(&mut admissions, flow, second, most);
    // The bound may be exceeded by two ticks: one for the reading of the word, and one for the change.
    assert!(above <= 2 * second / 256, "{from}, then {to}: {above} of {second} of a unit above");
    admissions.len()
}

#[test]
fn a_limit_that_is_changed_under_traffic_keeps_the_bound_across_the_change() {
    let mut turn = [OLD, NEW];
    rounds(|count| {
        turn.reverse();
        let clock = ManualClock::new();
        let live =
            Limiter::builder(policy(turn[0])).clock(clock.clone()).changing().build().unwrap();
        audit((&live, &clock), turn, 1, count)
    });
}

#[test]
fn a_tier_that_is_changed_under_traffic_keeps_the_bound_across_the_change() {
    let mut turn = [NEW, OLD];
    rounds(|count| {
        turn.reverse();
        let tiers = KeyedLimiter::builder(policy("gcra 1/s"))
            .tier(policy(turn[0]))
            .headroom(policy(turn[1]));
        let clock = ManualClock::new();
        let table: Changing<KeyedLimiter<u64>> = tiers.clock(clock.clone()).build(100).unwrap();
        audit((&table, &clock), turn, 12, count)
    });
}

#[test]
fn a_change_that_forgives_what_was_owed_is_caught() {
    /// A limit that forgets its debt at each change.
    struct Forgetful(Changing<Limiter>);

    impl Subject for Forgetful {
        fn check(&self, key: u64, cost: u64, now: Timestamp) -> Decision {
            Subject::check(&self.0, key, cost, now)
        }

        fn change(&self, text: &str) {
            self.0.change(text);
            self.0.entry().reset();
        }
    }

    let slow = ["gcra 1000/s burst 1000", "gcra 1000/s burst 900"];
    let clock = ManualClock::new();
    let live = Forgetful(
        Limiter::builder(policy(slow[0])).clock(clock.clone()).changing().build().unwrap(),
    );
    let audited = || audit((&live, &clock), slow, 1, 400_000);
    let caught = std::panic::catch_unwind(audited).unwrap_err();
    let said = caught.downcast_ref::<String>().unwrap();
    assert!(said.contains("of a unit above"), "{said}");
}
