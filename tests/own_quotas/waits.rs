//! The wait in a denial: after that wait the request is admitted, and not a nanosecond earlier.

use std::time::Duration;

use tollgate::{Decision, Entry, KeyedLimiter, ManualClock, Quota};

use super::{admitted, quota, started};

const NS: Duration = Duration::from_nanos(1);

fn wait(decision: &Decision) -> Duration {
    decision.retry_after().unwrap_or_else(|| panic!("{decision:?}"))
}

/// A key that owes thirty units under the first quota. A while later a request for `cost` units comes under the second
/// quota.
struct Case {
    limiter: KeyedLimiter<u64>,
    clock: ManualClock,
    asked: Quota,
}

impl Case {
    fn new([owed, asked]: [Quota; 2], later: Duration) -> Self {
        let (limiter, clock) = started(quota(30, 60, 30));
        assert_eq!(admitted(&limiter, 7, owed), 30);
        clock.advance(later);
        Self { limiter, clock, asked }
    }

    fn entry(&self) -> Entry<'_> {
        self.limiter.entry(&7).under(self.asked).unwrap()
    }
}

const LATER: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_nanos(777_777_777),
    Duration::from_nanos(1_234_567_891),
];

fn assert_right(quotas: [Quota; 2]) {
    for later in LATER {
        for cost in [3, 9, 17] {
            let case = Case::new(quotas, later);
            let told = wait(&case.entry().check_n(cost));
            case.clock.advance(told - NS);
            assert!(case.entry().peek(cost).is_denied(), "{quotas:?} {later:?} {cost}: {told:?}");
            case.clock.advance(NS);
            assert!(
                case.entry().check_n(cost).is_allowed(),
                "{quotas:?} {later:?} {cost}: {told:?}"
            );
        }
    }
}

#[test]
fn under_the_same_quota_the_wait_is_right() {
    assert_right([quota(30, 30, 30); 2]);
}

#[test]
fn under_a_faster_quota_the_wait_is_told_by_its_rate() {
    for faster in [quota(30, 30, 30), quota(20, 1, 17), quota(31, 60, 20)] {
        assert_right([quota(30, 60, 30), faster]);
    }
}

/// When the request is admitted, the debt is carried over to the new quota. This rounds the debt up by less than a tick
/// of the new quota. So the request may be denied once more, with a wait of less than that tick.
#[test]
fn under_a_slower_quota_the_wait_is_told_by_the_rate_of_the_old_one_to_a_tick() {
    for slower in [quota(30, 60, 30), quota(5, 3_600, 17), quota(29, 30, 20)] {
        // The longest possible tick of a table's word.
        let tick = slower.period() / u32::try_from(256 * slower.count()).unwrap();
        for later in LATER {
            for cost in [3, 9, 17] {
                let case = Case::new([quota(30, 30, 30), slower], later);
                let told = wait(&case.entry().check_n(cost));
                // A unit comes back in a second.
                let exact = Duration::from_secs(30 + cost - slower.max_burst()) - later;
                assert!(
                    told.abs_diff(exact) <= Duration::from_secs(1) / 256,
                    "{told:?}, {exact:?}"
                );
                case.clock.advance(told - NS);
                assert!(case.entry().peek(cost).is_denied(), "{slower:?} {later:?} {cost}");
                case.clock.advance(NS);
                if let Some(more) = case.entry().check_n(cost).retry_after() {
                    assert!(more <= tick, "{slower:?} {later:?} {cost}: {more:?}");
                    case.clock.advance(more);
                    assert!(case.entry().check_n(cost).is_allowed(), "{slower:?} {later:?} {cost}");
                }
            }
        }
    }
}

#[test]
fn under_an_equal_rate_the_wait_is_right() {
    for equal in [quota(60, 60, 30), quota(30, 30, 17)] {
        assert_right([quota(30, 30, 30), equal]);
    }
}

#[test]
fn what_a_question_tells_is_what_a_check_would_tell() {
    let [fast, slow] = [quota(30, 30, 30), quota(30, 60, 30)];
    for quotas in [[fast, slow], [slow, fast], [fast, fast], [fast, quota(30, 60, 17)]] {
        let case = Case::new(quotas, LATER[3]);
        let [asked, checked] = [case.entry().peek(9), case.entry().check_n(9)];
        assert_eq!(wait(&asked), wait(&checked));
        assert_eq!((asked.limit(), asked.remaining()), (checked.limit(), checked.remaining()));
        assert_eq!(asked.reset_after(), checked.reset_after());
    }
}

#[test]
fn a_cost_above_the_burst_never_fits() {
    let case = Case::new([quota(30, 30, 30), quota(20, 1, 17)], LATER[0]);
    let denied = case.entry().check_n(18);
    assert_eq!((denied.is_denied(), denied.retry_after()), (true, None));
    // A denial changes nothing, so the key still belongs to the old quota.
    case.clock.advance(Duration::from_secs(10));
    assert_eq!(case.limiter.entry(&7).under(quota(30, 30, 30)).unwrap().peek(0).remaining(), 10);
}
