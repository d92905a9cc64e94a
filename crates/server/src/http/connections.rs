//! Takes connections and gives them deadlines: a client that sends its headers one by one, or nothing at
//! all, is closed, and keeps nobody else waiting.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// For all headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// After an error of the system's, such as no file descriptor left: until some are closed.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stopped` says so; then waits for the requests that have begun.
pub(crate) async fn listen(
    listener: TcpListener,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
    grace: Duration,
) {
    // Telling the versions apart would wait for a first byte without a deadline.
    let mut server = Builder::new(TokioExecutor::new()).http1_only();
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Also if the sender is gone.
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let service = TowerToHyperService::new(routes.clone());
                let connection = server.serve_connection(TokioIo::new(ready(stream)), service);
                let connection = open.watch(connection.into_owned());
                // An error here is the client's: it has gone, or did not speak HTTP.
                tokio::spawn(async move { drop(connection.await) });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    drop(listener);
    let _ = tokio::time::timeout(grace, open.shutdown()).await;
}

/// Answers are small: they are not held back for more.
fn ready(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    stream
}
