//! Requests whose times are older than those of earlier requests. Such times come from callers that pass an older time,
//! and from threads that do not decide in the order in which they read the clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{KeyedLimiter, Policy, Timestamp};

use super::Boxed;
use super::tollgate::STEP;
use crate::contender::{Contender, RunPace, counted_many};
use crate::shares::TableCounts;
use crate::stream::BenchKey;

/// The time by which a round begins before the newest time. A round reaches the newest time after 2.5 million
/// steps.
const BEHIND: Duration = Duration::from_millis(50);

/// The times of requests go back by up to 2^22 ns, like those of a thread that is preempted between reading its clock
/// and deciding.
const JITTER_BITS: u32 = 22;

fn table(text: &str, keys: u64) -> KeyedLimiter<u64> {
    let policy: Policy = text.parse().expect("a policy");
    KeyedLimiter::new(policy, keys as usize).expect("a table")
}

/// Makes requests at times that go back and forth by some milliseconds.
pub(crate) fn out_of_order(text: &str, keys: u64) -> Boxed<u64> {
    counted_many("out of order by up to 4 ms", table(text, keys), |limiter, keys: &[u64]| {
        let mut now = limiter.now();
        let mut admitted = 0;
        for (key, nth) in keys.iter().zip(1_u64..) {
            now = now + STEP;
            // A cheap stand-in for a random number: one multiplication.
            let behind = nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - JITTER_BITS);
            let late = Timestamp::from_nanos(now.as_nanos().saturating_sub(behind));
            admitted += u64::from(limiter.entry(key).at(late).check().is_allowed());
        }
        admitted
    })
}

/// Makes requests at times that are some milliseconds below every time floor of the table.
pub(crate) fn below_the_floor(text: &str, keys: u64) -> Boxed<u64> {
    let limiter = table(text, keys);
    // The newest time is so late that every shard has to advance its time floor. While a shard holds no key, its floor
    // advances all the way.
    let newest_ns = (limiter.now() + 2 * limiter.stats().epoch).as_nanos();
    let late = LateTimes { limiter, keys, newest_ns: newest_ns.into() };
    late.ask_each();
    Box::new(late)
}

struct LateTimes {
    limiter: KeyedLimiter<u64>,
    keys: u64,
    newest_ns: AtomicU64,
}

impl LateTimes {
    fn newest(&self) -> Timestamp {
        Timestamp::from_nanos(self.newest_ns.load(Relaxed))
    }

    /// The first time of a round.
    fn first(&self) -> Timestamp {
        Timestamp::from_nanos(self.newest().as_nanos() - BEHIND.as_nanos() as u64)
    }

    /// Makes a request for each key at the newest time, so that the floors advance to that time.
    fn ask_each(&self) {
        let newest = self.newest();
        let is_allowed = |key: &u64| self.limiter.entry(key).at(newest).check().is_allowed();
        let admitted = (0..self.keys).map(BenchKey::nth).filter(is_allowed).count() as u64;
        // One of 100,000 keys may find no cell.
        assert!(self.keys - admitted <= self.keys / 10_000, "{admitted} of {} keys", self.keys);
    }
}

impl Contender<u64> for LateTimes {
    fn name(&self) -> &str {
        "late, below the floor"
    }

    /// One epoch later every floor has to advance. While a shard holds keys its floor advances by one epoch, which
    /// takes it to the newest time.
    fn prepare(&self) {
        let epoch = self.limiter.stats().epoch;
        self.newest_ns.store((self.newest() + epoch).as_nanos(), Relaxed);
        self.ask_each();
        // A new key starts at the highest floor of its shards, so `reset_after` shows how far the floor is above the
        // late time.
        for stranger in (self.keys..self.keys + 100).map(<u64 as BenchKey>::nth) {
            let above = self.limiter.entry(&stranger).at(self.first()).peek(1).reset_after();
            assert!(above > BEHIND * 9 / 10, "the floor lies {above:?} above a late time");
        }
    }

    fn decide(&self, keys: &[u64], pace: RunPace<'_>) -> u64 {
        assert!(
            matches!(pace, RunPace::BackToBack),
            "its times are those of requests back to back"
        );
        let mut now = self.first();
        let mut admitted = 0;
        for key in keys {
            now = now + STEP;
            admitted += u64::from(self.limiter.entry(key).at(now).check().is_allowed());
        }
        admitted
    }

    /// There are no counts to report, because each key is also decided once between rounds, untimed.
    fn counts(&self) -> Option<TableCounts> {
        None
    }
}
