//! Limits of every kind that the threads of a world use. They have the real geometry, and few cells.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{
    Changeable, Changing, Decision, Entry, JointDecision, KeyedBuilder, KeyedLimiter, Lease,
    Limiter, ManualClock, Permit, Policy, Reservation, SketchLimiter, SketchSize, Stats,
    StripedLimiter, Timestamp, Wait, WhenFull, check_all,
};

/// A hash without a seed.
pub(crate) type Plain = BuildHasherDefault<DefaultHasher>;

pub(crate) type Table = KeyedLimiter<u64, Plain>;

/// The key by which requests name the limit without keys, and the key for the limit whose quota may change. All other
/// keys belong to the table.
pub(crate) const LIMITER: u64 = 0;
pub(crate) const LIVE: u64 = 1;

/// The time that the caller gives. Without one, the limit's own clock is used.
pub(crate) type At = Option<Timestamp>;

pub(crate) enum Subject {
    Shop(Box<Shop>),
    Striped(StripedLimiter),
    Sketch(SketchLimiter<u64, Plain>),
    Log(Limiter),
    LiveLog(Limiter),
    Logs(Box<KeyedLimiter<u64, Plain>>),
}

/// A shop is a limit, a limit whose quota may change, and a table, which together have every verb.
pub(crate) struct Shop {
    limiter: Limiter,
    live: Limiter,
    table: Table,
    /// The policies of the tiers, with the `headroom` as the last; or one policy for a table without tiers.
    policies: Vec<Policy>,
    capacity: usize,
}

