//! Counts requests by their outcome, and their times, with a few atomic adds for each request.

use std::fmt;
use std::time::Duration;

use axum::http::StatusCode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::counter::{ServiceTotal, encode_total};
use super::histogram::Histogram;

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Envoy's protocol over gRPC.
    Grpc,
    /// Envoy's protocol as JSON.
    Json,
    /// `/v1/check`.
    Plain,
    /// Redis' protocol.
    Resp,
    /// `/v1/auth`, for proxies.
    Auth,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Allowed,
    OverLimit,
    /// No decision: the request is not valid, or there are no rules.
    Refused,
}

impl Protocol {
    /// The name of the protocol in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        PROTOCOLS[self as usize].1
    }
}

impl RequestOutcome {
    /// The outcome's name in metrics and traces.
    pub(crate) fn name(self) -> &'static str {
        OUTCOMES[self as usize].1
    }

    /// The outcome that belongs to the HTTP status of an answer.
    pub(crate) fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::OK => Self::Allowed,
            StatusCode::TOO_MANY_REQUESTS => Self::OverLimit,
            _ => Self::Refused,
        }
    }
}

const PROTOCOLS: [(Protocol, &str); 5] = [
    (Protocol::Grpc, "grpc"),
    (Protocol::Json, "json"),
    (Protocol::Plain, "check"),
    (Protocol::Resp, "resp"),
    (Protocol::Auth, "auth"),
];

/// The number of outcomes.
pub(crate) const OUTCOMES_COUNT: usize = 3;

const OUTCOMES: [(RequestOutcome, &str); OUTCOMES_COUNT] = [
    (RequestOutcome::Allowed, "allowed"),
    (RequestOutcome::OverLimit, "over_limit"),
    (RequestOutcome::Refused, "refused"),
];

#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The counts by protocol and outcome.
    counts: [[ServiceTotal; OUTCOMES.len()]; PROTOCOLS.len()],
    seconds: [Histogram; PROTOCOLS.len()],
    /// Requests from proxies for which `forward_auth` made no descriptor.
    pub(crate) unmapped: ServiceTotal,
    /// Descriptors that matched no rule.
    pub(crate) unmatched: ServiceTotal,
}

impl Requests {
    pub(crate) fn answered(&self, protocol: Protocol, outcome: RequestOutcome, took: Duration) {
        self.counts[protocol as usize][outcome as usize].add(1);
        self.seconds[protocol as usize].observe(took, 1);
    }

    /// Counts requests that were read and answered together. Each request is counted with the time that all of them
    /// took together.
    pub(crate) fn answered_many(
        &self,
        protocol: Protocol,
        outcomes: [u64; OUTCOMES_COUNT],
        took: Duration,
    ) {
        let counts = self.counts[protocol as usize].iter().zip(outcomes);
        counts.filter(|(_, more)| *more > 0).for_each(|(count, more)| count.add(more));
        let all = outcomes.iter().sum();
        if all > 0 {
            self.seconds[protocol as usize].observe(took, all);
        }
    }

    /// The count of this outcome over all protocols.
    pub(crate) fn count(&self, outcome: RequestOutcome) -> u64 {
        PROTOCOLS.iter().map(|(protocol, _)| self.of(*protocol, outcome)).sum()
    }

    /// The count of this protocol and outcome.
    pub(crate) fn of(&self, protocol: Protocol, outcome: RequestOutcome) -> u64 {
        self.counts[protocol as usize][outcome as usize].get()
    }

    pub(crate) fn seconds(&self, protocol: Protocol) -> &Histogram {
        &self.seconds[protocol as usize]
    }

    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Requests, by what came of them";
        let mut metric = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (protocol, protocol_name) in PROTOCOLS {
            for (outcome, name) in OUTCOMES {
                let labels = [("protocol", protocol_name), ("outcome", name)];
                let count = ConstCounter::new(self.of(protocol, outcome));
                count.encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "Time from a request that was read to its answer";
        let kind = MetricType::Histogram;
        let mut metric = encoder.encode_descriptor("decision_seconds", help, None, kind)?;
        for (protocol, name) in PROTOCOLS {
            self.seconds(protocol).encode(metric.encode_family(&[("protocol", name)])?)?;
        }
        let help = "Requests of /v1/auth that passed, as no descriptor of forward_auth applied";
        encode_total(encoder, "auth_unmapped", help, self.unmapped.get())?;
        let help = "Descriptors that no rule matched, so that nothing limited them";
        encode_total(encoder, "descriptor_not_found", help, self.unmatched.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_stands_at_its_number() {
        assert!(PROTOCOLS.iter().enumerate().all(|(n, (protocol, _))| *protocol as usize == n));
        assert!(OUTCOMES.iter().enumerate().all(|(n, (outcome, _))| *outcome as usize == n));
    }
}
