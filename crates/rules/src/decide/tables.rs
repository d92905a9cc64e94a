//! [`Tables`]: the tables of this process, in which each client has its cells.

use tollgate::{Clock, Entry, Timestamp};

use super::moment::DecisionTime;
use super::overrides::Overrides;
use crate::set::pool::Peeked;
use crate::set::rule::LocalLimit;

/// The tables of this process, at the time of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a> {
    pub(crate) moment: DecisionTime,
    pub(crate) overrides: &'a Overrides,
    pub(crate) clock: &'a Clock,
}

impl Tables<'_> {
    /// Reads the clock once, and returns tables that ask all limits at that time. Do not use that time for a charge
    /// that may have to be given back: if another request is charged after that time, a refund at that time gives back
    /// too much.
    pub(super) fn read(self) -> Self {
        Self { moment: DecisionTime::At(self.now()), ..self }
    }

    /// The time at which the limits decide.
    pub(crate) fn now(&self) -> Timestamp {
        self.moment.read(self.clock)
    }

    /// The entry of a client in a limit's table. If the limit has a time zone, the entry decides at the local time.
    pub(crate) fn entry<'r>(&self, gate: &'r LocalLimit, key: &[u8]) -> Entry<'r> {
        match &gate.zone {
            None => self.moment.entry(&gate.table, key),
            Some(zone) => gate.table.entry(key).at(zone.local(self.now())),
        }
    }

    /// Asks a client's limit, and charges nothing. If the limit denies for now, asks its pool as well.
    pub(crate) fn peek(&self, gate: &LocalLimit, key: &[u8], cost: u64) -> Peeked {
        let entry = self.entry(gate, key);
        match &gate.pool {
            None => Peeked { decision: entry.peek(cost), is_borrowed: false },
            Some(pool) => pool.peek(entry, cost, self.moment.given()),
        }
    }
}