/// The place of a key's word.
enum Home<'a> {
    Limiter(&'a Limiter),
    Live(&'a Limiter),
    Table(&'a Table, u64),
    Tier(&'a Table, u64, usize),
}

impl<'a> Home<'a> {
    fn entry(&self, at: At) -> Entry<'a> {
        let entry = match self {
            Self::Limiter(limit) => limit.entry(),
            Self::Live(limit) => limit.entry(),
            Self::Table(limit, key) => limit.entry(key),
            Self::Tier(limit, key, tier) => limit.entry(key).tier(*tier).expect("a tier"),
        };
        at.map_or(entry, |now| entry.at(now))
    }
}

fn hasher() -> Plain {
    Plain::default()
}

impl Shop {
    pub(crate) fn new(
        policies: Vec<Policy>,
        capacity: usize,
        full: WhenFull,
        clock: &ManualClock,
    ) -> Self {
        let live = Limiter::builder(policies[0]).clock(clock.clone()).changing().build();
        let live = live.expect("a limit").into_limiter();
        let table = if let [policy] = policies[..] {
            KeyedLimiter::builder(policy)
                .clock(clock.clone())
                .hasher(hasher())
                .build(capacity)
                .and_then(|table| table.when_full(full))
        } else {
            let tiers = Self::tiers(&policies).when_full(full);
            let table = tiers.clock(clock.clone()).hasher(hasher()).build(capacity);
            table.map(Changing::into_limiter)
        };
        let limiter = Limiter::builder(policies[0]).clock(clock.clone()).build();
        Self { limiter, live, table: table.expect("a table"), policies, capacity }
    }

    fn tiers(policies: &[Policy]) -> KeyedBuilder<u64, Changeable> {
        let (headroom, tiers) = policies.split_last().expect("policies");
        let (first, others) = tiers.split_first().expect("a tier");
        others
            .iter()
            .fold(KeyedLimiter::builder(*first).changing(), |tiers, policy| tiers.tier(*policy))
            .headroom(*headroom)
    }

    pub(crate) fn has_tiers(&self) -> bool {
        self.policies.len() > 1
    }

    /// Splits a table's key into the key and its tier.
    pub(crate) fn split(&self, key: u64) -> (u64, usize) {
        if self.has_tiers() { (key / 2, usize::from(key % 2 == 1)) } else { (key, 0) }
    }

    fn home(&self, key: u64) -> Home<'_> {
        let (own, tier) = self.split(key);
        match key {
            LIMITER => Home::Limiter(&self.limiter),
            LIVE => Home::Live(&self.live),
            _ if self.has_tiers() => Home::Tier(&self.table, own, tier),
            _ => Home::Table(&self.table, own),
        }
    }

    pub(crate) fn take_up_to(&self, key: u64, cost: u64, at: At) -> Decision {
        self.home(key).entry(at).take_up_to(cost)
    }

    pub(crate) fn charge(&self, key: u64, cost: u64, at: At) -> u64 {
        cost - self.home(key).entry(at).charge(cost)
    }

    pub(crate) fn refund(&self, key: u64, permit: Permit, at: At) -> u64 {
        self.home(key).entry(at).refund(permit)
    }

    pub(crate) fn reserve(
        &self,
        key: u64,
        cost: u64,
        wait: Duration,
        at: At,
    ) -> Option<Reservation> {
        self.home(key).entry(at).reserve(cost, wait).ok()
    }

    pub(crate) fn cancel(&self, key: u64, place: Reservation, at: At) -> bool {
        self.home(key).entry(at).cancel(place)
    }

    pub(crate) fn reset(&self, key: u64, at: At) {
        self.home(key).entry(at).reset();
    }

    /// Takes a place in the queue. For a quota that may change, a tier, or a time that the caller gives, it makes a
    /// reservation instead.
    pub(crate) fn queue(&self, key: u64, cost: u64, wait: Wait, at: At) -> Option<Reservation> {
        match (self.home(key), at) {
            (home @ (Home::Limiter(_) | Home::Table(..)), None) => {
                home.entry(None).queue(cost, wait).ok()
            }
            _ => self.reserve(key, cost, wait.max_wait(), at),
        }
    }

    /// Waits for the turn of the request, and gives up if a sleep does not end at once. Returns the permit if the
    /// request was admitted.
    pub(crate) fn acquire<S: Future<Output = ()>>(
        &self,
        key: u64,
        cost: u64,
        wait: Wait,
        sleep: impl FnMut(Duration) -> S,
    ) -> Option<Poll<Permit>> {
        let mut context = Context::from_waker(Waker::noop());
        let home = self.home(key);
        if matches!(home, Home::Live(_) | Home::Tier(..)) {
            return None;
        }
        let entry = home.entry(None);
        let polled = pin!(entry.acquire(cost, wait, sleep)).poll(&mut context);
        match polled {
            Poll::Ready(Ok(permit)) => Some(Poll::Ready(permit)),
            Poll::Ready(Err(_)) => None,
            Poll::Pending => Some(Poll::Pending),
        }
    }

    /// Checks a batch of keys of the table's first tier. At a time that the caller gives, the keys are checked one by
    /// one.
    pub(crate) fn check_many(
        &self,
        keys: &[u64],
        cost: u64,
        at: At,
        mut each: impl FnMut(usize, Decision),
    ) {
        let own: Vec<u64> = keys.iter().map(|&key| self.split(key).0).collect();
        let mut nth = 0;
        let mut each = |_: &u64, decision| {
            each(nth, decision);
            nth += 1;
        };
        match at {
            Some(now) => {
                let check = |key| self.table.entry(key).at(now).check_n(cost);
                own.iter().for_each(|key| each(key, check(key)));
            }
            None => self.table.check_many(&own, cost, each),
        }
    }

    /// Makes one request under the limit and under a key's limit. Returns the decision, and what each limit was
    /// charged.
    pub(crate) fn check_all(
        &self,
        key: u64,
        cost: u64,
        at: At,
    ) -> (JointDecision, [Option<Permit>; 2]) {
        let limiter = at.map_or(self.limiter.entry(), |now| self.limiter.entry().at(now));
        let mut claims = [limiter.cost(cost), self.home(key).entry(at).cost(cost)];
        let joint = check_all(&mut claims);
        (joint, claims.map(|mut claim| claim.take_permit()))
    }

    pub(crate) fn lease(&self, units: u64, at: At) -> Option<Lease<'_>> {
        self.home(LIMITER).entry(at).lease(units).ok()
    }

    /// Gives another policy to the limit whose quota may change, or to a tier.
    pub(crate) fn set_quota(&self, key: u64, policy: Policy, now: Timestamp) -> bool {
        match self.home(key) {
            Home::Live(limit) => limit.set_quota_at(policy, now).is_ok(),
            Home::Tier(table, _, tier) => table.set_quota_at(tier, policy, now).is_ok(),
            Home::Limiter(_) | Home::Table(..) => false,
        }
    }

    /// Moves the spent units of a key to the other tier, and returns their number.
    pub(crate) fn move_key(&self, key: u64, at: At) -> Option<u64> {
        let (own, from) = self.split(key);
        let entry = self.table.entry(&own).tier(from).ok()?;
        at.map_or(entry, |now| entry.at(now)).move_to(1 - from).ok()
    }

    pub(crate) fn snapshot(&self) -> Option<Vec<u8>> {
        let mut file = Vec::new();
        self.table.snapshot(&mut file).ok()?;
        Some(file)
    }

    /// A shop like this one, whose table is restored from a snapshot.
    pub(crate) fn restored(&self, file: &[u8]) -> Result<Self, String> {
        let clock = ManualClock::new();
        let table = if let [policy] = self.policies[..] {
            KeyedLimiter::builder(policy).clock(clock.clone()).hasher(hasher()).restore(file)
        } else {
            let tiers = Self::tiers(&self.policies);
            let table = tiers.clock(clock.clone()).hasher(hasher()).restore(file);
            table.map(Changing::into_limiter)
        };
        let table = table.map_err(|error| error.to_string())?;
        let fresh = Self::new(self.policies.clone(), self.capacity, WhenFull::Deny, &clock);
        Ok(Self { table, ..fresh })
    }

    /// The number of claims in the table.
    pub(crate) fn claims(&self) -> usize {
        self.table.claims()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.table.stats()
    }

    /// True if some key was decided without a cell.
    pub(crate) fn was_crowded(&self) -> bool {
        let stats = self.table.stats();
        stats.spilled + stats.full + stats.contended > 0
    }
}

