//! Gives connections deadlines: a client that sends its headers slowly, or nothing at all, is closed, and does not
//! delay other clients.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tollgate_tower::PeerAddress;
use tower_layer::Layer;

use crate::listen::{self, Io, Socket, Threads};

/// The time within which all headers of a request must arrive.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// Serves until `stopped` is set; then waits for the requests that have begun.
pub(crate) async fn listen(
    socket: Socket,
    threads: Threads,
    routes: Router,
    stopped: watch::Receiver<bool>,
    grace: Duration,
) {
    // Detecting the version would wait for a first byte without a deadline.
    let mut server = Builder::new(TokioExecutor::new()).http1_only();
    // Answers are small: to copy the body behind the headers takes less than to write both at once.
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).writev(false);
    let server = Arc::new(server);
    let open = GracefulShutdown::new();
    let serve = || {
        let (server, routes, open) = (Arc::clone(&server), routes.clone(), open.watcher());
        move |io: Io| async move {
            let service = TowerToHyperService::new(Extension(PeerAddress(io.peer())).layer(routes));
            let connection = server.serve_connection(TokioIo::new(io), service);
            // An error here is caused by the client: it has gone, or did not speak HTTP.
            drop(open.watch(connection.into_owned()).await);
        }
    };
    listen::accept(socket, &threads, stopped, serve).await;
    let _ = tokio::time::timeout(grace, open.shutdown()).await;
}
