//! `mode: elastic`: whatever headrooms are reported, and whatever is given back, the pool lends no more in any interval
//! than its bound at the highest headroom.

use std::time::Duration;

use crate::common::World;
use tollgate_rules::Purpose;

/// A request that was admitted: the time, the cost, and whether the cost was borrowed.
type Admitted = (u64, u64, bool);

/// A thousand requests under two elastic limits and a hard one, while headrooms up to `most` are reported and run out.
fn admitted(most: f64) -> Vec<Admitted> {
    let rules = "
domain: shop
pool: {unit: second, requests_per_unit: 20, burst: 10}
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, mode: elastic}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 9, mode: elastic}}
  - {key: hard, rate_limit: {unit: second, requests_per_unit: 12}}
";
    let world = World::new(rules);
    let (mut state, mut now_ms, mut until_ms, mut log) = (0x9E37_79B9_u64, 0, 0, Vec::new());
    let mut below = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for _ in 0..1_000 {
        let passed = below(80);
        now_ms += passed;
        world.clock.advance(Duration::from_millis(passed));
        if below(8) == 0 {
            let (headroom, lasts_ms) = (below(3) as f64 * most / 2.0, 1 + below(700));
            let lasts = Duration::from_millis(lasts_ms);
            world.maker.cache().report_headroom("shop", headroom, lasts).expect("a good report");
            until_ms = now_ms + lasts_ms;
        }
        let keys = [&["user"][..], &["user", "second"], &["user", "second", "hard"]];
        let cost = 1 + below(3);
        let keys = keys[usize::try_from(below(3)).expect("one of three")];
        let answer = world.decide_in_shop(keys, cost, Purpose::Check);
        let is_borrowed = answer.statuses()[0].is_borrowed;
        assert!(!is_borrowed || now_ms < until_ms, "borrowed on stale news");
        if answer.is_allowed() {
            log.push((now_ms, cost, is_borrowed));
        }
    }
    log
}

/// Whether in every interval the limit of `user` admitted no more than its own bound, and the pool lent it no more than
/// the pool's bound at this headroom.
fn is_within(log: &[Admitted], headroom: f64) -> bool {
    (0..log.len()).all(|first| {
        let (mut own, mut borrowed) = (0, 0);
        log[first..].iter().all(|(at, cost, is_borrowed)| {
            *(if *is_borrowed { &mut borrowed } else { &mut own }) += cost;
            let seconds = (at - log[first].0) as f64 / 1_000.0;
            // GCRA counts in ticks, so an interval can be a tick longer than measured. The tolerance covers that.
            own as f64 <= 5.0 + 5.0 * seconds + 1e-6
                && borrowed as f64 <= headroom * (10.0 + 20.0 * seconds) + 1e-6
        })
    })
}

#[test]
fn no_interval_is_lent_more_than_the_pool_at_its_headroom() {
    let log = admitted(0.5);
    let borrowed = log.iter().filter(|(.., is_borrowed)| *is_borrowed).count();
    assert!(borrowed > 50 && log.len() - borrowed > 50, "{borrowed} of {}", log.len());
    assert!(is_within(&log, 0.5));
}

#[test]
fn a_pool_that_lends_at_twice_the_headroom_is_caught() {
    assert!(!is_within(&admitted(1.0), 0.5));
}
