//! A table of exact sliding logs: one for each key, in memory fixed at construction. `src/log` has the algorithm and
//! its bound.
//!
//! A cell of the table holds no state, but the header of an *entry*. The other words of the entry are in memory of
//! their own, among them a slot for each unit of the limit.
//!
//! # What it guarantees
//! * Each key gets at most what a single log would admit. This holds for any times that the callers give, and even if
//!   the key is forgotten and comes back.
//! * A key with units in its window is never evicted. A key whose units have all left the window is forgotten in place
//!   when its entry is needed.
//! * When both shards of a *new* key are full of live keys, it is denied
//!   ([`TableFull`](crate::DenialReason::TableFull)). In a table that is filled to its capacity, this happens to fewer
//!   than 1 key in 100,000. Where new keys replace old keys all the time, it happens to 1 key in 1,000.
//! * Within their two shards of seven entries each, keys are distinguished by 39 bits of a hash. Keys with equal bits
//!   share one log, which can only admit less.
//! * A new key may have been forgotten in one of its shards before. At a shard's floor, the units of all keys that were
//!   forgotten there are free. So a new key's requests are denied at times before the floors of its shards. If all
//!   times come from one clock, the floors are in the past, unless the clocks of two cores differ.
//! * A `now` far ahead is believed: keys that are idle at that time are forgotten if their entries are needed. New keys
//!   of their shards are then denied until all units of the forgotten keys have left the window.
//! * No thread waits for another: a request of a key with an entry is lock-free, and a new key's request ends after at
//!   most 8 rounds. Nothing is allocated after construction.
//! * There is one assumption. No thread sleeps between two reads of an entry's header while the header changes exactly
//!   2^22 times, or a multiple of 2^22 times.
//!
//! # What it costs
//! An entry takes 8 bytes for each unit of the limit, and 25 bytes more. There are 100 entries for 65 keys, so a table
//! takes about `capacity * 1.54 * (8 * limit + 25)` bytes. A decision reads all slots of its key two to four times. A
//! denial of a request for several units reads them up to 64 times, because the wait is found by a search.

mod decide;
mod entries;
mod forget;
mod header;
mod install;
mod saved;

use crate::clock::Clock;
use crate::decision::Decision;
use crate::log::LogRequest;
use crate::refund::Amendment;
use crate::verdict::Mark;

use crate::hash::Identity;
use crate::keyed::memory::ask::Ask;

pub(super) use decide::LogTable;
pub(super) use entries::{DESIGN_LOAD, Entries, LogStore};
pub(super) use saved::{ReadLogs, SavedLogs};

impl LogTable<'_> {
    /// Decides, and counts the denial if there is no entry for the key.
    pub(super) fn answer(
        &self,
        identity: Identity,
        second: usize,
        ask: Ask,
        clock: Option<&Clock>,
    ) -> Decision {
        let decision = self.decide(identity, second, request(ask), clock);
        if decision.view().mark == Mark::TableFull && ask.charge {
            self.tallies.full(identity.first, 1);
        }
        decision
    }

    /// Counts a denial if the key has an entry. Without an entry there is no slot in which to count it.
    pub(super) fn refuse(&self, identity: Identity, second: usize, ask: Ask) -> Option<Decision> {
        // A key that has just been forgotten is idle, so nothing would have been denied.
        self.hit(identity, second, request(ask))
    }

    /// Gives units back in the slots of a key, and returns the number of these units. A key without an entry owes
    /// nothing.
    ///
    /// If the entry is closed meanwhile, no more units are given back: the thread that closed it found all of them
    /// free.
    pub(super) fn amend(
        &self,
        identity: Identity,
        second: usize,
        now_ns: u64,
        amendment: Amendment<'_>,
    ) -> u64 {
        let found = self.find(identity, second);
        found.map_or(0, |(place, header)| {
            self.rule.amend(&self.entries.entry(place, header), now_ns, amendment)
        })
    }
}

fn request(ask: Ask) -> LogRequest {
    LogRequest::new(ask.verb, ask.cost, ask.now_ns, ask.charge)
}
