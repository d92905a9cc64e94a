//! Processes the bytes of requests without listeners, for fuzzing and for counting instructions. This module is not
//! part of the public interface.

use std::sync::Arc;

use prost::Message;
use tollgate::Clock;
use tollgate_http::headers::Headers;
use tollgate_http::keys::ClientAddress;
use tollgate_rules::{DecisionMaker, RuleCache, RuleSettings, RuleText};

use crate::http::json;
use crate::metrics::Protocol;
use crate::metrics_names::MetricsNames;
use crate::observe::{Caller, ServiceCall};
use crate::options::AnswerParts;
use crate::protocol::rls::{RateLimitRequest, RateLimitResponse};
use crate::resp;
use crate::service::Service;
use crate::wire;

/// Decides requests by rules, without a connection.
#[derive(Debug)]
pub struct Offline {
    service: Service,
}

impl Offline {
    /// Loads these rules. Answers will have every optional part.
    ///
    /// # Errors
    /// The rules are bad, or the tables cannot be built.
    pub fn new(
        rules: &str,
        settings: RuleSettings,
        clock: impl Into<Clock>,
    ) -> Result<Self, String> {
        let clock = clock.into();
        let cache = Arc::new(RuleCache::with_clock(settings, clock.clone()));
        cache
            .load(&[RuleText::new("rules.yaml", rules)])
            .map_err(|errors| errors[0].to_string())?;
        let maker = DecisionMaker::new(cache).map_err(|error| error.to_string())?;
        let answers = AnswerParts { headers: true, metadata: true };
        let (headers, address) = (Headers::default(), ClientAddress::peer());
        let names = MetricsNames::Envoyproxy;
        Ok(Self { service: Service::new(maker, answers, headers, address, names, clock) })
    }

    /// The answer to a request in the form to which gRPC decodes it.
    ///
    /// # Errors
    /// The reason why the request is not decided.
    pub fn decide(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, String> {
        let observers = &self.service.observers;
        let mut call = ServiceCall::begin(observers, Protocol::Grpc, Caller::default());
        let answer = self.service.decide_here(request, &mut call);
        call.end(wire::outcome(&answer), 0);
        answer.map_err(|refusal| refusal.to_string())
    }

    /// Answers the bytes of a request message with the bytes of the response.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn rls(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let request = RateLimitRequest::decode(message).map_err(|error| error.to_string())?;
        Ok(self.decide(&request)?.encode_to_vec())
    }

    /// The encoded bytes of a request.
    #[must_use]
    pub fn message(request: &RateLimitRequest) -> Vec<u8> {
        request.encode_to_vec()
    }

    /// The status and the body of the answer to a body that is sent to `/json`.
    #[must_use]
    pub fn json(&self, body: &[u8]) -> (u16, String) {
        match json::answer(&self.service, body) {
            Ok((status, body)) => (status.as_u16(), body),
            Err(reason) => (400, reason),
        }
    }

    /// The request that is decoded from a body sent to `/json`; `None` if it cannot be read.
    #[must_use]
    pub fn read_json(body: &[u8]) -> Option<RateLimitRequest> {
        json::read(body).ok()
    }

    /// The answers to bytes that a client of Redis' protocol sends, and whether the connection ends after them.
    #[must_use]
    pub fn resp(&self, bytes: &[u8]) -> (Vec<u8>, bool) {
        resp::offline(&self.service, bytes)
    }

    /// The page of `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.service.metrics.text(false).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::*;

    #[test]
    fn a_body_is_answered_as_at_json() {
        let rules =
            "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]";
        let service = Offline::new(rules, RuleSettings::default(), ManualClock::new()).unwrap();
        let body =
            br#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
        let (status, told) = service.json(body);
        assert_eq!(status, 200);
        assert!(told.starts_with(r#"{"overallCode":"OK","statuses":[{"code":"OK","#), "{told}");
        let (status, told) = service.json(body);
        assert_eq!(status, 429);
        assert!(told.starts_with(r#"{"overallCode":"OVER_LIMIT","#), "{told}");
        let (status, told) = service.json(b"[]");
        assert_eq!(status, 400);
        assert!(told.starts_with("the body is no JSON object; write one as in "), "{told}");
    }
}
