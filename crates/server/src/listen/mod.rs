//! Where connections come from: TCP, with TLS or without, and unix sockets. What they carry is no matter
//! here.

mod io;
mod socket;
pub(crate) mod tls;
mod tls_error;
mod tls_watch;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

pub(crate) use io::Io;
pub(crate) use socket::Socket;
pub(crate) use tls::Tls;
pub use tls::TlsFiles;
pub use tls_error::{TlsError, TlsProblem};
pub(crate) use tls_watch::keep_fresh;

/// After an error of the system's, such as no file descriptor left: until some are closed.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until `stopped` says so, and hands each, once it is ready, to `serve`. No client keeps
/// another waiting: what has to be said before the first request is said in a task of its own.
pub(crate) async fn accept<F, S>(
    socket: Socket,
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
        let Ok(raw) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Now and not in the task: whoever counts connections counts this one from here on.
        let (tls, serve) = (socket.tls(), serve());
        tokio::spawn(async move {
            // A client that does not get through its handshake has not asked for anything.
            if let Some(io) = raw.ready(tls).await {
                serve(io).await;
            }
        });
    }
}

/// The connections of several sockets, for gRPC.
pub(crate) fn incoming(
    sockets: Vec<Socket>,
    stopped: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> ReceiverStream<std::io::Result<Io>> {
    // One: what waits here when the service stops is closed unheard.
    let (give, take) = mpsc::channel(1);
    for socket in sockets {
        let give = give.clone();
        let serve = move || {
            let give = give.clone();
            // An error: nobody takes connections any more.
            move |io| async move { drop(give.send(Ok(io)).await) }
        };
        tasks.spawn(accept(socket, stopped.clone(), serve));
    }
    ReceiverStream::new(take)
}
