//! The shares of hits, and of the other kinds of decisions, among the decisions of a table.
//!
//! Hits increment no count, so counting does not disturb the measured decisions of a contender. A table's counts are
//! read before the first round and after the last, while no thread decides.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::io;

use serde::Serialize;
use tollgate::KeyedLimiter;

/// Counts of a table since it was built.
#[derive(Clone, Copy)]
pub(crate) struct TableCounts {
    /// The number of cells that were given to a key without one.
    installed: u64,
    /// The number of cells whose idle key was forgotten.
    reclaimed: u64,
    /// Requests whose key found no cell, or did not find one in time.
    without_cell: u64,
}

/// Shares of the measured decisions.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Shares {
    /// Decisions of keys that had a cell, wherever it was.
    pub(crate) hit: f64,
    /// Decisions of keys that had no cell and were given one.
    pub(crate) install: f64,
    /// Cells whose idle key was forgotten, divided by the number of decisions. Either a new key took the cell over, or
    /// a decision swept it because it had to advance a time floor first. That decision is also counted as one of the
    /// other kinds.
    pub(crate) reclaim: f64,
    /// Decisions in the spill, and denials, of keys that found no cell.
    pub(crate) without_cell: f64,
}

impl TableCounts {
    /// The counts of a table that has just been built. They are not read from the table, because that would bring it
    /// into the caches for the first round.
    pub(crate) const NONE: Self = Self { installed: 0, reclaimed: 0, without_cell: 0 };

    /// The shares of `decisions` decisions, before which the counts were `before`.
    pub(crate) fn since(self, before: Self, decisions: u64) -> Shares {
        let share = |later: u64, earlier: u64| (later - earlier) as f64 / decisions as f64;
        let install = share(self.installed, before.installed);
        let without_cell = share(self.without_cell, before.without_cell);
        Shares {
            hit: 1.0 - install - without_cell,
            install,
            reclaim: share(self.reclaimed, before.reclaimed),
            without_cell,
        }
    }
}

/// Prints percentages. Keys without a cell are shown only if they are clearly more than the one in 100,000 of a full
/// table.
impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [hit, install, reclaim, without_cell] =
            [self.hit, self.install, self.reclaim, self.without_cell].map(|share| share * 100.0);
        write!(f, "hit {hit:.1} %, new {install:.1} %, reclaimed {reclaim:.1} %")?;
        if without_cell >= 0.005 {
            write!(f, ", no cell {without_cell:.2} %")?;
        }
        Ok(())
    }
}

/// A limiter whose table may keep counts.
pub(crate) trait CountedTable {
    /// The counts. This is called while no thread decides, because it reads a whole table.
    fn counts(&self) -> Option<TableCounts>;
}

/// The result for contenders that keep no counts.
impl CountedTable for () {
    fn counts(&self) -> Option<TableCounts> {
        None
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> CountedTable for KeyedLimiter<K, S> {
    fn counts(&self) -> Option<TableCounts> {
        let stats = self.stats();
        // The number of keys comes from a snapshot, because `Stats::live` leaves out idle keys whose cells are still
        // there to be found. In these workloads a key leaves its cell only when it is forgotten, so each installed key
        // is in its cell now or was forgotten.
        let held = self.snapshot(io::sink()).expect("a table at rest").keys as u64;
        Some(TableCounts {
            installed: held + stats.reclaimed,
            reclaimed: stats.reclaimed,
            without_cell: stats.spilled + stats.full + stats.contended,
        })
    }
}
