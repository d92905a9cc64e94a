use super::*;

const TERMS: Terms = Terms { most: 64, poll_ns: 10_000_000, era: 0 };
const MS: u64 = 1_000_000;

fn grant(units: u64, asked_ns: u64) -> Grant {
    Grant {
        units,
        asked_ns,
        turns_ns: None,
        stamp: 7,
        charged_us: 0,
        beyond: Beyond { remaining: 99, reset_ns: 0 },
    }
}

fn spend(holding: &mut Holding, cost: u64, now_ns: u64) -> Spend {
    holding.spend(TERMS, cost, now_ns, now_ns)
}

fn is_spent(spend: Spend) -> bool {
    matches!(spend, Spend::Spent { .. })
}

#[test]
fn one_asks_and_the_others_wait() {
    let mut holding = Holding::default();
    assert_eq!(spend(&mut holding, 3, 0), Spend::Ask(LeaseWant { want: 3, least: 3 }));
    assert_eq!(spend(&mut holding, 1, 0), Spend::Wait);
    holding.granted(TERMS, grant(4, 0), MS);
    assert_eq!(spend(&mut holding, 3, MS), Spend::Spent { stamp: 7, more: None });
    // Spending the last unit asks for the next lease.
    let more = Some(LeaseWant { want: 8, least: 1 });
    assert_eq!(spend(&mut holding, 1, MS), Spend::Spent { stamp: 7, more });
    assert_eq!(spend(&mut holding, 1, MS), Spend::Wait);
}

#[test]
fn a_lease_that_was_under_way_when_the_key_was_forgotten_is_not_spent() {
    let mut holding = Holding::default();
    assert_eq!(spend(&mut holding, 3, 0), Spend::Ask(LeaseWant { want: 3, least: 3 }));
    holding.forget();
    assert_eq!(spend(&mut holding, 1, 0), Spend::Wait);
    holding.granted(TERMS, grant(4, 0), MS);
    assert_eq!(holding.left(), 0);
    // The next lease is asked for and spent as usual.
    assert!(matches!(spend(&mut holding, 3, MS), Spend::Ask(_)));
    holding.granted(TERMS, grant(4, MS), MS);
    assert!(is_spent(spend(&mut holding, 3, MS)));
}

#[test]
fn leases_that_are_spent_at_once_double_up_to_half_of_what_a_node_may_hold() {
    let mut holding = Holding::default();
    let mut now_ns = 0;
    let mut wants = Vec::new();
    while wants.len() < 12 {
        let want = match spend(&mut holding, 1, now_ns) {
            Spend::Ask(want) | Spend::Spent { more: Some(want), .. } => want,
            _ => continue,
        };
        wants.push(want.want);
        now_ns += MS;
        holding.granted(TERMS, grant(want.want, now_ns), now_ns);
    }
    assert_eq!(wants.last(), Some(&32));
    assert!(wants.is_sorted());
    assert_eq!(wants[..3], [1, 2, 4]);
}

#[test]
fn what_is_not_spent_in_time_is_gone() {
    let mut holding = Holding::default();
    assert!(matches!(spend(&mut holding, 1, 0), Spend::Ask(_)));
    holding.granted(TERMS, grant(10, 0), 5 * MS);
    // The lease ends a second, less a thousandth, after it was asked for. Just before that it has not ended.
    assert!(is_spent(spend(&mut holding, 1, 998 * MS)));
    assert!(matches!(spend(&mut holding, 1, 999 * MS), Spend::Ask(_)));
    assert_eq!(holding.left(), 0);
    assert_eq!(
        holding.take_expired().map(|ended| (ended.units, ended.stamp.of(0))),
        [(9, 7), (0, 0)]
    );
    // A lease ends with its window, if that is earlier.
    holding.granted(TERMS, Grant { turns_ns: Some(100 * MS), ..grant(10, 1_000 * MS) }, 1_001 * MS);
    assert!(is_spent(spend(&mut holding, 1, 1_099 * MS)));
    assert!(!is_spent(spend(&mut holding, 1, 1_100 * MS)));
}

#[test]
fn after_a_denial_the_store_is_left_alone_until_it_has_units() {
    let mut holding = Holding::default();
    assert!(matches!(spend(&mut holding, 2, 0), Spend::Ask(_)));
    holding.denied(TERMS, 2, Beyond::default(), 30 * MS, 0);
    assert_eq!(spend(&mut holding, 2, 29 * MS), Spend::Denied { retry_ns: MS });
    assert_eq!(spend(&mut holding, 5, 20 * MS), Spend::Denied { retry_ns: 10 * MS });
    assert!(!holding.is_idle(29 * MS));
    // A smaller cost may fit, so the store is asked.
    assert_eq!(spend(&mut holding, 1, MS), Spend::Ask(LeaseWant { want: 1, least: 1 }));
    // The store is asked at most once per poll interval, whatever wait it reports.
    holding.denied(TERMS, 1, Beyond::default(), 0, MS);
    assert_eq!(spend(&mut holding, 1, 2 * MS), Spend::Denied { retry_ns: 9 * MS });
    assert!(matches!(spend(&mut holding, 1, 11 * MS), Spend::Ask(_)));
}

