//! What a table's decisions were: the share of hits, and of others.
//!
//! A hit counts nothing, so nothing here is counted while a contender is timed: a table's counts are read before the
//! first round and after the last, while no thread decides.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::io;

use serde::Serialize;
use tollgate::KeyedLimiter;

/// What has happened to a table since it was built.
#[derive(Clone, Copy)]
pub(crate) struct TableCounts {
    /// Cells that were given to a key that had none.
    installed: u64,
    /// Cells whose idle key was forgotten.
    reclaimed: u64,
    /// Requests of keys for which no cell was found, or not in time.
    without_cell: u64,
}

/// Shares of the decisions that were measured.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Shares {
    /// Of keys that had a cell, wherever it was.
    pub(crate) hit: f64,
    /// Of keys that had none and were given one.
    pub(crate) install: f64,
    /// Cells whose idle key was forgotten, over decisions: such a cell was taken over by a new key, or swept by a
    /// decision before which a time floor had to follow. That decision is one of the others, too.
    pub(crate) reclaim: f64,
    /// Of keys that were decided in the spill, or denied, for want of a cell.
    pub(crate) without_cell: f64,
}

impl TableCounts {
    /// The counts of a table that has just been built: reading them would bring the table into the caches for the
    /// first round.
    pub(crate) const NONE: Self = Self { installed: 0, reclaimed: 0, without_cell: 0 };

    /// The shares of so many decisions, before which these were the counts `before`.
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

/// Percentages. Keys without a cell are shown only where they are clearly more than the one in 100,000 of a full
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

/// A limiter that may count what has happened to its table.
pub(crate) trait CountedTable {
    /// Called while no thread decides. It reads a whole table.
    fn counts(&self) -> Option<TableCounts>;
}

/// For contenders that keep no such counts.
impl CountedTable for () {
    fn counts(&self) -> Option<TableCounts> {
        None
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> CountedTable for KeyedLimiter<K, S> {
    fn counts(&self) -> Option<TableCounts> {
        let stats = self.stats();
        // `Stats::live` leaves out keys that are idle and still have their cells, which a hit finds. A snapshot has
        // them, and here a key leaves its cell only by being forgotten: so each key that was installed is in its cell
        // now, or was forgotten.
        let held = self.snapshot(io::sink()).expect("a table at rest").keys as u64;
        Some(TableCounts {
            installed: held + stats.reclaimed,
            reclaimed: stats.reclaimed,
            without_cell: stats.spilled + stats.full + stats.contended,
        })
    }
}
