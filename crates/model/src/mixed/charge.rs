//! [`Charge`]: units that were charged at once, and may be given back.

use tollgate::{Lease, Policy, Timestamp};
use tollgate_oracle::BigUint;

use crate::fineness::TimeFineness;

/// The result of a check, whose error describes a wrong answer.
pub(super) type CheckResult<T = ()> = Result<T, String>;

/// A charge, with the data that decides how much of it may be given back.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) cost: u64,
    pub(super) then_ns: u64,
    pub(super) policy: Policy,
    /// The number of the charge's entry in the ledgers.
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) renewals: u64,
    /// Units that no verb has been asked to give back.
    pub(super) left: u64,
    /// The window in which the charge counts, for each possible fineness. The list is empty if the window is not known.
    pub(super) places: Vec<(TimeFineness, BigUint)>,
}

impl Charge {
    pub(super) fn then(&self) -> Timestamp {
        Timestamp::from_nanos(self.then_ns)
    }

    /// Whether the charge was made under this quota, which has been in force ever since.
    pub(super) fn is_of(&self, policy: Policy, since_ns: Option<u64>) -> bool {
        self.policy == policy && since_ns.is_none_or(|since_ns| self.then_ns > since_ns)
    }

    pub(super) fn counts_in(&self, fineness: TimeFineness, place: &BigUint) -> bool {
        self.places.iter().any(|(of, own)| *of == fineness && own == place)
    }

    /// Whether the window in which it counts is known.
    pub(super) fn is_placed(&self, renewals: u64) -> bool {
        !self.places.is_empty() && self.renewals == renewals
    }
}

/// A lease, and the entry of its last batch in the books.
#[derive(Debug)]
pub(super) struct BookedLease<'s> {
    pub(super) lease: Lease<'s>,
    pub(super) charge: Charge,
}
