//! Tests of the verbs other than a check on a real server, in each mode: take as many units as fit, charge units that
//! were used without asking, take and cancel places in the queue, and forget all charges.

use std::time::Duration;

use crate::common::load::MODES;
use crate::common::server::Server;
use crate::common::{left, limiter, named, nodes, spend, started, store, until};
use tollgate::{DenialReason, Wait};
use tollgate_redis::{Fault, Mode, OnError, RedisDecision, RedisLimiter, Settings, Source, Store};

const HOUR: Duration = Duration::from_secs(3_600);

fn units(decision: &RedisDecision) -> u64 {
    decision.decision().permit().map_or(0, |permit| permit.cost())
}

/// A limiter in a mode, with the name of the mode.
fn of_mode(store: &Store, policy: &str, mode: Mode) -> RedisLimiter {
    named(store, &format!("{mode:?}"), policy, mode)
}

async fn admitted(limiter: &RedisLimiter, requests: u64) -> u64 {
    crate::common::admitted(limiter, "key", requests).await
}

#[tokio::test]
async fn as_much_as_fits_is_taken_also_beside_what_a_node_holds() {
    let (_server, store) = started().await;
    for mode in MODES {
        let limiter = of_mode(&store, "10/h", mode);
        // In mode `leased`, units are still in a lease after these requests.
        assert_eq!(admitted(&limiter, 5).await, 5, "{mode:?}");
        let none = limiter.entry("key").take_up_to(0).await;
        assert_eq!((units(&none), none.decision().remaining()), (0, 5), "{mode:?}");
        assert_eq!(units(&limiter.entry("key").take_up_to(3).await), 3, "{mode:?}");
        let last = limiter.entry("key").take_up_to(99).await;
        assert_eq!((units(&last), last.decision().remaining()), (2, 0), "{mode:?}");
        let denial = limiter.entry("key").take_up_to(99).await.into_result().unwrap_err();
        // The denial has the figures for a cost of one unit.
        assert_eq!(denial.cost(), 1, "{mode:?}");
        let wait = denial.retry_after().unwrap();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(360), "{wait:?}");
    }
}

#[tokio::test]
async fn what_is_owed_is_charged_in_full_and_keeps_later_requests_out() {
    let (_server, store) = started().await;
    for mode in MODES {
        let limiter = of_mode(&store, "10/h", mode);
        assert_eq!(admitted(&limiter, 4).await, 4, "{mode:?}");
        assert_eq!(limiter.entry("key").charge(26).await, Ok(0), "{mode:?}");
        assert_eq!(admitted(&limiter, 3).await, 0, "{mode:?}");
        let denial = limiter.check("key").await.into_result().unwrap_err();
        // 30 units are owed, so 21 must drain before one fits.
        let wait = denial.retry_after().unwrap();
        let full = Duration::from_secs(21 * 360);
        assert!(wait <= full && wait > full - Duration::from_secs(60), "{mode:?}: {wait:?}");
    }
}

/// Charges 300 units 1,000 times under a limit of 1,000 an hour. The script counts the debt up to the largest number
/// that it can represent, independently of the policy. The count of a window stops at the limit, and the units that
/// were not charged are returned.
#[tokio::test]
async fn a_debt_of_three_hundred_limits_is_remembered_in_each_mode_and_in_windows_what_fits() {
    let (_server, store) = started().await;
    for (mode, policy) in MODES.into_iter().flat_map(|mode| {
        ["gcra 1000/h", "gcra 1000/h debt 1x", "gcra 1000/h debt 100x"].map(|policy| (mode, policy))
    }) {
        let limiter = named(&store, &format!("{mode:?} {policy}"), policy, mode);
        for _ in 0..1_000 {
            assert_eq!(limiter.entry("key").charge(300).await, Ok(0), "{mode:?} {policy}");
        }
        let denial = limiter.check("key").await.into_result().unwrap_err();
        // 299,001 units must drain before one fits. Some of them have drained already, by the server's clock.
        let wait = denial.retry_after().unwrap();
        let full = Duration::from_millis(299_001 * 3_600);
        assert!(wait <= full && wait > full - Duration::from_secs(120), "{mode:?}: {wait:?}");
    }
    let window = limiter(&store, "fixed-window 1000/60d debt 100x", Mode::Exact, 1);
    assert_eq!(window.entry("key").charge(300_000).await, Ok(299_000));
}

