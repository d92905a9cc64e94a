//! [`Charge`]: what was charged at once, and may be given back.

use tollgate::{Lease, Policy, Timestamp};
use tollgate_oracle::BigUint;

use crate::fineness::TimeFineness;

/// What is wrong, if anything is.
pub(super) type CheckResult<T = ()> = Result<T, String>;

/// Something that was charged, for what may be given back of it.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) cost: u64,
    pub(super) then_ns: u64,
    pub(super) policy: Policy,
    /// Its entries in the ledgers.
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) renewals: u64,
    /// Units that no verb has been asked to give back.
    pub(super) left: u64,
    /// The window that it counts in, at each fineness that was possible; none if that is not known.
    pub(super) places: Vec<(TimeFineness, BigUint)>,
}

impl Charge {
    pub(super) fn then(&self) -> Timestamp {
        Timestamp::from_nanos(self.then_ns)
    }

    /// Whether it was charged under this quota, which has been in force since then.
    pub(super) fn is_of(&self, policy: Policy, since_ns: Option<u64>) -> bool {
        self.policy == policy && since_ns.is_none_or(|since_ns| self.then_ns > since_ns)
    }

    pub(super) fn counts_in(&self, fineness: TimeFineness, place: &BigUint) -> bool {
        self.places.iter().any(|(of, own)| *of == fineness && own == place)
    }

    /// Whether the window is known that it counts in.
    pub(super) fn is_placed(&self, renewals: u64) -> bool {
        !self.places.is_empty() && self.renewals == renewals
    }
}

/// A lease, and what the books say of its last batch.
#[derive(Debug)]
pub(super) struct BookedLease<'s> {
    pub(super) lease: Lease<'s>,
    pub(super) charge: Charge,
}
