//! Accepts connections: over TCP, with or without TLS, and unix sockets. What they carry is decided elsewhere.

mod io;
mod socket;
mod threads;
pub(crate) mod tls;
mod tls_error;
mod tls_watch;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

pub(crate) use io::Io;
use io::Raw;
pub(crate) use socket::Socket;
pub(crate) use threads::Threads;
pub(crate) use tls::Tls;
pub use tls::TlsFiles;
pub use tls_error::{TlsError, TlsProblem};
pub(crate) use tls_watch::{Rereading, keep_fresh};

/// The pause after a system error, such as no file descriptor left: until some are closed.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stopped` is set, deals them out to `threads`, and hands each, once it is ready, to `serve`.
/// No client delays another: each handshake runs in a task of its own.
pub(crate) async fn accept<F, S>(
    socket: Socket,
    threads: &Threads,
    mut stopped: watch::Receiver<bool>,
    mut serve: impl FnMut() -> S,
) where
    S: FnOnce(Io) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let socket = Arc::new(socket);
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            // Also if the sender is gone.
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let Ok(raw) = accepted.and_then(Raw::leave) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Here and not in the task, so that a count of connections includes this one from now on.
        let (tls, serve) = (socket.tls(), serve());
        threads.spawn(async move {
            // An error means that this thread can have no more events; the client finds its connection closed.
            let Ok(raw) = raw.enter() else { return };
            // A client that fails its handshake has not sent a request.
            if let Some(io) = raw.ready(tls).await {
                serve(io).await;
            }
        });
    }
}

/// The connections of several sockets, for gRPC, in the runtime of the caller: Envoy has few connections with many requests
/// each, which its threads share. Each is closed after `max_life`, whatever it is doing.
pub(crate) fn incoming(
    sockets: Vec<Socket>,
    max_life: Option<Duration>,
    stopped: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> ReceiverStream<std::io::Result<Io>> {
    // A capacity of one: connections that wait here when the service stops are closed unserved.
    let (give, take) = mpsc::channel(1);
    for socket in sockets {
        let give = give.clone();
        let serve = move || {
            let give = give.clone();
            // An error means that the receiver of connections is gone.
            move |io: Io| async move { drop(give.send(Ok(io.living(max_life))).await) }
        };
        let stopped = stopped.clone();
        tasks.spawn(async move { accept(socket, &Threads::default(), stopped, serve).await });
    }
    ReceiverStream::new(take)
}