#[tokio::test]
async fn a_limit_that_was_reset_is_as_never_used_whatever_its_node_held() {
    let (_server, store) = started().await;
    for mode in MODES {
        let limiter = of_mode(&store, "10/h", mode);
        for _ in 0..3 {
            assert_eq!(admitted(&limiter, 15).await, 10, "{mode:?}");
            assert_eq!(limiter.entry("key").reset().await, Ok(()), "{mode:?}");
            assert_eq!(limiter.entry("key").peek(10).await.decision().remaining(), 10, "{mode:?}");
        }
        // The unspent units in a node's leases are forgotten, too, so no unit exists twice.
        assert_eq!(admitted(&limiter, 5).await, 5, "{mode:?}");
        assert_eq!(limiter.entry("key").reset().await, Ok(()), "{mode:?}");
        assert_eq!(admitted(&limiter, 15).await, 10, "{mode:?}");
    }
}

/// Tests the bound in the documentation of `reset`: beyond the limit, at most the units that other nodes held are
/// admitted.
#[tokio::test]
async fn after_a_reset_other_nodes_admit_at_most_what_they_held() {
    let server = Server::start();
    let nodes = nodes(&server, "1000/h", Mode::Leased, 3).await;
    for node in &nodes {
        spend(node, "key", 200).await;
    }
    assert_eq!(nodes[0].entry("key").reset().await, Ok(()));
    let mut sum = 0;
    loop {
        let before = sum;
        for node in &nodes {
            sum += admitted(node, 400).await;
        }
        if sum == before {
            break;
        }
    }
    // For each node `max_held` is 1000 / 3 / 2.
    assert!((900..=1_000 + 2 * 166 + 3).contains(&sum), "{sum}");
}

#[tokio::test]
async fn places_of_all_nodes_are_in_one_order_and_the_last_one_can_be_given_back() {
    let server = Server::start();
    for mode in MODES {
        server.run::<()>(&["FLUSHALL"]);
        let nodes = nodes(&server, "1/m burst 1", mode, 2).await;
        let [a, b] = &nodes[..] else { panic!() };
        let hour = Wait::at_most(HOUR);
        let minutes = |wait: Duration| (wait.as_secs_f64() / 60.0).round();
        let first = a.entry("key").queue(1, hour).await.unwrap();
        assert_eq!((first.wait(), first.fault()), (Duration::ZERO, None), "{mode:?}");
        let second = b.entry("key").queue(1, hour).await.unwrap();
        let third = a.entry("key").queue(1, hour).await.unwrap();
        assert_eq!([second.wait(), third.wait()].map(minutes), [1.0, 2.0], "{mode:?}");
        // The third place was taken after the second, so the second cannot be cancelled.
        assert_eq!(b.entry("key").cancel(second).await, Ok(false), "{mode:?}");
        assert_eq!(a.entry("key").cancel(third).await, Ok(true), "{mode:?}");
        let again = b.entry("key").queue(1, hour).await.unwrap();
        assert_eq!(minutes(again.wait()), 2.0, "{mode:?}");
        // The first of these requests would wait too long, and the second has too many units ahead of it.
        let denial = a.entry("key").reserve(1, HOUR / 30).await.unwrap_err();
        assert_eq!(denial.retry_after().map(minutes), Some(3.0), "{mode:?}");
        assert!(a.entry("key").queue(1, hour.behind(2)).await.is_err(), "{mode:?}");
        assert!(a.entry("key").queue(1, hour.behind(3)).await.is_ok(), "{mode:?}");
        // A check does not wait.
        assert!(!b.check("key").await.is_allowed(), "{mode:?}");
    }
}

