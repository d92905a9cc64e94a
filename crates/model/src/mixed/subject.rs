//! Any limiter, with one name for each verb. Only this file knows the kind of the limiter.

use ahash::RandomState;
use arbitrary::Arbitrary;
use tollgate::{
    Algorithm, Changing, Decision, Denial, Entry, KeyedLimiter, Lease, Limiter, ManualClock,
    Permit, Policy, SketchLimiter, SketchSize, StripedLimiter, Timestamp, WhenFull,
};

use crate::fineness::LATEST_NS;
use crate::keyed::hasher;
use crate::step::nanos_of;

/// The limiter.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// `Limiter`, with leases.
    Alone,
    /// `KeyedLimiter`. This number modulo 32, plus 1, is the number of keys. The number divided by 32 chooses the debt
    /// that the policy names.
    Table(u8),
    /// `Limiter` whose quota may change.
    Alive,
    /// A `KeyedLimiter` of two tiers, for the same number of keys as `Table`.
    Tiered(u8),
    /// `StripedLimiter`. This number modulo 4, plus 1, is the number of stripes. It has only check and peek.
    Striped(u8),
    /// `SketchLimiter`. It has only check and peek.
    Sketched,
}

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectFault {
    /// No fault.
    None,
    /// An admitted request is not charged.
    ChargeForgotten,
    /// A refund gives back twice as much as it reports.
    BackTwice,
    /// A refund reports one unit less than it gives back.
    ReportedLess,
    /// A refund also gives back the units that have drained.
    BackDrained,
    /// A refund reports all units that it was asked to give back, and gives back those that have not drained.
    ReportedMore,
    /// A place is undone completely if the limit's debt equals the debt right after the place, even if other charges
    /// made that debt.
    UndoneByBits,
    /// A place is reported as cancelled, and stays charged.
    StaysCharged,
    /// No place is cancelled.
    NeverCancelled,
    /// A place that is cancelled is refunded as well.
    CancelledTwice,
    /// A peek asks for one unit more.
    StricterLook,
    /// The spent units of a lease come back, too.
    SpentComesBack,
    /// A change of quota forgives the debt.
    ChangeForgives,
    /// A change to a lower quota forgets the debt that the new quota cannot count.
    SurplusForgotten,
    /// A key that changes its tier leaves its debt behind.
    MoveForgives,
    /// A window gives back units that an earlier window has counted.
    OldWindowBack,
    /// A debt is paid off by a reset.
    DebtForgiven,
    /// A request that waits without a place is charged meanwhile.
    ChargedAsleep,
    /// A request gives up although its wait is long enough to ask again.
    GivesUpAtOnce,
    /// A request that has slept is admitted whatever the limit says.
    GoesUnasked,
    /// A policy that names a debt remembers no more than twice the burst.
    DebtStopsAtTwice,
}

/// The debts that policies of tables name, in multiples of the limit. 0 names none.
const DEBTS: [u32; 8] = [0, 0, 1, 2, 7, 30, 100, 1_000];

impl SubjectKind {
    /// The policy with the debt that this kind names, if the policy accepts one.
    pub(super) fn owing(self, policy: Policy) -> Policy {
        let Self::Table(more) = self else { return policy };
        policy.debt(DEBTS[usize::from(more / 32)]).unwrap_or(policy)
    }
}

/// The number of keys in each tier. In a small table a request of one key moves the floor for other keys.
pub(super) const KEYS: u8 = 12;

/// A key, in its tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TieredKey {
    pub(super) key: u8,
    pub(super) tier: usize,
}

#[derive(Debug)]
enum Decider {
    Single(Limiter),
    Table(KeyedLimiter<u8, RandomState>),
    Alive(Changing<Limiter>),
    Tiered(Changing<KeyedLimiter<u8, RandomState>>),
    Striped(StripedLimiter),
    Sketched(SketchLimiter<u8, RandomState>),
}

