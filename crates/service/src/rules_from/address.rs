//! [`RedisRules`]: the address of a hash with rules in a Redis.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, RedisResult};

use crate::address_error::AddressError;

/// The key of the hash if the address has none.
const DEFAULT_KEY: &str = "tollgate:rules";

/// The schemes of the addresses of a Redis.
const SCHEMES: [&str; 7] =
    ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "valkey+unix"];

/// The maximum time for connecting, and for each answer. No request waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// The address of a hash of rule texts in Redis: `redis://user:password@host:port/database#key`. The key has no
/// escapes. Without a key the address means the key `tollgate:rules`.
///
/// The fields of the hash are named like files, and their values are the contents. One field is not a file: `version`
/// holds any text, and its value must change whenever a file changes. Rules are read again only if the version has
/// changed.
///
/// ```
/// use tollgate_service::RedisRules;
/// let rules: RedisRules = "redis://reader:secret@10.0.0.7".parse()?;
/// assert_eq!(rules.key(), "tollgate:rules");
/// // Shown without user and password.
/// assert_eq!(rules.to_string(), "redis://10.0.0.7:6379/0#tollgate:rules");
/// assert!(!format!("{rules:?}").contains("secret"));
/// assert!("http://127.0.0.1".parse::<RedisRules>().is_err());
/// # Ok::<(), tollgate_service::AddressError>(())
/// ```
#[derive(Clone)]
pub struct RedisRules {
    address: Box<str>,
    key: Box<str>,
    client: Client,
}

impl RedisRules {
    /// Whether a text is an address, and not a path.
    pub(super) fn is_address(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
    }

    /// The key of the hash.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A connection on which no operation takes longer than [`PATIENCE`].
    pub(super) fn connect(&self) -> RedisResult<Connection> {
        let connection = self.client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }
}

impl FromStr for RedisRules {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // The first # begins the key, because a # in a password has to be written %23.
        let (address, key) = text.split_once('#').unwrap_or((text, DEFAULT_KEY));
        if key.is_empty() {
            return Err(AddressError::EmptyKey);
        }
        let refused = |error: redis::RedisError| AddressError::Redis { reason: error.to_string() };
        let client = Client::open(address).map_err(refused)?;
        Ok(Self { address: address.into(), key: key.into(), client })
    }
}

impl PartialEq for RedisRules {
    fn eq(&self, other: &Self) -> bool {
        (&self.address, &self.key) == (&other.address, &other.key)
    }
}

impl Eq for RedisRules {}

impl fmt::Display for RedisRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_server(f, self.client.get_connection_info())?;
        write!(f, "#{}", self.key)
    }
}

impl fmt::Debug for RedisRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisRules").field(&self.to_string()).finish()
    }
}

/// The server's address without user and password.
fn write_server(f: &mut fmt::Formatter<'_>, info: &ConnectionInfo) -> fmt::Result {
    let database = info.redis_settings().db();
    let (scheme, host, port) = match info.addr() {
        ConnectionAddr::Unix(path) => {
            write!(f, "unix://{}", path.display())?;
            return if database == 0 { Ok(()) } else { write!(f, "?db={database}") };
        }
        ConnectionAddr::TcpTls { host, port, .. } => ("rediss", host, port),
        ConnectionAddr::Tcp(host, port) => ("redis", host, port),
        other => return write!(f, "{other}"),
    };
    if host.contains(':') {
        write!(f, "{scheme}://[{host}]:{port}/{database}")
    } else {
        write!(f, "{scheme}://{host}:{port}/{database}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(address: &str) -> String {
        let rules: RedisRules = address.parse().unwrap_or_else(|error| panic!("{error}"));
        assert!(!format!("{rules:?} {rules}").contains("secret"), "{address}");
        rules.to_string()
    }

    #[test]
    fn an_address_is_shown_as_it_is_and_without_credentials() {
        for (address, expected) in [
            ("redis://localhost", "redis://localhost:6379/0#tollgate:rules"),
            ("redis://:secret@localhost:7/3#a#b c", "redis://localhost:7/3#a#b c"),
            ("valkey://me:secret@[::1]/", "redis://[::1]:6379/0#tollgate:rules"),
            ("unix:///run/redis.sock?pass=secret&db=2#r", "unix:///run/redis.sock?db=2#r"),
            ("redis+unix:///run/redis.sock", "unix:///run/redis.sock#tollgate:rules"),
        ] {
            assert_eq!(shown(address), expected);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for (address, begins) in [
            ("redis://:secret@", "the address of the rules is not understood: "),
            ("redis://:secret@localhost/x", "the address of the rules is not understood: "),
            ("secret", "the address of the rules is not understood: "),
            ("redis://:secret@localhost#", "the address of the rules has no key behind its #; "),
        ] {
            let error = address.parse::<RedisRules>().expect_err(address).to_string();
            assert!(error.starts_with(begins) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_begins_as_an_address_is_one_and_everything_else_is_a_path() {
        for address in ["redis://x", "rediss://x", "valkey://x", "unix:///x", "redis+unix:///x"] {
            assert!(RedisRules::is_address(address), "{address}");
        }
        for path in ["", "rules", "/redis://x", "redis:/x", "http://x", "./unix:///x", "redis"] {
            assert!(!RedisRules::is_address(path), "{path}");
        }
    }
}
