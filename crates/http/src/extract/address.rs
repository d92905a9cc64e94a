//! [`ClientAddress`]: the address of the client, read only from sources that are trusted.

use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Extensions;
use http::header::{FORWARDED, HeaderName};
use ipnet::IpNet;

use super::forwarded::{FromRight, forwarded_for};
use super::peer::peer_address;
use super::{Extract, Head, NoKey, node};
use crate::error::KeyError;
use crate::key::Key;
use crate::warning::{GivenWarnings, Warning, Warnings};

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// All of the first `LOOKS` requests are inspected for forwarding headers that no setting declares. After them each
/// thread inspects one request in `LOOK_EVERY`. An inspection costs as much as the rest of the extraction.
const LOOKS: u32 = 1_024;
const LOOK_EVERY: u32 = 64;

thread_local! {
    static REQUESTS: Cell<u32> = const { Cell::new(0) };
}

type PeerOf = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;

/// The proxies that are trusted to write the address of their own peer into a forwarding header.
#[derive(Clone, Debug)]
enum Trust {
    Nobody,
    /// This number of proxies stands before the server. Their addresses do not matter.
    Hops(u8),
    Nets(Arc<[IpNet]>),
}

/// The header in which proxies write the address that they forward for.
#[derive(Clone, Debug)]
enum AddressSource {
    XForwardedFor,
    Forwarded,
    /// A header with one address, as some vendors send it.
    Single(HeaderName),
}

/// The client's address: that of the peer, or the one that trusted proxies forward for.
///
/// By default it is the address at the other end of the connection, and no header is believed. For a server behind
/// proxies, set either the number of [hops](ClientAddress::trusting_hops) or their
/// [addresses](ClientAddress::trusting). Then `X-Forwarded-For` is read from the right, as long as the proxy that wrote
/// the next address is trusted. The client is the last address that was read, so an address that a client writes itself
/// is never believed. If an element cannot be parsed, the client is the last address before it.
///
/// An IPv6 client owns a whole network, so by default all addresses of one /64 are one client. An IPv4-mapped IPv6
/// address (`::ffff:192.0.2.60`) is the IPv4 address. Other ranges that carry IPv4 addresses (6to4, Teredo, NAT64)
/// are keyed by their /64 like any IPv6 address: all clients behind one NAT64, or behind one Teredo server, are one
/// client.
///
/// The peer's address is taken from the request's extensions: [`PeerAddress`](crate::keys::PeerAddress), `SocketAddr`, and
/// with the feature `axum` also `ConnectInfo<SocketAddr>`. A function of your own can find it instead.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{ClientAddress, Head, PeerAddress};
/// let mut request = Request::builder()
///     .header("x-forwarded-for", "1.2.3.4, 198.51.100.9") // the client wrote the first address itself
///     .body(())?;
/// request.extensions_mut().insert(PeerAddress([10, 0, 0, 1].into()));
/// let head = Head::of(&request);
/// let find = |by: ClientAddress| by.find(&head).map(|address| address.to_string());
/// assert_eq!(find(ClientAddress::peer()).as_deref(), Some("10.0.0.1"));
/// assert_eq!(find(ClientAddress::trusting_hops(1)).as_deref(), Some("198.51.100.9"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone)]
pub struct ClientAddress {
    trust: Trust,
    source: AddressSource,
    /// Addresses that agree in this many leading bits belong to one client.
    v4_bits: u8,
    v6_bits: u8,
    v6_only: bool,
    peer_of: Option<Arc<PeerOf>>,
    health: Arc<HeaderHealth>,
}

#[derive(Debug, Default)]
struct HeaderHealth {
    given: GivenWarnings,
    looks: AtomicU32,
}

impl ClientAddress {
    fn new(trust: Trust) -> Self {
        Self {
            trust,
            source: AddressSource::XForwardedFor,
            v4_bits: 32,
            v6_bits: 64,
            v6_only: false,
            peer_of: None,
            health: Arc::default(),
        }
    }

    /// The address at the other end of the connection. Headers are ignored.
    ///
    /// ```
    /// use tollgate_http::keys::{ClientAddress, Extract};
    /// let _: &dyn Extract = &ClientAddress::peer();
    /// ```
    #[must_use]
    pub fn peer() -> Self {
        Self::new(Trust::Nobody)
    }

    /// For a server behind this many proxies of yours: the client is the address that the outermost proxy has written,
    /// the `hops`-th from the right. A request with fewer addresses did not come through all the proxies, so its client
    /// is the peer. 0 means [`peer`](ClientAddress::peer).
    ///
    /// This is correct only if clients cannot reach the server without passing that many proxies.
    ///
    /// ```
    /// use tollgate_http::keys::ClientAddress;
    /// // A load balancer, and a content delivery network before it.
    /// let by = ClientAddress::trusting_hops(2);
    /// # let _ = by;
    /// ```
    #[must_use]
    pub fn trusting_hops(hops: u8) -> Self {
        Self::new(if hops == 0 { Trust::Nobody } else { Trust::Hops(hops) })
    }

