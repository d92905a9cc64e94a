//! [`StoreOptions`]: the address of a store, and how to connect to it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ClientTlsConfig, TlsCertificates};
use tokio::runtime::Handle;

use crate::error::RedisBuildError;
use crate::hash_slot::SLOTS;
use crate::script;
use crate::settings::check_name;
use crate::store::Store;
use crate::store::endpoint::{self, Endpoint};
use crate::store::flight::ServerClock;
use crate::store::link::{Bond, patience};
use crate::store::link_set::LinkSet;
use crate::store::stats::StoreCounters;

/// The address of a [`Store`], and how to connect to it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
/// use std::time::Duration;
/// use tollgate_redis::StoreOptions;
/// let options = StoreOptions::new("redis+cluster://limiter:secret@10.0.0.1,10.0.0.2:6380/")
///     .deadline(Duration::from_millis(10))
///     .prefix("limits");
/// assert!(!format!("{options:?}").contains("secret"));
/// assert!(options.open()?.is_degraded()); // no node has answered yet
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct StoreOptions {
    address: String,
    deadline: Duration,
    prefix: String,
    authority: Option<Vec<u8>>,
    identity: Option<ClientTlsConfig>,
}

impl fmt::Debug for StoreOptions {
    /// Does not print the address, which may contain a password, nor the TLS certificates and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl StoreOptions {
    /// The default of the maximum time that callers wait for a store, 10 ms. By default Envoy waits twice as long for a
    /// rate limit service, so the answer comes in time. `docs/speed.md` has measurements.
    ///
    /// ```
    /// assert_eq!(tollgate_redis::StoreOptions::DEADLINE.as_millis(), 10);
    /// ```
    pub const DEADLINE: Duration = Duration::from_millis(10);

    /// The address without user, password and options: for messages and logs.
    ///
    /// ```
    /// let options = tollgate_redis::StoreOptions::new("redis://limiter:secret@10.0.0.1:6379/2?protocol=resp3");
    /// assert_eq!(&*options.place(), "redis://10.0.0.1:6379/2");
    /// ```
    #[must_use]
    pub fn place(&self) -> Box<str> {
        endpoint::shown(&self.address)
    }