#[test]
fn a_long_denial_is_looked_at_again_every_second() {
    let mut holding = Holding::default();
    assert!(matches!(spend(&mut holding, 1, 0), Spend::Ask(_)));
    let hour = 3_600_000 * MS;
    holding.denied(TERMS, 1, Beyond::default(), hour, 0);
    assert_eq!(spend(&mut holding, 1, 999 * MS), Spend::Denied { retry_ns: hour - 999 * MS });
    assert!(matches!(spend(&mut holding, 1, 1_000 * MS), Spend::Ask(_)));
}

#[test]
fn a_fault_answers_the_requests_that_came_before_it() {
    let mut holding = Holding::default();
    assert!(matches!(spend(&mut holding, 1, 0), Spend::Ask(_)));
    holding.failed(Fault::Deadline, 5 * MS);
    let waited = holding.spend(TERMS, 1, MS, 5 * MS);
    assert_eq!(waited, Spend::Failed(Fault::Deadline));
    assert!(matches!(spend(&mut holding, 1, 6 * MS), Spend::Ask(_)));
}

#[test]
fn leases_end_in_the_order_in_which_they_are_spent() {
    let mut holding = Holding::default();
    assert!(matches!(spend(&mut holding, 1, 0), Spend::Ask(_)));
    holding.granted(TERMS, grant(3, 0), MS);
    holding.granted(TERMS, grant(5, 500 * MS), 501 * MS);
    assert!(is_spent(spend(&mut holding, 4, 600 * MS)));
    assert_eq!(holding.left(), 4);
    // The first lease has ended, but the second lasts longer.
    assert!(is_spent(spend(&mut holding, 4, 1_400 * MS)));
    assert_eq!(holding.end(1_400 * MS).map(|ended| ended.units), [0, 0]);
}

/// A cost is not denied if this node's lease and the store together have enough units for it.
#[test]
fn after_a_grant_that_leaves_next_to_nothing_the_store_is_asked_for_that_and_no_more() {
    for (remaining, cost, denied) in
        [(0, 1, true), (1, 1, false), (1, 2, true), (2, 3, false), (0, 4, true), (1, 4, false)]
    {
        let mut holding = Holding { want: 32, ..Holding::default() };
        assert!(matches!(spend(&mut holding, 1, 0), Spend::Ask(_)));
        let beyond = Beyond { remaining, reset_ns: 0 };
        // In the last two cases the node still has three units of its lease.
        let here = if cost == 4 { 4 } else { 1 };
        holding.granted(TERMS, Grant { beyond, ..grant(here, 0) }, 0);
        assert!(is_spent(spend(&mut holding, 1, 0)));
        let again = spend(&mut holding, cost, 0);
        let found = matches!(again, Spend::Denied { .. });
        assert_eq!(found, denied, "{cost} at {remaining} of 32: {again:?}");
    }
}

/// The node has 2 units, and the store denied it 3 more. When the 2 units are back in the store, the store may have 3.
#[test]
fn a_denial_ends_when_units_come_back_to_the_limit() {
    let denied = || {
        let mut holding = Holding::default();
        holding.granted(TERMS, grant(2, 0), 0);
        assert!(matches!(spend(&mut holding, 5, 0), Spend::Ask(_)));
        holding.denied(TERMS, 3, Beyond::default(), 1_500 * MS, 500 * MS);
        assert!(matches!(spend(&mut holding, 5, 500 * MS), Spend::Denied { .. }));
        holding
    };
    assert!(matches!(spend(&mut denied(), 3, 1_000 * MS), Spend::Ask(_)), "they have expired");
    let mut holding = denied();
    holding.returned();
    assert!(matches!(spend(&mut holding, 5, 500 * MS), Spend::Ask(_)), "of a permit");
}

