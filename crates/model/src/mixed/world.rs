//! One limiter and the books of its keys. Each step is done with both, and the results are compared.

use std::time::Duration;

use arbitrary::Arbitrary;
use tollgate::{Algorithm, AtLimit, Decision, DenialReason, Policy, Timestamp};

use super::book::KeyBook;
use super::charge::{BookedLease, CheckResult};
use super::debt::{KeyDebt, When};
use super::subject::{KEYS, MixedSubject, SubjectKind, TieredKey};
use crate::expect::{Expectation, TimedRequest};
use crate::fineness::{self, LATEST_NS};
use crate::fineness::{TimeFineness, coarsest_tick};
use crate::plant::Plant;
use crate::policy::{QuotaCase, period_ns};
use crate::step::{StepCost, StepPace, nanos_of};
use crate::verbs::LimitVerb;

/// The references that judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judges {
    /// Whether the ledger judges every interval.
    pub ledger: bool,
    /// Whether the debt is compared at each step.
    pub debt: bool,
}

impl Judges {
    /// All of them.
    pub const ALL: Self = Self { ledger: true, debt: true };
    /// The ledger alone, which does not depend on how words store their state.
    pub const LEDGER: Self = Self { ledger: true, debt: false };
}

/// A step.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Mixed {
    /// A verb.
    Does { key: u8, verb: LimitVerb },
    /// A peek.
    Looks { key: u8, cost: StepCost },
    /// A permit is refunded, at most `most` units of it. The permit is `nth` places before the newest, and is kept.
    Again { key: u8, nth: u8, most: u8 },
    /// The permit of a place is refunded. The place is kept.
    Unqueue { key: u8, nth: u8, most: u8 },
    /// A permit of another limiter, with the same policy or with another.
    Foreign { key: u8, cost: StepCost, other: bool },
    /// Units are leased.
    LeaseOut { units: u8 },
    /// Units of the last lease are spent. If the lease has too few, it takes the next batch or ends.
    LeaseUse { cost: u8, renew: bool },
    /// The last lease is returned.
    LeaseBack,
    /// The quota changes.
    Change { second: bool, quota: QuotaCase },
    /// The quota changes back to the first one.
    ChangeBack { second: bool },
    /// A key changes its tier.
    Migrate { key: u8, back: bool },
}

/// The latest time of any step, in the year 2408. Waits that end after 2^64 ns have no exact end.
pub(super) const END_NS: u64 = 3 << 62;

/// A limiter, its books, and the time.
#[derive(Debug)]
pub(super) struct MixedWorld<'s> {
    pub(super) subject: &'s MixedSubject,
    /// The first policy.
    policy: Policy,
    plant: Plant,
    judges: Judges,
    pub(super) pace: StepPace,
    /// The latest time that the limiter was given.
    pub(super) high_ns: u64,
    /// The time of the last change of quota. No time goes back below it.
    pub(super) since_ns: u64,
    /// The books, by tier and key.
    pub(super) books: Vec<KeyBook>,
    pub(super) leases: Vec<BookedLease<'s>>,
}

impl<'s> MixedWorld<'s> {
    pub(super) fn new(
        policy: Policy,
        subject: &'s MixedSubject,
        (plant, judges): (Plant, Judges),
    ) -> Self {
        let pace = StepPace::new(policy, subject.epoch_ns(), LATEST_NS / 4);
        let mut world = Self {
            subject,
            policy,
            plant,
            judges,
            pace,
            high_ns: 0,
            since_ns: 0,
            books: Vec::new(),
            leases: Vec::new(),
        };
        let books = match subject.kind {
            SubjectKind::Tiered(_) => 2 * KEYS,
            SubjectKind::Table(_) | SubjectKind::Sketched => KEYS,
            SubjectKind::Alone | SubjectKind::Alive | SubjectKind::Striped(_) => 1,
        };
        world.books = (0..books).map(|_| world.book(policy)).collect();
        world
    }