#[tokio::test]
async fn a_queue_of_the_policy_has_so_many_places_over_all_nodes() {
    let server = Server::start();
    let nodes = nodes(&server, "1/m burst 1 queue 3 wait 10m", Mode::Exact, 2).await;
    let mut places = 0;
    for n in 0..10 {
        let node = &nodes[n % 2];
        places += usize::from(node.entry("key").reserve(1, HOUR).await.is_ok());
    }
    assert_eq!(places, 4, "one leaves at once, three wait");
    // A window has no queue: units that fit now are admitted at once, and other requests are denied.
    let window = limiter(&store(&server).await, "fixed-window 2/60d", Mode::Exact, 1);
    let place = window.entry("w").reserve(2, HOUR).await.unwrap();
    assert_eq!(place.wait(), Duration::ZERO);
    assert!(window.entry("w").reserve(1, 24 * HOUR).await.is_err());
    assert_eq!(window.entry("w").cancel(place).await, Ok(true));
    assert_eq!(left(&window, "w").await, 2);
}

#[tokio::test]
async fn a_caller_waits_for_its_turn_and_gives_its_place_back_when_it_gives_up() {
    let (_server, store) = started().await;
    let second = Wait::at_most(Duration::from_secs(1));
    for mode in MODES {
        let limiter = of_mode(&store, "10/s burst 1", mode);
        let began = tokio::time::Instant::now();
        for _ in 0..4 {
            assert_eq!(limiter.entry("key").acquire(1, second).await.unwrap().permit().cost(), 1);
        }
        // Turns are 100 ms apart by the server's clock; no unit may be used before its turn.
        assert!(began.elapsed() >= Duration::from_millis(300), "{mode:?}: {:?}", began.elapsed());
        let slow = named(&store, &format!("slow {mode:?}"), "1/h burst 1", mode);
        assert!(slow.entry("slow").acquire(1, second).await.is_ok());
        let waiting = slow.entry("slow").acquire(1, Wait::at_most(2 * HOUR));
        assert!(tokio::time::timeout(Duration::from_millis(200), waiting).await.is_err());
        // A separate task gives the place back, so after a while the next caller gets it.
        let is_offered = async || slow.entry("slow").reserve(1, HOUR).await.is_ok();
        until(&format!("the place is offered again: {mode:?}"), is_offered).await;
    }
}

/// If the policy has no queue, a caller sleeps and asks again until its wait is over. If it would have to wait longer,
/// it is denied.
#[tokio::test]
async fn a_caller_waits_for_a_window_and_a_log_to_have_room() {
    let (_server, store) = started().await;
    let long = Wait::at_most(Duration::from_secs(60));
    // Only the store decides under logs and under policies that count denials.
    for (mode, policy) in [
        (Mode::Exact, "fixed-window 2/100ms"),
        (Mode::Exact, "sliding-log 2/100ms"),
        (Mode::Leased, "fixed-window 2/100ms"),
        (Mode::Async, "fixed-window 2/100ms"),
    ] {
        let limiter = named(&store, &format!("{policy} {mode:?}"), policy, mode);
        let acquire = |_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.entry("key").acquire(1, long).await })
        };
        for call in (0..6).map(acquire).collect::<Vec<_>>() {
            assert!(call.await.unwrap().is_ok(), "{policy} {mode:?}");
        }
    }
    // Windows of the clock could end here between two requests. These end an hour after their first request.
    let slow = named(&store, "slow", "fixed-window 1/h from-first", Mode::Exact);
    assert!(slow.entry("key").acquire(1, long).await.is_ok());
    for wait in [long, Wait::at_most(Duration::MAX).behind(3)] {
        let denied = slow.entry("key").acquire(1, wait).await.unwrap_err();
        assert!(denied.retry_after().is_some(), "{wait:?}");
    }
    // The store counts each denial, so a request asks only once.
    let counted =
        named(&store, "counted", "fixed-window 1/m from-first penalty 1h after 2", Mode::Exact);
    assert!(counted.entry("key").acquire(1, long).await.is_ok());
    let again = async || counted.entry("key").acquire(1, long).await.unwrap_err().reason();
    assert_ne!(again().await, DenialReason::Penalty);
    assert_eq!(again().await, DenialReason::Penalty);
}

