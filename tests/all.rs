//! Several limits at once: either all are charged or none is, and the answer names the limit that decides.

use std::thread;
use std::time::Duration;

use crate::common::policy;
use tollgate::{
    Claim, Denial, DenialReason, JointDecision, KeyedLimiter, Limiter, ManualClock, Quota,
    Timestamp, check_all,
};

fn limiter(text: &str) -> Limiter {
    Limiter::builder(policy(text)).clock(ManualClock::new()).build()
}

fn keyed(text: &str) -> KeyedLimiter<u64> {
    KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(1_000).unwrap()
}

#[test]
fn example_23_one_post_per_second_and_150_friends_per_day() {
    let (posts, friends) = (limiter("1/s burst 1"), limiter("fixed-window 150/d"));
    let post_at = |ms| posts.entry().at(Timestamp::from_millis(ms)).check().is_allowed();
    assert_eq!([0, 500, 1_000].map(post_at), [true, false, true]);
    let now = Timestamp::from_secs(100);
    assert_eq!((0..200).filter(|_| friends.entry().at(now).check().is_allowed()).count(), 150);
    assert!(posts.entry().at(now).peek(1).is_allowed());
    // A call that needs both limits is charged in both or in neither.
    let both =
        |now| check_all(&mut [posts.entry().at(now).cost(1), friends.entry().at(now).cost(1)]);
    assert_eq!(both(now).denied_by(), Some(1));
    assert_eq!(posts.entry().at(now).peek(1).remaining(), 1);
    let tomorrow = Timestamp::from_secs(86_400);
    assert!(both(tomorrow).is_allowed());
    assert_eq!(posts.entry().at(tomorrow).peek(1).remaining(), 0);
    assert_eq!(friends.entry().at(tomorrow).peek(1).remaining(), 149);
}

#[test]
fn the_longest_wait_is_the_answer_and_waiting_so_long_succeeds() {
    let limits = [limiter("1/s burst 1"), limiter("6/m burst 1"), limiter("1/m burst 5")];
    let table = keyed("2/m burst 1");
    let ask = |now| {
        let [a, b, c] = limits.each_ref().map(|limit| limit.entry().at(now).cost(1));
        check_all(&mut [a, b, table.entry(&7).at(now).cost(1), c])
    };
    let start = Timestamp::from_secs(1_020);
    assert!(ask(start).is_allowed());
    // This time is a whole number of the table's ticks. There are 4,096 ticks in half a minute.
    let denied = ask(start + Duration::from_micros(937_500));
    assert_eq!(denied.denied_by(), Some(2));
    let denial = *denied.into_result().unwrap_err().denial();
    assert_eq!(denial.retry_after(), Some(Duration::from_micros(29_062_500)));
    assert!(ask(start + Duration::from_secs(30)).is_allowed());
}

#[test]
fn a_cost_that_never_fits_is_waited_for_longest() {
    let limits = [limiter("1/h burst 1"), limiter("5/s"), limiter("1/d burst 1")];
    let now = Timestamp::from_secs(1_000);
    limits.iter().for_each(|limit| assert!(limit.entry().at(now).check().is_allowed()));
    let [a, b, c] = limits.each_ref().map(|limit| limit);
    let denied = check_all(&mut [
        a.entry().at(now).cost(1),
        b.entry().at(now).cost(6),
        c.entry().at(now).cost(1),
    ]);
    assert_eq!(denied.denied_by(), Some(1));
    assert_eq!(denied.into_result().unwrap_err().denial().reason(), DenialReason::NeverFits);
    assert_eq!(b.entry().at(now).peek(1).remaining(), 4);
}

#[test]
fn an_admission_is_answered_by_the_limit_with_least_left() {
    let (wide, tight) = (limiter("9/s"), limiter("5/s"));
    let now = Timestamp::from_secs(1);
    let admitted = check_all(&mut [
        wide.entry().at(now).cost(3),
        tight.entry().at(now).cost(3),
        wide.entry().at(now).cost(1),
    ]);
    assert_eq!((admitted.reported_by(), admitted.denied_by()), (Some(1), None));
    assert_eq!(admitted.decision().unwrap().remaining(), 2);
    assert!(admitted.into_result().is_ok());
    assert_eq!(wide.entry().at(now).peek(1).remaining(), 5);
}

#[test]
fn no_limits_deny_nothing_and_a_cost_of_0_only_asks() {
    let none = check_all(&mut []);
    assert!(none.is_allowed() && none.decision().is_none() && none.into_result().is_ok());
    let (one, table) = (limiter("1/h"), keyed("1/h"));
    assert!(check_all(&mut [one.entry().cost(0), table.entry(&1).cost(0)]).is_allowed());
    assert_eq!(table.stats().live, 0);
    assert!(one.check().is_allowed());
}

