//! One key under several quotas, followed exactly: the quota to which it belongs, and its debt in parts of a unit.
//!
//! The limiter rounds by less than a tick in three places: when it reads the clock, when it carries a debt over to
//! another quota (upward), and when it refunds. So the reference keeps the debt as an interval, `least..=most`.
//! Requests that the limiter admits must fit if the debt is the least, and requests that it denies must not fit if the
//! debt is the most.

use tollgate::Quota;

use super::{SECOND, quota};

/// The number of parts that make a unit. Debts are whole numbers of these parts, for periods that divide an hour and
/// for times in nanoseconds.
pub(crate) const UNIT: i128 = 3_600 * SECOND as i128;

/// The coarsest tick of a table's word.
pub(crate) const TICK: i128 = UNIT / 256;

/// The precision with which a debt is carried over: 2^-32 of a tick.
const GRAIN: i128 = TICK >> 32;

/// A quota of `count` units in `period_s` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    pub(crate) period_s: u64,
    pub(crate) burst: u64,
}

impl Rate {
    pub(crate) const fn new(count: u64, period_s: u64, burst: u64) -> Self {
        Self { count, period_s, burst }
    }

    pub(crate) fn quota(self) -> Quota {
        quota(self.count, self.period_s, self.burst)
    }

    /// The number of parts that come back in a nanosecond.
    pub(crate) fn per_ns(self) -> i128 {
        assert_eq!(3_600 % self.period_s, 0);
        i128::from(self.count * (3_600 / self.period_s))
    }

    pub(crate) fn drained(self, ns: u64) -> i128 {
        self.per_ns() * i128::from(ns)
    }

    pub(crate) fn is_faster(self, other: Self) -> bool {
        self.per_ns() > other.per_ns()
    }

    fn burst(self) -> i128 {
        i128::from(self.burst) * UNIT
    }
}

/// A wish is a call on the limiter: a request that may be denied, or a charge that is never denied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Check(u64),
    UpTo(u64),
    /// A number of units, and how many nanoseconds to wait for them at most.
    Reserve(u64, u64),
    Charge(u64),
}

/// The units that the limiter admitted for a wish, or `None` if it denied the wish.
pub(crate) type Answer = Option<u64>;

/// The latest instant at which any key may have moved to another quota. An older permit may be void, even if its own
/// key did not move, because keys share marks.
#[derive(Debug, Default)]
pub(crate) struct Since {
    any_ns: Option<u64>,
}

/// A charge that can be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) rate: Rate,
    pub(crate) at_ns: u64,
    pub(crate) units: u64,
}

/// One possible state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    rate: Rate,
    least: i128,
    most: i128,
}

fn units(parts: i128) -> u64 {
    u64::try_from(parts.max(0).div_euclid(UNIT)).unwrap()
}

fn units_up(parts: i128) -> u64 {
    units(parts + UNIT - 1)
}

impl State {
    fn advance(&mut self, ns: u64) {
        let drained = self.rate.drained(ns);
        // An idle word may be read as if it had become idle up to a tick ago.
        self.least = (self.least - drained).max(-TICK);
        self.most = (self.most - drained).max(0);
    }

    /// The state with its debt carried over to another quota.
    fn carried(self, rate: Rate) -> Self {
        if rate == self.rate {
            return self;
        }
        Self { rate, least: (self.least - GRAIN).max(-TICK), most: self.most + TICK }
    }

    fn charged(self, cost: u64) -> Self {
        let cost = i128::from(cost) * UNIT;
        Self { least: self.least + cost, most: self.most + cost, ..self }
    }

    /// The states that can follow from an answer. There are none if the answer is wrong.
    fn after(self, rate: Rate, wish: Wish, answer: Answer) -> Vec<Self> {
        let to = self.carried(rate);
        let is_other = rate != self.rate;
        let mut states = Vec::new();
        // A word under the new quota holds at most twice the burst.
        let room = 2 * rate.burst();
        states.extend(to.decided(self, rate, wish, answer, room));
        // If the debt does not fit in that word, the key stays in its own quota, and the requested quota's burst
        // decides.
        if is_other && to.most > room {
            let own = 2 * self.rate.burst();
            states.extend(self.decided(self, rate, wish, answer, own));
        }
        states.dedup();
        states
    }