/// Units of a lease under an older policy are not spent under the newer policy: they are given back, and another lease
/// is asked for.
#[test]
fn leases_of_an_older_policy_are_given_back_under_that_and_not_spent() {
    let newer = Terms { era: 1, ..TERMS };
    let mut holding = Holding::default();
    holding.granted(TERMS, Grant { charged_us: 30, ..grant(5, 0) }, 0);
    let want = LeaseWant { want: 2, least: 2 };
    assert_eq!(holding.spend(newer, 2, MS, MS), Spend::Ask(want));
    let old = ChargeStamp { at: 7, us: 30, era: 0 };
    assert_eq!(
        holding.take_expired(),
        [EndedUnits { units: 5, stamp: old }, EndedUnits::default()]
    );
    // A limiter with the older policy peeks at the store before it spends units of the newer policy.
    holding.granted(newer, grant(5, MS), MS);
    assert_eq!(spend(&mut holding, 2, MS), Spend::Ask(LeaseWant { want: 0, least: 0 }));
    assert_eq!((holding.left(), holding.take_expired()[0].units), (5, 0));
}

/// The store also charged the newer policy's units to the older policy's state, so it can give both charges back there.
#[test]
fn units_of_two_policies_that_expire_together_are_given_back_under_the_older_one() {
    let [old, new] = [(7, 30, 0), (9, 40, 1)].map(|(at, us, era)| ChargeStamp { at, us, era });
    assert_eq!([old.min(new), new.min(old)], [old; 2]);
    // The server's clock was set back between the charges, so it is not known how many units have drained.
    let new = ChargeStamp { us: 20, ..new };
    assert_eq!(old.min(new), ChargeStamp { at: 0, us: 20, era: 0 });
}

/// A holding that was granted three leases. The third was asked for because a large request needed more units than the
/// first two leases had.
fn three_leases(third: Grant) -> Holding {
    let mut holding = Holding::default();
    holding.granted(TERMS, grant(2, 0), 0);
    holding.granted(TERMS, Grant { stamp: 9, ..grant(3, 100 * MS) }, 100 * MS);
    holding.granted(TERMS, Grant { stamp: 8, ..third }, 120 * MS);
    holding
}

#[test]
fn a_third_lease_is_joined_to_the_second_and_they_end_with_the_first_to_end() {
    let ended = |units, at| EndedUnits { units, stamp: ChargeStamp { at, us: 0, era: 0 } };
    let mut holding = three_leases(grant(5, 120 * MS));
    assert_eq!(holding.left(), 10);
    // The first lease has ended, and the merged lease has not.
    assert_eq!(holding.end(1_050 * MS), [ended(8, 8), ended(0, 7)]);
    assert_eq!(holding.take_expired(), [ended(2, 7), ended(0, 0)]);
    let mut holding = three_leases(Grant { turns_ns: Some(500 * MS), ..grant(5, 120 * MS) });
    assert_eq!(holding.glance(700 * MS).left, 2);
    assert_eq!(holding.take_expired(), [ended(8, 8), ended(0, 0)]);
}

#[test]
fn leases_that_were_joined_grow_by_what_they_had_together() {
    let mut holding = three_leases(grant(5, 120 * MS));
    assert_eq!(spend(&mut holding, 2, 130 * MS), Spend::Spent { stamp: 7, more: None });
    let more = Some(LeaseWant { want: 16, least: 1 });
    assert_eq!(spend(&mut holding, 8, 130 * MS), Spend::Spent { stamp: 8, more });
}

#[test]
fn an_answer_that_was_under_way_does_not_know_what_was_charged_beside_it() {
    let known = |holding: &Holding| holding.known(TERMS).remaining;
    let mut holding = Holding::default();
    holding.see(TERMS, Beyond { remaining: 50, reset_ns: 0 });
    let before = holding.glance(0);
    holding.charged_beside(3);
    assert_eq!((known(&holding), holding.glance(0).asks), (47, before.asks + 1));
    // No lease was on its way, so the next answer includes this charge.
    holding.see(TERMS, Beyond { remaining: 47, reset_ns: 0 });
    assert_eq!(known(&holding), 47);
    assert!(matches!(spend(&mut holding, 1, 0), Spend::Ask(_)));
    holding.charged_beside(3);
    holding.charged_beside(4);
    assert_eq!((known(&holding), holding.glance(0).asks), (40, before.asks + 4));
    holding.granted(
        TERMS,
        Grant { beyond: Beyond { remaining: 46, reset_ns: 0 }, ..grant(1, 0) },
        0,
    );
    assert_eq!(known(&holding), 46 - 7 + 1);
}

#[test]
fn a_glance_says_whether_units_are_to_be_given_back() {
    let mut holding = Holding::default();
    holding.granted(TERMS, grant(5, 0), 0);
    assert_eq!(holding.glance(0), Glance { left: 5, asking: false, asks: 0, has_expired: false });
    let glance = holding.glance(1_000 * MS);
    assert_eq!(glance, Glance { left: 0, asking: false, asks: 0, has_expired: true });
}

