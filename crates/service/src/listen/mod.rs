//! Accepts connections over TCP, with or without TLS, and over unix sockets. Other modules speak the protocols on these
//! connections.

mod ages;
mod first_request;
mod io;
mod places;
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

pub(crate) use ages::ConnectionAges;
use io::Raw;
pub(crate) use io::{FIRST_REQUEST_WITHIN, Io, QUIET};
pub(crate) use places::{ConnectionPlaces, OfPlaces, TooManyPlaces};
pub(crate) use socket::{BoundSocket, Socket};
pub(crate) use threads::Threads;
pub(crate) use tls::Tls;
pub use tls::TlsFiles;
pub(crate) use tls_error::TlsError;
pub use tls_error::TlsProblem;
pub(crate) use tls_watch::{Rereading, keep_fresh};

/// The pause after a system error, for example when no file descriptor is left and some must be closed first.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause between two checks whether connections of the reserve that were told to close have been closed.
const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// The objects that all listeners share.
#[derive(Clone, Debug)]
pub(crate) struct OfListeners {
    /// The threads that connections run on.
    pub(crate) threads: Threads,
    pub(crate) places: Arc<ConnectionPlaces>,
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Accepts connections until `stopped` is set, and deals them out to `threads`. If there are no threads, as for gRPC
/// ([`incoming`]), connections run in the runtime that accepts them. Each connection is passed to `serve` when it is
/// ready. No client delays another: each handshake runs in a task of its own.
pub(crate) async fn accept<F, S>(
    socket: Socket,
    OfListeners { threads, places, mut stopped }: OfListeners,
    mut serve: impl FnMut() -> S,
) where
    S: FnOnce(Io) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let socket = Arc::new(socket);
    // If several errors come in a row, only the first is logged.
    let mut has_failed = false;
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            // An error means that the sender is gone, which also ends the loop.
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let raw = match accepted.and_then(Raw::leave) {
            Ok(raw) => raw,
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::error!(
                        "connections cannot be accepted: {error}; it is tried again and again"
                    );
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        has_failed = false;
        while places.is_crowded() {
            if *stopped.borrow() {
                return;
            }
            tokio::time::sleep(SHORT_PAUSE).await;
        }
        // The place is taken here and not in the task, so that the connection is counted before the next one is
        // accepted.
        let (tls, place, serve) = (socket.tls(), places.take(), serve());
        threads.spawn(async move {
            // An error means that the thread cannot register another socket; the client finds its connection closed.
            let Ok(raw) = raw.enter() else { return };
            // `None` means that the handshake failed. That client has not sent a request, so there is nothing to
            // answer.
            if let Some(io) = raw.ready(tls, place).await {
                serve(io).await;
            }
        });
    }
}

/// A stream of connections that all have the same age.
type Incoming = ReceiverStream<std::io::Result<Io>>;

/// Accepts the connections of several sockets for gRPC. They run in the caller's runtime, all of whose threads serve
/// them, because Envoy opens few connections with many requests each. Returns a stream of connections for each age, and
/// a last one for the connections of the reserve. A connection that is older than its age and `grace` together is
/// closed, whatever it is doing.
pub(crate) fn incoming(
    sockets: Vec<Socket>,
    ages: ConnectionAges,
    grace: Option<Duration>,
    shared: &OfListeners,
    tasks: &mut JoinSet<()>,
) -> (Vec<Incoming>, Incoming) {
    // The capacity is one, the smallest possible, because connections that wait in a channel when the service stops are
    // closed unserved.
    let (gives, takes): (Vec<_>, Vec<_>) = ages.all().iter().map(|_| mpsc::channel(1)).unzip();
    let (give_reserved, take_reserved) = mpsc::channel(1);
    let ages = Arc::new(ages);
    for socket in sockets {
        let (gives, ages, give_reserved) =
            (gives.clone(), Arc::clone(&ages), give_reserved.clone());
        let shared = OfListeners { threads: Threads::default(), ..shared.clone() };
        let stopped = shared.stopped.clone();
        let serve = move || {
            let dealt = ages.deal();
            let age = ages.all()[dealt];
            let max_life = age.zip(grace).map(|(age, grace)| age.saturating_add(grace));
            let (give, give_reserved, stopped) =
                (gives[dealt].clone(), give_reserved.clone(), stopped.clone());
            // An error means that the receiver of connections is gone.
            move |io: Io| async move {
                let io = io.asking_within(FIRST_REQUEST_WITHIN, stopped);
                if io.is_reserved() {
                    drop(give_reserved.send(Ok(io)).await);
                } else {
                    drop(give.send(Ok(io.living(max_life))).await);
                }
            }
        };
        tasks.spawn(accept(socket, shared, serve));
    }
    let takes = takes.into_iter().map(ReceiverStream::new).collect();
    (takes, ReceiverStream::new(take_reserved))
}
