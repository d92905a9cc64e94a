//! Three kinds of contenders: the same handler without a limit, behind Tollgate, and behind tower_governor.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::Response;
use axum::routing::get;
use clap::ValueEnum;
use governor::middleware::StateInformationMiddleware;
use tollgate::{KeyedLimiter, Quota};
use tollgate_tower::headers::{HeaderStyle, Headers};
use tollgate_tower::headers::{RATE_LIMIT, RATE_LIMIT_POLICY};
use tollgate_tower::{ClientAddress, RateLimitLayer};
use tower::util::MapResponseLayer;
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

/// The burst of each client. The constants below are the time in which a unit comes back.
const BURST: u32 = 100_000;
/// The time in which a unit comes back in rounds, where each client makes some hundred requests a second. The client's
/// limit never becomes idle, like that of a real client that keeps asking.
const EVERY_NS: u64 = 10_000_000;
/// The time in which a unit comes back under load, where one address makes requests as fast as it can.
const EVERY_NS_SERVED: u64 = 1_000;
/// The time in which a unit comes back where requests must be denied. It is so long that nothing comes back meanwhile.
const EVERY_NS_DENYING: u64 = 100_000_000_000;

/// The contenders, in the order of [`HttpContender::ALL`]. A contender's number is also the index of its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpContender {
    /// No limit.
    Bare,
    /// tower_governor with its headers: `x-ratelimit-limit` and `x-ratelimit-remaining`.
    Theirs,
    /// Tollgate with the header of draft 7: limit, remaining and reset in one field.
    OursDraft07,
    /// Tollgate as it is by default, with the headers of draft 10: policy and state.
    Ours,
    /// Tollgate with the three `X-RateLimit-` headers.
    OursX,
    /// Tollgate without headers.
    OursSilent,
    /// No limit either. Instead a plain function inserts two constant headers, with the names and lengths of the
    /// headers of draft 10. Any limit with such headers adds at least this cost.
    Hand,
}

use HttpContender::{Bare, Hand, Ours, OursDraft07, OursSilent, OursX, Theirs};

impl HttpContender {
    pub(crate) const ALL: [Self; 7] = [Bare, Theirs, OursDraft07, Ours, OursX, OursSilent, Hand];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Bare => "no limit",
            Hand => "two constant headers",
            Theirs => "tower_governor",
            OursDraft07 => "Tollgate, draft 7",
            Ours => "Tollgate, draft 10",
            OursX => "Tollgate, X-RateLimit",
            OursSilent => "Tollgate, no headers",
        }
    }

    /// The name of the contender on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The headers that this contender adds to answers.
    fn tells(self) -> &'static [&'static str] {
        match self {
            Bare | OursSilent => &[],
            Theirs => &["x-ratelimit-limit", "x-ratelimit-remaining"],
            OursDraft07 => &["ratelimit"],
            Ours | Hand => &["ratelimit-policy", "ratelimit"],
            OursX => &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
        }
    }

    fn headers(self) -> Headers {
        match self {
            OursDraft07 => HeaderStyle::Draft7.into(),
            OursX => HeaderStyle::XRateLimit.into(),
            Bare | Hand | Theirs | OursSilent => Headers::NONE,
            Ours => HeaderStyle::Draft10.into(),
        }
    }

    /// A server's router with the contender's layer.
    pub(crate) fn app(self) -> Router {
        match self {
            Bare => router(),
            Hand => router().layer(MapResponseLayer::new(by_hand as fn(Response) -> Response)),
            Theirs => router().layer(theirs(EVERY_NS_SERVED, BURST)),
            _ => router().layer(ours(EVERY_NS_SERVED, BURST, self.headers())),
        }
    }

    /// Rounds of requests that call the layer directly. Each client may make `burst` requests at once. The service
    /// behind the layer is the same for all contenders.
    pub(crate) fn rounds(self, every_ns: u64, burst: u32) -> Box<HttpRound> {
        let inner = router().with_state(());
        match self {
            Bare => rounds_of(inner, self),
            Hand => rounds_of(MapResponseLayer::new(by_hand).layer(inner), self),
            Theirs => rounds_of(theirs(every_ns, burst).layer(inner), self),
            _ => rounds_of(ours(every_ns, burst, self.headers()).layer(inner), self),
        }
    }

    /// Rounds in which no request is denied.
    pub(crate) fn measured(self) -> Box<HttpRound> {
        self.rounds(EVERY_NS, BURST)
    }

    /// Panics unless each of a hundred clients, under a limit of three, is admitted three times out of five.
    pub(crate) fn try_out(self) {
        let denies = !matches!(self, Bare | Hand);
        self.rounds(EVERY_NS_DENYING, 3)(500, 100, if denies { 3 } else { usize::MAX });
    }

    /// Panics if this answer is wrong for a request that should be `admitted` or denied.
    #[inline(always)]
    pub(crate) fn look_at(self, answer: &Response, admitted: bool) {
        // This check of the number of headers is cheap. The handler adds two itself: the type and the length of its
        // text.
        let right = if admitted {
            answer.status() == StatusCode::OK && answer.headers().len() == 2 + self.tells().len()
        } else {
            answer.status() == StatusCode::TOO_MANY_REQUESTS
        };
        assert!(right, "{self:?} answered {answer:?}");
    }
}