/// Bad input: the store is killed between a reservation and its cancellation, and comes back empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_cannot_be_given_back_stays_charged_and_nothing_is_forgiven() {
    let (mut server, store) = started().await;
    for on_error in [OnError::Local, OnError::Deny, OnError::Allow] {
        let settings = Settings::new("60/h burst 2".parse().unwrap()).mode(Mode::Exact).nodes(2);
        let settings = settings.on_error(on_error).name(format!("{on_error:?}"));
        let limiter = RedisLimiter::new(&store, settings).unwrap();
        let hour = Wait::at_most(HOUR);
        let mut places = Vec::new();
        for _ in 0..4 {
            places.push(limiter.entry("key").queue(1, hour).await.unwrap());
        }
        assert!(places.iter().all(|place| place.fault().is_none()));
        server.kill();
        while !store.is_degraded() {
            let _ = limiter.entry("key").peek(1).await;
        }
        let last = places.pop().unwrap();
        assert!(limiter.entry("key").cancel(last).await.is_err(), "{on_error:?}");
        assert!(limiter.entry("other").charge(1).await.is_err(), "{on_error:?}");
        assert!(limiter.entry("key").uncharge(1).await.is_err(), "{on_error:?}");
        assert!(limiter.entry("key").reset().await.is_err(), "{on_error:?}");
        // Without the store, places are taken in this node's share, which has a burst of 1, and regains one unit in two
        // minutes.
        let mut waits = Vec::new();
        for _ in 0..3 {
            waits.push(limiter.entry("key").reserve(1, HOUR / 30).await);
        }
        let minutes = |place: &tollgate_redis::RedisReservation| {
            assert_eq!(place.fault(), Some(Fault::Unreachable));
            (place.wait().as_secs_f64() / 60.0).round()
        };
        let waits: Vec<_> = waits.iter().flatten().map(minutes).collect();
        let expected: &[f64] = match on_error {
            OnError::Local => &[0.0, 2.0],
            OnError::Allow => &[0.0; 3],
            _ => &[],
        };
        assert_eq!(waits, expected, "{on_error:?}");
        tokio::task::block_in_place(|| server.restart());
        while limiter.check("probe").await.source() != Source::Store {
            tokio::task::yield_now().await;
        }
        // The store has lost its data. So the full burst is available again, and cancelling old places does not change
        // it.
        let old = places.pop().unwrap();
        assert_eq!(limiter.entry("key").cancel(old).await, Ok(false), "{on_error:?}");
        let mut admitted = 0;
        for _ in 0..9 {
            let place = limiter.entry("key").reserve(1, Duration::ZERO).await;
            admitted += usize::from(place.is_ok());
        }
        assert_eq!(admitted, 2, "{on_error:?}");
        for old in places {
            assert_eq!(limiter.entry("key").cancel(old).await, Ok(false), "{on_error:?}");
        }
        assert!(!limiter.check("key").await.is_allowed(), "{on_error:?}");
    }
}

#[tokio::test]
async fn a_charge_is_corrected_to_what_was_used() {
    let (_server, store) = started().await;
    for mode in [Mode::Exact, Mode::Leased] {
        let limiter = of_mode(&store, "10/d", mode);
        let key = limiter.entry("key");
        for (estimate, used, left) in [(5, 2, 8), (3, 3, 5), (4, 12, 0)] {
            let permit = key.check_n(estimate).await.into_result().unwrap();
            assert_eq!(key.settle(permit, used).await, Ok(0), "{mode:?}");
            assert_eq!(key.peek(1).await.decision().remaining(), left, "{mode:?}");
        }
        // 17 units were used under a limit of 10, so 7 are owed beyond it.
        assert_eq!(key.uncharge(7).await, Ok(7), "{mode:?}");
        assert_eq!((key.peek(1).await.decision().remaining(), key.uncharge(1).await), (0, Ok(1)));
    }
    // A window is charged as many units as fit.
    let window = of_mode(&store, "fixed-window 10/60d", Mode::Exact);
    let key = window.entry("window");
    let permit = key.check_n(4).await.into_result().unwrap();
    assert_eq!(key.settle(permit, 12).await, Ok(2));
}

