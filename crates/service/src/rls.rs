//! Envoy's rate limit service over gRPC.

use std::sync::Arc;

use tonic::{Code, Request, Response, Status};

use crate::metrics::Protocol;
use crate::observe::{Caller, ServiceCall};
use crate::protocol::rls::rate_limit_service_server::RateLimitService;
use crate::protocol::rls::{RateLimitRequest, RateLimitResponse};
use crate::service::Service;
use crate::traces::SpanName;
use crate::wire::{self, RequestRefusal};
use tollgate_rules::RequestError;

/// Answers `ShouldRateLimit`.
#[derive(Clone, Debug)]
pub(crate) struct Rls(pub(crate) Arc<Service>);

const NAME: SpanName<'static> = SpanName::Grpc {
    service: "envoy.service.ratelimit.v3.RateLimitService",
    method: "ShouldRateLimit",
};

#[tonic::async_trait]
impl RateLimitService for Rls {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let observers = &self.0.observers;
        let about = (request.metadata().as_ref(), request.extensions());
        let mut call =
            ServiceCall::begin(observers, Protocol::Grpc, Caller::of(observers, about, NAME));
        // A decision is immediate, or waits for a store until its deadline at most.
        let answer = self.0.decide(request.get_ref(), &mut call).await;
        let outcome = wire::outcome(&answer);
        let answer = answer.map(Response::new).map_err(|refusal| status(&refusal));
        call.end(outcome, answer.as_ref().err().map_or(Code::Ok, Status::code) as u16);
        answer
    }
}

/// Never UNKNOWN, which Envoy lets pass.
fn status(refusal: &RequestRefusal) -> Status {
    match refusal {
        RequestRefusal::Request(RequestError::NotLoaded) => {
            Status::unavailable(refusal.to_string())
        }
        _ => Status::invalid_argument(refusal.to_string()),
    }
}
