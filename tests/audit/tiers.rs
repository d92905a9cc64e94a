//! Several quotas in one table, where each key is in one tier; and one quota that may be changed but is not. The bound
//! across a change is audited in `change`.

use tollgate::{Changing, KeyedLimiter, Limiter, ManualClock, Timestamp};

use crate::bound::excess;
use crate::common::policy;
use crate::gcra::audit_gcra;
use crate::run::{Admission, rounds, run};
use crate::windows::{IN_STEP, LIMIT, in_each_window, max_in_any_window, request};

const GCRA: &str = "gcra 50/s burst 20";

fn table(capacity: usize) -> Changing<KeyedLimiter<u64>> {
    let tiers = KeyedLimiter::builder(policy(GCRA))
        .tier(policy("fixed-window 100/s"))
        .tier(policy("sliding-window 100/s exact"));
    tiers.clock(ManualClock::new()).build(capacity).unwrap()
}

/// The tier of a key: the remainder of its number divided by 3.
fn tier_of(key: u64) -> usize {
    usize::try_from(key % 3).unwrap()
}

/// Audits that the keys of each tier keep that tier's bound.
fn audit(keys: u64, capacity: usize) {
    rounds(|count| {
        let table = table(capacity);
        let check = |key, now_ns, cost| {
            let entry = table.entry(&key).tier(tier_of(key)).unwrap();
            entry.at(Timestamp::from_nanos(now_ns)).check_n(cost)
        };
        let admissions = run(count, IN_STEP, request(keys), check);
        let mut of_tier = [0, 1, 2].map(|tier| {
            let own = admissions.iter().filter(|admission| admission.key % 3 == tier);
            own.copied().collect::<Vec<Admission>>()
        });
        let [gcra, fixed, sliding] = &mut of_tier;
        let period_ns = 1_000_000_000;
        // A unit may be admitted at most one tick early, which is 2^-8 of a unit.
        let above = excess(gcra, 50, period_ns, 20);
        assert!(above <= period_ns / 256, "{above} of {period_ns} of a unit above the bound");
        in_each_window(fixed, |units| assert!(units <= LIMIT, "{units}"));
        let most = max_in_any_window(sliding);
        assert!(most < 2 * LIMIT, "{most}");
        assert!(of_tier.iter().all(|admissions| !admissions.is_empty()));
        admissions.len()
    });
}

#[test]
fn keys_of_every_tier_keep_the_bound_of_its_quota() {
    audit(150, 1_000);
}

#[test]
fn tiers_in_a_storm_of_reclaims_keep_the_bounds_of_their_quotas() {
    audit(190, 50);
}

#[test]
fn a_limit_that_may_be_changed_never_exceeds_the_bound_in_any_interval() {
    let text = "gcra 100000/s burst 100";
    audit_gcra(
        text,
        1,
        || {
            let live = Limiter::builder(policy(text))
                .clock(ManualClock::new())
                .changing()
                .build()
                .unwrap();
            move |_: u64, now_ns: u64, cost: u64| {
                live.entry().at(Timestamp::from_nanos(now_ns)).check_n(cost)
            }
        },
        |random, n| (7, 1_000_000_000 + n * 1_000 + random.below(2_000_000), random.below(3) + 1),
    );
}
