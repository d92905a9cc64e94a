//! What Envoys hold of a service before this one, until they have come back.

use std::collections::HashMap;
use std::net::IpAddr;

use super::reports::{Entries, LimitKey};

/// What Envoys may have of a service before this one, by the address and the domain of their streams, until they have
/// come back or it is over.
pub(super) type Orphans = HashMap<(IpAddr, String), OrphansOf>;

/// What came from one address.
#[derive(Debug, Default)]
pub(super) struct OrphansOf {
    /// Whether by one stream, so that the next one is that of the same Envoy.
    pub(super) is_alone: bool,
    pub(super) buckets: HashMap<Entries, Orphan>,
}

/// A bucket of an Envoy.
#[derive(Clone, Debug)]
pub(super) struct Orphan {
    /// The holder in the pool.
    pub(super) id: u64,
    pub(super) limit: LimitKey,
    pub(super) until: u64,
}

/// What a new bucket of a stream may have had before the restart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Predecessor {
    None,
    /// This holder.
    Known(u64),
    /// One that streams of its address had, until this time at most.
    OneOfSeveral {
        until: u64,
    },
}