    /// For a server behind proxies with addresses in these networks: the client is the first address from the right
    /// that is in none of them. If all addresses are in them, the client is the leftmost.
    ///
    /// ```
    /// use tollgate_http::keys::ClientAddress;
    /// let by = ClientAddress::trusting(["10.0.0.0/8".parse()?, "fd00::/8".parse()?]);
    /// # let _ = by;
    /// # Ok::<(), ipnet::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn trusting(networks: impl IntoIterator<Item = IpNet>) -> Self {
        let networks: Arc<[IpNet]> = networks.into_iter().collect();
        let everybody = networks.iter().any(|network| network.prefix_len() == 0);
        let client = Self::new(Trust::Nets(networks));
        if everybody {
            client.health.given.once(Warning::EverybodyTrusted);
        }
        client
    }

    /// Reads `Forwarded` (RFC 7239) in place of `X-Forwarded-For`.
    ///
    /// ```
    /// use tollgate_http::keys::ClientAddress;
    /// let by = ClientAddress::trusting_hops(1).in_forwarded();
    /// # let _ = by;
    /// ```
    #[must_use]
    pub fn in_forwarded(self) -> Self {
        Self { source: AddressSource::Forwarded, ..self }
    }

    /// Reads a header that holds one address, such as `CF-Connecting-IP`, in place of `X-Forwarded-For`. The header is
    /// believed only from a trusted peer, and only if there is exactly one such header line.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tollgate_http::keys::ClientAddress;
    /// let vendor = ["198.51.100.0/24".parse()?];
    /// let by = ClientAddress::trusting(vendor).in_header(HeaderName::from_static("cf-connecting-ip"));
    /// # let _ = by;
    /// # Ok::<(), ipnet::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn in_header(self, name: HeaderName) -> Self {
        Self { source: AddressSource::Single(name), ..self }
    }

    /// Groups IPv4 addresses by their first bits; by default by all 32.
    ///
    /// # Errors
    /// Fails for 0 bits and for more than 32.
    ///
    /// ```
    /// use tollgate_http::keys::ClientAddress;
    /// assert!(ClientAddress::peer().v4_prefix(24).is_ok());
    /// assert!(ClientAddress::peer().v4_prefix(0).is_err());
    /// ```
    pub fn v4_prefix(mut self, bits: u8) -> Result<Self, KeyError> {
        self.v4_bits = KeyError::check_prefix(bits, 32)?;
        Ok(self)
    }

    /// Groups IPv6 addresses by their first bits: 64 by default, the smallest network that a customer gets. Many get
    /// a /56 or /48.
    ///
    /// # Errors
    /// Fails for 0 bits and for more than 128.
    ///
    /// ```
    /// use tollgate_http::keys::ClientAddress;
    /// assert!(ClientAddress::peer().v6_prefix(56).is_ok());
    /// let error = ClientAddress::peer().v6_prefix(129).err().map(|error| error.to_string());
    /// assert_eq!(error.as_deref(), Some("a prefix of 129 bits is not possible; use 1 to 128"));
    /// ```
    pub fn v6_prefix(mut self, bits: u8) -> Result<Self, KeyError> {
        self.v6_bits = KeyError::check_prefix(bits, 128)?;
        Ok(self)
    }

    /// Makes the policy skip IPv4 clients. This is for a second policy, on wider IPv6 networks.
    ///
    /// ```
    /// use tollgate_http::keys::{ClientAddress, KeyError};
    /// let wider = ClientAddress::peer().v6_prefix(48)?.v6_only();
    /// # let _ = wider;
    /// # Ok::<(), KeyError>(())
    /// ```
    #[must_use]
    pub fn v6_only(self) -> Self {
        Self { v6_only: true, ..self }
    }

    /// Finds the peer's address by this function, where your server has put it.
    ///
    /// ```
    /// use std::net::IpAddr;
    /// use tollgate_http::keys::ClientAddress;
    /// #[derive(Clone)]
    /// struct Connection { from: IpAddr }
    /// let by = ClientAddress::peer()
    ///     .with_peer_from(|extensions| Some(extensions.get::<Connection>()?.from));
    /// # let _ = by;
    /// ```
    #[must_use]
    pub fn with_peer_from(
        self,
        find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        Self { peer_of: Some(Arc::new(find)), ..self }
    }

    /// The first address of the client's network. An IPv4 address within IPv6 (`::ffff:192.0.2.60`) is the IPv4
    /// address.
    #[inline]
    fn network(&self, address: IpAddr) -> IpAddr {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { self.v4_bits } else { self.v6_bits };
        // The bits were checked when they were set.
        IpNet::new(address, bits).map_or(address, |network| network.network())
    }

    /// The client's full address; `None` if no trusted proxy names it and the peer's address is unknown.
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_http::keys::{ClientAddress, Head};
    /// assert_eq!(ClientAddress::peer().find(&Head::of(&Request::new(()))), None);
    /// ```
    #[inline]
    #[must_use]
    pub fn find(&self, head: &Head<'_>) -> Option<IpAddr> {
        if let Trust::Nobody = self.trust {
            self.look_for_undeclared(head);
            self.peer_in(head.extensions)
        } else {
            self.named_to_us(head)
        }
    }

    /// The address that trusted proxies name.
    #[inline(never)]
    fn named_to_us(&self, head: &Head<'_>) -> Option<IpAddr> {
        let peer = self.peer_in(head.extensions);
        match &self.trust {
            Trust::Nobody => peer,
            Trust::Hops(hops) => self.named(head, peer, *hops, |_| false),
            Trust::Nets(networks) => {
                let trusted = |address| networks.iter().any(|network| network.contains(&address));
                // If the peer's address is unknown, no proxy is known to be trusted.
                self.named(head, Some(peer?), 0, trusted)
            }
        }
    }

    /// The peer's address, which cannot be forged.
    #[inline]
    fn peer_in(&self, extensions: &Extensions) -> Option<IpAddr> {
        let found = match &self.peer_of {
            Some(find) => find(extensions),
            None => peer_address(extensions),
        };
        found.map(|address| address.to_canonical())
    }

    /// Reads addresses from right to left for as long as the writer of the next address is trusted. If `hops` is above
    /// 0, the writer is trusted while fewer than `hops` addresses have been read; otherwise `trusted` judges the
    /// writer's address.
    fn named(
        &self,
        head: &Head<'_>,
        peer: Option<IpAddr>,
        hops: u8,
        trusted: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let (name, is_forwarded) = match &self.source {
            AddressSource::XForwardedFor => (&X_FORWARDED_FOR, false),
            AddressSource::Forwarded => (&FORWARDED, true),
            AddressSource::Single(name) => {
                let is_trusted = hops > 0 || peer.is_some_and(trusted);
                return if is_trusted { single(head, name).or(peer) } else { peer };
            }
        };
        let read = if is_forwarded { forwarded_for } else { node::address };
        let mut elements = FromRight::new(head.headers, name, is_forwarded);
        let (mut client, mut hops_left) = (peer, hops);
        while hops_left > 0 || (hops == 0 && client.is_some_and(&trusted)) {
            let Some(element) = elements.next() else {
                // Fewer addresses than hops: the request did not come through all the proxies.
                return if hops > 0 { peer } else { client };
            };
            let Some(address) = read(element) else { return client };
            (client, hops_left) = (Some(address), hops_left.saturating_sub(1));
        }
        client
    }

    /// Warns of a forwarding header that no setting declares. Such a header is ignored.
    #[inline]
    fn look_for_undeclared(&self, head: &Head<'_>) {
        // Relaxed: this only counts inspections, and a few more or fewer do not matter.
        if self.health.looks.load(Ordering::Relaxed) < LOOKS {
            self.health.looks.fetch_add(1, Ordering::Relaxed);
        } else if !REQUESTS.with(|requests| {
            requests.set(requests.get().wrapping_add(1));
            requests.get().is_multiple_of(LOOK_EVERY)
        }) {
            return;
        }
        self.look(head);
    }

    #[cold]
    fn look(&self, head: &Head<'_>) {
        if head.headers.contains_key(&X_FORWARDED_FOR) || head.headers.contains_key(FORWARDED) {
            self.health.given.once(Warning::ForwardingIgnored);
        }
    }
}

