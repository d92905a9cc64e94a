//! Denials for gRPC: a status in the headers of an answer without a body ("trailers-only"), with the time to wait in
//! `RetryInfo`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;
use tollgate::DenialReason;

use crate::deny::{Denied, Deny};

/// `RESOURCE_EXHAUSTED`: the client's quota is spent.
const RESOURCE_EXHAUSTED: i32 = 8;
/// `UNAVAILABLE`: the table of clients is full, or the tier of the client is unknown.
const UNAVAILABLE: i32 = 14;

/// The characters that must be escaped in `grpc-message`, in addition to non-ASCII.
const MESSAGE: &AsciiSet = &CONTROLS.add(b'%');

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// A gRPC status: `RESOURCE_EXHAUSTED` with `RetryInfo`, or `UNAVAILABLE` if the table of clients is full or the tier
/// of the key is unknown. For tonic and every other gRPC server on tower. Needs the feature `grpc`.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::denials::GrpcStatus;
/// use tollgate_tower::keys::Everyone;
/// use tollgate_tower::RateLimitLayer;
/// let layer: RateLimitLayer<GrpcStatus> =
///     RateLimitLayer::new(Limiter::new(Quota::per_second(100)), Everyone).grpc();
/// # let _ = layer;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcStatus;

impl<B: Default> Deny<B> for GrpcStatus {
    fn deny(&self, denied: &Denied<'_>) -> Response<B> {
        let (code, why) = match denied.denial {
            None => (UNAVAILABLE, "no quota for this client".to_owned()),
            Some(denial) if denial.reason() == DenialReason::TableFull => {
                (UNAVAILABLE, denial.to_string())
            }
            Some(denial) => (RESOURCE_EXHAUSTED, denial.to_string()),
        };
        let message = format!("{}: {why}", denied.policy);
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(&GRPC_STATUS, code.into());
        let escaped = utf8_percent_encode(&message, MESSAGE).to_string();
        insert(headers, &GRPC_MESSAGE, &escaped);
        let details = STANDARD_NO_PAD.encode(status(code, message, denied.retry_after_secs));
        insert(headers, &GRPC_STATUS_DETAILS, &details);
        response
    }
}

/// Inserts a header. All texts are printable ASCII by construction.
fn insert(headers: &mut HeaderMap, name: &HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.RetryInfo`
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

fn status(code: i32, message: String, retry_after_secs: Option<u64>) -> Vec<u8> {
    let retry = retry_after_secs.map(|seconds| {
        // The maximum of protobuf's `Duration`: 10,000 years.
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX).min(315_576_000_000);
        let retry_delay = Some(prost_types::Duration { seconds, nanos: 0 });
        let value = RetryInfo { retry_delay }.encode_to_vec();
        prost_types::Any { type_url: RETRY_INFO.to_owned(), value }
    });
    RpcStatus { code, message, details: retry.into_iter().collect() }.encode_to_vec()
}
