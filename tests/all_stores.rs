//! Several limits at once, each in a different kind of store: a sketch, stripes, logs, words, tiers, and a quota that
//! changes.

use std::time::Duration;

use crate::common::policy;
use tollgate::{
    Changing, Claim, KeyedLimiter, Limiter, ManualClock, SketchLimiter, SketchSize, StripedLimiter,
    Timestamp, check_all,
};

fn limiter(text: &str) -> Limiter {
    Limiter::builder(policy(text)).clock(ManualClock::new()).build()
}

fn keyed(text: &str) -> KeyedLimiter<u64> {
    KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(1_000).unwrap()
}

fn sketch(text: &str) -> SketchLimiter<u64> {
    let size = SketchSize::new(3, 1_000).unwrap();
    SketchLimiter::builder(policy(text)).clock(ManualClock::new()).build(size).unwrap()
}

fn striped(text: &str) -> StripedLimiter {
    StripedLimiter::builder(policy(text)).stripes(2).clock(ManualClock::new()).build().unwrap()
}

/// One limit in each kind of store. Each has 20 units, except for one that has 4.
struct Stores {
    sketch: SketchLimiter<u64>,
    striped: StripedLimiter,
    log: Limiter,
    logs: KeyedLimiter<u64>,
    word: Limiter,
    keyed: KeyedLimiter<u64>,
    tiers: Changing<KeyedLimiter<u64>>,
    changing: Changing<Limiter>,
}

impl Stores {
    fn new(tight: usize) -> Self {
        let text = |nth, words: &str| format!("{words} {}/h", if nth == tight { 4 } else { 20 });
        let gcra = |nth| policy(&text(nth, "gcra"));
        let clock = ManualClock::new;
        Self {
            sketch: sketch(&text(0, "gcra")),
            striped: striped(&text(1, "gcra")),
            log: limiter(&text(2, "sliding-log")),
            logs: keyed(&text(3, "sliding-log")),
            word: limiter(&text(4, "fixed-window")),
            keyed: keyed(&text(5, "gcra")),
            tiers: KeyedLimiter::builder(gcra(6)).tier(gcra(6)).clock(clock()).build(100).unwrap(),
            changing: Limiter::builder(gcra(7)).clock(clock()).changing().build().unwrap(),
        }
    }

    fn claims(&self, now: Timestamp, cost: u64) -> [Claim<'_>; 8] {
        [
            self.sketch.entry(&1).at(now).cost(cost),
            self.striped.entry().at(now).cost(cost),
            self.log.entry().at(now).cost(cost),
            self.logs.entry(&1).at(now).cost(cost),
            self.word.entry().at(now).cost(cost),
            self.keyed.entry(&1).at(now).cost(cost),
            self.tiers.entry(&1).at(now).tier(1).unwrap().cost(cost),
            self.changing.entry().at(now).cost(cost),
        ]
    }

    fn left(&self, now: Timestamp) -> [u64; 8] {
        // The units left in the stripes are counted by taking them one by one.
        let all = (0..).take_while(|_| self.striped.entry().at(now).check().is_allowed()).count();
        let left = [
            self.sketch.entry(&1).at(now).peek(0),
            self.log.entry().at(now).peek(0),
            self.logs.entry(&1).at(now).peek(0),
            self.word.entry().at(now).peek(0),
            self.keyed.entry(&1).at(now).peek(0),
            self.tiers.entry(&1).at(now).tier(1).unwrap().peek(0),
            self.changing.entry().at(now).peek(0),
        ];
        let [sketch, rest @ ..] = left.map(|decision| decision.remaining());
        let [log, logs, word, keyed, tiers, changing] = rest;
        [sketch, all as u64, log, logs, word, keyed, tiers, changing]
    }
}

#[test]
fn limits_of_all_stores_are_charged_together_or_not_at_all() {
    let now = Timestamp::from_secs(100_000);
    for tight in 0..8 {
        let stores = Stores::new(tight);
        for round in 0..4 {
            let told = check_all(&mut stores.claims(now, 2));
            assert_eq!(told.is_allowed(), round < 2, "{tight} in round {round}: {told:?}");
            assert_eq!(told.reported_by(), Some(tight));
            assert_eq!(told.denied_by(), (round >= 2).then_some(tight));
        }
        let left = std::array::from_fn(|nth| if nth == tight { 0 } else { 16 });
        assert_eq!(stores.left(now), left, "limit {tight}");
    }
}

#[test]
fn a_sketch_is_asked_at_the_time_of_its_own_clock() {
    let (clock, size) = (ManualClock::new(), SketchSize::new(3, 1_000).unwrap());
    let sketch = SketchLimiter::builder(policy("gcra 2/h")).clock(clock.clone());
    let sketch = sketch.build(size).unwrap();
    let ask = || check_all(&mut [sketch.entry(&1).cost(1)]).is_allowed();
    assert_eq!([ask(), ask(), ask()], [true, true, false]);
    clock.advance(Duration::from_secs(1_800));
    assert_eq!([ask(), ask()], [true, false]);
}

/// A request names one limit twice. Each part would be admitted alone, but the second part is denied after the first
/// was charged.
#[test]
fn what_was_charged_before_a_denial_is_given_back_by_every_store() {
    let now = Timestamp::from_secs(100_000);
    let own = limiter("gcra 3/h");
    for place in 0..=8 {
        let stores = Stores::new(usize::MAX);
        let mut claims: Vec<Claim<'_>> = stores.claims(now, 2).into();
        claims.insert(place, own.entry().at(now).cost(2));
        claims.push(own.entry().at(now).cost(2));
        let told = check_all(&mut claims);
        assert_eq!((told.is_allowed(), told.denied_by()), (false, Some(9)));
        assert_eq!(stores.left(now), [20; 8], "behind {place}");
        assert_eq!(own.entry().at(now).peek(0).remaining(), 3);
    }
}

/// A sketch cannot give a charge back, but the loss is bounded: the first of two sketches keeps the cost of one
/// request. The second sketch has room for only one of the request's two parts.
#[test]
fn of_two_sketches_the_one_that_was_charged_keeps_the_cost_of_one_request() {
    let now = Timestamp::from_secs(100_000);
    let (first, second, word) = (sketch("gcra 20/h"), sketch("gcra 3/h"), limiter("gcra 20/h"));
    let claim = |sketch: &SketchLimiter<u64>, key| sketch.entry(&key).at(now).peek(0).remaining();
    let told = check_all(&mut [
        first.entry(&1).at(now).cost(2),
        second.entry(&1).at(now).cost(2),
        second.entry(&1).at(now).cost(2),
        word.entry().at(now).cost(2),
    ]);
    assert_eq!((told.is_allowed(), told.denied_by()), (false, Some(2)));
    assert_eq!((claim(&first, 1), claim(&second, 1)), (18, 1));
    assert_eq!(word.entry().at(now).peek(0).remaining(), 20);
}