/// This is a separate function, so that IPv6 and IPv4 are each copied with a constant length.
#[inline(never)]
fn push_v6(network: Ipv6Addr, key: &mut Key) {
    key.push(&network.octets());
}

/// The address in a header, if the header has exactly one line.
fn single(head: &Head<'_>, name: &HeaderName) -> Option<IpAddr> {
    let mut lines = head.headers.get_all(name).iter();
    let only = lines.next().filter(|_| lines.next().is_none())?;
    node::address(only.as_bytes())
}

impl Extract for ClientAddress {
    #[inline]
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        match self.find(head).map(|address| self.network(address)) {
            Some(IpAddr::V4(_)) if self.v6_only => return Err(NoKey::NotConcerned),
            Some(IpAddr::V4(network)) => key.push(&network.octets()),
            Some(IpAddr::V6(network)) => push_v6(network, key),
            None => {
                self.health.given.once(Warning::NoPeerAddress);
                return Err(NoKey::Missing);
            }
        }
        Ok(())
    }

    fn warnings(&self) -> Warnings {
        self.health.given.so_far()
    }
}

impl fmt::Debug for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAddress")
            .field("trust", &self.trust)
            .field("source", &self.source)
            .field("v4_bits", &self.v4_bits)
            .field("v6_bits", &self.v6_bits)
            .field("v6_only", &self.v6_only)
            .finish_non_exhaustive()
    }
}
