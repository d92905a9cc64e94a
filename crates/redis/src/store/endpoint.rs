//! [`Endpoint`]: the address of a store, and how to connect to it.
//!
//! A store is one server, the master that sentinels name, or the nodes of a cluster. The scheme of the address says
//! which:
//!
//! ```text
//! redis://user:password@host:port/database          rediss:// with TLS; unix:///path
//! redis+sentinel://user:password@host:port,host:port/name/database?sentinel_auth=user:password
//! redis+cluster://user:password@host:port,host:port
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, RedisError, TlsCertificates,
    TlsMode,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::error::{Fault, RedisBuildError, StoreError};
use crate::store::redirects::Redirects;
use crate::store::wire::Wire;

/// The port of a sentinel whose address has none.
const SENTINEL_PORT: u16 = 26_379;
/// The time for asking the sentinels. The client library gives each sentinel a second to connect and half a second to
/// answer, and asks several at the same time.
const ASKING_SENTINELS: Duration = Duration::from_secs(3);
/// The server or servers of a store.
pub(crate) enum Endpoint {
    One(Client),
    /// The master that the sentinels name. The sentinels are asked before each connection, so a failover is noticed.
    Master(Mutex<SentinelClient>),
    Cluster(Cluster),
}

impl fmt::Debug for Endpoint {
    /// Does not print the addresses, since they may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One(_) => "One",
            Self::Master(_) => "Master",
            Self::Cluster(_) => "Cluster",
        })
    }
}

/// The nodes of a cluster, and the client's connection to the cluster, which all links share.
pub(crate) struct Cluster {
    client: ClusterClient,
    shared: Mutex<SharedConnection>,
    redirects: Arc<Redirects>,
}

#[derive(Default)]
struct SharedConnection {
    number: u64,
    connection: Option<ClusterConnection>,
    /// The time until which the connection is kept, even if it does not work for a link.
    kept_until: Option<Instant>,
}

/// The time for which a new connection to a cluster is not replaced. All links share the connection. When a node is
/// away, each link to that node finds that the connection does not work. Without this time, these links would replace
/// the connection of all links again and again.
const KEPT: Duration = Duration::from_secs(1);

/// A connection, and its number in the order in which its endpoint made connections.
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    pub(crate) number: u64,
}

impl Endpoint {
    /// Reads an address. `patience` is the time for connecting.
    pub(crate) fn parse(
        address: &str,
        certificates: Option<TlsCertificates>,
        patience: Duration,
    ) -> Result<Self, RedisBuildError> {
        let refused = |error: RedisError| RedisBuildError::Address { reason: error.to_string() };
        let Some((scheme, rest)) = address.split_once("://") else {
            return Err(unclear("it has no scheme"));
        };
        let is_secure = scheme.starts_with("rediss") || scheme.starts_with("valkeys");
        if is_secure {
            // Chooses the cryptography provider for TLS, unless the process has already chosen a provider. If nobody
            // chooses, the client library panics when it cannot determine a provider.
            _ = rustls::crypto::ring::default_provider().install_default();
        } else if certificates.is_some() {
            return Err(unclear("certificates are given, and it is without TLS: write rediss"));
        }
        match scheme {
            "redis+cluster" | "rediss+cluster" => {
                cluster(rest, is_secure, certificates, patience).map_err(refused)
            }
            "redis+sentinel" | "rediss+sentinel" => master(rest, is_secure, certificates),
            _ => {
                let info = address.into_connection_info().map_err(refused)?;
                let client = match certificates {
                    Some(certificates) => Client::build_with_tls(info, certificates),
                    None => Client::open(info),
                };
                Ok(Self::One(client.map_err(refused)?))
            }
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Connects, or returns why there was no connection within `patience`. Sentinels and clusters get more time than
    /// `patience`.
    pub(crate) async fn connect(
        &self,
        patience: Duration,
        deadline: Duration,
    ) -> Result<Connected, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(patience))
            .set_response_timeout(Some(patience));
        let wire = async {
            Ok(match self {
                Self::One(client) => {
                    let connecting = client.get_multiplexed_async_connection_with_config(&config);
                    Connected { wire: Wire::One(connecting.await?), number: 0 }
                }
                Self::Master(sentinels) => {
                    let mut sentinels = sentinels.lock().await;
                    let connecting = sentinels.get_async_connection_with_config(&config);
                    Connected { wire: Wire::One(connecting.await?), number: 0 }
                }
                Self::Cluster(cluster) => cluster.connect(deadline).await?,
            })
        };
        let most = match self {
            Self::One(_) => patience,
            Self::Master(_) => patience + ASKING_SENTINELS,
            // The client first connects to the nodes in the address, and then to the nodes that these name.
            Self::Cluster(_) => 3 * patience,
        };
        let connected: Result<_, RedisError> =
            timeout(most, wire).await.map_err(|_| Fault::Deadline)?;
        connected.map_err(|error| StoreError::of(&error))
    }

