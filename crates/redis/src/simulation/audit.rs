//! Checks the bound on admitted units (`docs/failures.md`) at every admission. It counts in whole numbers: a unit is
//! `period_ns * nodes` parts.

use tollgate::Quota;

/// The admitted units, and the bound on them.
#[derive(Debug)]
pub(super) struct Audit {
    count: i128,
    unit: i128,
    nodes: i128,
    burst: i128,
    /// The units that the store charged and that were spent, at once or from leases.
    pub(super) by_store: u64,
    pub(super) by_shares: u64,
    /// The charged units that the store forgot when it lost its state.
    pub(super) lost: u64,
    /// The least value so far of this sum: `by_store`, plus the units in leases, minus the units that could drain by
    /// then.
    floor: i128,
    pub(super) violation: Option<String>,
}

impl Audit {
    pub(super) fn new(quota: Quota, nodes: u64) -> Self {
        let unit = quota.period().as_nanos() * u128::from(nodes);
        Self {
            count: quota.count().into(),
            unit: i128::try_from(unit).unwrap(),
            nodes: nodes.into(),
            burst: quota.max_burst().into(),
            by_store: 0,
            by_shares: 0,
            lost: 0,
            floor: 0,
            violation: None,
        }
    }

    /// The parts that drain in `ns` at the rate of the whole limit.
    fn drained(&self, ns: u64) -> i128 {
        self.count * self.nodes * i128::from(ns)
    }

    /// Enters that an interval may begin now, while `held` units are in leases.
    pub(super) fn begin(&mut self, now_ns: u64, held: u64) {
        let here = i128::from(self.by_store + held) * self.unit - self.drained(now_ns);
        self.floor = self.floor.min(here);
    }

    /// Checks the units that the store has admitted. The server's clock counts whole microseconds, so one microsecond
    /// more may have drained.
    pub(super) fn look(&mut self, now_ns: u64, is_calm: bool) {
        let admitted = i128::from(self.by_store) * self.unit;
        let tick = self.drained(1_000);
        let lost = i128::from(self.lost) * self.unit;
        let most = self.burst * self.unit + self.drained(now_ns) + tick + lost;
        if admitted > most {
            self.found(format!("{} units by the store at {now_ns} ns", self.by_store));
        }
        let rising = admitted - self.drained(now_ns) - tick;
        if is_calm && rising > self.burst * self.unit + self.floor {
            self.found(format!(
                "more than burst, rate and leases in an interval up to {now_ns} ns"
            ));
        }
    }

    /// Checks the units that one node's share has admitted in the node's whole time of isolation.
    pub(super) fn look_at_share(&mut self, spent: u64, lives: u64, isolated_ns: u64) {
        let budget = (self.burst / self.nodes).max(1) * i128::from(lives);
        // Each start of the process, a *life* of the node, may add one tick of the limiter, at most 1/256 of a unit.
        let tick = self.unit / 256 * i128::from(lives);
        let regained = self.count * i128::from(isolated_ns) + tick;
        if i128::from(spent) * self.unit > budget * self.unit + regained {
            self.found(format!("{spent} units by a share in {isolated_ns} ns of isolation"));
        }
    }

    /// The most units that the store may have admitted.
    pub(super) fn bound(&self, now_ns: u64) -> u64 {
        let most = self.burst + (self.drained(now_ns) / self.unit);
        u64::try_from(most).unwrap() + self.lost
    }

    fn found(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}
