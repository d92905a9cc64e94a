//! [`Shelf`]: holds the last response of a control plane. The task that follows the control plane puts it there, and
//! the thread that reads rules takes a copy.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_rules::{RuleError, RuleText};

/// The outcome of an offer: its number, and the errors for which it was refused. An offer consists of the texts of one
/// response.
#[derive(Clone, Debug, Default)]
pub(super) struct OfferOutcome {
    pub(super) offer: u64,
    pub(super) errors: Vec<RuleError>,
}

/// The last response. The task and the thread hold the lock only while they copy.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<OnShelf>);

#[derive(Debug, Default)]
struct OnShelf {
    offer: u64,
    texts: Option<Vec<RuleText>>,
    /// The reason why there is no stream; `None` if there is one.
    outage: Option<String>,
}

impl Shelf {
    /// Replaces the texts; returns the number of the offer.
    pub(super) fn offer(&self, texts: Vec<RuleText>) -> u64 {
        let mut shelf = self.lock();
        shelf.offer += 1;
        (shelf.texts, shelf.outage) = (Some(texts), None);
        shelf.offer
    }

    /// Records the reason why there is no stream. The texts stay.
    pub(super) fn out(&self, reason: String) {
        self.lock().outage = Some(reason);
    }

    /// The number of the last offer, and its texts, or the reason why there are no texts.
    pub(super) fn take_copy(&self) -> (u64, Result<Vec<RuleText>, Option<String>>) {
        let shelf = self.lock();
        (shelf.offer, shelf.texts.clone().ok_or_else(|| shelf.outage.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, OnShelf> {
        // The poison is ignored, because a panic leaves no write half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
