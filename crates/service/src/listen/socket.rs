//! [`Socket`]: a TCP address or a path that the service listens on.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use socket2::SockRef;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, TcpSocket};

use super::io::Raw;
use super::tls::Tls;

/// A listening socket: over TCP, perhaps with TLS, or a unix socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener, Option<Arc<Tls>>),
    #[cfg(unix)]
    Unix(UnixListener, #[expect(dead_code, reason = "its end removes the file")] OwnFile),
}

/// A socket, and its address, which contains the chosen port if port 0 was asked for.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    pub(crate) socket: Socket,
    pub(crate) address: SocketAddr,
}

impl Socket {
    /// Listens on an address.
    pub(crate) async fn tcp(address: SocketAddr, tls: Option<Arc<Tls>>) -> io::Result<BoundSocket> {
        Self::of(TcpListener::bind(address).await?, tls)
    }

    /// Listens on this port of all addresses, of both IPv6 and IPv4 if the machine has IPv6, and otherwise of IPv4.
    pub(crate) async fn everywhere(port: u16, tls: Option<Arc<Tls>>) -> io::Result<BoundSocket> {
        match of_both_families(port) {
            Ok(listener) => Self::of(listener, tls),
            // The port is taken or forbidden. An attempt with IPv4 alone would fail, too.
            Err(error)
                if [io::ErrorKind::AddrInUse, io::ErrorKind::PermissionDenied]
                    .contains(&error.kind()) =>
            {
                Err(error)
            }
            Err(_) => Self::tcp((Ipv4Addr::UNSPECIFIED, port).into(), tls).await,
        }
    }

    fn of(listener: TcpListener, tls: Option<Arc<Tls>>) -> io::Result<BoundSocket> {
        let address = listener.local_addr()?;
        Ok(BoundSocket { socket: Self::Tcp(listener, tls), address })
    }

    /// Listens on a path. A socket file left by a service that has ended is replaced. A socket in use is not replaced,
    /// and neither is any other file.
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
                // A socket for both families reports IPv4 clients as ::ffff:10.0.0.7. Rules and trusted proxies name
                // such a client as 10.0.0.7.
                Ok(Raw::Tcp(stream, peer.ip().to_canonical()))
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

/// The maximum number of connections that wait to be accepted; the system may have a lower maximum.
const BACKLOG: u32 = 65_535;

/// Listens on both families, whatever the system's default for IPv6 is (`bindv6only`).
fn of_both_families(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    SockRef::from(&socket).set_only_v6(false)?;
    // With this option a restarted service gets the port at once. tokio sets it for other addresses. On Windows the
    // option would let a second process take the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv6Addr::UNSPECIFIED, port).into())?;
    socket.listen(BACKLOG)
}

/// Whether the path is a socket file without a listener.
#[cfg(unix)]
fn is_left_over(path: &std::path::Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
}

/// The file of a socket. Dropping this removes the file, unless another file has taken its place.
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
            // The file may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_port_alone_is_listened_on_in_both_families_and_peers_of_ipv4_are_told_as_such() {
        let bound = Socket::everywhere(0, None).await.expect("a free port");
        let BoundSocket { socket, address } = bound;
        let families: &[IpAddr] = if address.is_ipv6() {
            &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        } else {
            &[IpAddr::V4(Ipv4Addr::LOCALHOST)] // this machine has no IPv6
        };
        for host in families {
            let client = TcpStream::connect((*host, address.port())).await.expect("it listens");
            let Ok(Raw::Tcp(_, peer)) = socket.accept().await else { panic!("no connection") };
            assert_eq!(peer, *host);
            drop(client);
        }
        let taken = Socket::everywhere(address.port(), None).await.map(|bound| bound.address);
        assert_eq!(taken.map_err(|error| error.kind()), Err(io::ErrorKind::AddrInUse));
    }
}
