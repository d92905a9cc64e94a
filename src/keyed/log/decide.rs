//! The path of a request whose key has an entry: find the entry, and decide in its slots.

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
        // The first branch is the common one: a key gets an entry once, and then many requests are decided in it.
        match self.hit(identity, second, ask) {
            Some(decision) => decision,
            None => self.install(identity, second, ask, clock),
        }
    }

    /// Decides in the key's entry, if it has one.
    ///
    /// Lock-free: each repetition of the loop means that another thread has closed the entry, opened it, or given it to
    /// another key. An entry is closed only if everything in it seems free. So after a request has written its unit, it
    /// finds the entry closed at most once.
    pub(super) fn hit(
        &self,
        identity: Identity,
        second: usize,
        ask: LogRequest,
    ) -> Option<Decision> {
        loop {
            // `None` means that no entry was this key's log when its header was read.
            let (place, mut header) = self.find(identity, second)?;
            // A request that does not charge, or whose cost never fits, changes nothing. So it does not open an entry
            // that another thread has closed.
            if header.kind() == HeaderKind::Closing && ask.charge && !ask.is_never(self.rule.limit)
            {
                // If `reopen` fails, another thread has already opened or vacated the entry.
                let Some(live) = self.entries.reopen(place, header) else { continue };
                header = live;
            }
            // `decide` writes the request's units, and then checks that the header is still the one found here. `None`
            // means that the header has changed, and that any units already written have been taken back.
            if let Some(decision) = self.rule.decide(&self.entries.entry(place, header), ask) {
                return Some(decision);
            }
        }
    }

    pub(super) fn find(&self, identity: Identity, second: usize) -> Option<(LogPlace, LogHeader)> {
        // At every moment at most one entry belongs to the key (`install.rs`), so the first one found will do. This may
        // miss an entry that the key gets while the headers are read, but the install then finds that entry.
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

    /// Asserts that the key has only one log. Only an opening could make a second log, and this is called after each
    /// opening, so the key never has two logs.
    #[cfg(any(loom, shuttle))]
    pub(super) fn assert_one_live(&self, identity: Identity, second: usize) {
        let live = pair(identity.first, second)
            .flat_map(|shard| cells().map(move |entry| LogPlace { shard, entry }))
            .filter(|&place| self.entries.newest(place).is_log_of(identity.tag))
            .count();
        assert!(live <= 1, "{live} live cells carry one key");
    }
}
