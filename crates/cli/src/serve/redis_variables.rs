//! The settings of Redis, from the variables of envoyproxy/ratelimit.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::environment::Environment;
use super::setting::{SettingError, bad};
use super::values::Values;

const TYPES: &str = "SINGLE, SENTINEL or CLUSTER";
const SOCKETS: &str = "tcp, tls or unix";
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
const TIMEOUT: &str = "a time from 1ms to 60s, as in 5ms";
const SENTINELS: &str =
    "the master's name and the Sentinels, as in main,10.0.0.1:26379,10.0.0.2:26379";

const PREFIX: &str = "CACHE_KEY_PREFIX";

const TLS_FILES: [(&str, &str); 3] = [
    ("REDIS_TLS_CACERT", "redis-tls-ca"),
    ("REDIS_TLS_CLIENT_CERT", "redis-tls-cert"),
    ("REDIS_TLS_CLIENT_KEY", "redis-tls-key"),
];

/// Gives the settings of Redis the values of `REDIS_URL`, if it is set, and of the variables that belong to it.
pub(super) fn layer(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    if let Some(url) = environment.text("REDIS_URL") {
        let socket = environment.text("REDIS_SOCKET_TYPE").unwrap_or("tcp");
        if !matches!(socket, "tcp" | "tls" | "unix") {
            return Err(bad("REDIS_SOCKET_TYPE", socket, SOCKETS));
        }
        let is_secure = environment.truth("REDIS_TLS")?.unwrap_or(false) || socket == "tls";
        values.put_of("REDIS_URL", "redis", address(url, socket, is_secure, environment)?);
        if let Some(timeout) = environment.duration("REDIS_TIMEOUT", TIMEOUTS, TIMEOUT)? {
            // A part of a millisecond is rounded up to one.
            let millis = timeout.as_micros().div_ceil(1_000);
            values.put_of("REDIS_TIMEOUT", "redis-deadline", millis.to_string());
        }
        for (variable, name) in TLS_FILES {
            if let Some(file) = environment.text(variable).filter(|_| is_secure) {
                values.put_of(variable, name, file);
            }
        }
    }
    if let Some(prefix) = environment.text(PREFIX).filter(|_| values.has("redis")) {
        values.put_of(PREFIX, "redis-prefix", prefix);
    }
    Ok(())
}

/// Returns the address of Redis, with the passwords for it.
fn address(
    url: &str,
    socket: &str,
    is_secure: bool,
    environment: &Environment,
) -> Result<String, SettingError> {
    let scheme = if is_secure { "rediss" } else { "redis" };
    let login = login(environment.text("REDIS_AUTH"));
    let kind = environment.text("REDIS_TYPE").unwrap_or("SINGLE");
    Ok(match kind.to_ascii_uppercase().as_str() {
        "SINGLE" if url.contains("://") => url.to_owned(),
        "SINGLE" if socket == "unix" || url.starts_with('/') => unix(url, &login),
        "SINGLE" => format!("{scheme}://{}{url}/", at(&login)),
        "CLUSTER" => format!("{scheme}+cluster://{}{url}/", at(&login)),
        "SENTINEL" => {
            let (name, hosts) =
                url.split_once(',').ok_or_else(|| bad("REDIS_URL", url, SENTINELS))?;
            let of_sentinels = self::login(environment.text("REDIS_SENTINEL_AUTH"))
                .map_or_else(String::new, |Login { user, password }| {
                    format!("?sentinel_auth={user}:{password}")
                });
            format!("{scheme}+sentinel://{}{hosts}/{name}{of_sentinels}", at(&login))
        }
        _ => return Err(bad("REDIS_TYPE", kind, TYPES)),
    })
}

struct Login {
    user: String,
    password: String,
}

/// Returns user and password for an address. The variable has the password alone, or both with a colon in between.
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

    fn of(pairs: &[(&str, &str)]) -> Result<Values, SettingError> {
        let mut values = Values::default();
        layer(&mut values, &Environment::of(pairs)).map(|()| values)
    }

    #[test]
    fn an_address_is_put_together_of_what_envoyproxy_ratelimit_is_told() {
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
            let values = of(&pairs).expect("good");
            assert_eq!(values.text("redis"), Some(expected.as_ref()));
        }
        assert!(!of(&[("REDIS_TYPE", "CLUSTER")]).expect("good").has("redis"));
    }

    #[test]
    fn the_rest_is_taken_over_and_what_cannot_be_is_refused() {
        let url = ("REDIS_URL", "db:6379");
        let values = of(&[url, ("REDIS_TIMEOUT", "20100us"), (PREFIX, "rl")]).expect("good");
        let found = ["redis-deadline", "redis-prefix"].map(|name| values.text(name));
        assert_eq!(found, [Some("21".as_ref()), Some("rl".as_ref())]);
        let authority = ("REDIS_TLS_CACERT", "/ca");
        let secure = of(&[url, ("REDIS_TLS", "true"), authority]).expect("good");
        assert_eq!(secure.text("redis-tls-ca"), Some("/ca".as_ref()));
        assert!(!of(&[url, authority]).expect("good").has("redis-tls-ca"));
        assert!(!of(&[(PREFIX, "rl")]).expect("good").has("redis-prefix"));
        for (name, value, accepted) in [
            ("REDIS_TYPE", "MANY", TYPES),
            ("REDIS_SOCKET_TYPE", "udp", SOCKETS),
            ("REDIS_TIMEOUT", "1h", TIMEOUT),
            ("REDIS_TIMEOUT", "0s", TIMEOUT),
            ("REDIS_TIMEOUT", "NaNs", TIMEOUT),
        ] {
            assert_eq!(of(&[url, (name, value)]).err(), Some(bad(name, value, accepted)));
        }
        assert!(of(&[url, ("REDIS_TYPE", "SENTINEL")]).is_err());
    }
}
