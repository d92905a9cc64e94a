//! The planted faults that worlds catch, each in the family of worlds where that takes least, and within how many
//! schedules: several times what it takes with these seeds. Those that only loom catches are in
//! `docs/verification.md`, with the reason.

use tollgate::control::Fault;

use crate::hand::DENIAL_WROTE;
use crate::history::{ABOVE_BOUND, LOST_CHARGE, REFUSED};
use crate::kinds::Family::{self, Gcra, Log, Logs, Sketch, Striped, Tiers, Windows};
use crate::verdict::{LEFT_CLAIM, REFUSED_FILE};

/// What the core says of an opening that makes a key live twice.
const TWO_LIVE: &str = "live cells carry one key";

pub(crate) struct Control {
    pub(crate) fault: Fault,
    pub(crate) family: Family,
    pub(crate) schedules: u64,
    pub(crate) message: &'static str,
}

pub(crate) const CONTROLS: &[Control] = &[];