    /// Discards the connection with this number, because it does not work, so that no other link gets it.
    pub(crate) async fn discard(&self, number: u64) {
        if let Self::Cluster(cluster) = self {
            let mut shared = cluster.shared.lock().await;
            let is_kept = shared.kept_until.is_some_and(|until| Instant::now() < until);
            if shared.number == number && !is_kept {
                shared.connection = None;
            }
        }
    }
}

impl Cluster {
    /// The shared connection, or a new one. The client library repairs the connection itself when it notices that a
    /// node is gone. A connection that hangs is replaced.
    async fn connect(&self, within: Duration) -> Result<Connected, RedisError> {
        let mut shared = self.shared.lock().await;
        let connection = match &shared.connection {
            Some(connection) => connection.clone(),
            None => {
                let connection = self.client.get_async_connection().await?;
                shared.number += 1;
                shared.connection = Some(connection.clone());
                shared.kept_until = Some(Instant::now() + KEPT);
                connection
            }
        };
        let redirects = Arc::clone(&self.redirects);
        let wire = Wire::Cluster { connection, redirects, within };
        Ok(Connected { wire, number: shared.number })
    }
}

/// An address without user, password and options, for messages and logs.
pub(crate) fn shown(address: &str) -> Box<str> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (rest, _) = rest.split_once(['?', '#']).unwrap_or((rest, ""));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    format!("{scheme}://{hosts}{path}").into()
}

fn unclear(reason: &str) -> RedisBuildError {
    RedisBuildError::Address { reason: reason.to_string() }
}

/// Splits an address into user and password, the hosts, and the rest.
fn parts(rest: &str) -> (&str, Vec<&str>, &str) {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    (login, hosts.split(',').collect(), path)
}

/// The connection settings for one of the hosts.
fn host(is_secure: bool, login: &str, host: &str) -> Result<ConnectionInfo, RedisError> {
    let scheme = if is_secure { "rediss" } else { "redis" };
    let at = if login.is_empty() { "" } else { "@" };
    format!("{scheme}://{login}{at}{host}").into_connection_info()
}

fn cluster(
    rest: &str,
    is_secure: bool,
    certificates: Option<TlsCertificates>,
    patience: Duration,
) -> Result<Endpoint, RedisError> {
    let (login, hosts, _) = parts(rest);
    let nodes = hosts.into_iter().map(|node| host(is_secure, login, node));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    // The client library finds the nodes and keeps the connections. Calls are repeated by wire.rs and not by the client
    // library, for two reasons: the library waits before it repeats a call, and when a slot moves, it may let another
    // call use up its `ASKING` (see redirects.rs).
    let mut builder = ClusterClientBuilder::new(nodes)
        .connection_timeout(patience)
        .response_timeout(patience)
        .retries(0);
    if let Some(certificates) = &certificates {
        builder = builder.tls(TlsMode::Secure).certs(certificates.clone());
    }
    let client = builder.build()?;
    let login = login.to_string();
    let redirects = Redirects::new(Box::new(move |node| {
        let info = host(is_secure, &login, node)?;
        match &certificates {
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
            None => Client::open(info),
        }
    }));
    Ok(Endpoint::Cluster(Cluster { client, shared: Mutex::default(), redirects }))
}

