//! Envoy's rate limit service over gRPC.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::metrics::Protocol;
use crate::observe::{Caller, ServiceCall};
use crate::protocol::rls::rate_limit_service_server::RateLimitService;
use crate::protocol::rls::{RateLimitRequest, RateLimitResponse};
use crate::service::Service;
use crate::wire::{self, RequestRefusal};
use tollgate_rules::RequestError;

/// Answers `ShouldRateLimit`.
#[derive(Clone, Debug)]
pub(crate) struct Rls(pub(crate) Arc<Service>);

#[tonic::async_trait]
impl RateLimitService for Rls {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let observers = &self.0.observers;
        let caller = Caller::of(observers, request.extensions());
        let mut call = ServiceCall::begin(observers, Protocol::Grpc, caller);
        // A decision is immediate, or waits for a store until its deadline at most.
        let answer = self.0.decide(request.get_ref(), &mut call).await;
        call.end(wire::outcome(&answer));
        answer.map(Response::new).map_err(|refusal| status(&refusal))
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