    /// Options for the store at an address. Callers wait for the store for at most 10 ms, and its keys start with
    /// `tollgate:`.
    ///
    /// | The store is | The address |
    /// |---|---|
    /// | one server | `redis://user:password@host:port/database`, or `unix:///path` |
    /// | the master that Sentinels name | `redis+sentinel://user:password@host:port,host:port/name/database` |
    /// | a cluster | `redis+cluster://user:password@host:port,host:port` |
    ///
    /// The scheme `rediss` in place of `redis` means TLS. For a cluster, any of the nodes are enough; Sentinels must
    /// all be named. The user and password are for the servers. If the Sentinels also need a password, write
    /// `name?sentinel_auth=user:password` or, without a user, `name?sentinel_auth=:password`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use tollgate_redis::StoreOptions;
    /// assert!(StoreOptions::new("redis+sentinel://10.0.0.1,10.0.0.2/main").open().is_ok());
    /// assert!(StoreOptions::new("redis+sentinel://10.0.0.1,10.0.0.2").open().is_err());
    /// # }
    /// ```
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            deadline: Self::DEADLINE,
            prefix: "tollgate".to_string(),
            authority: None,
            identity: None,
        }
    }

    /// Sets the maximum time that callers wait for the store, from 1 ms to a minute.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use tollgate_redis::StoreOptions;
    /// let with = |ms| StoreOptions::new("redis://host/").deadline(Duration::from_millis(ms));
    /// assert!(with(10).open().is_ok() && with(0).open().is_err());
    /// # }
    /// ```
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the beginning of all keys. It may contain none of `{`, `}` and `:`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use tollgate_redis::StoreOptions;
    /// assert!(StoreOptions::new("redis://host/").prefix("limits").open().is_ok());
    /// # }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// For TLS: sets the certificates (PEM) of the authorities that must have signed the servers' certificates. These
    /// replace the authorities that the machine trusts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use tollgate_redis::StoreOptions;
    /// let error = StoreOptions::new("rediss://host/").trust("no certificate").open().unwrap_err();
    /// assert!(error.to_string().contains("holds no certificate"));
    /// # }
    /// ```
    pub fn trust(mut self, authorities: impl Into<Vec<u8>>) -> Self {
        self.authority = Some(authorities.into());
        self
    }

    /// For TLS: sets this client's own certificate and key (PEM), for servers that ask for a client certificate.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use tollgate_redis::StoreOptions;
    /// assert!(StoreOptions::new("rediss://host/").identity("no", "pair").open().is_err());
    /// # }
    /// ```
    pub fn identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let (client_cert, client_key) = (certificate.into(), key.into());
        self.identity = Some(ClientTlsConfig { client_cert, client_key });
        self
    }

    /// Opens the store. It does not test whether a server answers at the address.
    ///
    /// # Errors
    /// The address or the certificates are not valid, the deadline or the prefix is out of range, or there is no tokio
    /// runtime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(tollgate_redis::StoreOptions::new("redis://127.0.0.1/").open().is_ok());
    /// # }
    /// ```
    pub fn open(self) -> Result<Store, RedisBuildError> {
        let Self { address, deadline, prefix, authority, identity } = self;
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&deadline) {
            let (setting, accepted) = ("the deadline", "1 ms to 60 s");
            return Err(RedisBuildError::Setting { setting, accepted });
        }
        check_name("the prefix", &prefix)?;
        let begin = "-----BEGIN ".as_bytes();
        let is_pem = |text: &Vec<u8>| text.windows(begin.len()).any(|found| found == begin);
        if authority.as_ref().is_some_and(|text| !is_pem(text)) {
            let reason = "the file of authorities holds no certificate".to_string();
            return Err(RedisBuildError::Address { reason });
        }
        let is_given = authority.is_some() || identity.is_some();
        let certificates =
            is_given.then_some(TlsCertificates { client_tls: identity, root_cert: authority });
        let endpoint = Endpoint::parse(&address, certificates, patience(deadline))?;
        let runtime = Handle::try_current().map_err(|_| RedisBuildError::NoRuntime)?;
        let changed = Arc::default();
        let counters = Arc::new(StoreCounters::default());
        let clock = ServerClock::new(if endpoint.is_cluster() { SLOTS } else { 1 });
        let bond = Bond {
            endpoint: Arc::new(endpoint),
            deadline,
            counters,
            runtime,
            changed,
            text: script::text().into(),
            digest: Arc::default(),
            clock: Arc::new(clock),
        };
        let prefix: Arc<str> = prefix.into();
        let links = LinkSet::open(bond, endpoint::shown(&address), &prefix)?;
        Ok(Store { links, prefix, origin: Instant::now() })
    }
}

impl Store {
    /// Opens the store at an address, such as `redis://user:password@host:port/database`: see [`StoreOptions::new`].
    /// Callers wait for the store for at most 10 ms, and its keys start with `tollgate:`.
    ///
    /// # Errors
    /// The address is not valid, or there is no tokio runtime. `open` does not test whether a server answers at the
    /// address.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use tollgate_redis::Store;
    /// assert!(Store::open("redis://127.0.0.1/").is_ok());
    /// assert!(Store::open("http://127.0.0.1/").is_err());
    /// # }
    /// ```
    pub fn open(address: &str) -> Result<Self, RedisBuildError> {
        StoreOptions::new(address).open()
    }

    /// [`open`](Store::open) with a deadline for callers, from 1 ms to a minute, and a prefix for keys.
    ///
    /// # Errors
    /// The errors of [`open`](Store::open). Also an error if the deadline or the prefix is out of range.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use tollgate_redis::Store;
    /// let with = |ms| Store::with("redis://127.0.0.1/", Duration::from_millis(ms), "limits");
    /// assert!(with(10).is_ok() && with(0).is_err());
    /// # }
    /// ```
    pub fn with(address: &str, deadline: Duration, prefix: &str) -> Result<Self, RedisBuildError> {
        StoreOptions::new(address).deadline(deadline).prefix(prefix).open()
    }
}