/// A limiter, its clock, and its fault.
#[derive(Debug)]
pub(super) struct MixedSubject {
    decider: Decider,
    clock: ManualClock,
    own_clock: bool,
    pub(super) fault: SubjectFault,
    pub(super) kind: SubjectKind,
    /// Limiters whose permits are foreign: one of the same policy, and one of another policy.
    strangers: [Limiter; 2],
}

impl MixedSubject {
    /// Returns `None` if this kind of limiter does not accept the policy.
    pub(super) fn new(
        policy: Policy,
        kind: SubjectKind,
        own_clock: bool,
        fault: SubjectFault,
    ) -> Option<Self> {
        let clock = ManualClock::new();
        let decider = match kind {
            SubjectKind::Alone => {
                Decider::Single(Limiter::builder(policy).clock(clock.clone()).build())
            }
            // A key without a cell is denied here: the spill counts in other ticks, and is tested separately.
            SubjectKind::Table(more) => {
                let capacity = usize::from(more % 32) + 1;
                let table = KeyedLimiter::builder(policy).when_full(WhenFull::Deny);
                let table = table.clock(clock.clone()).hasher(hasher()).build(capacity);
                Decider::Table(table.ok()?)
            }
            SubjectKind::Alive => Decider::Alive(
                Limiter::builder(policy).clock(clock.clone()).changing().build().ok()?,
            ),
            SubjectKind::Tiered(more) => {
                let (tiers, capacity) =
                    (KeyedLimiter::builder(policy).tier(policy), usize::from(more % 32) + 1);
                let tiers = tiers.when_full(WhenFull::Deny);
                let table = tiers.clock(clock.clone()).hasher(hasher()).build(capacity);
                Decider::Tiered(table.ok()?)
            }
            SubjectKind::Striped(more) => {
                // The bound of the ledger and the waits are those of GCRA.
                if policy.algorithm() != Algorithm::Gcra {
                    return None;
                }
                let stripes = usize::from(more % 4) + 1;
                let limiter =
                    StripedLimiter::builder(policy).stripes(stripes).clock(clock.clone()).build();
                Decider::Striped(limiter.ok()?)
            }
            SubjectKind::Sketched => {
                let size = SketchSize::new(2, 16).expect("a size");
                Decider::Sketched(
                    SketchLimiter::builder(policy)
                        .clock(clock.clone())
                        .hasher(hasher())
                        .build(size)
                        .ok()?,
                )
            }
        };
        let other = Limiter::builder(tollgate::Quota::per_second(97).burst(89))
            .clock(clock.clone())
            .build();
        let strangers = [Limiter::builder(policy).clock(clock.clone()).build(), other];
        Some(Self { decider, clock, own_clock, fault, kind, strangers })
    }

    pub(super) fn set_clock(&self, now: Timestamp) {
        self.clock.set(now);
    }

    pub(super) fn own_clock(&self) -> bool {
        self.own_clock
    }

    /// Whether the limiter has no verbs but check and peek.
    pub(super) fn only_decides(&self) -> bool {
        matches!(self.decider, Decider::Striped(_) | Decider::Sketched(_))
    }

    /// Whether each key has a word of its own, which may be forgotten.
    pub(super) fn is_keyed(&self) -> bool {
        matches!(self.decider, Decider::Table(_) | Decider::Tiered(_))
    }

    /// The maximum time by which the floor of a table trails the latest time. Other limiters have no floor, so for them
    /// it is a fixed time of the same order.
    pub(super) fn epoch_ns(&self) -> u64 {
        match &self.decider {
            Decider::Table(table) => nanos_of(table.stats().epoch),
            Decider::Tiered(table) => nanos_of(table.stats().epoch),
            _ => LATEST_NS / 64,
        }
    }

    /// The limiter that leases units, or `None` if this kind has no leases.
    pub(super) fn limiter(&self) -> Option<&Limiter> {
        match &self.decider {
            Decider::Single(limiter) => Some(limiter),
            _ => None,
        }
    }

