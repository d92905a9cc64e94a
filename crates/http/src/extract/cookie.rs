//! [`Cookie`]: identifies the client by its session.

use http::header::COOKIE;

use super::{Extract, Head, NoKey};
use crate::error::KeyError;
use crate::key::Key;

/// The value of a cookie, as its SHA-256, since a session is a secret.
///
/// If several cookies have the name, the first one in the order of the header lines is used. A cookie with an empty
/// value is ignored, so that clients that have logged out do not share a key. Values are compared byte by byte,
/// quotation marks included.
///
/// Clients choose what they send: a client that invents a cookie for each request has a new limit each time. So limit
/// by a session only behind a layer that has checked it, or together with the address.
///
/// ```
/// use tollgate_http::keys::{ClientAddress, Cookie, Extract};
/// // By the session, or by the address of a client that has none.
/// let by = Cookie::new("session")?.or(ClientAddress::peer());
/// # let _ = by;
/// assert!(Cookie::new("a b").is_err());
/// # Ok::<(), tollgate_http::keys::KeyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cookie {
    name: Box<str>,
}

impl Cookie {
    /// Takes the cookie of this name. Names are compared byte by byte.
    ///
    /// # Errors
    /// Fails if no cookie can have this name: it is empty, or has a character besides the letters, digits and marks of
    /// a token (RFC 6265, section 4.1.1).
    pub fn new(name: &str) -> Result<Self, KeyError> {
        // RFC 9110, section 5.6.2, lists the marks that a token may have beside letters and digits.
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(KeyError::CookieName { name: name.to_owned() });
        }
        Ok(Self { name: name.into() })
    }
}

impl Extract for Cookie {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        let lines = head.headers.get_all(COOKIE).iter();
        let pairs = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
        let named = pairs.filter_map(|pair| {
            let pair = pair.trim_ascii();
            let (name, value) = pair.split_at_checked(self.name.len())?;
            (name == self.name.as_bytes()).then(|| value.strip_prefix(b"="))?
        });
        let value = named.map(<[u8]>::trim_ascii).find(|value| !value.is_empty());
        key.push_digest(value.ok_or(NoKey::Missing)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// The key that the cookie `id` gives a request with these header lines.
    fn found(lines: &[&[u8]]) -> Result<Key, NoKey> {
        let mut request = Request::new(());
        for line in lines {
            let value = http::HeaderValue::from_bytes(line).expect("a value");
            request.headers_mut().append(COOKIE, value);
        }
        let mut key = Key::new();
        let by = Cookie::new("id").expect("a name");
        by.extract(&Head::of(&request), &mut key).map(|()| key)
    }

    fn digest(value: &[u8]) -> Result<Key, NoKey> {
        let mut key = Key::new();
        key.push_digest(value);
        Ok(key)
    }

    #[test]
    fn the_first_cookie_of_the_name_is_the_key_wherever_it_stands() {
        for lines in [
            &[&b"id=abc"[..]][..],
            &[b"a=1; id=abc; b=2"],
            &[b"a=1;id=abc"],
            &[b"a=1", b"b=2; id=abc"],
            &[b"id=abc; id=other"],
            &[b"id=; id=abc"],
            &[b" id=abc ; ;;"],
            &[b"\xff=1; id=abc"],
        ] {
            assert_eq!(found(lines), digest(b"abc"), "{lines:?}");
        }
        assert_eq!(found(&[b"id=a=b\xff"]), digest(b"a=b\xff"));
        assert_eq!(found(&[b"id=\"abc\""]), digest(b"\"abc\""));
    }

    #[test]
    fn a_request_without_the_cookie_has_no_key() {
        for lines in [
            &[][..],
            &[&b""[..]],
            &[b"id"],
            &[b"id="],
            &[b"ID=abc"],
            &[b"idx=abc"],
            &[b"xid=abc"],
            &[b"id =abc"],
        ] {
            assert_eq!(found(lines), Err(NoKey::Missing), "{lines:?}");
        }
    }

    #[test]
    fn a_name_that_no_cookie_has_is_refused() {
        let refused = |name: &str| Cookie::new(name).map(drop).map_err(|error| error.to_string());
        let told = "a cookie cannot be called \"a=b\"; use letters, digits and !#$%&'*+-.^_`|~";
        assert_eq!(refused("a=b"), Err(told.to_owned()));
        for name in ["", "a;b", "a b", "\u{e4}", "a\n"] {
            assert!(refused(name).is_err(), "{name:?}");
        }
        assert_eq!(refused("__Host-id"), Ok(()));
    }
}
