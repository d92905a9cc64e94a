//! [`Io`]: one connection, over TCP, TLS or a unix socket.
//!
//! # Closing
//! Closing a socket that still has unread input resets the connection. A client whose connection is reset drops the
//! answers that are on their way, so its requests would be decided and not answered. Unread input is normal when a
//! service ends, because clients go on sending until they notice. So the sending side is closed first, and further
//! input is read and discarded until the client has closed its own side.
//!
//! # What ends a connection
//! Each connection takes a file descriptor, and these are few: see
//! [`ConnectionPlaces`](super::places::ConnectionPlaces). A connection of HTTP/2 is closed if its first request does
//! not begin in time; later, pings find out whether its client is still there. A connection of HTTP/1 is closed if for
//! a while its client neither sends nor takes anything, for example if a body does not come or an answer is not read. A
//! connection of the reserve is closed if another connection takes its place, and at the latest after [`RESERVED_FOR`].

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};
use tollgate_http::keys::PeerAddress;
use tonic::transport::server::Connected;

use super::first_request::{FirstRequest, Over};
use super::places::ConnectionPlace;
use super::tls::Tls;

/// The time for the whole handshake: the connection of a client that takes longer is closed.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// The time for a client to close its side. After this time the connection is reset.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// The time within which the first request of a connection must begin, for protocols whose clients may connect before
/// they have a request.
pub(crate) const FIRST_REQUEST_WITHIN: Duration = Duration::from_secs(30);

/// A connection of HTTP/1 is closed if its client neither sends nor takes anything for this time. It is closed before
/// twice this time has passed.
pub(crate) const QUIET: Duration = Duration::from_secs(30);

/// The time for which a connection may have a place of the reserve: long enough for a probe.
const RESERVED_FOR: Duration = Duration::from_secs(10);

/// A byte stream in both directions.
trait ByteStream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Debug + Send + Unpin> ByteStream for S {}

/// A connection that can carry requests.
#[derive(Debug)]
pub(crate) struct Io {
    stream: Box<dyn ByteStream>,
    /// The address at the other end.
    peer: IpAddr,
    /// A timer for the client to close its own side. Set when the sending side is closed.
    closing: Option<Pin<Box<Sleep>>>,
    /// A timer for the whole life of the connection.
    life: Option<Pin<Box<Sleep>>>,
    place: ConnectionPlace,
    /// Set until the first request has begun.
    first: Option<Box<FirstRequest>>,
    /// Set if the connection is closed when nothing is sent or taken.
    quiet: Option<Quiet>,
}

/// Finds out that a client neither sends nor takes anything.
#[derive(Debug)]
struct Quiet {
    timer: Pin<Box<Sleep>>,
    every: Duration,
    /// Whether something was sent or taken since the timer was set.
    is_active: bool,
}

/// A connection as it was accepted.
#[derive(Debug)]
pub(crate) enum Raw {
    Tcp(TcpStream, IpAddr),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// A connection that has left its listener's runtime and not yet entered its thread's runtime.
#[derive(Debug)]
pub(super) enum Moving {
    Tcp(std::net::TcpStream, IpAddr),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

impl Moving {
    /// Registers the connection with the runtime of the calling task.
    pub(super) fn enter(self) -> io::Result<Raw> {
        match self {
            Self::Tcp(stream, peer) => {
                TcpStream::from_std(stream).map(|stream| Raw::Tcp(stream, peer))
            }
            #[cfg(unix)]
            Self::Unix(stream) => UnixStream::from_std(stream).map(Raw::Unix),
        }
    }
}

impl Raw {
    /// Takes the connection out of its runtime.
    pub(super) fn leave(self) -> io::Result<Moving> {
        match self {
            Self::Tcp(stream, peer) => stream.into_std().map(|stream| Moving::Tcp(stream, peer)),
            #[cfg(unix)]
            Self::Unix(stream) => stream.into_std().map(Moving::Unix),
        }
    }

    /// Does the handshake if TLS is configured, and returns the connection. `None` if the handshake fails, or if
    /// another connection takes this one's place in the reserve.
    pub(super) async fn ready(
        self,
        tls: Option<Arc<Tls>>,
        mut place: ConnectionPlace,
    ) -> Option<Io> {
        let (stream, peer) = tokio::select! {
            shaken = self.shake_hands(tls) => shaken?,
            () = std::future::poll_fn(|context| place.poll_lost(context)) => return None,
        };
        let io = Io { stream, peer, closing: None, life: None, place, first: None, quiet: None };
        Some(if io.is_reserved() { io.living(Some(RESERVED_FOR)) } else { io })
    }

