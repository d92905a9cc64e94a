//! Envoy's rate limit service over gRPC.

use std::future::ready;
use std::pin::Pin;
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

/// The future of an answer, in the form that the trait requires.
type RlsFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Response<RateLimitResponse>, Status>> + Send + 'a>>;

// This is the code that `async_trait` would generate, with one exception: a request that is decided at once gets a
// small future, which cannot wait. A future that can wait for the store has ten kilobytes, which would be allocated and
// moved for each request.
impl RateLimitService for Rls {
    fn should_rate_limit<'s, 'f>(&'s self, request: Request<RateLimitRequest>) -> RlsFuture<'f>
    where
        's: 'f,
    {
        let service = &*self.0;
        let observers = &service.observers;
        let (headers, extensions) = (request.metadata().as_ref(), request.extensions());
        let caller = Caller::of(observers, headers, extensions, NAME);
        let mut call = ServiceCall::begin(observers, Protocol::Grpc, caller);
        if let Some(shared) = &service.shared {
            return Box::pin(async move {
                let answer = service.decide_by(shared, request.get_ref(), &mut call).await;
                answered(answer, call)
            });
        }
        let answer = service.decide_here(request.get_ref(), &mut call);
        Box::pin(ready(answered(answer, call)))
    }
}

fn answered(
    answer: Result<RateLimitResponse, RequestRefusal>,
    call: ServiceCall<'_>,
) -> Result<Response<RateLimitResponse>, Status> {
    let outcome = wire::outcome(&answer);
    let answer = answer.map(Response::new).map_err(|refusal| status(&refusal));
    call.end(outcome, answer.as_ref().err().map_or(Code::Ok, Status::code) as u16);
    answer
}

/// The status of a refusal. It is never UNKNOWN, because Envoy lets a request pass if it gets that status.
fn status(refusal: &RequestRefusal) -> Status {
    match refusal {
        RequestRefusal::Request(RequestError::NotLoaded) => {
            Status::unavailable(refusal.to_string())
        }
        _ => Status::invalid_argument(refusal.to_string()),
    }
}
