//! The verbs beside check and peek, in any order, under any policy: what each does to what remains, and that
//! no sequence of them makes units out of nothing.
//!
//! Time goes back as well. What is expected then:
//!
//! * *take, up to, charge, reserve*: the same as at any time. A peek at this instant, whenever that is, tells what is
//!   left at it, and a charge leaves as much less.
//! * *refund*: no more comes back than the permit charged, and no more than is told.
//! * *cancel*: the place is as if it had never been, from the time on at which it was made; in a table, whose floor
//!   may have passed that, from the latest time of any request on. What has drained since its turn is not given back;
//!   if that is all of it, or if a table has forgotten the key by then, nothing is.
//! * *reset*: at the latest time of any request, the limit is whole. A reset at an earlier time gains
//!   nothing before that if the key is in a table whose floor has passed that time.

use std::time::Duration;

use ahash::RandomState;
use arbitrary::Arbitrary;
use tollgate::{
    Algorithm, Decision, Denial, Entry, KeyedLimiter, Limiter, ManualClock, Permit, Policy,
    Reservation, Timestamp,
};
use tollgate_oracle::BigUint;

use crate::expect::{Plant, coarsest_tick};
use crate::grain::LATEST_NS;
use crate::keyed::hashers;
use crate::policy::{PolicyCase, period_ns};
use crate::step::{Span, StepCost, StepPace, Steps};

/// Target `verb_ops`: one limit, or one key of a table.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct VerbCase {
    /// The policy.
    pub policy: PolicyCase,
    /// Whether the limit is a key's of a table.
    pub keyed: bool,
    /// What happens.
    pub verbs: Steps<LimitVerb>,
}

/// Something that is done with a limit.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum LimitVerb {
    /// All or nothing.
    Take { cost: StepCost },
    /// As much as there is.
    UpTo { cost: StepCost },
    /// Fit or not.
    Charge { cost: StepCost },
    /// A place that comes after at most so many thousandths of the period.
    Reserve { cost: StepCost, thousandths: u16 },
    /// Refunds the permit so many before the last one, so many units at most.
    Refund { nth: u8, most: u8 },
    /// The place so many before the last one.
    Cancel { nth: u8 },
    /// The limit is as never used.
    Reset,
    /// Time moves on.
    Later { span: Span, fine: i8 },
    /// Time moves back.
    Earlier { span: Span, fine: i8 },
}

impl VerbCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        let Some(policy) = self.policy.policy() else { return };
        let Some(subject) = VerbSubject::new(policy, self.keyed) else { return };
        let mut books = Books::new(policy, subject, plant);
        for (number, verb) in self.verbs.0.iter().enumerate() {
            books.told = format!("{policy}, verb {number}, {verb:?} at {} ns", books.pace.now_ns);
            books.apply(*verb);
        }
    }
}

/// One limit, or one key of a table.
#[derive(Debug)]
enum VerbSubject {
    One(Box<Limiter>),
    Keyed(Box<KeyedLimiter<u8, RandomState>>),
}

const KEY: u8 = 7;

impl VerbSubject {
    fn new(policy: Policy, keyed: bool) -> Option<Self> {
        let clock = ManualClock::new();
        if !keyed {
            return Some(Self::One(Box::new(Limiter::with_clock(policy, clock))));
        }
        let keyed = KeyedLimiter::with_hashers(policy, 8, clock, hashers()).ok()?;
        Some(Self::Keyed(Box::new(keyed)))
    }

    fn entry(&self) -> Entry<'_> {
        match self {
            Self::One(limiter) => limiter.entry(),
            Self::Keyed(limiter) => limiter.entry(&KEY),
        }
    }
}

/// A limit, and what it has been charged.
#[derive(Debug)]
struct Books {
    policy: Policy,
    limit: u64,
    plant: Plant,
    subject: VerbSubject,
    pace: StepPace,
    permits: Vec<Permit>,
    places: Vec<Reservation>,
    /// If the last place is the last thing that was changed: what was left before it, and when.
    last_place: Option<(u64, u64)>,
    /// What was charged and not given back, since the first of it.
    net: u128,
    /// The latest time of any request.
    latest_ns: u64,
    since_ns: Option<u64>,
    told: String,
}