impl Subject {
    pub(crate) fn striped(policy: Policy, stripes: usize, clock: ManualClock) -> Self {
        let striped = StripedLimiter::builder(policy.quota()).stripes(stripes).clock(clock).build();
        Self::Striped(striped.expect("stripes"))
    }

    pub(crate) fn sketch(policy: Policy, rows: usize, cells: usize, clock: ManualClock) -> Self {
        let size = SketchSize::new(rows, cells).expect("a size");
        let sketch = SketchLimiter::builder(policy).clock(clock).hasher(hasher()).build(size);
        Self::Sketch(sketch.expect("a sketch"))
    }

    pub(crate) fn log(policy: Policy, clock: ManualClock) -> Self {
        let policy = Policy::sliding_log(policy.quota()).expect("a log");
        Self::Log(Limiter::builder(policy).clock(clock).build())
    }

    pub(crate) fn live_log(policy: Policy, clock: ManualClock) -> Self {
        let policy = Policy::sliding_log(policy.quota()).expect("a log");
        let log = Limiter::builder(policy).clock(clock).changing().build().expect("a log");
        Self::LiveLog(log.into_limiter())
    }

    pub(crate) fn logs(policy: Policy, capacity: usize, clock: ManualClock) -> Self {
        let policy = Policy::sliding_log(policy.quota()).expect("a log");
        let logs = KeyedLimiter::builder(policy).clock(clock).hasher(hasher()).build(capacity);
        Self::Logs(Box::new(logs.expect("logs")))
    }

    pub(crate) fn shop(&self) -> Option<&Shop> {
        match self {
            Self::Shop(shop) => Some(shop),
            _ => None,
        }
    }

    pub(crate) fn check(&self, key: u64, cost: u64, at: At) -> Decision {
        match (self, at) {
            (Self::Shop(shop), _) => shop.home(key).entry(at).check_n(cost),
            (Self::Striped(limit), None) => limit.check_n(cost),
            (Self::Striped(limit), Some(now)) => limit.entry().at(now).check_n(cost),
            (Self::Sketch(limit), None) => limit.check_n(&key, cost),
            (Self::Sketch(limit), Some(now)) => limit.entry(&key).at(now).check_n(cost),
            (Self::Log(limit) | Self::LiveLog(limit), None) => limit.check_n(cost),
            (Self::Log(limit) | Self::LiveLog(limit), Some(now)) => {
                limit.entry().at(now).check_n(cost)
            }
            (Self::Logs(limit), None) => limit.check_n(&key, cost),
            (Self::Logs(limit), Some(now)) => limit.entry(&key).at(now).check_n(cost),
        }
    }

    pub(crate) fn peek(&self, key: u64, cost: u64, at: At) -> Decision {
        match (self, at) {
            (Self::Shop(shop), _) => shop.home(key).entry(at).peek(cost),
            (Self::Striped(limit), None) => limit.entry().peek(cost),
            (Self::Striped(limit), Some(now)) => limit.entry().at(now).peek(cost),
            (Self::Sketch(limit), None) => limit.entry(&key).peek(cost),
            (Self::Sketch(limit), Some(now)) => limit.entry(&key).at(now).peek(cost),
            (Self::Log(limit) | Self::LiveLog(limit), None) => limit.entry().peek(cost),
            (Self::Log(limit) | Self::LiveLog(limit), Some(now)) => {
                limit.entry().at(now).peek(cost)
            }
            (Self::Logs(limit), None) => limit.entry(&key).peek(cost),
            (Self::Logs(limit), Some(now)) => limit.entry(&key).at(now).peek(cost),
        }
    }
}
