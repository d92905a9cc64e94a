//! [`ReportSettings`]: what an operator is told besides the log and `/metrics`: denials.

use tollgate::Policy;
use tollgate_service::Options;

use super::given::Given;
use super::setting::{Setting, optional};

/// The settings of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportSettings {
    pub(super) log_denials: Setting<Option<Policy>>,
}

impl ReportSettings {
    pub(super) fn of(given: &Given) -> Self {
        let log_denials = (given.args.reports.log_denials, given.source("log-denials"));
        Self { log_denials: optional(log_denials, (None, "")) }
    }

    /// The options of the service with these.
    pub(super) fn with(&self, options: Options) -> Options {
        Options { log_denials: self.log_denials.value, ..options }
    }
}
