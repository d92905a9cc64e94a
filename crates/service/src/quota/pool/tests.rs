//! Tests the bound in simulated worlds, where Envoys take all that they can and messages come late. Each planted fault
//! must break the bound.

mod world;

use proptest::prelude::*;

use super::*;
use world::{End, STEP, World};

/// A fault that can be planted in a pool or in a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A replaced lease is no longer counted, although the message that replaces it is still under way.
    FreesAtOnce,
    /// The leases of a closed stream are no longer counted, although Envoy goes on with them.
    ForgetsTheClosed,
    /// The full bucket that a new lease begins with is not taken from the saved tokens.
    FreeBuckets,
    /// A lease is prolonged although it may be over at Envoy, which then fills its bucket.
    IsLate,
    /// The last message before a restart is taken to have arrived.
    TrustsTheLast,
    /// After a restart the Envoys' leases are not known, but the service does not wait until they are over.
    ForgetsTheRestart,
    /// After a kill, the service does not wait until the Envoys' leases are over.
    ForgetsTheKill,
    /// The next stream from an address belongs to another Envoy, contrary to the assumption about restarts.
    TakesOneForTheOther,
}

/// Plants the faults that take effect when a lease is given.
pub(super) fn plant(
    fault: Option<Fault>,
    stored: &mut u128,
    cost: u128,
    leases: &mut Vec<ShareLease>,
) {
    match fault {
        Some(Fault::FreesAtOnce) => leases.clear(),
        Some(Fault::FreeBuckets) => *stored += cost,
        _ => {}
    }
}

const HUNDRED: Allowance = Allowance { per_fill: 1_000, fill_s: 10, burst: 100 };

/// For two minutes and more, Envoys come, break off and fall silent at random. The service is stopped or killed at
/// random times.
fn random_world(seed: u64, fault: Option<Fault>) -> World {
    let allowances = [
        HUNDRED,
        Allowance { per_fill: 1_000, fill_s: 10, burst: 7 },
        Allowance { per_fill: 1_000, fill_s: 600, burst: 100 },
        Allowance { per_fill: 5_000, fill_s: 1, burst: 40 },
    ];
    let allowance = allowances[usize::try_from(seed % 4).expect("small")];
    let mut world = World::new(allowance, DELAY, seed);
    world.pool.fault = fault;
    for _ in 0..120 {
        let per_second = u64::from(allowance.per_fill) / u64::from(allowance.fill_s);
        match world.draw(10) {
            0 | 1 if world.envoys.len() < 6 => {
                let (most, interval) =
                    (3 * per_second + 50, world.draw(20) * SECOND / 2 + SECOND / 4);
                let demand = world.draw(most);
                world.join(demand, interval);
            }
            2 if !world.envoys.is_empty() => {
                let place = world.draw(world.envoys.len() as u64);
                world.reconnect(usize::try_from(place).expect("small"));
            }
            4 => {
                let ends = [End::Stops, End::Stops, End::StopsBehindOneAddress, End::IsKilled];
                let end = ends[usize::try_from(world.draw(4)).expect("small")];
                let seconds = world.draw(13);
                world.restart(end, seconds);
            }
            3 if !world.envoys.is_empty() => {
                let place = world.draw(world.envoys.len() as u64);
                let place = usize::try_from(place).expect("small");
                // The Envoy reports nothing for up to 20 s, and its demand changes.
                world.envoys[place].next_report = world.now + world.draw(20) * SECOND;
                world.envoys[place].demand = world.draw(6 * per_second) * 1_000 / (SECOND / STEP);
            }
            _ => {}
        }
        world.run(1);
    }
    world
}

/// For five minutes, an Envoy reports only when its assignment is nearly over.
fn slow_world(seed: u64, fault: Option<Fault>) -> World {
    let slow = Allowance { per_fill: 1_000, fill_s: 600, burst: 100 };
    let mut world = World::new(slow, DELAY, seed);
    world.pool.fault = fault;
    world.join(50, TIME_TO_LIVE_S * SECOND - 3 * SECOND / 5);
    world.run(300);
    world
}

/// Envoys come one after another, all with more requests than the limit allows. The limit's burst is small, so few
/// tokens can be saved.
fn crowded_world(seed: u64, fault: Option<Fault>) -> World {
    let mut world = World::new(Allowance { burst: 10, ..HUNDRED }, DELAY, seed);
    world.pool.fault = fault;
    for _ in 0..6 {
        world.join(300, SECOND);
        world.run(5);
    }
    world
}

