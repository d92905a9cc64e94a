//! Operations on several limits, or across a change of quota. Requests are charged to several limits at once, quotas
//! are changed, keys are moved from one tier to another, and units are borrowed or leased.
//!
//! Every rate is 1, 2 or 4 units per step of time, every headroom is a power of two, and time moves by whole steps. So
//! all debts are whole units at all times, and the model of a limit is one number. After each step the remaining units
//! of every limit are compared.

use ahash::RandomState;
use arbitrary::Arbitrary;
use tollgate::{Changing, KeyedLimiter, Limiter, ManualClock, Quota, Timestamp, check_all};
use tollgate_elastic::SparePool;

use crate::keyed::hasher;
use crate::plant::Plant;
use crate::step::{StepCost, Steps, nanos_of};

/// Target `together_ops`: two tiers of a table, a single limit, and keys that borrow from a pool. Quotas change, keys
/// change their tier, and units are leased. The remaining units of every limit must equal those of its model, which are
/// a whole number.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct TogetherCase {
    /// The quota of the first tier.
    pub first: Rated,
    /// The quota of the second tier.
    pub second: Rated,
    /// The quota of the single limit.
    pub single: Rated,
    /// The quota that each borrowing key has for itself.
    pub own: Rated,
    /// The quota of the pool.
    pub pool: Rated,
    /// The operations.
    pub ops: Steps<Joint>,
}

/// A quota whose units come back in whole numbers at each step.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rated {
    /// The number of units that come back in a step: 1, 2 or 4. This number modulo 3 is the power of two.
    pub rate: u8,
    /// This number modulo 24, plus 1, is the burst.
    pub burst: u8,
}

/// An operation.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Joint {
    /// A request of a key in one tier.
    Ask { key: u8, second: bool, cost: StepCost },
    /// A request under the first tier, the second one, the single limit, and the first tier once more.
    All { key: u8, costs: u16, again: bool },
    /// The quota of a tier changes.
    Requote { second: bool, rated: Rated },
    /// A key changes its tier.
    Carry { key: u8, back: bool },
    /// A request that may borrow.
    Lend { key: u8, cost: StepCost },
    /// The pool's headroom becomes 0, a quarter, a half or 1.
    Report { headroom: u8 },
    /// Units are leased, some of them are spent, and the others are given back.
    Batch { units: u8, spent: u8 },
    /// Time goes on.
    Pass { steps: u16 },
}

/// The time in which a unit of the slowest rate comes back.
const STEP_NS: u64 = 20_000_000;

/// The number of keys in each tier.
const KEYS: u8 = 3;

/// The table has room for all keys, in whichever shards they lie.
const CAPACITY: usize = 64;

impl Rated {
    fn units(self) -> u64 {
        1 << (self.rate % 3)
    }

    fn burst(self) -> u64 {
        u64::from(self.burst % 24) + 1
    }

    fn quota(self) -> Quota {
        Quota::per_second(50 * self.units()).burst(self.burst())
    }
}

impl TogetherCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        let mut world = TogetherWorld::new(self, plant);
        for (number, op) in self.ops.0.iter().enumerate() {
            world.told = format!("step {number}, {op:?} after {} steps of time", world.steps);
            world.apply(*op);
            world.compare();
        }
    }
}

/// The model of one limit: its debt, in units.
#[derive(Clone, Copy, Debug)]
struct LimitDebt {
    rated: Rated,
    owed: u64,
    more: u64,
    /// Whether a change has cut off a part of the debt, which may be owed again.
    is_cut: bool,
}

impl LimitDebt {
    fn new(rated: Rated, plant: Plant) -> Self {
        Self { rated, owed: 0, more: u64::from(plant == Plant::Limit), is_cut: false }
    }

    fn burst(self) -> u64 {
        self.rated.burst() + self.more
    }

    fn left(self) -> u64 {
        self.burst().saturating_sub(self.owed)
    }

    /// Returns whether the cost fits, and adds it to the debt if it does.
    fn take(&mut self, cost: u64) -> bool {
        let fits = self.owed.saturating_add(cost) <= self.burst();
        self.owed += if fits { cost } else { 0 };
        fits
    }

    fn pass(&mut self, steps: u64) {
        self.owed = self.owed.saturating_sub(steps * self.rated.units());
    }
}

