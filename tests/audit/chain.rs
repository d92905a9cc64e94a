//! Without a refill, the units left after each admission count down from the limit.

use tollgate::{Decision, KeyedLimiter, Limiter, ManualClock};

use crate::common::policy;
use crate::run::{Random, run};

/// Runs threads against one fresh limit at one instant, and checks that the units left after the admissions form one
/// chain from the limit down.
fn audit_chain(text: &str, limit: u64, check: &(dyn Fn(u64, u64) -> Decision + Sync)) {
    let request = |random: &mut Random, _| (0, 0, random.below(3) + 1);
    let mut chain = run(limit, u64::MAX, request, |_, _, cost| check(0, cost));
    chain.sort_unstable_by_key(|admission| std::cmp::Reverse(admission.remaining));
    let mut left = limit;
    for admission in &chain {
        assert_eq!(
            admission.remaining + admission.cost,
            left,
            "{text}: a charge was lost or doubled"
        );
        left = admission.remaining;
    }
    assert!(left < 3, "{text}: {left} left, and some were denied");
}

#[test]
fn charges_form_one_chain() {
    for limit in [1_000, 60_000] {
        for kind in ["gcra", "fixed-window", "sliding-window", "segmented-window"] {
            let option = if kind == "segmented-window" { " x2" } else { "" };
            let text = format!("{kind} {limit}/d{option}");
            for _ in 0..20 {
                let limiter = Limiter::builder(policy(&text)).clock(ManualClock::new()).build();
                audit_chain(&text, limit, &|_, cost| limiter.check_n(cost));
                let Ok(table) =
                    KeyedLimiter::builder(policy(&text)).clock(ManualClock::new()).build(10)
                else {
                    continue; // two counters of 16 bits leave no bits for a tag
                };
                audit_chain(&text, limit, &|key, cost| table.check_n(&key, cost));
            }
        }
    }
}
