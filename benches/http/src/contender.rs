//! The same handler without a limit, behind ours, and behind theirs.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use clap::ValueEnum;
use governor::middleware::StateInformationMiddleware;
use tollgate::{KeyedLimiter, Quota};
use tollgate_tower::{ClientAddress, RateLimitLayer};
use tower::Layer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

use crate::measure::{Round, rounds_of};

/// 100,000 requests at once for each client, and another as often as this: nobody is denied.
const BURST: u32 = 100_000;
/// In rounds, where each client asks some hundred times a second: his limit is always in use, as it is
/// where limits matter.
const EVERY_NS: u64 = 10_000_000;
/// Under load, where one address asks as fast as it can.
const EVERY_NS_SERVED: u64 = 1_000;

/// Headers of the handler's own: the type and the length of its text.
const HANDLERS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// No limit.
    Bare,
    /// Tollgate, with the headers of draft 10.
    Ours,
    /// tower_governor, with its headers.
    Theirs,
}

impl Contender {
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::Ours, Self::Theirs];

    /// A server's router, with the layer in it.
    pub(crate) fn app(self) -> Router {
        match self {
            Self::Bare => router(),
            Self::Ours => router().layer(ours(EVERY_NS_SERVED)),
            Self::Theirs => router().layer(theirs(EVERY_NS_SERVED)),
        }
    }

    /// Rounds of requests that the layer is called with directly. What stands behind it is the same service
    /// for all.
    pub(crate) fn rounds(self) -> Box<Round> {
        let inner = router().with_state(());
        match self {
            Self::Bare => rounds_of(inner, self),
            Self::Ours => rounds_of(ours(EVERY_NS).layer(inner), self),
            Self::Theirs => rounds_of(theirs(EVERY_NS).layer(inner), self),
        }
    }

    /// Panics if this is not the answer of this contender.
    #[inline]
    pub(crate) fn look_at(self, answer: &Response) {
        // A look that costs next to nothing: how many headers there are.
        let added = if self == Self::Bare { 0 } else { 2 };
        let told = answer.headers().len() == HANDLERS + added;
        assert!(answer.status().is_success() && told, "{self:?} answered {answer:?}");
    }
}

fn router() -> Router {
    Router::new().route("/", get(|| async { "hello\n" }))
}

fn ours(every_ns: u64) -> RateLimitLayer {
    let quota = Quota::per_second(1_000_000_000 / every_ns).burst(BURST.into());
    let clients = KeyedLimiter::new(quota, 100_000).expect("the quota fits");
    RateLimitLayer::new(clients, ClientAddress::peer())
}

fn theirs(every_ns: u64) -> GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body> {
    let config = GovernorConfigBuilder::default()
        .per_nanosecond(every_ns)
        .burst_size(BURST)
        .use_headers()
        .finish()
        .expect("the quota is not zero");
    GovernorLayer::new(config)
}