/// The limits, and the answers that are expected of them.
#[derive(Debug)]
struct TogetherWorld {
    table: Changing<KeyedLimiter<u8, RandomState>>,
    /// The clock of the table.
    clock: ManualClock,
    single: Limiter,
    borrowers: KeyedLimiter<u8, RandomState>,
    pool: SparePool,
    pool_clock: ManualClock,
    /// The debts of the keys, by tier and key.
    tiers: [[LimitDebt; KEYS as usize]; 2],
    one: LimitDebt,
    own: [LimitDebt; KEYS as usize],
    spare: LimitDebt,
    /// The headroom, in quarters.
    quarters: u64,
    steps: u64,
    plant: Plant,
    told: String,
}

impl TogetherWorld {
    fn new(case: &TogetherCase, plant: Plant) -> Self {
        // The words get room for every quota that a change can set.
        let [slow, fast] = [0, 2].map(|rate| Rated { rate, burst: 23 }.quota());
        let tiers = KeyedLimiter::builder(case.first.quota()).tier(case.second.quota());
        let tiers = tiers.headroom(slow).headroom(fast);
        let clock = ManualClock::new();
        let table = tiers.clock(clock.clone()).hasher(hasher()).build(CAPACITY);
        let pool_clock = ManualClock::new();
        let pool = SparePool::with_clock(case.pool.quota(), pool_clock.clone());
        let borrowers = KeyedLimiter::builder(case.own.quota())
            .clock(pool.clock())
            .hasher(hasher())
            .build(CAPACITY);
        Self {
            table: table.expect("small quotas fit"),
            clock,
            single: Limiter::builder(case.single.quota()).clock(ManualClock::new()).build(),
            borrowers: borrowers.expect("a small quota fits"),
            pool,
            pool_clock,
            tiers: [case.first, case.second]
                .map(|rated| [LimitDebt::new(rated, plant); KEYS as usize]),
            one: LimitDebt::new(case.single, plant),
            own: [LimitDebt::new(case.own, plant); KEYS as usize],
            spare: LimitDebt::new(case.pool, plant),
            quarters: 0,
            steps: 50_000,
            plant,
            told: String::new(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.steps * STEP_NS)
    }

    fn apply(&mut self, op: Joint) {
        match op {
            Joint::Ask { key, second, cost } => self.ask(key % KEYS, second.into(), cost),
            Joint::All { key, costs, again } => self.all(key % KEYS, costs, again),
            Joint::Requote { second, rated } => self.requote(second.into(), rated),
            Joint::Carry { key, back } => self.carry(key % KEYS, back.into()),
            Joint::Lend { key, cost } => self.lend(key % KEYS, cost),
            Joint::Report { headroom } => {
                let (quarters, share) =
                    [(0, 0.0), (1, 0.25), (2, 0.5), (4, 1.0)][usize::from(headroom % 4)];
                self.quarters = quarters;
                self.pool.report_headroom(share).expect("a headroom");
            }
            Joint::Batch { units, spent } => self.batch(units.into(), spent.into()),
            Joint::Pass { steps } => {
                let steps = u64::from(steps);
                self.steps += steps;
                let debts = self.tiers.iter_mut().flatten().chain(&mut self.own);
                debts.chain([&mut self.one, &mut self.spare]).for_each(|debt| debt.pass(steps));
            }
        }
    }

    fn ask(&mut self, key: u8, tier: usize, cost: StepCost) {
        let now = self.now();
        let debt = &mut self.tiers[tier][usize::from(key)];
        let cost = cost.units(debt.burst(), debt.left());
        let asked = self.table.entry(&key).tier(tier).expect("two tiers").at(now).check_n(cost);
        assert_eq!(asked.is_allowed(), debt.take(cost), "{}: {asked:?}", self.told);
    }

    fn all(&mut self, key: u8, costs: u16, again: bool) {
        let number = usize::from(key);
        // `costs` packs four numbers below 16.
        let costs: [u64; 4] = [0, 4, 8, 12].map(|bits| (u64::from(costs) >> bits) & 15);
        let first = self.table.entry(&key);
        let second = first.tier(1).expect("two tiers");
        let mut claims = [
            first.at(self.now()).cost(costs[0]),
            second.at(self.now()).cost(costs[1]),
            self.single.entry().at(self.now()).cost(costs[2]),
            first.at(self.now()).cost(costs[3]),
        ];
        let count = if again { 4 } else { 3 };
        let joint = check_all(&mut claims[..count]);
        let (before_tiers, before_one) = (self.tiers, self.one);
        let fits = self.tiers[0][number].take(costs[0])
            && self.tiers[1][number].take(costs[1])
            && self.one.take(costs[2])
            && (!again || self.tiers[0][number].take(costs[3]));
        assert_eq!(joint.is_allowed(), fits, "{}: {joint:?}", self.told);
        // No limit is charged for a request that another limit has denied.
        if !fits && self.plant != Plant::Answer {
            (self.tiers, self.one) = (before_tiers, before_one);
        }
    }

    fn requote(&mut self, tier: usize, rated: Rated) {
        let now = self.now();
        self.clock.set(now);
        let changed = self.table.set_tier_quota(tier, rated.quota());
        assert_eq!(changed, Ok(()), "{}", self.told);
        for (key, debt) in (0..).zip(&mut self.tiers[tier]) {
            debt.rated = rated;
            // The debt above the new burst is cut off, and may be owed again after a later change.
            debt.is_cut |= debt.owed > rated.burst();
            debt.owed = debt.owed.min(rated.burst());
            if debt.is_cut {
                let entry = self.table.entry(&key).tier(tier).expect("two tiers");
                // The time in which the whole debt drains, including the part beyond the burst.
                let drains_ns = nanos_of(entry.at(now).peek(0).reset_after());
                let owed = drains_ns.div_ceil(STEP_NS / rated.units());
                assert!(owed >= debt.owed, "{}: {owed} owed of {}", self.told, debt.owed);
                debt.owed = owed;
            }
            if self.plant == Plant::Bound {
                debt.owed = 0;
            }
        }
    }

    fn carry(&mut self, key: u8, from: usize) {
        let (to, number) = (1 - from, usize::from(key));
        let entry = self.table.entry(&key).tier(from).expect("two tiers");
        let moved = entry.at(self.now()).move_to(to);
        assert_eq!(moved, Ok(self.tiers[from][number].owed), "{}", self.told);
        let debt = &mut self.tiers[to][number];
        // A word can hold a debt of up to twice the burst.
        let room = (2 * debt.rated.burst()).saturating_sub(debt.owed);
        let carried = if self.plant == Plant::Cell { 0 } else { moved.unwrap_or(0) };
        debt.owed += carried.min(room);
        self.tiers[from][number].owed = 0;
    }

    fn lend(&mut self, key: u8, cost: StepCost) {
        let now = self.now();
        let debt = &mut self.own[usize::from(key)];
        let cost = cost.units(debt.burst(), debt.left());
        let asked = self.pool.check(self.borrowers.entry(&key).at(now), cost);
        let is_own = debt.take(cost);
        // The lower the headroom, the more each unit costs.
        let is_lent = !is_own
            && cost <= debt.burst()
            && self.quarters > 0
            && self.spare.take(cost * 4 / self.quarters.max(1));
        let told = (asked.is_allowed(), asked.is_borrowed());
        assert_eq!(told, (is_own || is_lent, is_lent), "{}: {asked:?}", self.told);
    }

    fn batch(&mut self, units: u64, spent: u64) {
        let lease = self.single.entry().at(self.now()).lease(units);
        assert_eq!(lease.is_ok(), self.one.take(units), "{}", self.told);
        if let Ok(mut lease) = lease {
            let is_spent = lease.spend(spent);
            assert_eq!(is_spent, spent <= units, "{}", self.told);
            self.single.entry().at(self.now()).refund(lease.into_unspent());
            self.one.owed -= units - if is_spent { spent } else { 0 };
        }
    }

    /// Compares the remaining units of every limit.
    fn compare(&self) {
        let now = self.now();
        let same = |what: &str, told: u64, expected: u64| {
            assert_eq!(told, expected, "{}: told remaining {what}", self.told);
        };
        for key in 0..KEYS {
            for (tier, debts) in self.tiers.iter().enumerate() {
                let entry = self.table.entry(&key).tier(tier).expect("two tiers");
                same(
                    "of a tier",
                    entry.at(now).peek(0).remaining(),
                    debts[usize::from(key)].left(),
                );
            }
            let left = self.borrowers.entry(&key).at(now).peek(0).remaining();
            same("of its own", left, self.own[usize::from(key)].left());
        }
        same(
            "of the single limit",
            self.single.entry().at(now).peek(0).remaining(),
            self.one.left(),
        );
        let spare = self.spare.left() * self.quarters / 4;
        self.pool_clock.set(now);
        same("of the pool", self.pool.remaining(), spare);
    }
}