#[test]
fn as_many_units_are_lent_as_leave_enough_to_notice_that_they_are_spent() {
    let with = |want, asking, lefts: [u64; 2]| {
        let mut holding = Holding { want, asking, seen: Some(0), ..Holding::default() };
        for (lease, left) in holding.leases.iter_mut().zip(lefts) {
            (lease.left, lease.until_ns) = (left, MS);
        }
        holding
    };
    let lent = |want, asking, lefts| with(want, asking, lefts).lend().map(|lent| lent.units);
    // If there is no further lease, a quarter of the next lease's size stays in the holding, but at least one unit.
    assert_eq!(lent(32, false, [20, 0]), Some(12));
    assert_eq!(lent(2, false, [20, 0]), Some(19));
    // If there is a further lease, or it has been asked for, one unit stays.
    assert_eq!(lent(32, false, [20, 3]), Some(19));
    assert_eq!(lent(32, true, [20, 0]), Some(19));
    // Fewer than 4 units are not lent to a pool.
    assert_eq!([lent(1, false, [5, 0]), lent(1, false, [4, 0])], [Some(4), None]);
    let mut holding = with(32, false, [20, 0]);
    holding.beyond = Beyond { remaining: 30, reset_ns: 5 };
    let beyond = holding.lend().map(|lent| lent.beyond);
    assert_eq!(beyond, Some(Beyond { remaining: 38, reset_ns: 5 }), "8 stay here");
    assert_eq!(holding.left(), 8);
    holding.put_back(12);
    assert_eq!(holding.left(), 20);
}

#[test]
fn a_key_can_be_forgotten_when_its_denial_is_to_be_asked_about_again() {
    let mut holding = Holding::default();
    assert!(matches!(spend(&mut holding, 1, 0), Spend::Ask(_)));
    holding.denied(TERMS, 1, Beyond::default(), 30 * MS, 0);
    assert_eq!([30 * MS - 1, 30 * MS].map(|now_ns| holding.is_idle(now_ns)), [false, true]);
}

/// The number of units that are asked for after a lease of 4 units, of which `spent` units are spent at `at_ns`.
fn want_after(spent: u64, at_ns: u64) -> u64 {
    let mut holding = Holding { want: 16, ..Holding::default() };
    holding.granted(TERMS, grant(4, 0), 0);
    // The next lease is not asked for early.
    holding.asking = true;
    assert!(spent == 0 || is_spent(spend(&mut holding, spent, at_ns)));
    holding.asking = false;
    match spend(&mut holding, 5, at_ns.max(LIFE_NS * u64::from(spent == 0))) {
        Spend::Ask(want) => want.want,
        other => panic!("{other:?}"),
    }
}

#[test]
fn leases_that_last_long_or_expire_are_followed_by_half_as_many_units() {
    assert_eq!([0, 49, 50, 499].map(|ms| want_after(4, ms * MS)), [16; 4]);
    assert_eq!([500, 900].map(|ms| want_after(4, ms * MS)), [8; 2]);
    assert_eq!(want_after(0, 0), 8);
}

/// The number of units that are asked for when one unit is spent at `now_ns` from a lease with `left` units.
fn early(want: u64, left: u64, now_ns: u64, change: impl FnOnce(&mut Holding)) -> Option<u64> {
    let mut holding = Holding { want, ..Holding::default() };
    holding.granted(TERMS, grant(left, 0), 0);
    change(&mut holding);
    let asks = holding.glance(now_ns).asks;
    let Spend::Spent { more, .. } = spend(&mut holding, 1, now_ns) else { panic!("{holding:?}") };
    assert_eq!(holding.glance(now_ns).asks, asks + u64::from(more.is_some()));
    more.map(|more| more.want)
}

#[test]
fn the_next_lease_is_asked_for_when_a_quarter_of_one_is_left() {
    assert_eq!([4, 3].map(|left| early(8, left, 0, |_| ())), [None, Some(8)]);
    // With leases of three units, the next lease is not asked for early.
    assert_eq!([3, 4].map(|want| early(want, 1, 100 * MS, |_| ())), [None, Some(4)]);
    assert_eq!(early(8, 3, 0, |holding| holding.granted(TERMS, grant(1, 0), 0)), None);
}

#[test]
fn while_the_store_denies_or_fails_no_lease_is_asked_for_early() {
    let beyond = Beyond { remaining: 99, reset_ns: 0 };
    let denied = |holding: &mut Holding| holding.denied(TERMS, 1, beyond, 30 * MS, 0);
    assert_eq!([30 * MS - 1, 30 * MS].map(|at_ns| early(8, 3, at_ns, denied)), [None, Some(8)]);
    // After a failure the store is not asked for the poll interval.
    let failed = |holding: &mut Holding| holding.failed(Fault::Deadline, 0);
    assert_eq!([10 * MS - 1, 10 * MS].map(|at_ns| early(8, 3, at_ns, failed)), [None, Some(8)]);
}
