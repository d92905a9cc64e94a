//! The peer's address: that of the other end of the connection, as servers record it.

use std::net::{IpAddr, SocketAddr};

use http::Extensions;

/// The address of the peer. A server that does not record it in a form known here can put this type into the request's
/// extensions.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::PeerAddress;
/// let mut request = Request::new(());
/// request.extensions_mut().insert(PeerAddress([203, 0, 113, 7].into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub IpAddr);

/// The address at the other end of the connection, as the server recorded it in the request's extensions: a
/// [`PeerAddress`], a `SocketAddr`, and with the feature `axum` also `ConnectInfo<SocketAddr>`.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{PeerAddress, peer_address};
/// let mut request = Request::new(());
/// assert_eq!(peer_address(request.extensions()), None);
/// request.extensions_mut().insert(PeerAddress([203, 0, 113, 7].into()));
/// assert_eq!(peer_address(request.extensions()), Some([203, 0, 113, 7].into()));
/// ```
#[must_use]
#[inline]
pub fn peer_address(extensions: &Extensions) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(peer)) =
        extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(peer.ip());
    }
    noted_elsewhere(extensions)
}

/// This is a separate function, which keeps the code for rare places out of the code for the most common one.
#[cfg_attr(feature = "axum", inline(never))]
fn noted_elsewhere(extensions: &Extensions) -> Option<IpAddr> {
    if let Some(PeerAddress(address)) = extensions.get() {
        return Some(*address);
    }
    extensions.get::<SocketAddr>().map(SocketAddr::ip)
}
