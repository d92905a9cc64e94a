//! The answer to a denied request: [`Deny`], with problem details as the default.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use tollgate::{Denial, DenialReason};
use tollgate_http::headers::PolicyName;
use tollgate_http::keys::{Head, Key, peer_address};

/// A denied request, from which an answer is made.
///
/// ```
/// use http::Response;
/// use tollgate_tower::denials::Denied;
/// fn answer(denied: &Denied<'_>) -> Response<String> {
///     let text = match denied.retry_after_secs {
///         Some(seconds) => format!("{}: come back in {seconds} s", denied.policy),
///         None => format!("{}: this will never fit", denied.policy),
///     };
///     Response::builder().status(denied.status()).body(text).expect("a response")
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Denied<'d> {
    /// The policy that denied; if several did, the one with the longest wait.
    pub policy: &'d PolicyName,
    /// The key that was not charged. Its [bytes](Key::as_bytes) may contain text from the client, an address or an API
    /// key. Do not put them into metrics, and put them into logs only if the logs may contain such data. `None` if the
    /// tier of the key is unknown.
    pub key: Option<&'d Key>,
    /// The denial; `None` if the key is under a tier that the limit does not have, so that no limit was asked:
    /// [`Gate::pass_unknown_tier`](crate::Gate::pass_unknown_tier) admits such requests.
    pub denial: Option<&'d Denial>,
    /// The value of `Retry-After`: whole seconds, jitter included. `None` if the cost is above the limit, so that the
    /// request never fits, or if the tier is unknown.
    pub retry_after_secs: Option<u64>,
    /// The request.
    pub head: Head<'d>,
    pub(crate) problems: &'d Problems,
}

impl Denied<'_> {
    /// The status: 429, or 503 if the table of clients is full or the tier of the key is unknown. Neither of these two
    /// is a fault of the client.
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate_tower::denials::Denied;
    /// fn is_the_clients_fault(denied: &Denied<'_>) -> bool {
    ///     denied.status() == StatusCode::TOO_MANY_REQUESTS
    /// }
    /// ```
    #[must_use]
    pub fn status(&self) -> StatusCode {
        if self.denial.is_none_or(|denial| denial.reason() == DenialReason::TableFull) {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::TOO_MANY_REQUESTS
        }
    }

    /// The address of the connection, if the server has put it into the request: see
    /// [`PeerAddress`](crate::keys::PeerAddress). Behind a proxy it is the address of the proxy.
    ///
    /// ```
    /// use tollgate_tower::denials::Denied;
    /// fn is_from_here(denied: &Denied<'_>) -> bool {
    ///     denied.peer().is_some_and(|peer| peer.is_loopback())
    /// }
    /// ```
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        peer_address(self.head.extensions)
    }

    /// The route that axum matched, as in `/users/{id}`. Needs the feature `axum`, and a layer that is added to the
    /// route (`route_layer`).
    ///
    /// ```
    /// use tollgate_tower::denials::Denied;
    /// fn is_a_login(denied: &Denied<'_>) -> bool {
    ///     denied.route() == Some("/login")
    /// }
    /// ```
    #[cfg(feature = "axum")]
    #[must_use]
    pub fn route(&self) -> Option<&str> {
        crate::route::route_of(&self.head)
    }
}