    /// The state after an answer under this state's quota, or `None` if the answer is wrong. `old` is the state before.
    fn decided(
        self,
        old: Self,
        asked: Rate,
        wish: Wish,
        answer: Answer,
        room: i128,
    ) -> Option<Self> {
        let burst = asked.burst();
        let parts = |units: u64| i128::from(units) * UNIT;
        let free = |debt: i128| burst - debt;
        let is_right = match (wish, answer) {
            (Wish::Check(cost), Some(_)) => self.least + parts(cost) <= burst,
            (Wish::Check(cost), None) => self.most + parts(cost) > burst,
            (Wish::UpTo(cost), Some(taken)) => {
                taken <= units(free(self.least)).min(cost)
                    && taken >= units(free(self.most)).min(cost)
            }
            (Wish::UpTo(0), None) => self.most > burst,
            (Wish::UpTo(_), None) => units(free(self.most)) == 0,
            (Wish::Reserve(cost, wait_ns), Some(_)) => {
                let limit = (burst + self.rate.drained(wait_ns)).min(room);
                self.least + parts(cost) <= limit
            }
            (Wish::Reserve(cost, wait_ns), None) => {
                let limit = (burst + self.rate.drained(wait_ns) - TICK).min(room);
                self.most + parts(cost) > limit
            }
            (Wish::Charge(cost), Some(charged)) => {
                charged <= units(room - self.least).min(cost)
                    && charged >= units(room - self.most).min(cost)
            }
            (Wish::Charge(_), None) => false,
        };
        if !is_right {
            return None;
        }
        Some(match (wish, answer) {
            (_, Some(units)) if units > 0 => self.charged(units),
            (_, Some(_)) => old,
            // A cost above the burst never fits and changes nothing. A request for 0 units changes nothing either.
            (Wish::Check(cost), None) if cost > asked.burst => old,
            (Wish::Check(0) | Wish::UpTo(0) | Wish::Reserve(0, _), None) => old,
            (_, None) if self.rate.is_faster(old.rate) => self,
            (_, None) => old,
        })
    }

    /// How much of a charge can be given back, in parts: the least and the most.
    fn worth(self, charge: Charge, now_ns: u64) -> [i128; 2] {
        let undrained =
            i128::from(charge.units) * UNIT - charge.rate.drained(now_ns - charge.at_ns);
        let beyond = |debt: i128| (debt - charge.rate.burst()).max(0);
        let least = (undrained - beyond(self.most)).min(self.least) - TICK;
        let most = (undrained - beyond(self.least)).min(self.most) + TICK;
        [least, most].map(|parts| parts.max(0))
    }

    fn less(self, [least, most]: [i128; 2]) -> Self {
        Self { least: (self.least - most).max(-TICK), most: self.most - least, ..self }
    }

    /// The state after `back` units of a charge were given back, or `None` if that number is wrong.
    fn refunded(self, charge: Charge, now_ns: u64, back: u64) -> Option<Self> {
        let worth = self.worth(charge, now_ns);
        let [least, most] = worth.map(units_up);
        (least..=most).contains(&back).then(|| self.less(worth))
    }

    fn uncharged(self, asked: u64, back: u64) -> Option<Self> {
        let parts = i128::from(asked) * UNIT;
        let [least, most] = [self.least, self.most + TICK].map(|debt| debt.min(parts).max(0));
        let is_right = (units_up(least)..=units_up(most)).contains(&back);
        is_right.then(|| Self {
            least: (self.least - parts).max(-TICK),
            most: self.most - least,
            ..self
        })
    }
}

/// One key. If rounding leaves open whether its debt was carried over, it has several possible states.
#[derive(Debug)]
pub(crate) struct Key {
    states: Vec<State>,
    now_ns: u64,
    /// The latest instant at which the key certainly moved to a faster quota.
    sooner_ns: Option<u64>,
}

impl Key {
    pub(crate) fn new(rate: Rate, now_ns: u64) -> Self {
        Self { states: vec![State { rate, least: -TICK, most: 0 }], now_ns, sooner_ns: None }
    }