/// An Envoy reports every 5 s, like a real Envoy, and the service is stopped again and again.
fn stopped_world(seed: u64, fault: Option<Fault>) -> World {
    let slow = Allowance { per_fill: 1_000, fill_s: 600, burst: 100 };
    let mut world = World::new(slow, DELAY, seed);
    world.pool.fault = fault;
    world.join(50, 5 * SECOND);
    for _ in 0..20 {
        let (before, down) = (world.draw(20), world.draw(6));
        world.run(before);
        world.restart(End::Stops, down);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_world_passes_more_than_rate_and_burst_over_any_time(seed in any::<u64>()) {
        let world = random_world(seed, None);
        prop_assert!(world.is_within_the_bound(), "{} of {:?}", world.max_above, world.pool.allowance);
    }
}

#[test]
fn every_planted_fault_is_caught() {
    for fault in [
        Fault::FreesAtOnce,
        Fault::ForgetsTheClosed,
        Fault::FreeBuckets,
        Fault::IsLate,
        Fault::TrustsTheLast,
        Fault::ForgetsTheRestart,
        Fault::ForgetsTheKill,
        Fault::TakesOneForTheOther,
    ] {
        let caught = |seed| match fault {
            Fault::TrustsTheLast => !stopped_world(seed, Some(fault)).is_within_the_bound(),
            Fault::IsLate => !slow_world(seed, Some(fault)).is_within_the_bound(),
            Fault::FreesAtOnce => !crowded_world(seed, Some(fault)).is_within_the_bound(),
            _ => !random_world(seed, Some(fault)).is_within_the_bound(),
        };
        assert!((0..400).any(caught), "{fault:?}");
    }
    for sound in [slow_world, crowded_world, stopped_world] {
        assert!((0..100).all(|seed| sound(seed, None).is_within_the_bound()));
    }
}

#[test]
fn two_envoys_at_three_times_the_limit_have_their_shares_of_the_demand() {
    for interval in [SECOND, 5 * SECOND] {
        let mut world = World::new(HUNDRED, SECOND / 100, 1);
        world.join(200, interval);
        world.run(2);
        world.join(100, interval);
        world.run(15);
        let [one, other] = world.admits_in(30)[..] else { panic!("two") };
        let sum = one + other;
        assert!((2_800..=3_100).contains(&sum), "{one} {other}");
        // The two Envoys have two thirds and one third of the limit, each to within a twentieth.
        assert!(one * 60 >= sum * 38 && one * 60 <= sum * 42, "{one} of {sum}");
        assert!(other * 60 >= sum * 19 && other * 60 <= sum * 21, "{other} of {sum}");
        assert!(world.is_within_the_bound());
    }
}

#[test]
fn two_envoys_that_were_quiet_share_a_rush_by_their_demand() {
    for quiet_s in 1..20 {
        let mut world = World::new(HUNDRED, SECOND / 100, quiet_s);
        world.join(50, SECOND);
        world.run(quiet_s);
        world.envoys[0].demand = 0;
        world.join(1, SECOND);
        world.run(quiet_s);
        for (envoy, per_second) in world.envoys.iter_mut().zip([200, 100]) {
            envoy.demand = per_second * 1_000 / (SECOND / STEP);
        }
        let [one, other] = world.admits_in(30)[..] else { panic!("two") };
        let sum = one + other;
        assert!(sum >= 2_700, "{quiet_s}: {one} {other}");
        assert!(one * 30 >= sum * 18 && one * 30 <= sum * 22, "{quiet_s}: {one} of {sum}");
    }
}

#[test]
fn a_new_envoy_gets_its_share_of_a_limit_that_is_given_out() {
    let mut world = World::new(HUNDRED, SECOND / 100, 1);
    world.join(300, SECOND);
    world.run(20);
    world.join(300, SECOND);
    world.run(10);
    let [one, other] = world.admits_in(10)[..] else { panic!("two") };
    assert!(one.abs_diff(other) <= 100 && one + other >= 900, "{one} {other}");
}

#[test]
fn what_a_closed_or_silent_envoy_had_is_given_to_others_when_it_is_over() {
    for is_silent in [false, true] {
        let mut world = World::new(HUNDRED, SECOND / 100, 1);
        world.join(300, SECOND);
        world.join(300, SECOND);
        world.run(20);
        if is_silent {
            world.envoys[1].next_report = u64::MAX;
            world.envoys[1].demand = 0;
        } else {
            let actions = world.pool.close(world.now, world.envoys[1].id);
            world.send(actions);
            world.envoys.truncate(1);
        }
        let held = world.admits_in(8)[0];
        assert!(held <= 8 * 60, "it may still be in force: {held}");
        world.run(7);
        let alone = world.admits_in(10)[0];
        assert!(alone >= 900, "{is_silent} {alone} {:?}", world.pool);
    }
}

#[test]
fn a_quiet_envoy_keeps_enough_to_say_that_it_is_not_quiet_any_more() {
    let mut world = World::new(HUNDRED, SECOND / 100, 1);
    let [busy, quiet] = [world.join(300, SECOND), world.join(0, SECOND)];
    world.run(20);
    let alone = world.admits_in(10)[busy];
    assert!(alone >= 850, "the busy one has nearly all: {alone}");
    world.envoys[quiet].demand = world.envoys[busy].demand;
    world.run(15);
    let [one, other] = world.admits_in(10)[..] else { panic!("two") };
    assert!(one.abs_diff(other) <= 120, "{one} {other}");
}

/// The only action, which must assign a share to the holder 1.
#[track_caller]
fn assigned(actions: &[HolderAction]) -> Share {
    let [HolderAction { holder: 1, action: Action::Assign(share) }] = actions else {
        panic!("{actions:?}")
    };
    *share
}

#[test]
fn nothing_is_given_while_leases_of_before_may_be_in_force() {
    let mut pool = Pool::new(HUNDRED, 0, IN_FORCE);
    assert_eq!(pool.report(SECOND, 1, 1, 0), []);
    assert_eq!(pool.tick(IN_FORCE - 1), []);
    assigned(&pool.report(IN_FORCE, 1, 1, 0));
    // After a change of the limit nothing is given until the old leases are over.
    let slower = Allowance { per_fill: 500, ..HUNDRED };
    let changed = IN_FORCE + SECOND;
    pool.change(slower, changed);
    assert_eq!(pool.report(changed, 1, 1, 0), []);
    assert_eq!(pool.report(2 * IN_FORCE - 1, 1, 1, 0), []);
    let share = assigned(&pool.report(2 * IN_FORCE, 1, 1, 0));
    assert!(share.per_fill <= 500, "{share:?}");
}

/// The number of requests that two Envoys admit within 12 s of the end of a service. They get three times as many
/// requests as the limit allows. The next service starts a second after the end. `before` moves the end relative to the
/// Envoys' reports.
fn over_a_restart(end: End, before: u64) -> u64 {
    let mut world = World::new(HUNDRED, SECOND / 100, 1);
    world.join(200, 5 * SECOND);
    world.join(100, 5 * SECOND);
    world.run(30 + before);
    let admitted = |world: &World| world.envoys.iter().map(|envoy| envoy.admitted).sum::<u64>();
    let admitted_before = admitted(&world);
    world.restart(end, 1);
    world.run(11);
    assert!(world.is_within_the_bound());
    admitted(&world) - admitted_before
}

#[test]
fn a_service_that_stops_and_starts_denies_no_envoy_what_it_had() {
    for before in 0..5 {
        let passed = over_a_restart(End::Stops, before);
        assert!(passed >= 1_100, "{before}: {passed} of 1200");
    }
    // If the service does not know which Envoy holds which assignment, the assignments run out. This is so behind one
    // address and after a kill.
    for end in [End::StopsBehindOneAddress, End::IsKilled] {
        assert!((0..5).all(|before| over_a_restart(end, before) < 1_100), "{end:?}");
    }
}

#[test]
fn after_a_restart_the_first_report_prolongs_what_has_certainly_arrived() {
    let mut pool = Pool::new(HUNDRED, 0, 0);
    pool.report(0, 1, 1, 0);
    let sent = SECOND;
    let share = assigned(&pool.report(sent, 1, 900, 0));
    let saved_at = |pool: &mut Pool, at| {
        let (limit, holders) = pool.saved(at, |id| id == 1);
        let [(1, holder)] = &holders[..] else { panic!("{holders:?}") };
        assert_eq!((holder.per_fill, holder.left_ns), (968, sent + IN_FORCE - at));
        Pool::restored(&limit, [(1, holder)], at)
    };
    // If the lease was sent less than two delays before the end, it may be lost. So a new lease is given, and its
    // tokens are taken from `stored`.
    let late = sent + 2 * DELAY - 1;
    let mut next = saved_at(&mut pool, late);
    let stored = next.stored;
    assigned(&next.report(late + SECOND, 1, 1_800, 0));
    assert!(next.stored < stored && next.holders[0].leases.len() == 2);
    // If the lease was sent earlier, it has arrived. It is prolonged without taking tokens, as long as the message
    // arrives in time.
    let (saved, in_time) = (sent + 2 * DELAY, sent + IN_FORCE - 2 * DELAY - 1);
    let mut next = saved_at(&mut pool, saved);
    assert_eq!(assigned(&next.report(in_time, 1, 900, 0)), share);
    assert_eq!(next.holders[0].leases[0].until, in_time + IN_FORCE);
    let mut next = saved_at(&mut pool, saved);
    assigned(&next.report(in_time + 1, 1, 900, 0));
    assert_eq!(next.holders[0].leases.len(), 2);
    // Meanwhile no other Envoy gets a part of the rate of this lease.
    let mut next = saved_at(&mut pool, saved);
    assert_eq!(next.report(saved, 2, 1, 0), []);
}

#[test]
fn a_silent_holder_is_told_so_and_an_idle_pool_can_be_forgotten() {
    let mut pool = Pool::new(HUNDRED, 0, 0);
    assert!(pool.is_idle());
    pool.report(0, 1, 1, 0);
    assert!(!pool.is_idle());
    let silent = TIME_TO_LIVE_S * SECOND;
    let abandoned = HolderAction { holder: 1, action: Action::Abandon };
    assert!(!pool.tick(silent - 1).contains(&abandoned));
    assert_eq!(pool.tick(silent), [abandoned]);
    assert_eq!(pool.tick(IN_FORCE), []);
    pool.tick(2 * IN_FORCE);
    assert!(pool.is_idle(), "{pool:?}");
}
