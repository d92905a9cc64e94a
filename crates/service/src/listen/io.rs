//! [`Io`]: one connection, over TCP, TLS or a unix socket.
//!
//! # Closing
//! Closing a socket that still has unread input resets the connection, and a client that finds it reset drops the
//! answers that are on their way: its requests would be decided and not answered. When a service ends this is the
//! normal case, because clients go on sending until they notice. So the sending side is closed first, and further
//! input is read and discarded until the client has closed its own side.

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
use tokio::time::Sleep;
use tollgate_tower::PeerAddress;
use tonic::transport::server::Connected;

use super::tls::Tls;

/// The time for the whole handshake: a client that takes longer is closed.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// The time for a client to close its side: one that does not is reset.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A byte stream in both directions.
trait ByteStream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Debug + Send + Unpin> ByteStream for S {}

/// A connection that can carry requests.
#[derive(Debug)]
pub(crate) struct Io {
    stream: Box<dyn ByteStream>,
    /// The address at the other end.
    peer: IpAddr,
    /// Set once the sending side is closed: until when the client has time to close its own.
    closing: Option<Pin<Box<Sleep>>>,
    /// Until when it may be used at all.
    life: Option<Pin<Box<Sleep>>>,
}

/// A connection as it was accepted.
#[derive(Debug)]
pub(crate) enum Raw {
    Tcp(TcpStream, IpAddr),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// A connection between two runtimes: that of its listener and that of its thread.
#[derive(Debug)]
pub(super) enum Moving {
    Tcp(std::net::TcpStream, IpAddr),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

impl Moving {
    /// Has the runtime of the calling task watch it.
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
    /// Has no runtime watch it any more.
    pub(super) fn leave(self) -> io::Result<Moving> {
        match self {
            Self::Tcp(stream, peer) => stream.into_std().map(|stream| Moving::Tcp(stream, peer)),
            #[cfg(unix)]
            Self::Unix(stream) => stream.into_std().map(Moving::Unix),
        }
    }

    /// The connection once the handshake is done, if TLS is configured; `None` if the client failed it.
    pub(super) async fn ready(self, tls: Option<Arc<Tls>>) -> Option<Io> {
        let (stream, peer): (Box<dyn ByteStream>, IpAddr) = match (self, tls) {
            // A process of this machine, as at a loopback address.
            #[cfg(unix)]
            (Self::Unix(stream), _) => (Box::new(stream), Ipv4Addr::LOCALHOST.into()),
            (Self::Tcp(stream, peer), None) => (Box::new(stream), peer),
            (Self::Tcp(stream, peer), Some(tls)) => {
                let handshake = tls.acceptor().accept(stream);
                let shaken = tokio::time::timeout(HANDSHAKE_WITHIN, handshake).await;
                (Box::new(shaken.ok()?.ok()?), peer)
            }
        };
        Some(Io { stream, peer, closing: None, life: None })
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

    /// The same connection, for at most this time from now on: then reading it fails, so that it is closed.
    pub(super) fn living(self, max_life: Option<Duration>) -> Self {
        Self { life: max_life.map(|life| Box::pin(tokio::time::sleep(life))), ..self }
    }

    /// Discards further input until the client has closed its side or its time is over.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Checked first, because a client that never stops sending would otherwise prevent it.
        let is_over =
            self.closing.as_mut().is_none_or(|time| time.as_mut().poll(context).is_ready());
        if is_over {
            return Poll::Ready(());
        }
        let mut scratch = [0; 4_096];
        let mut scratch = ReadBuf::new(&mut scratch);
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut scratch));
        // The end, or an error: no more input follows.
        if read.is_err() || scratch.filled().is_empty() {
            return Poll::Ready(());
        }
        // Polled again soon, after other tasks.
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
        if io.life.as_mut().is_some_and(|life| life.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut io.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, parts)
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
            io.closing = Some(Box::pin(tokio::time::sleep(CLOSE_WITHIN)));
        }
        io.poll_drain(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A client that gets its answer and still sends is not reset while it has not closed its own side.
    #[tokio::test]
    async fn a_connection_that_ends_is_read_until_its_client_has_closed_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let mut io = Raw::Tcp(stream, peer.ip()).ready(None).await.unwrap();
        client.write_all(b"a question that is not read").await.unwrap();
        let ends = tokio::spawn(async move {
            io.write_all(b"answer").await.unwrap();
            io.shutdown().await.unwrap();
        });
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
        for _ in 0..10 {
            client.write_all(&[7; 10_000]).await.expect("it is read");
            assert_eq!(client.read(&mut [0; 8]).await.expect("no reset"), 0);
        }
        drop(client);
        ends.await.unwrap();
    }

    /// Its input is ready at every poll, so there is no pause.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_stops_sending_is_closed_when_its_time_is_over() {
        let stream: Box<dyn ByteStream> =
            Box::new(tokio::io::join(tokio::io::repeat(7), tokio::io::sink()));
        let mut io = Io { stream, peer: Ipv4Addr::LOCALHOST.into(), closing: None, life: None };
        let mut is_closed = async || {
            poll_fn(|context| Poll::Ready(Pin::new(&mut io).poll_shutdown(context).is_ready()))
                .await
        };
        assert!(!is_closed().await);
        tokio::time::advance(CLOSE_WITHIN - Duration::from_millis(1)).await;
        assert!(!is_closed().await);
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(is_closed().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_read_until_its_life_is_over_even_if_there_is_more() {
        let stream: Box<dyn ByteStream> =
            Box::new(tokio::io::join(tokio::io::repeat(7), tokio::io::sink()));
        let life = Duration::from_secs(9);
        let peer = Ipv4Addr::LOCALHOST.into();
        let mut io = Io { stream, peer, closing: None, life: None }.living(Some(life));
        tokio::time::advance(life - Duration::from_millis(1)).await;
        assert_eq!(io.read_u8().await.expect("it lives"), 7);
        tokio::time::advance(Duration::from_millis(2)).await;
        let error = io.read_u8().await.expect_err("it is over");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