    pub(super) fn stripes(&self) -> usize {
        match &self.decider {
            Decider::Striped(limiter) => limiter.stripes(),
            _ => 1,
        }
    }

    /// The largest cost that a check may ever admit, if it differs from the limit.
    pub(super) fn largest_cost(&self) -> Option<u64> {
        match &self.decider {
            Decider::Striped(limiter) => Some(limiter.largest_cost()),
            _ => None,
        }
    }

    /// The entry of a key. Only for limiters that have all verbs.
    fn entry(&self, TieredKey { key, tier }: TieredKey) -> Entry<'_> {
        match &self.decider {
            Decider::Single(limiter) => limiter.entry(),
            Decider::Alive(limiter) => limiter.entry(),
            Decider::Table(limiter) => limiter.entry(&key),
            Decider::Tiered(limiter) => limiter.entry(&key).tier(tier).expect("two tiers"),
            Decider::Striped(_) | Decider::Sketched(_) => unreachable!("only decides"),
        }
    }

    /// The entry of a key, at the time of the limiter's own clock or at the given time.
    pub(super) fn entry_at(&self, name: TieredKey, now: Timestamp) -> Entry<'_> {
        let entry = self.entry(name);
        if self.own_clock { entry } else { entry.at(now) }
    }

    /// Peeks at the given time, even if the limiter reads a clock of its own.
    pub(super) fn peek(&self, name: TieredKey, cost: u64, now: Timestamp) -> Decision {
        match &self.decider {
            Decider::Striped(limiter) => limiter.entry().at(now).peek(cost),
            Decider::Sketched(limiter) => limiter.entry(&name.key).at(now).peek(cost),
            _ => self.entry(name).at(now).peek(cost),
        }
    }

    pub(super) fn check(&self, name: TieredKey, cost: u64, now: Timestamp) -> Decision {
        match &self.decider {
            Decider::Striped(limiter) if self.own_clock => limiter.check_n(cost),
            Decider::Striped(limiter) => limiter.entry().at(now).check_n(cost),
            Decider::Sketched(limiter) if self.own_clock => limiter.check_n(&name.key, cost),
            Decider::Sketched(limiter) => limiter.entry(&name.key).at(now).check_n(cost),
            _ => self.entry_at(name, now).check_n(cost),
        }
    }

    /// Refunds at a time other than that of the step. Only faults do this.
    pub(super) fn refund_at(&self, name: TieredKey, permit: Permit, now: Timestamp) -> u64 {
        if self.only_decides() {
            return 0;
        }
        self.entry(name).at(now).refund(permit)
    }

    /// A permit of another limiter, with the same policy or with another.
    pub(super) fn stranger(&self, other: bool, cost: u64, now: Timestamp) -> Option<Permit> {
        self.strangers[usize::from(other)].entry().at(now).check_n(cost).into_result().ok()
    }

    /// Takes a lease, if this is a limiter that has them.
    pub(super) fn lease(&self, units: u64, now: Timestamp) -> Option<Result<Lease<'_>, Denial>> {
        self.limiter()?;
        Some(self.entry_at(TieredKey { key: 0, tier: 0 }, now).lease(units))
    }

    /// Changes the quota of one limit, or of a tier; `None` if its quota is fixed.
    pub(super) fn set_quota(&self, tier: usize, policy: Policy, now: Timestamp) -> Option<bool> {
        self.set_clock(now);
        match &self.decider {
            Decider::Alive(limiter) => Some(limiter.set_quota(policy).is_ok()),
            Decider::Tiered(limiter) => Some(limiter.set_tier_quota(tier, policy).is_ok()),
            _ => None,
        }
    }

    /// Moves the charges of a key to another tier, and returns their number of units.
    pub(super) fn migrate(&self, key: u8, [from, to]: [usize; 2], now: Timestamp) -> Option<u64> {
        match &self.decider {
            Decider::Tiered(limiter) => {
                limiter.entry(&key).tier(from).ok()?.at(now).move_to(to).ok()
            }
            _ => None,
        }
    }
}
