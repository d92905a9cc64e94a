//! The server to which Envoy passes requests on.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// A header that the answer repeats. It has the cost of a request, as the server of a language model tells it.
const COST: HeaderName = HeaderName::from_static("x-cost");

/// Answers every request with 200, and ends when it is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<AtomicUsize>,
    _runtime: Runtime,
}

async fn answer(
    State(seen): State<Arc<AtomicUsize>>,
    request: Request,
) -> (HeaderMap, &'static str) {
    // Relaxed: the count publishes no other data.
    seen.fetch_add(1, Ordering::Relaxed);
    let cost = request.headers().get(COST).cloned();
    (cost.map(|cost| (COST, cost)).into_iter().collect(), "from the application\n")
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread");
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(AtomicUsize::new(0));
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Self { address, seen, _runtime: runtime }
    }

    /// Returns the number of requests that Envoy has passed on.
    pub(crate) fn seen(&self) -> usize {
        // Relaxed: the count publishes no other data. A request whose answer a test has read was counted before.
        self.seen.load(Ordering::Relaxed)
    }
}
