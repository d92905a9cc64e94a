//! Counts the keys that the server evicts because it has too little memory. A limit whose key is evicted starts unused,
//! without an error.
//!
//! The server counts the evictions of all its keys since it was started. This module counts how many have been added
//! since the server's number was first read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::counter::StoreTotal;

/// The value of `last` until the first number is read.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Evictions {
    last: AtomicU64,
    grown: StoreTotal,
}

impl Default for Evictions {
    fn default() -> Self {
        Self { last: AtomicU64::new(NEVER), grown: StoreTotal::default() }
    }
}

impl Evictions {
    /// Enters the server's number.
    pub(crate) fn read(&self, evicted: u64) {
        // Relaxed: only the task of the connection calls this, and the number orders no other memory.
        let last = self.last.swap(evicted, Ordering::Relaxed);
        let more = match last {
            NEVER => 0,
            // The server counts from zero again, because it was restarted or another server has taken its place.
            _ if evicted < last => evicted,
            _ => evicted - last,
        };
        self.grown.add(more);
    }

    /// Evictions since the first reading.
    pub(crate) fn grown(&self) -> u64 {
        self.grown.get()
    }
}

/// The number in the server's answer to `INFO stats`.
pub(crate) fn of_info(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix("evicted_keys:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_evicted_before_the_first_look_does_not_count_and_a_new_server_counts_from_zero() {
        let evictions = Evictions::default();
        let mut grown = Vec::new();
        for evicted in [7, 7, 10, 2, 2, 5] {
            evictions.read(evicted);
            grown.push(evictions.grown());
        }
        assert_eq!(grown, [0, 0, 3, 5, 5, 8]);
    }

    #[test]
    fn the_number_is_found_among_others_or_is_none() {
        let info = "# StoreStats\r\nexpired_keys:3\r\nevicted_keys:41\r\nkeyspace_hits:5\r\n";
        assert_eq!(of_info(info), Some(41));
        for none in ["", "evicted_keys:", "evicted_keys:-1", "total_evicted_keys:1"] {
            assert_eq!(of_info(none), None, "{none}");
        }
    }
}
