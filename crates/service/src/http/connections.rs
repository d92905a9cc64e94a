//! Gives connections deadlines: a connection whose client sends its headers slowly, or nothing at all, is closed, and
//! does not delay other clients.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tollgate_http::keys::PeerAddress;
use tower_layer::Layer;

use crate::listen::{self, Io, OfListeners, QUIET, Socket};

/// The time within which all headers of a request must arrive.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// The routes over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct HttpRoutes {
    pub(crate) ordinary: Router,
    /// The routes for connections of the reserve.
    pub(crate) reserved: Router,
}

/// Serves until the service stops; then waits for the requests that have begun.
pub(crate) async fn listen(
    socket: Socket,
    shared: OfListeners,
    routes: HttpRoutes,
    grace: Duration,
) {
    // A connection of the reserve is closed after one request.
    let [lasting, once] = [true, false].map(|is_lasting| {
        // Only HTTP/1 is served, because detecting the version would wait for the first byte without a deadline.
        let mut server = Builder::new(TokioExecutor::new()).http1_only();
        // Answers are small: copying the body behind the headers is cheaper than one write of two buffers.
        server
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .keep_alive(is_lasting)
            .writev(false);
        Arc::new(server)
    });
    let open = GracefulShutdown::new();
    let serve = || {
        let (lasting, once) = (Arc::clone(&lasting), Arc::clone(&once));
        let (routes, open) = (routes.clone(), open.watcher());
        move |io: Io| async move {
            let io = io.never_quiet(QUIET);
            let (server, routes) = match io.is_reserved() {
                true => (once, routes.reserved),
                false => (lasting, routes.ordinary),
            };
            let service = TowerToHyperService::new(Extension(PeerAddress(io.peer())).layer(routes));
            let connection = server.serve_connection(TokioIo::new(io), service);
            // An error here is caused by the client: it has gone, or did not speak HTTP.
            drop(open.watch(connection.into_owned()).await);
        }
    };
    listen::accept(socket, shared, serve).await;
    let _ = tokio::time::timeout(grace, open.shutdown()).await;
}