#[test]
fn claims_can_be_kept_and_asked_again() {
    let (one, table) = (limiter("2/h"), keyed("9/h"));
    let mut claims: Vec<Claim<'_>> = vec![one.entry().cost(1), table.entry(&1).cost(1)];
    let admitted: Vec<_> = (0..4).map(|_| check_all(&mut claims).is_allowed()).collect();
    assert_eq!(admitted, [true, true, false, false]);
    assert_eq!(table.entry(&1).peek(1).remaining(), 7);
}

#[test]
fn each_limit_is_decided_by_its_own_clock() {
    let [early, late] = [ManualClock::new(), ManualClock::new()];
    late.set(Timestamp::from_secs(1_000_000));
    let one = Limiter::builder(Quota::per_minute(1)).clock(early.clone()).build();
    let other = Limiter::builder(Quota::per_minute(1)).clock(late.clone()).build();
    let both = || check_all(&mut [one.entry().cost(1), other.entry().cost(1)]);
    assert!(both().is_allowed());
    late.advance(Duration::from_secs(60));
    assert_eq!(both().denied_by(), Some(0));
    early.advance(Duration::from_secs(60));
    assert!(both().is_allowed());
}

#[test]
fn threads_that_ask_in_opposite_orders_share_each_limit_and_lose_nothing() {
    let (one, other, table) = (limiter("5000/h"), limiter("4000/h"), keyed("9000/h"));
    let now = Timestamp::from_secs(1_000_000);
    let ask = |thread: usize| {
        let forth = [
            one.entry().at(now).cost(1),
            table.entry(&1).at(now).cost(1),
            other.entry().at(now).cost(1),
        ];
        let back = [
            other.entry().at(now).cost(1),
            table.entry(&1).at(now).cost(1),
            one.entry().at(now).cost(1),
        ];
        let mut claims = if thread.is_multiple_of(2) { forth } else { back };
        (0..3_000).filter(|_| check_all(&mut claims).is_allowed()).count() as u64
    };
    let ask = &ask;
    let admitted: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // `other` is used up first, so no other limit denies, and no charge of `other` is ever undone.
    assert_eq!((admitted, other.entry().at(now).peek(1).remaining()), (4_000, 0));
    // A request that `other` denies may have charged these two limits before. One such charge for each thread may stay.
    for (limit, left) in
        [(5_000, one.entry().at(now).peek(1)), (9_000, table.entry(&1).at(now).peek(1))]
    {
        assert!(admitted + left.remaining() <= limit);
        assert!(admitted + left.remaining() >= limit - 4, "{limit}: {left:?}");
    }
}

#[test]
fn nothing_is_allocated() {
    let (one, table) = (limiter("100/s burst 50"), keyed("sliding-window 90/s exact"));
    let mut admitted = 0;
    let allocations = allocation_counter::measure(|| {
        for n in 0..10_000 {
            let now = Timestamp::from_millis(1_000 + n);
            let mut claims = [
                one.entry().at(now).cost(1),
                table.entry(&(n % 7)).at(now).cost(30),
                table.entry(&(n % 7)).at(now).cost(30),
            ];
            admitted += u64::from(check_all(&mut claims).is_allowed());
        }
    });
    assert!(admitted > 10 && admitted < 5_000, "{admitted}");
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn what_is_asked_and_answered_can_be_sent_and_is_small() {
    fn shareable<T: Send + Sync + std::fmt::Debug>() {}
    shareable::<Claim<'static>>();
    shareable::<JointDecision>();
    assert!(size_of::<JointDecision>() <= 112);
    let table = keyed("5/m");
    let told = format!("{:?}", table.entry(&1).cost(1));
    assert!(told.len() < 300, "{told}");
}

/// In a `match` on the index of the limit that denied, an admitted request is seen as admitted. The error of `?` also
/// names the limit.
#[test]
fn an_admitted_request_is_denied_by_no_limit_and_an_error_keeps_the_index() {
    let (wide, tight) = (limiter("9/s"), limiter("5/s"));
    let now = Timestamp::from_secs(1);
    let ask = || check_all(&mut [wide.entry().at(now).cost(3), tight.entry().at(now).cost(3)]);
    let refused = [ask(), ask()].map(|joint| match joint.denied_by() {
        Some(index) => Some((index, joint.into_result().unwrap_err().index())),
        None => joint.into_result().is_err().then_some((9, 9)),
    });
    assert_eq!(refused, [None, Some((1, 1))]);
    let denied = ask().into_result().unwrap_err();
    assert_eq!(Denial::from(denied).retry_after(), denied.denial().retry_after());
    assert_eq!(denied.to_string(), "limit 1: rate limited: retry after 200ms");
    assert_eq!(check_all(&mut []).denied_by(), None);
}
