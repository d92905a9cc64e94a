//! The path of a request whose key is there: find the entry, and decide in its slots.

use crate::clock::Clock;
use crate::decision::Decision;
use crate::hash::Identity;
use crate::keyed::memory::shard::cells;
use crate::keyed::memory::tally::Tallies;
use crate::log::{LogRequest, LogRule};

use super::entries::{Entries, LogPlace, pair};
use super::header::{HeaderKind, LogHeader};

/// The entries, and the rule that decides in each of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct LogTable<'a> {
    pub(in crate::keyed) entries: Entries<'a>,
    pub(in crate::keyed) rule: LogRule,
    pub(in crate::keyed) tallies: &'a Tallies,
}

impl LogTable<'_> {
    pub(super) fn decide(
        &self,
        identity: Identity,
        second: usize,
        ask: LogRequest,
        clock: Option<&Clock>,
    ) -> Decision {
        // This is nearly always so, since an entry is given to a key once and asked many times.
        match self.hit(identity, second, ask) {
            Some(decision) => decision,
            None => self.install(identity, second, ask, clock),
        }
    }

    /// Decides in the key's entry, if it has one.
    ///
    /// Lock-free: each turn of the loop that does not end it means that another thread has closed the entry, opened it,
    /// or given it to another key. An entry is closed only while everything in it is free, so a request that has
    /// written its unit meets a closed entry once.
    pub(super) fn hit(
        &self,
        identity: Identity,
        second: usize,
        ask: LogRequest,
    ) -> Option<Decision> {
        loop {
            // `None` means that no entry was this key's log when its header was read.
            let (place, mut header) = self.find(identity, second)?;
            // A question, or a cost that never fits, changes nothing: it does not open an entry that another thread has
            // closed.
            if header.kind() == HeaderKind::Closing && ask.charge && !ask.is_never(self.rule.limit)
            {
                // Another thread was faster: it has opened the entry again, or it has vacated it.
                let Some(live) = self.entries.reopen(place, header) else { continue };
                header = live;
            }
            // The units that are written are confirmed against the header that was found. `None` means that the entry
            // changed hands under the request, which has taken back its units.
            if let Some(decision) = self.rule.decide(&self.entries.entry(place, header), ask) {
                return Some(decision);
            }
        }
    }

    pub(super) fn find(&self, identity: Identity, second: usize) -> Option<(LogPlace, LogHeader)> {
        // At most one entry is the key's at any moment (`install`), so the first one will do. If an entry is given to
        // the key while the headers are read, it may be missed. Then the install finds it.
        pair(identity.first, second)
            .flat_map(|shard| cells().map(move |entry| LogPlace { shard, entry }))
            .map(|place| (place, self.entries.header(place)))
            // A closing entry is accepted, too: it belongs to the key until it is vacated.
            .find(|(_, header)| header.is_log_of(identity.tag))
    }

    /// The number of entries whose keys are not idle yet.
    pub(in crate::keyed) fn live(&self, now_ns: u64) -> usize {
        let places = (0..self.entries.shards())
            .flat_map(|shard| cells().map(move |entry| LogPlace { shard, entry }));
        places
            .filter(|&place| {
                let header = self.entries.header(place);
                let is_log = matches!(header.kind(), HeaderKind::Live | HeaderKind::Closing);
                is_log && self.entries.entry(place, header).idle_ns() > now_ns
            })
            .count()
    }

    /// It is asked right after an opening, and only an opening could make a second log. So the answer holds at every
    /// moment.
    #[cfg(any(loom, shuttle))]
    pub(super) fn assert_one_live(&self, identity: Identity, second: usize) {
        let live = pair(identity.first, second)
            .flat_map(|shard| cells().map(move |entry| LogPlace { shard, entry }))
            .filter(|&place| self.entries.newest(place).is_log_of(identity.tag))
            .count();
        assert!(live <= 1, "{live} live cells carry one key");
    }
}
