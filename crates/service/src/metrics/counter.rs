//! [`ServiceTotal`]: an atomic counter for requests and their times.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// A count that every request adds to and the metrics page reads.
#[derive(Debug, Default)]
pub(crate) struct ServiceTotal(AtomicU64);

impl ServiceTotal {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: no thread that reads the count relies on other memory that this thread has written (see `get`).
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a count stands by itself. A page may include a request in one counter and not yet in another.
        self.0.load(Ordering::Relaxed)
    }
}

/// Writes one counter without labels.
pub(crate) fn encode_total(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    count: u64,
) -> Result<(), fmt::Error> {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(count).encode(metric)
}
