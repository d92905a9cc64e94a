//! [`Observers`]: counts, logs and traces requests for as long as the service runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_rules::Answer;

use super::asked::InWords;
use super::denials::DenialLog;
use crate::metrics::Requests;
use crate::traces::Tracer;

/// The counts of requests, the log of denials and the tracer.
#[derive(Debug)]
pub(crate) struct Observers {
    pub(crate) requests: Arc<Requests>,
    /// Set if denials are logged.
    pub(crate) denials: Option<Arc<DenialLog>>,
    /// Set if requests are traced.
    pub(crate) tracer: Option<Tracer>,
    /// Whether a descriptor that no rule matches was logged already.
    is_unmatched_told: AtomicBool,
}

impl Observers {
    /// Observers that only count: there is no log of denials and no tracer yet.
    pub(crate) fn new(requests: Arc<Requests>) -> Self {
        Self { requests, denials: None, tracer: None, is_unmatched_told: AtomicBool::new(false) }
    }

    /// Whether requests are only counted, and neither logged nor traced.
    pub(crate) fn is_blind(&self) -> bool {
        self.denials.is_none() && self.tracer.is_none()
    }

    /// Counts descriptors that no rule matches, and logs the first such descriptor, since a domain or a key may be
    /// misspelt, so that nothing is limited.
    pub(crate) fn unmatched(&self, asked: &impl InWords, answer: &Answer) {
        let descriptors = 0..answer.statuses().len();
        let mut unmatched = descriptors.filter(|n| answer.is_unmatched(*n));
        let Some(first) = unmatched.next() else { return };
        self.requests.unmatched.add(1 + unmatched.count() as u64);
        // Relaxed, for the read and for the swap: the flag alone decides which call logs. It is read first, since most
        // calls find it set.
        let relaxed = Ordering::Relaxed;
        if self.is_unmatched_told.load(relaxed) || self.is_unmatched_told.swap(true, relaxed) {
            return;
        }
        let mut keys = Vec::new();
        asked.entries(&mut |n, key, _| {
            if n == first && keys.len() < KEYS {
                keys.push(shown(key));
            }
        });
        tracing::warn!(
            "no rule of domain {} matches a descriptor with the keys [{}]: it is limited by nothing, and /v1/check answers \"rule\": null; \
             from now on descriptor_not_found counts such descriptors, and domain_not_found requests of domains without \
             rules",
            shown(asked.domain()),
            keys.join(", ")
        );
    }
}

/// The maximum number of keys of a descriptor that are logged.
const KEYS: usize = 8;

/// A client's text in the form in which a line of the log quotes it.
fn shown(text: &str) -> String {
    format!("'{}'", text.chars().take(64).collect::<String>().escape_debug())
}
