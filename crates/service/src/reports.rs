//! [`OpenReports`]: what tells an operator of requests: the log of denials. It is off unless an option says otherwise.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::observe::{DenialLog, OfDenials};
use crate::options::Options;
use crate::service::Service;
use crate::start_error::StartError;

/// What writes something. It ends after everything else, so that it also tells of the last request.
#[derive(Debug)]
pub(crate) struct OpenReports {
    denials: Option<Arc<DenialLog>>,
}

impl OpenReports {
    /// Has the service observed as the options say.
    pub(crate) fn begin(
        mut service: Service,
        options: &Options,
    ) -> Result<(Arc<Service>, Self), StartError> {
        let mut denials = None;
        if let Some(policy) = options.log_denials {
            let log = DenialLog::open(policy, options.clock.clone()).map_err(StartError::Thread)?;
            let log = Arc::new(log);
            service.metrics.show(OfDenials(Arc::clone(&log)));
            service.observers.denials = Some(Arc::clone(&log));
            denials = Some(log);
        }
        Ok((Arc::new(service), Self { denials }))
    }

    /// Writes what is left, for at most so long.
    pub(crate) async fn close(self, grace: Duration) {
        if let Some(denials) = &self.denials
            && timeout(grace, denials.flush()).await.is_err()
        {
            tracing::warn!("denials: what was to be written is given up after {grace:?}");
        }
    }
}
