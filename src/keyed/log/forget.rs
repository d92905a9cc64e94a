//! Forgetting: an entry whose slots are all free is taken from its key.
//!
//! An entry has many words, so one compare-and-swap cannot both find it idle and take it. It is forgotten in three
//! steps:
//!
//! 1. *Close*: the header is marked as closing, so that a request of the key notices. The entry still belongs to its
//!    key: a search for the key finds it, and a request of the key opens it again.
//! 2. *Look*, after a fence: if a slot is not free yet, the entry is opened again.
//! 3. *Vacate*: the shard's floor is raised at least to the instant from which everything in the entry is free, and
//!    then the header is vacated.
//!
//! No unit is lost. A request of the key writes `until` and then its unit, passes a fence, and looks at the header. If
//! the header has changed since the request began, the request takes the unit back and begins anew. If the header has
//! not changed, the request did not see the closing. Then, by the two fences, step 2 saw the request's `until`, and the
//! entry is not forgotten while the unit counts.
//!
//! When the key comes back, no old unit is counted twice, and none is counted for too short a time. The thread that
//! installs the key again has seen the old entry vacated. So this thread also sees the floor that was raised before,
//! and at that floor all old units of the key were free. The new log begins there (`install.rs`), so an old unit and a
//! new unit are at least a window apart.
//!
//! A thread that stalls between the steps hinders no other thread: a closed entry is opened by a request of its key, or
//! closed anew by the next thread that wants the entry.

use crate::sync::{Fault, Ordering, fence, planted};

use super::entries::{Entries, LogPlace};
use super::header::{HeaderKind, LogHeader};

impl Entries<'_> {
    /// Takes an entry from its key if all slots of the entry are free by `now`. Returns the vacant header, or `None`.
    pub(super) fn forget(
        &self,
        place: LogPlace,
        header: LogHeader,
        now_ns: u64,
    ) -> Option<LogHeader> {
        // This reading may be out of date when the entry is closed, so only a model that plants the fault uses it.
        let first_sight_ns = self.entry(place, header).idle_ns();
        // An entry that is already closing is closed anew, with a new generation. So the next CAS of the thread that
        // closed it before fails.
        let closing = header.turned(HeaderKind::Closing);
        // If the CAS fails, another thread has closed or opened the entry, or the entry now belongs to another key.
        if !self.replace(place, header, closing) {
            return None;
        }
        // SeqCst: pairs with the fence of `confirm`.
        fence(Ordering::SeqCst);
        let until_ns = if planted(Fault::ForgetAtFirstSight) {
            first_sight_ns
        } else {
            self.entry(place, closing).idle_ns()
        };
        // A request of the key has taken a unit before it could see the closing.
        if until_ns > now_ns {
            // If this CAS fails, another thread has opened or closed the entry.
            self.replace(place, closing, closing.turned(HeaderKind::Live));
            return None;
        }
        // The floor is raised before the header is written, so a thread that sees the entry vacant also sees the floor.
        self.raise_floor(place.shard, until_ns);
        let vacant = closing.vacated();
        // The CAS fails if the key has opened the entry again, or if another thread has closed it anew. Then the floor
        // is higher than necessary, which does no harm to any limit.
        self.replace(place, closing, vacant).then_some(vacant)
    }

    /// Opens an entry again that another thread has closed.
    pub(super) fn reopen(&self, place: LogPlace, closing: LogHeader) -> Option<LogHeader> {
        let live = closing.turned(HeaderKind::Live);
        // The CAS expects the exact header. If it fails, the entry was vacated, opened or closed anew, and the caller
        // must look for the key again.
        self.replace(place, closing, live).then_some(live)
    }
}