    pub(crate) fn advance(&mut self, now_ns: u64) {
        let passed = now_ns - std::mem::replace(&mut self.now_ns, now_ns);
        self.states.iter_mut().for_each(|state| state.advance(passed));
    }

    /// Follows an answer. If the answer is wrong, the error says which answers were possible.
    pub(crate) fn follow(
        &mut self,
        since: &mut Since,
        rate: Rate,
        wish: Wish,
        answer: Answer,
    ) -> Result<(), String> {
        let before = self.states.clone();
        let next = before.iter().flat_map(|state| state.after(rate, wish, answer));
        self.settle(next.collect(), || format!("{wish:?} under {rate:?}: {answer:?}"))?;
        let is_written = match wish {
            Wish::Check(cost) => cost > 0 && cost <= rate.burst,
            Wish::UpTo(cost) | Wish::Reserve(cost, _) | Wish::Charge(cost) => cost > 0,
        };
        if before.iter().any(|state| state.rate != rate) {
            since.any_ns = Some(self.now_ns);
        }
        // A key that owes nothing may have been forgotten. Then it counts as a new key, and no debt is carried over.
        let comes_sooner = |state: &State| {
            rate.is_faster(state.rate) && state.least > 0 && state.most <= 2 * rate.burst()
        };
        // A charge that has no room writes nothing.
        if is_written && answer != Some(0) && before.iter().all(comes_sooner) {
            self.sooner_ns = Some(self.now_ns);
        }
        Ok(())
    }

    /// The least and the most units that are left after an answer.
    pub(crate) fn left(&self, burst: u64) -> [u64; 2] {
        let burst = i128::from(burst) * UNIT;
        let least = self.states.iter().map(|state| units(burst - state.most)).min().unwrap();
        let most = self.states.iter().map(|state| units(burst - state.least)).max().unwrap();
        [least, most]
    }

    pub(crate) fn refund(
        &mut self,
        since: &Since,
        charge: Charge,
        back: u64,
    ) -> Result<(), String> {
        let now_ns = self.now_ns;
        let next = self.states.iter().flat_map(|&state| {
            // Two quotas with the same rate and burst are the same, whatever numbers they were made from.
            let is_own = state.rate.per_ns() == charge.rate.per_ns()
                && state.rate.burst == charge.rate.burst;
            // The instant is stored to 16 microseconds, and the charge with which the key moved to the quota can itself
            // be given back.
            let may =
                is_own && self.sooner_ns.is_none_or(|sooner_ns| charge.at_ns + 16_384 > sooner_ns);
            let is_later = since.any_ns.is_none_or(|any_ns| charge.at_ns > any_ns + 16_384);
            let must = is_own && state.rate == charge.rate && is_later;
            let worth = state.refunded(charge, now_ns, back).filter(|_| may);
            let nothing = Some(state).filter(|_| !must && back == 0);
            worth.into_iter().chain(nothing)
        });
        let next = next.collect();
        self.settle(next, || format!("refund of {charge:?}: {back}"))
    }

    /// Follows a refund for which the limiter does not say how many units came back.
    pub(crate) fn refund_untold(&mut self, charge: Charge) {
        for state in &mut self.states {
            let [_, most] = state.worth(charge, self.now_ns);
            *state = state.less([0, most]);
        }
    }

    pub(crate) fn uncharge(&mut self, asked: u64, back: u64) -> Result<(), String> {
        let next = self.states.iter().filter_map(|state| state.uncharged(asked, back));
        self.settle(next.collect(), || format!("uncharge of {asked}: {back}"))
    }

    pub(crate) fn reset(&mut self) {
        for state in &mut self.states {
            (state.least, state.most) = (-TICK, 0);
        }
    }

    fn settle(
        &mut self,
        mut next: Vec<State>,
        said: impl FnOnce() -> String,
    ) -> Result<(), String> {
        if next.is_empty() {
            return Err(format!("{}; it was {:?}", said(), self.states));
        }
        next.dedup();
        self.states = next;
        Ok(())
    }
}
