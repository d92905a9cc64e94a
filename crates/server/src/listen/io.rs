//! [`Io`]: one connection, whatever it came through.
//!
//! # Its end
//! A socket that is closed while something has come that nobody has read resets the connection, and a client that
//! finds it reset gives up the answers that are on their way to it: so what was decided would not be answered. At the end
//! of a service that is the rule, since clients go on asking until they hear of it. So the sending side is closed
//! first, and what still comes is read and thrown away until the client has closed its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::tls::Tls;

/// For the whole handshake: who takes longer is closed.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// For a client to close its side: one that does not is reset.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A connection that can carry requests.
#[derive(Debug)]
pub(crate) struct Io {
    stream: Stream,
    /// Once the sending side is closed: until when the client has time to close its own.
    closing: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// A connection as it was accepted.
#[derive(Debug)]
pub(crate) enum Raw {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Raw {
    /// The connection once the handshake is done, if there is to be one; `None` if the client failed it.
    pub(super) async fn ready(self, tls: Option<Arc<Tls>>) -> Option<Io> {
        let stream = match (self, tls) {
            #[cfg(unix)]
            (Self::Unix(stream), _) => Stream::Unix(stream),
            (Self::Tcp(stream), None) => Stream::Tcp(stream),
            (Self::Tcp(stream), Some(tls)) => {
                let handshake = tls.acceptor().accept(stream);
                let shaken = tokio::time::timeout(HANDSHAKE_WITHIN, handshake).await;
                Stream::Tls(Box::new(shaken.ok()?.ok()?))
            }
        };
        Some(Io { stream, closing: None })
    }
}

/// The service does not ask who its clients are.
impl Connected for Io {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

impl Io {
    /// Reads what still comes, and throws it away, until the client has closed its side or its time is over.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4_096];
        let mut scratch = ReadBuf::new(&mut scratch);
        loop {
            scratch.clear();
            match Pin::new(&mut self.stream).poll_read(context, &mut scratch) {
                Poll::Ready(Ok(())) if !scratch.filled().is_empty() => {}
                // The end, or an error: there is nothing to come.
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        match &mut self.closing {
            Some(time) => time.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
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

    /// See the module header.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        if io.closing.is_none() {
            ready!(Pin::new(&mut io.stream).poll_shutdown(context))?;
            io.closing = Some(Box::pin(tokio::time::sleep(CLOSE_WITHIN)));
        }
        io.poll_drain(context).map(Ok)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, into),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            #[cfg(unix)]
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A client that is answered and still asks is not reset while it has not closed its own side.
    #[tokio::test]
    async fn a_connection_that_ends_is_read_until_its_client_has_closed_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut io = Raw::Tcp(stream).ready(None).await.unwrap();
        client.write_all(b"a question that nobody reads").await.unwrap();
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
}