/// The header values are as long as Tollgate's.
fn by_hand(mut answer: Response) -> Response {
    static POLICY: HeaderValue = HeaderValue::from_static("\"default\";q=100;w=1000");
    let headers = answer.headers_mut();
    headers.insert(&RATE_LIMIT_POLICY, POLICY.clone());
    let state = HeaderValue::from_bytes(black_box(b"\"default\";r=99980;t=1")).expect("a value");
    headers.insert(&RATE_LIMIT, state);
    answer
}

const _: () = {
    let mut index = 0;
    while index < HttpContender::ALL.len() {
        assert!(HttpContender::ALL[index] as usize == index);
        index += 1;
    }
};

fn router() -> Router {
    Router::new().route("/", get(|| async { "hello\n" }))
}

fn ours(every_ns: u64, burst: u32, headers: Headers) -> RateLimitLayer {
    let quota = Quota::per(1, Duration::from_nanos(every_ns)).burst(burst.into());
    let clients = KeyedLimiter::new(quota, 100_000).expect("the quota fits");
    RateLimitLayer::new(clients, ClientAddress::peer()).headers(headers)
}

fn theirs(
    every_ns: u64,
    burst: u32,
) -> GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body> {
    let config = GovernorConfigBuilder::default()
        .per_nanosecond(every_ns)
        .burst_size(burst)
        .use_headers()
        .finish()
        .expect("the quota is not zero");
    GovernorLayer::new(config)
}

/// A function that runs a round. It takes the number of requests, the number of clients, and how often each client is
/// admitted, and returns the nanoseconds per request.
pub(crate) type HttpRound = dyn FnMut(usize, u16, usize) -> f64;

fn rounds_of<S>(mut service: S, contender: HttpContender) -> Box<HttpRound>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + 'static,
{
    Box::new(move |requests, clients, admits| {
        let (mut client, mut asked) = (0_u16, 0);
        let start = Instant::now();
        for _ in 0..requests {
            let answer = ask(&mut service, request(client));
            contender.look_at(&answer, asked < admits);
            black_box(answer);
            client += 1;
            if client == clients {
                (client, asked) = (0, asked + 1);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a mean, to be printed")]
        let each = start.elapsed().as_nanos() as f64 / requests as f64;
        each
    })
}

fn request(client: u16) -> Request<Body> {
    let [high, low] = client.to_be_bytes();
    let mut request = Request::new(Body::empty());
    let peer = SocketAddr::from(([10, 0, high, low], 4_711));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// Calls the service, whose future is ready at once. This function is inlined for every contender alike.
#[inline(always)]
fn ask<S>(service: &mut S, request: Request<Body>) -> Response
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))));
    match pin!(service.call(request)).poll(&mut cx) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => unreachable!("the handler is always ready"),
    }
}
