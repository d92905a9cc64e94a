//! Forgetting: an entry whose slots are all free is taken from its key.
//!
//! An entry is many words, so one compare-and-swap cannot both find it idle and take it. There are three steps:
//!
//! 1. *Close*: the header is marked, so that a request of the key notices. The entry is still its key's: a search for
//!    the key finds it here, and a request of it opens the entry again.
//! 2. *Look*, after a fence: is everything free by now? If not, the entry is opened again.
//! 3. *Vacate*, after the shard's floor has been raised to the instant from which everything is free.
//!
//! No unit is lost. A request of the key writes `until` and then its unit, passes a fence, and looks at the header. If
//! that is not the header that it began with, it takes the unit back and begins anew. If it is, the fences order the
//! two: the request did not see the closing, so the look saw its `until`, and the entry is not forgotten while the unit
//! counts.
//!
//! When the key comes back, no unit is counted twice or for too short a time. It comes back after its entry was seen
//! vacant, so it sees a floor at least as late as the instant from which everything that it had was free, and begins
//! there (`install`). So a unit from before and a unit from after are at least a window apart.
//!
//! A thread that stalls between the steps hinders no other: a closed entry is opened by its key, or closed
//! anew by the next thread that wants it.

use crate::sync::{Fault, Ordering, fence, planted};

use super::entries::{Entries, LogPlace};
use super::header::{HeaderKind, LogHeader};

impl Entries<'_> {
    /// Takes an entry from its key if everything in it is free by `now`. Returns the vacant header, or `None`.
    pub(super) fn forget(
        &self,
        place: LogPlace,
        header: LogHeader,
        now_ns: u64,
    ) -> Option<LogHeader> {
        // Only a model that plants the fault takes this branch. A reading from before the closing may be old when the
        // entry is closed.
        let first_sight_ns = self.entry(place, header).idle_ns();
        // A header that is closing already is replaced, too. It then has a new generation, so if another thread has
        // closed it, that thread's next CAS fails.
        let closing = header.turned(HeaderKind::Closing);
        // If the CAS fails, another thread has closed the entry, or it is another key's by now.
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
        // A unit was taken before the closing was seen.
        if until_ns > now_ns {
            // If the CAS fails, the entry has been opened or closed by another thread.
            self.replace(place, closing, closing.turned(HeaderKind::Live));
            return None;
        }
        // The floor is raised before the header is written: a thread that sees the entry vacant sees the floor.
        self.raise_floor(place.shard, until_ns);
        let vacant = closing.vacated();
        // The CAS fails if the key has opened the entry again, or if another thread has closed it anew. Then the floor
        // is only too high.
        self.replace(place, closing, vacant).then_some(vacant)
    }

    /// Opens an entry again that a thread has closed to look at it.
    pub(super) fn reopen(&self, place: LogPlace, closing: LogHeader) -> Option<LogHeader> {
        let live = closing.turned(HeaderKind::Live);
        // The CAS is from the exact header. If that has changed, the entry was vacated, opened or closed anew, and the
        // caller has to look for the key again.
        self.replace(place, closing, live).then_some(live)
    }
}
