//! [`Place`]: the place where the limits of a layer are kept.

use tollgate::Policy;

use crate::lend::{Lend, RemoteLend};
use crate::limit::Limit;
use crate::remote_limit::RemoteLimit;

/// The place where the limits of a layer are kept: [`Local`] or [`Remote`]. Sealed.
pub trait Place: 'static {
    /// The limit that a gate asks.
    type Limit: ?Sized + Send + Sync;

    /// The lender that a gate borrows from.
    type Lender: ?Sized + Send + Sync;

    /// The policy that is in force for a tier.
    #[doc(hidden)]
    fn policy_of(limit: &Self::Limit, tier: usize) -> Option<Policy>;

    /// Whether that policy may change later.
    #[doc(hidden)]
    fn may_change(limit: &Self::Limit) -> bool;
}

/// In this process. A gate decides while the layer is called.
#[derive(Debug)]
pub enum Local {}

/// Elsewhere, such as in Redis. A gate waits for the decision.
#[derive(Debug)]
pub enum Remote {}

impl Place for Local {
    type Limit = dyn Limit;
    type Lender = dyn Lend;

    #[inline]
    fn policy_of(limit: &dyn Limit, tier: usize) -> Option<Policy> {
        limit.policy_of(tier)
    }

    fn may_change(limit: &dyn Limit) -> bool {
        limit.may_change()
    }
}

impl Place for Remote {
    type Limit = dyn RemoteLimit;
    type Lender = dyn RemoteLend;

    fn policy_of(limit: &dyn RemoteLimit, tier: usize) -> Option<Policy> {
        limit.policy_of(tier)
    }

    fn may_change(_: &dyn RemoteLimit) -> bool {
        true
    }
}
