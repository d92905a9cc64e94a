//! [`Socket`]: a TCP address or a path that is listened on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;

use super::io::Raw;
use super::tls::Tls;

/// Where connections are accepted.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener, Option<Arc<Tls>>),
    #[cfg(unix)]
    Unix(UnixListener, #[expect(dead_code, reason = "its end removes the file")] OwnFile),
}

impl Socket {
    /// Listens on an address; returns the one that was taken, in case the port is 0.
    pub(crate) async fn tcp(
        address: SocketAddr,
        tls: Option<Arc<Tls>>,
    ) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((Self::Tcp(listener, tls), address))
    }

    /// Listens on a path. A socket file that an ended service has left is replaced; a socket in use, and any other
    /// file, is not.
    #[cfg(unix)]
    pub(crate) fn unix(path: &std::path::Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        Ok(Self::Unix(listener, OwnFile::of(path)?))
    }

    #[cfg(not(unix))]
    pub(crate) fn unix(_: &std::path::Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) async fn accept(&self) -> io::Result<Raw> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are small, and are sent without delay.
                let _ = stream.set_nodelay(true);
                Ok(Raw::Tcp(stream, peer.ip()))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Raw::Unix(stream)),
        }
    }

    pub(super) fn tls(&self) -> Option<Arc<Tls>> {
        match self {
            Self::Tcp(_, tls) => tls.clone(),
            #[cfg(unix)]
            Self::Unix(..) => None,
        }
    }
}

/// Whether the path is a socket file without a listener.
#[cfg(unix)]
fn is_left_over(path: &std::path::Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
}

/// The file of a socket. It is removed with the socket, unless another file has taken its place.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct OwnFile {
    path: std::path::PathBuf,
    identity: (u64, u64),
}

#[cfg(unix)]
impl OwnFile {
    fn of(path: &std::path::Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

#[cfg(unix)]
fn identity(path: &std::path::Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    path.symlink_metadata().map(|file| (file.dev(), file.ino()))
}

#[cfg(unix)]
impl Drop for OwnFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // It may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