    fn expectation(&self, policy: Policy) -> Expectation {
        let is_gcra = policy.algorithm() == Algorithm::Gcra;
        match self.subject.kind {
            SubjectKind::Alone | SubjectKind::Sketched | SubjectKind::Striped(_) => {
                Expectation::unkeyed(policy, self.plant)
            }
            // Under a policy with rules at the limit, the words have the same finenesses as those of a table.
            SubjectKind::Alive if policy.at_limit() != AtLimit::default() => {
                let choices = TimeFineness::keyed(policy);
                Expectation::new(policy, choices, LATEST_NS, self.plant)
            }
            // Words that also hold the index of a quota and a surplus lose up to 20 bits of fineness.
            SubjectKind::Alive if is_gcra => {
                let finest = TimeFineness::unkeyed(policy).tick;
                let ticks = finest.saturating_sub(20)..=finest;
                self.of_ticks(policy, ticks, LATEST_NS)
            }
            SubjectKind::Alive => {
                let plain = TimeFineness { tick: 0, quantum_ns: 1, end_quantum_ns: 1 };
                Expectation::new(policy, vec![plain], LATEST_NS, self.plant)
            }
            SubjectKind::Tiered(_) if is_gcra => {
                self.of_ticks(policy, coarsest_tick(policy)..=12, u64::MAX)
            }
            _ => Expectation::keyed(policy, self.plant),
        }
    }

    fn of_ticks(
        &self,
        policy: Policy,
        ticks: std::ops::RangeInclusive<u32>,
        end_ns: u64,
    ) -> Expectation {
        let ticks = ticks.map(|tick| TimeFineness { tick, quantum_ns: 1, end_quantum_ns: 1 });
        Expectation::new(policy, ticks.collect(), end_ns, self.plant)
    }

    pub(super) fn debt(&self, policy: Policy) -> (KeyDebt, u32) {
        // If a word holds the index of a quota, no fineness is promised for the start of a from-first window.
        let is_told = policy.algorithm() != Algorithm::FixedWindowFromFirst
            || !matches!(self.subject.kind, SubjectKind::Alive | SubjectKind::Tiered(_));
        let is_judge = self.judges.debt && is_told && !self.subject.only_decides();
        let debt = KeyDebt::new(self.expectation(policy), self.subject.is_keyed(), is_judge);
        // The bound allows one tick of rounding for each stripe.
        let tick = debt.coarsest_tick().saturating_sub(self.subject.stripes().ilog2() + 1);
        let tick = if self.subject.stripes() == 1 { debt.coarsest_tick() } else { tick };
        (debt, tick)
    }

    fn book(&self, policy: Policy) -> KeyBook {
        let (debt, tick) = self.debt(policy);
        KeyBook::new(policy, debt, tick, (self.judges.ledger, self.plant))
    }

    /// The latest time that the limiter tells apart from later ones.
    pub(super) fn latest_ns(&self) -> u64 {
        match self.subject.kind {
            SubjectKind::Table(_) | SubjectKind::Tiered(_) => u64::MAX,
            // A limit whose quota changes may change from months to buckets, so its times end where those of buckets
            // do.
            SubjectKind::Alive => LATEST_NS,
            _ => fineness::latest_ns(self.policy),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.pace.now_ns
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.pace.now_ns)
    }

    pub(super) fn when(&self) -> When {
        // An un-keyed word cannot distinguish times after the latest, so its time stops there.
        let now_ns = match self.subject.kind {
            SubjectKind::Table(_) | SubjectKind::Tiered(_) => self.pace.now_ns,
            _ => self.pace.now_ns.min(self.latest_ns()),
        };
        When { now_ns, high_ns: self.high_ns }
    }

    pub(super) fn name(&self, key: u8, tier: usize) -> TieredKey {
        match self.subject.kind {
            SubjectKind::Table(_) | SubjectKind::Sketched => TieredKey { key: key % KEYS, tier: 0 },
            SubjectKind::Tiered(_) => TieredKey { key: key % KEYS, tier },
            _ => TieredKey { key: 0, tier: 0 },
        }
    }

