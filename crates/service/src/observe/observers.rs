//! [`Observers`]: what looks at requests, for as long as the service runs.

use std::sync::Arc;

use super::denials::DenialLog;
use crate::metrics::Requests;
use crate::traces::Tracer;

/// What looks at requests.
#[derive(Debug)]
pub(crate) struct Observers {
    pub(crate) requests: Arc<Requests>,
    /// Set if denials are logged.
    pub(crate) denials: Option<Arc<DenialLog>>,
    /// Set if requests are traced.
    pub(crate) tracer: Option<Tracer>,
}

impl Observers {
    /// Those that are always there.
    pub(crate) fn new(requests: Arc<Requests>) -> Self {
        Self { requests, denials: None, tracer: None }
    }

    /// Whether nothing but counts is taken of a request.
    pub(crate) fn is_blind(&self) -> bool {
        self.denials.is_none() && self.tracer.is_none()
    }
}