fn master(
    rest: &str,
    is_secure: bool,
    certificates: Option<TlsCertificates>,
) -> Result<Endpoint, RedisBuildError> {
    let refused = |error: RedisError| RedisBuildError::Address { reason: error.to_string() };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let of_sentinels = match query.split_once('=') {
        None if query.is_empty() => "",
        Some(("sentinel_auth", login)) if login.contains(':') => login,
        _ => return Err(unclear("behind ? it has more than sentinel_auth=user:password")),
    };
    let (login, hosts, path) = parts(rest);
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    if name.is_empty() {
        return Err(unclear("it does not name the master: write redis+sentinel://hosts/name"));
    }
    // The user and password in the address are for the servers, and are not sent to the sentinels.
    let sentinel = |text: &str| {
        let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let text = if has_port { text.to_string() } else { format!("{text}:{SENTINEL_PORT}") };
        Ok(host(is_secure, "", &text)?.addr().clone())
    };
    let sentinels = hosts.into_iter().map(sentinel).collect::<Result<Vec<_>, _>>();
    let sentinels = sentinels.map_err(refused)?;
    let mut builder =
        SentinelClientBuilder::new(sentinels, name, SentinelServerType::Master).map_err(refused)?;
    let (login, database) = self::login(login, database).map_err(refused)?;
    builder = builder.set_client_to_redis_db(database);
    if let Some(user) = login.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = login.password {
        builder = builder.set_client_to_redis_password(password);
    }
    let (login, _) = self::login(of_sentinels, "").map_err(refused)?;
    if let Some(user) = login.user {
        builder = builder.set_client_to_sentinel_username(user);
    }
    if let Some(password) = login.password {
        builder = builder.set_client_to_sentinel_password(password);
    }
    if is_secure {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    Ok(Endpoint::Master(Mutex::new(builder.build().map_err(refused)?)))
}

/// User and password.
struct Login {
    user: Option<String>,
    password: Option<String>,
}

/// Parses user, password and database. The client library parses them, as part of an address with a made-up host.
fn login(login: &str, database: &str) -> Result<(Login, i64), RedisError> {
    let at = if login.is_empty() { "" } else { "@" };
    let info = format!("redis://{login}{at}host/{database}").into_connection_info()?;
    let settings = info.redis_settings();
    let [user, password] =
        [settings.username(), settings.password()].map(|text| text.map(ToString::to_string));
    Ok((Login { user, password }, settings.db()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str) -> Result<Endpoint, RedisBuildError> {
        Endpoint::parse(address, None, Duration::from_secs(1))
    }

    #[test]
    fn an_address_tells_one_server_from_sentinels_and_a_cluster() {
        for address in ["redis://host/", "rediss://u:p@host:1/2", "unix:///a", "valkey://host"] {
            assert!(matches!(parse(address), Ok(Endpoint::One(_))), "{address}");
        }
        for address in [
            "redis+cluster://a:7000,b:7001",
            "rediss+cluster://u:p%2C@a,b/",
            "redis+cluster://[::1]:7",
        ] {
            assert!(matches!(parse(address), Ok(Endpoint::Cluster(_))), "{address}");
        }
        for address in [
            "redis+sentinel://a,b:1/main",
            "rediss+sentinel://u:p@[::1]/main/3",
            "redis+sentinel://:p@a/x",
            "redis+sentinel://:p@a/x/1?sentinel_auth=watcher:q%40",
            "redis+sentinel://a/x?sentinel_auth=:q",
        ] {
            assert!(matches!(parse(address), Ok(Endpoint::Master(_))), "{address}");
        }
    }

    #[test]
    fn an_address_is_shown_without_what_is_secret_in_it() {
        for (address, expected) in [
            ("redis://host", "redis://host"),
            ("rediss://user:p%40ss@host:1/2", "rediss://host:1/2"),
            ("redis://:a@b@host/?protocol=resp3", "redis://host/"),
            ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock"),
            ("redis+cluster://u:secret@[::1]:7,b:8", "redis+cluster://[::1]:7,b:8"),
            ("redis+sentinel://a,b:1/x/3?sentinel_auth=u:se@cret", "redis+sentinel://a,b:1/x/3"),
        ] {
            assert_eq!(&*shown(address), expected, "{address}");
        }
    }

    #[test]
    fn bad_input_an_address_that_is_none_is_refused_with_its_reason() {
        for (address, reason) in [
            ("host:6379", "it has no scheme"),
            ("redis+sentinel://a,b", "it does not name the master"),
            ("redis+cluster://a:port", ""),
            ("redis+cluster://", ""),
            ("redis+sentinel://a/main/first", ""),
            ("redis+sentinel://a/main?sentinel_auth=secret", "behind ? it has more than"),
            ("redis+sentinel://a/main?secret=user:secret", "behind ? it has more than"),
            ("redis+sentinel://a/main?secret", "behind ? it has more than"),
            ("http://host", ""),
        ] {
            let Err(RedisBuildError::Address { reason: found }) = parse(address) else {
                panic!("{address}")
            };
            assert!(found.starts_with(reason), "{address}: {found}");
            assert!(!found.contains("secret"), "{found}");
        }
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(Vec::new()) };
        let plain = Endpoint::parse("redis://host/", Some(certificates), Duration::from_secs(1));
        assert!(plain.unwrap_err().to_string().contains("write rediss"));
    }
}