impl Books {
    fn new(policy: Policy, subject: VerbSubject, plant: Plant) -> Self {
        // There is no floor and no wrap here: these spans are only long ones.
        let pace = StepPace::new(policy, LATEST_NS / 64, LATEST_NS / 4);
        Self {
            policy,
            limit: policy.quota().max_burst(),
            plant,
            subject,
            pace,
            permits: Vec::new(),
            places: Vec::new(),
            last_place: None,
            net: 0,
            latest_ns: 0,
            since_ns: None,
            told: String::new(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.pace.now_ns)
    }

    fn left(&self) -> u64 {
        self.left_at(self.now())
    }

    fn left_at(&self, now: Timestamp) -> u64 {
        self.subject.entry().at(now).peek(0).remaining()
    }

    fn is_gcra(&self) -> bool {
        self.policy.algorithm() == Algorithm::Gcra
    }

    /// The limit, at the latest time of any request.
    fn is_whole_at_last(&self) -> bool {
        self.left_at(Timestamp::from_nanos(self.latest_ns)) == self.limit
    }

    fn apply(&mut self, verb: LimitVerb) {
        let left = self.left();
        self.latest_ns = self.latest_ns.max(self.pace.now_ns);
        match verb {
            LimitVerb::Take { cost } => self.take(left, cost.units(self.limit, left)),
            LimitVerb::UpTo { cost } => self.up_to(left, cost.units(self.limit, left)),
            LimitVerb::Charge { cost } => self.charge(left, cost.units(self.limit, left)),
            LimitVerb::Reserve { cost, thousandths } => {
                let wait_ns = u128::from(period_ns(self.policy)) * u128::from(thousandths) / 1_000;
                let wait = Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX));
                self.reserve(left, cost.units(self.limit, left), wait);
            }
            LimitVerb::Refund { nth, most } => self.refund(left, nth.into(), most.into()),
            LimitVerb::Cancel { nth } => self.cancel(left, nth.into()),
            LimitVerb::Reset => self.reset(),
            LimitVerb::Later { span, fine } => self.pace.move_by(span, fine, false),
            LimitVerb::Earlier { span, fine } => self.pace.move_by(span, fine, true),
        }
        self.pace.now_ns = self.pace.now_ns.min(LATEST_NS - 1);
        self.nothing_is_minted();
    }

    /// Something was charged, and so much is to be left.
    fn charged(&mut self, units: u64, left: u64) {
        if units > 0 {
            self.since_ns = Some(self.since_ns.unwrap_or(u64::MAX).min(self.pace.now_ns));
            self.net += u128::from(units);
            self.last_place = None;
        }
        let expected = left + u64::from(self.plant == Plant::Limit);
        assert_eq!(self.left(), expected, "{}: told remaining", self.told);
    }

    fn take(&mut self, left: u64, cost: u64) {
        let decision = self.subject.entry().at(self.now()).check_n(cost);
        self.pace.heard(&decision);
        if cost > 0 {
            assert_eq!(decision.is_allowed(), cost <= left, "{}: {decision:?}", self.told);
        }
        if let Decision::Allowed(permit) = decision {
            self.charged(cost, left - cost);
            self.permits.push(permit);
        }
    }

    fn up_to(&mut self, left: u64, cost: u64) {
        let decision = self.subject.entry().at(self.now()).take_up_to(cost);
        self.pace.heard(&decision);
        if cost > 0 {
            assert_eq!(decision.is_allowed(), left > 0, "{}: {decision:?}", self.told);
        }
        if let Decision::Allowed(permit) = decision {
            assert_eq!(permit.cost(), cost.min(left), "{}", self.told);
            self.charged(permit.cost(), left - permit.cost());
            self.permits.push(permit);
        }
    }

    fn charge(&mut self, left: u64, cost: u64) {
        let short = self.subject.entry().at(self.now()).charge(cost);
        assert!(short <= cost.saturating_sub(left), "{}: short of {short}", self.told);
        self.charged(cost - short, left.saturating_sub(cost - short));
    }

    fn reserve(&mut self, left: u64, cost: u64, most: Duration) {
        let place: Result<Reservation, Denial> =
            self.subject.entry().at(self.now()).reserve(cost, most);
        match place {
            Err(denial) => assert!(cost > left || cost == 0, "{}: {denial:?}", self.told),
            Ok(place) => {
                assert!(place.wait() <= most, "{}: {place:?}", self.told);
                // A cost of 0 has a place, too: at the end of the queue.
                let waits = place.wait() > Duration::ZERO;
                assert!(waits == (cost > left) || cost == 0, "{}: {place:?}", self.told);
                self.charged(cost, left.saturating_sub(cost));
                self.last_place = (cost > 0).then_some((left, self.pace.now_ns));
                self.places.push(place);
            }
        }
    }

    fn refund(&mut self, left: u64, nth: usize, most: u64) {
        let Some(last) = self.permits.len().checked_sub(1 + nth) else { return };
        let part = self.permits.remove(last).portion(most);
        let cost = part.cost();
        let back = self.subject.entry().at(self.now()).refund(part);
        assert!(back <= cost, "{}: {back} of {cost}", self.told);
        let now = self.left();
        assert!(left <= now && now <= left + back, "{}: {left}, then {now}", self.told);
        self.net -= u128::from(back);
        if back > 0 {
            self.last_place = None;
        }
    }

    fn cancel(&mut self, left: u64, nth: usize) {
        let Some(last) = self.places.len().checked_sub(1 + nth) else { return };
        let place = self.places.remove(last);
        let (cost, ready) = (place.permit().cost(), place.ready_at());
        let is_cancelled = self.subject.entry().at(self.now()).cancel(place);
        if let Some((before, made_ns)) = self.last_place.take().filter(|_| nth == 0) {
            let is_keyed = matches!(self.subject, VerbSubject::Keyed(_));
            let is_forgotten = is_keyed && !is_cancelled && self.is_whole_at_last();
            let has_drained = !is_cancelled && self.has_drained(cost, ready);
            let expected = self.plant != Plant::Answer;
            assert!(
                is_cancelled == expected || is_forgotten || has_drained,
                "{}: nobody was behind it",
                self.told
            );
            let from_ns = if is_keyed { self.latest_ns } else { made_ns };
            let is_since = self.pace.now_ns >= from_ns;
            assert!(!is_since || self.left() >= before, "{}: {before} before", self.told);
        }
        if is_cancelled {
            // A place from long ago gives back less than its cost, which the books need not know.
            self.net -= u128::from(cost);
            assert!(self.left() <= left.saturating_add(cost), "{}", self.told);
        } else {
            assert_eq!(self.left(), left, "{}", self.told);
        }
    }

    /// GCRA: whether a cost has drained by now, or by the latest time of any request, which a table may know; less
    /// the coarsest tick to which an instant may be rounded.
    fn has_drained(&self, cost: u64, since: Timestamp) -> bool {
        let is_keyed = matches!(self.subject, VerbSubject::Keyed(_));
        let at_ns = if is_keyed { self.latest_ns } else { self.pace.now_ns };
        let passed_ns = at_ns.saturating_sub(since.as_nanos()) + 1;
        let (count, period) = (self.policy.quota().count(), BigUint::from(period_ns(self.policy)));
        let tick = coarsest_tick(self.policy);
        let drained = ((BigUint::from(count) * passed_ns) << tick) + period.clone();
        self.is_gcra() && (BigUint::from(cost) << tick) * period <= drained
    }

    fn reset(&mut self) {
        self.subject.entry().at(self.now()).reset();
        assert!(self.is_whole_at_last(), "{}: not whole", self.told);
        let is_keyed = matches!(self.subject, VerbSubject::Keyed(_));
        let is_whole = self.left() == self.limit;
        assert!(is_whole || is_keyed && self.pace.now_ns < self.latest_ns, "{}", self.told);
        (self.net, self.since_ns, self.last_place) = (0, None, None);
        self.permits.clear();
        self.places.clear();
    }

    /// GCRA: what is left is at most the burst and what has drained, less what was charged and not given back;
    /// and one unit for the tick to which an instant is rounded.
    fn nothing_is_minted(&self) {
        let Some(since_ns) = self.since_ns else { return };
        let left = self.left();
        // With nothing left the limit may owe any amount.
        if !self.is_gcra() || left == 0 {
            return;
        }
        let (count, period) = (self.policy.quota().count(), BigUint::from(period_ns(self.policy)));
        let drained = BigUint::from(count) * self.pace.now_ns.saturating_sub(since_ns);
        let less = if self.plant == Plant::Bound { 2_u64 } else { 0 };
        let room = (BigUint::from(self.limit) + 1_u64 - less) * &period + drained;
        let used = (BigUint::from(left) + self.net) * period;
        assert!(used <= room, "{}: units out of nothing", self.told);
    }
}
