//! [`RespClients`]: counts and bounds the connections of Redis' protocol.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tokio::sync::Semaphore;

use super::counter::ServiceTotal;
use super::gauge::encode_gauge;

/// The maximum number of connections at a time, as in Redis.
pub(crate) const MAX_RESP_CONNECTIONS: u32 = 10_000;

/// The connections that are open, and those that were refused because the maximum number was open.
#[derive(Debug)]
pub(crate) struct RespClients {
    /// One permit for each connection that may still be opened.
    pub(crate) room: Arc<Semaphore>,
    refused: ServiceTotal,
}

impl Default for RespClients {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(MAX_RESP_CONNECTIONS as usize));
        Self { room, refused: ServiceTotal::default() }
    }
}

impl RespClients {
    /// Counts a connection that was refused.
    pub(crate) fn refuse(&self) {
        self.refused.add(1);
    }

    fn open(&self) -> u64 {
        u64::from(MAX_RESP_CONNECTIONS).saturating_sub(self.room.available_permits() as u64)
    }
}

/// Reads [`RespClients`] when metrics are collected.
#[derive(Debug)]
pub(crate) struct OfRespClients(pub(crate) Arc<RespClients>);

impl Collector for OfRespClients {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Connections of Redis' protocol that are open";
        encode_gauge(&mut encoder, "resp_connections", help, self.0.open())?;
        let help =
            "Connections of Redis' protocol that were closed at once, because too many were open";
        let name = "resp_connections_refused";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(self.0.refused.get()).encode(metric)
    }
}