    pub(super) fn number(name: TieredKey) -> usize {
        name.tier * usize::from(KEYS) + usize::from(name.key)
    }

    pub(super) fn book_of(&mut self, name: TieredKey) -> &mut KeyBook {
        &mut self.books[Self::number(name)]
    }

    pub(super) fn set_clock(&self) {
        if self.subject.own_clock() {
            self.subject.set_clock(self.now());
        }
    }

    pub(super) fn apply(&mut self, op: Mixed) -> CheckResult {
        let is_alive_month = matches!(self.subject.kind, SubjectKind::Alive)
            && matches!(self.policy.algorithm(), Algorithm::Calendar(_));
        let end_ns = if is_alive_month { LATEST_NS } else { END_NS };
        self.pace.now_ns = self.pace.now_ns.max(self.since_ns).min(end_ns);
        self.set_clock();
        let name = |key: u8| self.name(key, usize::from(key / KEYS % 2));
        match op {
            Mixed::Does { key, verb } => self.does(name(key), verb),
            Mixed::Looks { key, cost } => self.looks(name(key), cost),
            _ if self.subject.only_decides() => Ok(()),
            Mixed::Again { key, nth, most } => {
                self.refund(name(key), (nth.into(), most.into()), true)
            }
            Mixed::Unqueue { key, nth, most } => self.unqueue(name(key), (nth.into(), most.into())),
            Mixed::Foreign { key, cost, other } => self.foreign(name(key), cost, other),
            Mixed::LeaseOut { units } => self.lease_out(units.into()),
            Mixed::LeaseUse { cost, renew } => self.lease_use(cost.into(), renew),
            Mixed::LeaseBack => self.lease_back(),
            Mixed::Change { second, quota } => match quota.quota() {
                Some(quota) => self.change(second.into(), quota.into()),
                None => Ok(()),
            },
            Mixed::ChangeBack { second } => self.change(second.into(), self.policy),
            Mixed::Migrate { key, back } => self.migrate(key % KEYS, back.into()),
        }
    }

