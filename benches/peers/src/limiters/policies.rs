//! Tollgate under every kind of policy, called in each of several ways. Every request is admitted here.

use std::hint::black_box;
use std::time::Duration;

use tollgate::{Changing, Decision, KeyedLimiter, Limiter, Policy, check_all};

use super::Boxed;
use super::tollgate::{STEP, at_callers_now};
use crate::contender::{counted, counted_many};
use crate::shares::{CountedTable, TableCounts};

/// The percentage of a table's cells that are in use when the table holds as many keys as its capacity.
pub(crate) const DESIGN_LOAD: u64 = 70;

/// How a limiter is called.
#[derive(Clone, Copy)]
pub(crate) enum CallStyle {
    OwnClock,
    CallersNow,
    ManyOf(usize),
    /// Called through a function that is not inlined, and that reads the remaining units.
    Called,
    /// The same, inlined.
    Inlined,
}

impl CallStyle {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OwnClock => "own clock",
            Self::CallersNow => "caller's now",
            Self::ManyOf(_) => "check_many",
            Self::Called => "called, with what is left",
            Self::Inlined => "in line, with what is left",
        }
    }
}

type KeyedNumbers = KeyedLimiter<u64>;

#[inline(never)]
fn called(limiter: &KeyedNumbers, key: u64) -> Decision {
    limiter.check(&key)
}

pub(super) fn policy(text: &str) -> Policy {
    text.parse().expect("a policy")
}

/// A table for `capacity` keys that is called in this way.
pub(crate) fn keyed(name: &str, text: &str, capacity: u64, way: CallStyle) -> Boxed<u64> {
    let limiter = KeyedNumbers::new(policy(text), capacity as usize).expect("a table");
    ask(name, limiter, way)
}

/// A table in which these keys are `percent` percent of the capacity.
pub(crate) fn filling(text: &str, keys: u64, percent: u64) -> Boxed<u64> {
    let name = format!("own clock, keys are {percent} % of capacity");
    keyed(&name, text, keys * 100 / percent, CallStyle::OwnClock)
}

/// A table in which these keys occupy `percent` percent of all cells.
pub(crate) fn taking(text: &str, keys: u64, percent: u64) -> Boxed<u64> {
    let capacity = keys * DESIGN_LOAD / percent;
    let limiter = KeyedNumbers::new(policy(text), capacity as usize).expect("a table");
    let cells = limiter.stats().cells as u64;
    assert!((keys * 100).abs_diff(cells * percent) < cells / 10, "{keys} keys in {cells} cells");
    ask(&format!("own clock, {percent} % of all cells taken"), limiter, CallStyle::OwnClock)
}

fn ask(name: &str, limiter: KeyedNumbers, way: CallStyle) -> Boxed<u64> {
    match way {
        CallStyle::OwnClock => {
            counted(name, limiter, |limiter, key: &u64| limiter.check(key).is_allowed())
        }
        CallStyle::Called => counted(name, limiter, |limiter, key: &u64| {
            let decision = called(limiter, *key);
            black_box(decision.remaining());
            decision.is_allowed()
        }),
        CallStyle::Inlined => counted(name, limiter, |limiter, key: &u64| {
            let decision = limiter.check(key);
            black_box(decision.remaining());
            decision.is_allowed()
        }),
        CallStyle::CallersNow => counted_many(name, limiter, at_callers_now),
        CallStyle::ManyOf(size) => counted_many(name, limiter, move |limiter, keys: &[u64]| {
            let mut admitted = 0;
            for batch in keys.chunks(size) {
                limiter.check_many(batch, 1, |_, told| admitted += u64::from(told.is_allowed()));
            }
            admitted
        }),
    }
}

/// A table of several tiers. All requests use the last tier.
struct Tiered {
    limiter: Changing<KeyedNumbers>,
    last: usize,
}

impl CountedTable for Tiered {
    fn counts(&self) -> Option<TableCounts> {
        self.limiter.counts()
    }
}

/// One table of `count` tiers.
pub(crate) fn tiers(count: usize, capacity: u64, way: CallStyle) -> Boxed<u64> {
    let quota = |nth: usize| policy(&format!("gcra {}/s burst 20", 100 + nth));
    let tiers = (1..count)
        .fold(KeyedLimiter::builder(quota(0)).changing(), |tiers, nth| tiers.tier(quota(nth)));
    let limiter: Changing<KeyedNumbers> = tiers.build(capacity as usize).expect("a table");
    let tiered = Tiered { limiter, last: count - 1 };
    let name = format!("{count} tiers in one table");
    match way {
        CallStyle::CallersNow => {
            counted_many(&name, tiered, |Tiered { limiter, last }, keys: &[u64]| {
                let mut now = limiter.now();
                let mut admitted = 0;
                for key in keys {
                    now = now + STEP;
                    let entry = limiter.entry(key).tier(*last).expect("the last");
                    admitted += u64::from(entry.at(now).check().is_allowed());
                }
                admitted
            })
        }
        _ => counted(&name, tiered, |Tiered { limiter, last }, key: &u64| {
            limiter.entry(key).tier(*last).expect("the last").check().is_allowed()
        }),
    }
}

/// A limit for all keys together, and a limit for each key.
struct Two {
    shared: Limiter,
    own: KeyedNumbers,
}

impl Two {
    fn new(capacity: u64) -> Self {
        let shared = Limiter::new(policy("gcra 1000000000/s burst 100000000"));
        let own =
            KeyedNumbers::new(policy("gcra 100/s burst 20"), capacity as usize).expect("a table");
        Self { shared, own }
    }
}

impl CountedTable for Two {
    fn counts(&self) -> Option<TableCounts> {
        self.own.counts()
    }
}

/// Makes one request under both limits.
pub(crate) fn all_of_two(capacity: u64) -> Boxed<u64> {
    let two = Two::new(capacity);
    counted("check_all of a shared and a keyed limit", two, |Two { shared, own }, key: &u64| {
        check_all(&mut [shared.entry().cost(1), own.entry(key).cost(1)]).is_allowed()
    })
}

/// The same two checks as [`all_of_two`], made one after the other.
pub(crate) fn both(capacity: u64) -> Boxed<u64> {
    let two = Two::new(capacity);
    counted("a shared limit, then a keyed one", two, |Two { shared, own }, key: &u64| {
        shared.check().is_allowed() & own.check(key).is_allowed()
    })
}

/// A check whose unit is refunded.
pub(crate) fn refunded(capacity: u64) -> Boxed<u64> {
    // The rate is so low that nothing of the unit has drained when it is refunded.
    let limiter =
        KeyedNumbers::new(policy("gcra 1/s burst 20"), capacity as usize).expect("a table");
    counted("check and refund", limiter, |limiter, key: &u64| {
        limiter.check(key).into_result().is_ok_and(|permit| limiter.entry(key).refund(permit) == 1)
    })
}

pub(crate) fn reserved(capacity: u64) -> Boxed<u64> {
    let limiter =
        KeyedNumbers::new(policy("gcra 100/s burst 20"), capacity as usize).expect("a table");
    counted("reserve", limiter, |limiter, key: &u64| {
        limiter.entry(key).reserve(1, Duration::ZERO).is_ok()
    })
}
