//! Decides which requests the admin's address accepts. It refuses requests that a page of another site made a browser
//! send.
//!
//! The admin's address is loopback, or an address that only operators reach. But a browser on an operator's machine
//! reaches it, too. A site can point its own name to this address (DNS rebinding): then the `Host` of its page's
//! requests is that name. A page can also send requests to the address itself: then the browser names the page's site
//! in `Origin`. So the `Host` must be an IP address, `localhost`, or one of the names of this service
//! (`Options::admin_hosts`): none of these can be a foreign name. If there is an `Origin`, it must be the origin of the
//! service's own pages. Probes and scrapers use an address or a configured name, and send no `Origin`.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderValue, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::host_name::HostName;

/// The reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// The request has no `Host`, more than one, or one that is not valid.
    NoHost,
    Host,
    Origin,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHost => "refused: the request must have one Host, as in Host: 127.0.0.1:6070",
            Self::Host => {
                "refused: Host is not this service; ask for an IP address or localhost, or start the service \
                 with --admin-host and the name"
            }
            Self::Origin => {
                "refused: Origin is another site; only pages of this service may send requests here"
            }
        })
    }
}

/// The layer around all of the admin's routes.
pub(super) async fn guard(
    State(names): State<Arc<[HostName]>>,
    request: Request,
    next: Next,
) -> Response {
    match check(request.uri(), request.headers(), &names) {
        Ok(()) => next.run(request).await,
        // The answer does not repeat the request's host, because a browser may display it.
        Err(refused) => (StatusCode::FORBIDDEN, refused.to_string()).into_response(),
    }
}

fn check(uri: &Uri, headers: &HeaderMap, names: &[HostName]) -> Result<(), Refused> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refused::NoHost) };
    let host = authority(host).ok_or(Refused::NoHost)?;
    // A request line may name a host as well, and that host takes precedence over the header. So both must be accepted.
    let named = uri.authority().into_iter().chain([&host]);
    if !named.into_iter().all(|host| is_own(host.host(), names)) {
        return Err(Refused::Host);
    }
    let is_same = |origin| is_origin_of(origin, &host);
    if headers.get_all(ORIGIN).iter().all(is_same) { Ok(()) } else { Err(Refused::Origin) }
}

/// Reads a host with an optional port. A text with an `@` is refused.
fn authority(text: &HeaderValue) -> Option<Authority> {
    let authority = Authority::try_from(text.as_bytes()).ok()?;
    (!authority.as_str().contains('@')).then_some(authority)
}

fn is_own(host: &str, names: &[HostName]) -> bool {
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(inside) = inside {
        return inside.parse::<Ipv6Addr>().is_ok();
    }
    // A dot at the end does not change a name.
    let name = host.strip_suffix('.').unwrap_or(host);
    host.parse::<Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|one| one.0.eq_ignore_ascii_case(name))
}