/// Makes the answer to a denied request. The layer adds the rate limit headers and `Retry-After`.
///
/// ```
/// use http::Response;
/// use tollgate_tower::denials::{Denied, Deny};
/// #[derive(Clone)]
/// struct Plain;
/// impl Deny<String> for Plain {
///     fn deny(&self, denied: &Denied<'_>) -> Response<String> {
///         let mut response = Response::new(String::from("slow down"));
///         *response.status_mut() = denied.status();
///         response
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot make the answer to a denied request with the body `{B}`",
    label = "makes no `Response<{B}>`",
    note = "`ProblemJson`, the default, makes bodies that are `From<Bytes>`: for another body write `.deny_with(|denied| ..)` \
            at the layer, or `.denying_by_error()` where the body cannot be made, as that of a hyper client"
)]
pub trait Deny<B> {
    /// The answer.
    fn deny(&self, denied: &Denied<'_>) -> Response<B>;
}

/// Problem details (RFC 9457), with the types that draft 10 of the rate limit headers defines:
///
/// * `quota-exceeded` with status 429;
/// * `abnormal-usage-detected` with status 429, if a policy's penalty is in force ([`DenialReason::Penalty`]);
/// * `temporary-reduced-capacity` with status 503, if the table of clients is full;
/// * `about:blank` with status 503, if the tier of the key is unknown.
///
/// It can make every body that can be made from bytes, such as those of axum, and `http_body_util::Full`.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::denials::ProblemJson;
/// use tollgate_tower::keys::Everyone;
/// use tollgate_tower::RateLimitLayer;
/// struct App {
/// // The layer's type has a name, so a struct can hold it.
///     limit: RateLimitLayer<ProblemJson>,
/// }
/// let app = App { limit: RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone) };
/// # let _ = app.limit;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ProblemJson;

// With this attribute the compiler's error names `Deny` and says what to write, and does not ask for `From`.
#[diagnostic::do_not_recommend]
impl<B: From<Bytes>> Deny<B> for ProblemJson {
    fn deny(&self, denied: &Denied<'_>) -> Response<B> {
        let body = match denied.denial.map(|denial| denial.reason()) {
            None => &denied.problems.unknown_tier,
            Some(DenialReason::TableFull) => &denied.problems.reduced_capacity,
            // Until the penalty is over every request is denied, even if units have come back.
            Some(DenialReason::Penalty) => &denied.problems.abnormal_usage,
            Some(_) => &denied.problems.quota_exceeded,
        };
        let mut response = Response::new(B::from(body.clone()));
        *response.status_mut() = denied.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // RFC 6585, 4: a 429 must not be stored by a cache.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// The problem details of one policy. They are built once, so a denial formats no text.
#[derive(Debug)]
pub(crate) struct Problems {
    quota_exceeded: Bytes,
    abnormal_usage: Bytes,
    reduced_capacity: Bytes,
    unknown_tier: Bytes,
}

impl Problems {
    pub(crate) fn of(name: &PolicyName) -> Self {
        // The quoted form of a name is also a valid JSON string.
        const REGISTRY: &str = "https://iana.org/assignments/http-problem-types#";
        let body = |kind: &str, title: &str, status: u16| {
            let name = name.quoted();
            // RFC 9457, 4.2.1: a problem without a type of its own is about:blank.
            let registry = if kind == "about:blank" { "" } else { REGISTRY };
            Bytes::from(format!(
                "{{\"type\":\"{registry}{kind}\",\
                 \"title\":\"{title}\",\"status\":{status},\"violated-policies\":[{name}]}}"
            ))
        };
        Self {
            quota_exceeded: body("quota-exceeded", "The quota of this client is spent", 429),
            abnormal_usage: body(
                "abnormal-usage-detected",
                "This client went on beyond its quota and is shut out for a while",
                429,
            ),
            reduced_capacity: body(
                "temporary-reduced-capacity",
                "The server cannot take in another client at the moment",
                503,
            ),
            unknown_tier: body("about:blank", "The server has no quota for this client", 503),
        }
    }
}

/// Answers denied requests by a function: [`RateLimitLayer::deny_with`](crate::RateLimitLayer::deny_with). The
/// function is boxed, so that the type of the layer can be named.
///
/// ```
/// use http::Response;
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::denials::DenyWith;
/// use tollgate_tower::keys::Everyone;
/// use tollgate_tower::RateLimitLayer;
/// struct App {
///     limit: RateLimitLayer<DenyWith<String>>,
/// }
/// let limit = RateLimitLayer::new(Limiter::new(Quota::per_second(9)), Everyone)
///     .deny_with(|denied| Response::new(format!("{} is spent", denied.policy)));
/// let app = App { limit };
/// # let _ = app.limit;
/// ```
pub struct DenyWith<B> {
    function: Arc<DenialResponder<B>>,
}

type DenialResponder<B> = dyn Fn(&Denied<'_>) -> Response<B> + Send + Sync;

impl<B> DenyWith<B> {
    pub(crate) fn new(
        function: impl Fn(&Denied<'_>) -> Response<B> + Send + Sync + 'static,
    ) -> Self {
        Self { function: Arc::new(function) }
    }
}

impl<B> Deny<B> for DenyWith<B> {
    fn deny(&self, denied: &Denied<'_>) -> Response<B> {
        (self.function)(denied)
    }
}

impl<B> Clone for DenyWith<B> {
    fn clone(&self) -> Self {
        Self { function: Arc::clone(&self.function) }
    }
}

impl<B> fmt::Debug for DenyWith<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DenyWith")
    }
}
