//! [`XdsSource`]: the last response of a control plane as a source of rules.
//!
//! A task follows the control plane and puts each response on a shelf. The thread of the retriever reads the response
//! from the shelf, and reports whether its rules are in force. The task passes this outcome on to the control plane.
//! The task offers one response at a time.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tollgate_rules::{Changed, Problem, RuleError, RuleSource, RuleText};

use super::address::XdsRules;
use super::shelf::{OfferOutcome, Shelf};
use super::stream;

/// Rules from a control plane: see [`XdsRules`]. Before the first response of the control plane, reading returns an
/// error.
pub(crate) struct XdsSource {
    rules: XdsRules,
    shelf: Arc<Shelf>,
    /// The outcomes of offers.
    outcomes: watch::Sender<OfferOutcome>,
    /// The offer that was read last.
    read: u64,
    following: Option<AbortHandle>,
}

impl XdsSource {
    pub(crate) fn new(rules: XdsRules) -> Self {
        let (outcomes, _) = watch::channel(OfferOutcome::default());
        Self { rules, shelf: Arc::default(), outcomes, read: 0, following: None }
    }

    fn unreadable(&self, reason: String) -> RuleError {
        let problem = Problem::Unreadable { reason };
        RuleError { file: self.rules.to_string(), at: None, problem }
    }
}

impl RuleSource for XdsSource {
    fn read(&mut self) -> Result<Vec<RuleText>, RuleError> {
        let (offer, texts) = self.shelf.take_copy();
        self.read = offer;
        texts.map_err(|outage| {
            let reason = match (outage, &self.following) {
                (Some(outage), _) => outage,
                (None, Some(_)) => "the control plane has not sent any yet".to_owned(),
                (None, None) => "only tollgate serve follows a control plane".to_owned(),
            };
            self.unreadable(reason)
        })
    }

    fn loaded(&mut self, errors: &[RuleError]) {
        let offer = self.read;
        // If the same offer is read again, its outcome is already known.
        self.outcomes.send_if_modified(|last| {
            let is_new = last.offer < offer;
            if is_new {
                *last = OfferOutcome { offer, errors: errors.to_vec() };
            }
            is_new
        });
    }

    fn watch(&mut self, changed: Changed) -> Result<(), RuleError> {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Err(self.unreadable("there is no runtime to follow it on".to_owned()));
        };
        let (rules, shelf) = (self.rules.clone(), Arc::clone(&self.shelf));
        let task = stream::follow(rules, shelf, changed, self.outcomes.subscribe());
        self.following = Some(runtime.spawn(task).abort_handle());
        Ok(())
    }
}

impl Drop for XdsSource {
    fn drop(&mut self) {
        if let Some(task) = &self.following {
            task.abort();
        }
    }
}

impl fmt::Debug for XdsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdsSource").field("rules", &self.rules).finish_non_exhaustive()
    }
}
