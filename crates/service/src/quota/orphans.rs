//! Orphans: assignments of an earlier service whose Envoys have not come back yet.

use std::collections::HashMap;
use std::net::IpAddr;

use super::reports::{Entries, LimitKey};

/// The orphans by the address and the domain of their streams. An orphan stays here until its Envoy comes back or the
/// assignment is over.
pub(super) type Orphans = HashMap<(IpAddr, String), OrphansOf>;

/// The orphans of one address and domain.
#[derive(Debug, Default)]
pub(super) struct OrphansOf {
    /// True if all these orphans belonged to one stream. The next stream from this address is then assumed to belong to
    /// the same Envoy.
    pub(super) is_alone: bool,
    pub(super) buckets: HashMap<Entries, Orphan>,
}

/// An assignment of one bucket that an Envoy may still hold.
#[derive(Clone, Debug)]
pub(super) struct Orphan {
    /// The number of its holder in the pool.
    pub(super) id: u64,
    pub(super) limit: LimitKey,
    pub(super) until: u64,
}

/// The holder that a stream's new bucket may have had before the restart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Predecessor {
    None,
    /// The bucket belonged to this holder.
    Known(u64),
    /// The bucket belonged to one of several holders, because several streams from the address had leases. All of these
    /// leases are over at `until`.
    OneOfSeveral {
        until: u64,
    },
}