    fn does(&mut self, name: TieredKey, verb: LimitVerb) -> CheckResult {
        let left = self.subject.peek(name, 0, self.now()).remaining();
        let limit = self.book_of(name).policy.quota().max_burst();
        let limit = self.subject.largest_cost().unwrap_or(limit);
        let only_decides = self.subject.only_decides();
        match verb {
            LimitVerb::Take { cost } => self.take(name, cost.units(limit, left)),
            LimitVerb::Later { span, fine } => {
                self.pace.move_by(span, fine, false);
                Ok(())
            }
            LimitVerb::Earlier { span, fine } => {
                self.pace.move_by(span, fine, true);
                Ok(())
            }
            _ if only_decides => Ok(()),
            LimitVerb::UpTo { cost } => self.up_to(name, cost.units(limit, left)),
            LimitVerb::Charge { cost } => self.charge(name, cost.units(limit, left)),
            LimitVerb::Reserve { cost, thousandths } => {
                let policy = self.book_of(name).policy;
                let wait_ns = u128::from(period_ns(policy)) * u128::from(thousandths) / 1_000;
                let wait = Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX));
                self.reserve(name, cost.units(limit, left), wait)
            }
            LimitVerb::Refund { nth, most } => self.refund(name, (nth.into(), most.into()), false),
            LimitVerb::Cancel { nth } => self.cancel(name, nth.into()),
            LimitVerb::Reset => self.reset(name),
        }
    }

    /// Notes that the limiter was given a time, which may have advanced its floor.
    pub(super) fn told(&mut self) {
        self.high_ns = self.high_ns.max(self.pace.now_ns);
    }

    fn looks(&mut self, name: TieredKey, cost: StepCost) -> CheckResult {
        let (limit, now) = (self.book_of(name).policy.quota().max_burst(), self.now());
        let left = self.subject.peek(name, 0, now).remaining();
        let cost = cost.units(limit, left);
        let look = self.subject.look(name, cost, now);
        self.pace.heard(&look);
        let when = self.when();
        let ask = TimedRequest { now_ns: when.now_ns, cost, charge: false, exact: true };
        let book = self.book_of(name);
        book.debt.decided(ask, when, &look).map_err(|found| format!("{look:?}: {found}"))?;
        self.waits(name, cost, &look)?;
        self.see(name)
    }

    /// Compares the remaining units.
    pub(super) fn see(&mut self, name: TieredKey) -> CheckResult {
        let (look, when) = (self.subject.look(name, 0, self.now()), self.when());
        self.book_of(name).debt.seen(when, &look).map_err(|found| format!("{look:?}: {found}"))
    }

    /// Checks that a request that waits as long as its denial says is admitted, and that one that waits a nanosecond
    /// less is not.
    pub(super) fn waits(&self, name: TieredKey, cost: u64, decision: &Decision) -> CheckResult {
        let Decision::Denied(denial) = decision else { return Ok(()) };
        let Some(wait) = denial.retry_after().filter(|_| cost > 0) else { return Ok(()) };
        let then_ns = self.pace.now_ns.saturating_add(nanos_of(wait));
        let end_ns = self.latest_ns();
        if then_ns >= end_ns {
            return Ok(());
        }
        ensure!(!wait.is_zero(), "told to wait for nothing: {decision:?}");
        // The wait of a late new key of a full table follows from the cells at its own time, not at the floor.
        if denial.reason() == DenialReason::TableFull && self.pace.now_ns < self.high_ns {
            return Ok(());
        }
        let look = |at_ns| self.subject.look(name, cost, Timestamp::from_nanos(at_ns));
        let admits = |at_ns| look(at_ns).is_allowed();
        // The wait of a late new key ends when it is no longer late, whether or not it finds a cell then.
        let finds_no_cell = matches!(look(then_ns), Decision::Denied(denial) if denial.reason() == DenialReason::TableFull);
        ensure!(finds_no_cell || admits(then_ns), "a wait that is too short: {decision:?}");
        // A new key may be too late for the time of every cell. Its wait then suffices, but is not the least.
        let is_least = denial.reason() != DenialReason::TableFull;
        // In a sketch, where keys share cells, a wait also suffices without being the least.
        let is_least = is_least && self.subject.kind != SubjectKind::Sketched;
        ensure!(!(is_least && admits(then_ns - 1)), "a wait that is too long: {decision:?}");
        Ok(())
    }

    /// Compares a peek with the answer to the request after it.
    pub(super) fn agree(
        &mut self,
        name: TieredKey,
        look: &Decision,
        decision: &Decision,
    ) -> CheckResult {
        let is_counted = self.book_of(name).debt.counts_denials();
        let told = |decision: &Decision| match decision {
            Decision::Allowed(_) => (decision.remaining(), Duration::ZERO, None),
            Decision::Denied(denial) => {
                (denial.remaining(), denial.reset_after(), denial.retry_after())
            }
        };
        let is_same = match (look, decision) {
            (Decision::Denied(_), Decision::Denied(_)) => {
                is_counted || told(look) == told(decision)
            }
            (Decision::Allowed(_), Decision::Allowed(permit)) => {
                let is_soft = !self.book_of(name).policy.at_limit().soft.is_zero();
                let left = look.remaining().saturating_sub(permit.cost());
                is_soft || decision.remaining() == left
            }
            _ => false,
        };
        ensure!(is_same, "a look says otherwise: {look:?}, then {decision:?}");
        Ok(())
    }

    pub(super) fn finish(&mut self) -> CheckResult {
        self.set_clock();
        while !self.leases.is_empty() {
            self.lease_back()?;
        }
        self.books.iter().try_for_each(KeyBook::keeps_its_bound)
    }
}