    async fn shake_hands(self, tls: Option<Arc<Tls>>) -> Option<(Box<dyn ByteStream>, IpAddr)> {
        Some(match (self, tls) {
            // The client of a unix socket is a process of this machine, so its address is the loopback address.
            #[cfg(unix)]
            (Self::Unix(stream), _) => (Box::new(stream), Ipv4Addr::LOCALHOST.into()),
            (Self::Tcp(stream, peer), None) => (Box::new(stream), peer),
            (Self::Tcp(stream, peer), Some(tls)) => {
                let handshake = tls.acceptor().accept(stream);
                let shaken = tokio::time::timeout(HANDSHAKE_WITHIN, handshake).await;
                (Box::new(shaken.ok()?.ok()?), peer)
            }
        })
    }
}

impl Quiet {
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Over> {
        while self.timer.as_mut().poll(context).is_ready() {
            if !std::mem::take(&mut self.is_active) {
                return Poll::Ready(Over::Late);
            }
            self.timer.as_mut().reset(Instant::now() + self.every);
        }
        Poll::Pending
    }
}

impl Connected for Io {
    type ConnectInfo = PeerAddress;

    fn connect_info(&self) -> Self::ConnectInfo {
        PeerAddress(self.peer)
    }
}

impl Io {
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether the connection is in the reserve, so that it may not ask for decisions.
    pub(crate) fn is_reserved(&self) -> bool {
        self.place.is_reserved()
    }

    /// The same connection, with at most this time to live. After this time reads fail, so that the connection is
    /// closed.
    pub(super) fn living(self, max_life: Option<Duration>) -> Self {
        match max_life {
            None => self,
            Some(life) => Self { life: Some(Box::pin(sleep(life))), ..self },
        }
    }

    /// The same connection of HTTP/2, which ends if its first request has not begun in time, or when the service stops.
    pub(super) fn asking_within(self, most: Duration, stopped: watch::Receiver<bool>) -> Self {
        Self { first: Some(Box::new(FirstRequest::within(most, stopped))), ..self }
    }

    /// The same connection, which ends if nothing is sent or taken for this time.
    pub(crate) fn never_quiet(self, most: Duration) -> Self {
        let quiet = Quiet { timer: Box::pin(sleep(most)), every: most, is_active: false };
        Self { quiet: Some(quiet), ..self }
    }

    /// Counts that the connection is closed because its client did not ask in time.
    pub(crate) fn time_out(&self) {
        self.place.time_out();
    }

    /// Whether the connection's time is over, or another connection has its place in the reserve.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.life.as_mut().is_some_and(|life| life.as_mut().poll(context).is_ready())
            || self.place.poll_lost(context).is_ready()
    }

    /// Whether the connection has waited for its client for too long. Called only when a read or a write has to wait.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let over = match (&mut self.first, &mut self.quiet) {
            (Some(first), _) => first.poll_over(context),
            (None, Some(quiet)) => quiet.poll_over(context),
            (None, None) => return false,
        };
        let Poll::Ready(over) = over else { return false };
        if over == Over::Late {
            self.place.time_out();
        }
        (self.first, self.quiet) = (None, None);
        // From now on, `is_over` returns true.
        self.life = Some(Box::pin(sleep(Duration::ZERO)));
        true
    }

    /// Records that the client has sent or taken something.
    fn is_active(&mut self) {
        if let Some(quiet) = &mut self.quiet {
            quiet.is_active = true;
        }
    }

    /// Handles the result of a write: records activity, and returns an error if the client is late or the connection's
    /// time is over.
    fn sent(
        &mut self,
        sent: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match sent {
            // The deadlines are also checked here, not only in reads: between the end of a request and its answer
            // nothing is read.
            Poll::Pending if self.is_late(context) || self.is_over(context) => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(sent) => {
                self.is_active();
                Poll::Ready(sent)
            }
        }
    }

    /// Discards further input until the client has closed its side or its time is over.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // The deadline is checked before the read. Otherwise a client that never stops sending would keep it from being
        // checked.
        let is_over =
            self.closing.as_mut().is_none_or(|time| time.as_mut().poll(context).is_ready());
        if is_over || self.place.poll_lost(context).is_ready() {
            return Poll::Ready(());
        }
        let mut scratch = [0; 4_096];
        let mut scratch = ReadBuf::new(&mut scratch);
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut scratch));
        // The input has ended or failed, so nothing is left to discard.
        if read.is_err() || scratch.filled().is_empty() {
            return Poll::Ready(());
        }
        // This task is polled again soon, after other tasks.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        if io.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut io.stream).poll_read(context, into);
        if read.is_pending() {
            return if io.is_late(context) {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            } else {
                Poll::Pending
            };
        }
        io.is_active();
        if let Some(first) = &mut io.first
            && first.begins_in(&into.filled()[before..])
        {
            io.first = None;
        }
        read
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let io = self.get_mut();
        let sent = Pin::new(&mut io.stream).poll_write(context, bytes);
        io.sent(sent, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let io = self.get_mut();
        let sent = Pin::new(&mut io.stream).poll_write_vectored(context, parts);
        io.sent(sent, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    /// See `Closing` in the module header.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        if io.closing.is_none() {
            ready!(Pin::new(&mut io.stream).poll_shutdown(context))?;
            io.closing = Some(Box::pin(sleep(CLOSE_WITHIN)));
        }
        io.poll_drain(context).map(Ok)
    }
}

#[cfg(test)]
mod tests;
