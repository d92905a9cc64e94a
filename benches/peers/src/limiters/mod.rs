//! All limiters that are measured. Each function here builds a limiter for one workload.

pub(crate) mod direct_peers;
pub(crate) mod floor;
pub(crate) mod governor;
pub(crate) mod keyed_peers;
pub(crate) mod kinds;
pub(crate) mod late;
pub(crate) mod naive;
pub(crate) mod policies;
pub(crate) mod prototype;
pub(crate) mod throttle_machines;
pub(crate) mod tollgate;

use crate::contender::Contender;

pub(crate) type Boxed<K> = Box<dyn Contender<K> + Sync>;