#[tokio::test]
async fn units_come_back_without_a_permit_and_never_more_than_are_charged() {
    let (_server, store) = started().await;
    let policies = [
        "10/d",
        "fixed-window 10/60d",
        "fixed-window 10/60d from-first",
        "sliding-window 10/60d",
        "segmented-window 10/60d x6",
        "sliding-log 10/d",
        "calendar-month 10",
        "calendar-year 10",
        "calendar-week 10",
    ];
    for policy in policies {
        let limiter = named(&store, policy, policy, Mode::Exact);
        assert_eq!(limiter.entry("key").uncharge(5).await, Ok(0), "{policy}: nothing was charged");
        assert_eq!(admitted(&limiter, 3).await, 3, "{policy}");
        assert_eq!(units(&limiter.check_n("key", 5).await), 5, "{policy}");
        assert_eq!(limiter.entry("key").uncharge(6).await, Ok(6), "{policy}: of several charges");
        assert_eq!(left(&limiter, "key").await, 8, "{policy}");
        assert_eq!(limiter.entry("key").uncharge(99).await, Ok(2), "{policy}");
        assert_eq!(admitted(&limiter, 12).await, 10, "{policy}: no more than unused");
    }
}

#[tokio::test]
async fn of_a_log_the_newest_units_come_back_and_of_one_that_cannot_be_read_none() {
    let (server, store) = started().await;
    let long = named(&store, "long", "sliding-log 3000/d", Mode::Exact);
    assert_eq!(admitted(&long, 1_500).await, 1_500);
    assert_eq!(long.entry("key").uncharge(1_000).await, Ok(1_000));
    assert_eq!(left(&long, "key").await, 2_500);
    assert_eq!(long.entry("key").uncharge(u64::MAX).await, Ok(500));
    assert_eq!(left(&long, "key").await, 3_000);
    // Two policies share one key. The log keeps 15 units under the higher limit. Under the lower limit, a call gives
    // back at most the 10 units that it counts.
    let [wide, narrow] = ["sliding-log 100/d count-denied", "sliding-log 10/d count-denied"]
        .map(|policy| named(&store, "two", policy, Mode::Exact));
    assert_eq!((admitted(&wide, 15).await, admitted(&narrow, 4).await), (15, 0));
    assert_eq!(narrow.entry("key").uncharge(15).await, Ok(10));
    assert_eq!(narrow.entry("key").uncharge(15).await, Ok(5));
    assert_eq!(admitted(&narrow, 11).await, 10);
    let broken = named(&store, "broken", "sliding-log 10/d", Mode::Exact);
    assert_eq!(admitted(&broken, 1).await, 1);
    let keys: Vec<String> = server.run(&["KEYS", "*broken*"]);
    server.run::<String>(&["SET", &keys[0], "x"]);
    assert_eq!(broken.entry("key").uncharge(10).await, Ok(0));
    assert_eq!((store.stats().broken, admitted(&broken, 1).await), (1, 0));
}

#[tokio::test]
async fn units_that_come_back_are_there_in_each_mode_and_what_a_node_holds_is_not_forgiven() {
    let (_server, store) = started().await;
    for mode in [Mode::Leased, Mode::Async] {
        let limiter = of_mode(&store, "10/d", mode);
        assert_eq!(admitted(&limiter, 12).await, 10, "{mode:?}");
        assert_eq!(limiter.entry("key").uncharge(4).await, Ok(4), "{mode:?}");
        // In mode `leased` a node keeps a denial for a moment, and in mode `async` it keeps its count until the next
        // report.
        let mut found = 0;
        let all = async || {
            found += admitted(&limiter, 1).await;
            found == 4
        };
        until("four units", all).await;
        assert_eq!(admitted(&limiter, 3).await, 0, "{mode:?}");
    }
}