/// Whether pages of this host have this origin. Behind a proxy they may have been served over TLS.
fn is_origin_of(origin: &HeaderValue, host: &Authority) -> bool {
    let Some(text) = origin.to_str().ok().map(str::to_ascii_lowercase) else { return false };
    let (text, usual_port) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 80),
        (_, Some(rest)) => (rest, 443),
        // An origin with neither of these schemes is refused, such as "null", which a page without an origin sends.
        (None, None) => return false,
    };
    let Ok(origin) = text.parse::<Authority>() else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual_port);
    !text.contains('@')
        && origin.host().eq_ignore_ascii_case(host.host())
        && port(&origin) == port(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(uri: &str, headers: &[(&'static str, &str)]) -> Result<(), Refused> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header"));
        }
        let names = ["limits.internal".parse().expect("a name")];
        check(&uri.parse().expect("an address"), &map, &names)
    }

    #[test]
    fn a_host_is_an_address_localhost_or_a_name_of_this_service() {
        let good = "127.0.0.1 127.0.0.1:6070 10.1.2.3:6070 [::1] [::1]:6070 [fd00::12]:6070 localhost LocalHost:6070 \
                    localhost.:6070 limits.internal LIMITS.internal:6070 limits.internal.:1";
        for host in good.split(' ') {
            assert_eq!(ask("/", &[("host", host)]), Ok(()), "{host}");
        }
        let foreign = "evil.example evil.example:6070 localhost.evil.example 127.0.0.1.evil.example evil-localhost \
                       limits.internal.evil.example xlimits.internal internal 127.0.0.1.. 0x7f000001 2130706433 127.1 \
                       [evil.example]";
        for host in foreign.split(' ') {
            let refused = ask("/", &[("host", host)]);
            assert!(matches!(refused, Err(Refused::Host | Refused::NoHost)), "{host}: {refused:?}");
        }
        for host in ["", "user@127.0.0.1", "a b", "127.0.0.1/x", "[::1", "http://127.0.0.1"] {
            assert_eq!(ask("/", &[("host", host)]), Err(Refused::NoHost), "{host}");
        }
        assert_eq!(ask("/", &[]), Err(Refused::NoHost));
        let two = [("host", "127.0.0.1"), ("host", "evil.example")];
        assert_eq!(ask("/", &two), Err(Refused::NoHost));
        let named = ask("http://evil.example/metrics", &[("host", "127.0.0.1")]);
        assert_eq!(named, Err(Refused::Host));
        assert_eq!(ask("http://127.0.0.1:6070/metrics", &[("host", "127.0.0.1:6070")]), Ok(()));
    }

    #[test]
    fn a_name_of_a_host_has_up_to_253_letters_digits_dots_and_lines() {
        let longest = "a".repeat(253);
        for (text, name) in [
            ("Limits.internal", "limits.internal"),
            ("limits-2.my_net.", "limits-2.my_net"),
            (&longest, &longest),
        ] {
            assert_eq!(text.parse::<HostName>().map(|name| name.to_string()), Ok(name.to_owned()));
        }
        let longer = "a".repeat(254);
        for text in ["", ".", "a b", "limits.internal:6070", "http://limits.internal", &longer] {
            let error = text.parse::<HostName>().expect_err("no name of a host").to_string();
            let expected = "is no name of a host; give a name alone, as in limits.internal";
            assert_eq!(error, format!("'{text}' {expected}"));
        }
    }

    #[test]
    fn an_origin_is_that_of_the_services_own_pages_or_is_not_there() {
        for (host, origin) in [
            ("127.0.0.1:6070", "http://127.0.0.1:6070"),
            ("localhost:6070", "http://LOCALHOST:6070"),
            ("[::1]:6070", "http://[::1]:6070"),
            ("limits.internal", "http://limits.internal"),
            ("limits.internal:80", "http://limits.internal"),
            ("limits.internal", "https://limits.internal:443"),
        ] {
            assert_eq!(ask("/", &[("host", host), ("origin", origin)]), Ok(()), "{origin}");
        }
        for (host, origin) in [
            ("127.0.0.1:6070", "http://evil.example"),
            ("127.0.0.1:6070", "null"),
            ("127.0.0.1:6070", ""),
            // This is another service on the same machine.
            ("127.0.0.1:6070", "http://127.0.0.1:3000"),
            ("127.0.0.1:6070", "http://localhost:6070"),
            ("127.0.0.1:6070", "http://127.0.0.1"),
            ("limits.internal", "https://limits.internal:80"),
            ("127.0.0.1:6070", "http://evil.example@127.0.0.1:6070"),
            ("127.0.0.1:6070", "file://127.0.0.1:6070"),
            ("127.0.0.1:6070", "http://127.0.0.1:6070/page"),
        ] {
            let refused = ask("/", &[("host", host), ("origin", origin)]);
            assert_eq!(refused, Err(Refused::Origin), "{origin}");
        }
        let own = ("origin", "http://127.0.0.1:6070");
        let other = ("origin", "http://evil.example");
        let host = ("host", "127.0.0.1:6070");
        assert_eq!(ask("/", &[host, own, other]), Err(Refused::Origin));
    }
}
