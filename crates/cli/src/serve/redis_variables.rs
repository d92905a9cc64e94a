//! The address of Redis, from the variables of envoyproxy/ratelimit.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_service::Global;

use super::environment::{BadVariable, Environment};

const TYPES: &str = "SINGLE, SENTINEL or CLUSTER";
const SOCKETS: &str = "tcp, tls or unix";
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
const TIMEOUT: &str = "a time from 1ms to 60s, as in 5ms";
const SENTINELS: &str =
    "the master's name and the Sentinels, as in main,10.0.0.1:26379,10.0.0.2:26379";

/// The Redis of `REDIS_URL`, if it is set.
pub(super) fn global(environment: &Environment) -> Result<Option<Global>, BadVariable> {
    let Some(url) = environment.text("REDIS_URL") else { return Ok(None) };
    let refuse =
        |name, found: &str, accepted| BadVariable { name, found: found.to_owned(), accepted };
    let socket = environment.text("REDIS_SOCKET_TYPE").unwrap_or("tcp");
    if !matches!(socket, "tcp" | "tls" | "unix") {
        return Err(refuse("REDIS_SOCKET_TYPE", socket, SOCKETS));
    }
    let is_secure = environment.truth("REDIS_TLS")?.unwrap_or(false) || socket == "tls";
    let scheme = if is_secure { "rediss" } else { "redis" };
    let login = login(environment.text("REDIS_AUTH"));
    let kind = environment.text("REDIS_TYPE").unwrap_or("SINGLE");
    let address = match kind.to_ascii_uppercase().as_str() {
        "SINGLE" if url.contains("://") => url.to_owned(),
        "SINGLE" if socket == "unix" || url.starts_with('/') => unix(url, &login),
        "SINGLE" => format!("{scheme}://{}{url}/", at(&login)),
        "CLUSTER" => format!("{scheme}+cluster://{}{url}/", at(&login)),
        "SENTINEL" => {
            let (name, hosts) =
                url.split_once(',').ok_or_else(|| refuse("REDIS_URL", url, SENTINELS))?;
            let of_sentinels = self::login(environment.text("REDIS_SENTINEL_AUTH"))
                .map_or_else(String::new, |Login { user, password }| {
                    format!("?sentinel_auth={user}:{password}")
                });
            format!("{scheme}+sentinel://{}{hosts}/{name}{of_sentinels}", at(&login))
        }
        _ => return Err(refuse("REDIS_TYPE", kind, TYPES)),
    };
    let mut global = Global::new(address);
    if let Some(timeout) = environment.duration("REDIS_TIMEOUT", TIMEOUTS, TIMEOUT)? {
        global.deadline = timeout;
    }
    if let Some(prefix) = environment.text("CACHE_KEY_PREFIX") {
        prefix.clone_into(&mut global.prefix);
    }
    if is_secure {
        let file = |name| environment.text(name).map(PathBuf::from);
        global.authority = file("REDIS_TLS_CACERT");
        global.certificate = file("REDIS_TLS_CLIENT_CERT");
        global.key = file("REDIS_TLS_CLIENT_KEY");
    }
    Ok(Some(global))
}

struct Login {
    user: String,
    password: String,
}

/// User and password for an address. The variable has the password alone, or both with a colon
/// between.
fn login(text: Option<&str>) -> Option<Login> {
    let (user, password) = text.map(|text| text.split_once(':').unwrap_or(("", text)))?;
    Some(Login { user: encoded(user), password: encoded(password) })
}

fn at(login: &Option<Login>) -> String {
    let at = |Login { user, password }: &Login| format!("{user}:{password}@");
    login.as_ref().map_or_else(String::new, at)
}

fn unix(path: &str, login: &Option<Login>) -> String {
    match login {
        Some(Login { user, password }) if user.is_empty() => {
            format!("unix://{path}?pass={password}")
        }
        Some(Login { user, password }) => format!("unix://{path}?user={user}&pass={password}"),
        None => format!("unix://{path}"),
    }
}

/// Escapes the separators of an address.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<Global>, BadVariable> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        global(&pairs.collect())
    }

    #[test]
    fn an_address_is_put_together_of_what_envoyproxy_ratelimit_is_told() {
        let address = |pairs: &[(&str, &str)]| of(pairs).expect("good").expect("set").address;
        for (pairs, expected) in [
            (vec![("REDIS_URL", "db:6379")], "redis://db:6379/"),
            (vec![("REDIS_URL", "db:1"), ("REDIS_AUTH", "a@b")], "redis://:a%40b@db:1/"),
            (vec![("REDIS_URL", "db:1"), ("REDIS_AUTH", "u:p:q")], "redis://u:p%3Aq@db:1/"),
            (vec![("REDIS_URL", "db:1"), ("REDIS_TLS", "true")], "rediss://db:1/"),
            (vec![("REDIS_URL", "/run/redis.sock")], "unix:///run/redis.sock"),
            (
                vec![("REDIS_URL", "a:1,b:2"), ("REDIS_TYPE", "CLUSTER"), ("REDIS_AUTH", "p")],
                "redis+cluster://:p@a:1,b:2/",
            ),
            (
                vec![("REDIS_URL", "main,a:1,b:2"), ("REDIS_TYPE", "sentinel"), ("REDIS_TLS", "1")],
                "rediss+sentinel://a:1,b:2/main",
            ),
            (
                vec![
                    ("REDIS_URL", "main,a:1"),
                    ("REDIS_TYPE", "SENTINEL"),
                    ("REDIS_AUTH", "u:p"),
                    ("REDIS_SENTINEL_AUTH", "a@b"),
                ],
                "redis+sentinel://u:p@a:1/main?sentinel_auth=:a%40b",
            ),
        ] {
            assert_eq!(address(&pairs), expected);
        }
        assert_eq!(of(&[("REDIS_TYPE", "CLUSTER")]), Ok(None));
    }

    #[test]
    fn the_rest_is_taken_over_and_what_cannot_be_is_refused() {
        let url = ("REDIS_URL", "db:6379");
        let global = of(&[url, ("REDIS_TIMEOUT", "20ms"), ("CACHE_KEY_PREFIX", "rl")]);
        let global = global.expect("good").expect("set");
        assert_eq!((global.deadline, global.prefix.as_str()), (Duration::from_millis(20), "rl"));
        let secure = of(&[url, ("REDIS_TLS", "true"), ("REDIS_TLS_CACERT", "/ca")]);
        assert_eq!(secure.expect("good").expect("set").authority, Some(PathBuf::from("/ca")));
        for (name, value, accepted) in [
            ("REDIS_TYPE", "MANY", TYPES),
            ("REDIS_SOCKET_TYPE", "udp", SOCKETS),
            ("REDIS_TIMEOUT", "1h", TIMEOUT),
            ("REDIS_TIMEOUT", "0s", TIMEOUT),
            ("REDIS_TIMEOUT", "NaNs", TIMEOUT),
        ] {
            let found = value.to_owned();
            assert_eq!(of(&[url, (name, value)]), Err(BadVariable { name, found, accepted }));
        }
        assert!(of(&[url, ("REDIS_TYPE", "SENTINEL")]).is_err());
    }
}
