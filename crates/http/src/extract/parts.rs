//! The parts of keys other than addresses and paths.

use http::Method;
use http::header::{AUTHORIZATION, HeaderName};

use super::{Extract, Head, NoKey};
use crate::key::Key;
use crate::warning::Warnings;

/// One key for all requests: a limit of the service, not of its clients.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{Everyone, Extract, Head, Key};
/// let mut key = Key::new();
/// assert!(Everyone.extract(&Head::of(&Request::new(())), &mut key).is_ok());
/// assert_eq!(key, Key::new());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

impl Extract for Everyone {
    fn extract(&self, _: &Head<'_>, _: &mut Key) -> Result<(), NoKey> {
        Ok(())
    }
}

/// The value of a header, or all values if it has several lines.
///
/// Clients choose their headers, and so their keys: alone, this extractor does not limit a client that changes its
/// header. Combine it with a part that clients cannot choose, or use it behind an authentication.
///
/// ```
/// use http::{HeaderName, Request};
/// use tollgate_http::keys::{Extract, Head, Header, Key};
/// let by = Header::new(HeaderName::from_static("x-tenant"));
/// let request = Request::builder().header("x-tenant", "blue").body(())?;
/// let mut key = Key::new();
/// assert!(by.extract(&Head::of(&request), &mut key).is_ok());
/// assert_eq!(key.as_bytes(), b"\x04blue");
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
}

impl Header {
    /// Takes the value of this header.
    ///
    /// ```
    /// use tollgate_http::keys::Header;
    /// let by = Header::new(http::header::USER_AGENT);
    /// # let _ = by;
    /// ```
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        Self { name }
    }
}

impl Extract for Header {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        let mut lines = head.headers.get_all(&self.name).iter();
        let first = lines.next().ok_or(NoKey::Missing)?;
        key.push(first.as_bytes());
        for line in lines {
            key.push(line.as_bytes());
        }
        Ok(())
    }
}

/// The API key in a header, as its SHA-256.
///
/// ```
/// use http::{HeaderName, Request};
/// use tollgate_http::keys::{ApiKey, Extract, Head, Key};
/// let by = ApiKey::new(HeaderName::from_static("x-api-key"));
/// let request = Request::builder().header("x-api-key", "secret").body(())?;
/// let mut key = Key::new();
/// assert!(by.extract(&Head::of(&request), &mut key).is_ok());
/// assert_eq!(key.as_bytes().len(), 33);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ApiKey {
    name: HeaderName,
}

impl ApiKey {
    /// Takes the API key from this header.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tollgate_http::keys::ApiKey;
    /// let by = ApiKey::new(HeaderName::from_static("x-api-key"));
    /// # let _ = by;
    /// ```
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        Self { name }
    }
}

impl Extract for ApiKey {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        let secret = head.headers.get(&self.name).ok_or(NoKey::Missing)?;
        key.push_digest(secret.as_bytes());
        Ok(())
    }
}

/// The token of `Authorization: Bearer`, as its SHA-256. The token is not validated.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{Bearer, Extract, Head, Key, NoKey};
/// let request = |value: &str| Request::builder().header("authorization", value).body(());
/// let key = |value: &str| {
///     let mut key = Key::new();
///     Bearer.extract(&Head::of(&request(value).expect("a request")), &mut key).map(|()| key)
/// };
/// assert_eq!(key("Bearer abc"), key("bearer  abc"));
/// assert_eq!(key("Basic abc"), Err(NoKey::Missing));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bearer;

impl Extract for Bearer {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        const SCHEME: &[u8] = b"Bearer ";
        let value = head.headers.get(AUTHORIZATION).ok_or(NoKey::Missing)?.as_bytes();
        let (scheme, token) = value.split_at_checked(SCHEME.len()).ok_or(NoKey::Missing)?;
        let token = token.trim_ascii();
        if !scheme.eq_ignore_ascii_case(SCHEME) || token.is_empty() {
            return Err(NoKey::Missing);
        }
        key.push_digest(token);
        Ok(())
    }
}

/// The method. HEAD counts as GET, because it does the same work. Headers that override the method are ignored.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{Extract, Head, Key, Methods};
/// let mut key = Key::new();
/// let request = Request::head("/").body(())?;
/// assert!(Methods.extract(&Head::of(&request), &mut key).is_ok());
/// assert_eq!(key.as_bytes(), b"\x03GET");
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Methods;

impl Methods {
    /// The method of a request, with GET in place of HEAD.
    ///
    /// ```
    /// use http::{Method, Request};
    /// use tollgate_http::keys::{Head, Methods};
    /// let request = Request::head("/").body(())?;
    /// assert_eq!(Methods::of(&Head::of(&request)), Method::GET);
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn of<'r>(head: &Head<'r>) -> &'r Method {
        if *head.method == Method::HEAD { &Method::GET } else { head.method }
    }
}

impl Extract for Methods {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        key.push(Self::of(head).as_str().as_bytes());
        Ok(())
    }
}

/// Makes an extractor of a function, which adds a part to the key.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{Extract, Head, Key, NoKey, from_fn};
/// #[derive(Clone)]
/// struct User(u64);
/// // Behind a layer that has put the user into the extensions.
/// let by = from_fn(|head, key| {
///     let User(id) = head.extensions.get().ok_or(NoKey::Missing)?;
///     key.push(&id.to_le_bytes());
///     Ok(())
/// });
/// let mut request = Request::new(());
/// request.extensions_mut().insert(User(7));
/// assert!(by.extract(&Head::of(&request), &mut Key::new()).is_ok());
/// ```
#[must_use]
pub fn from_fn(
    function: impl Fn(&Head<'_>, &mut Key) -> Result<(), NoKey> + Send + Sync,
) -> impl Extract {
    FromFn(function)
}

struct FromFn<F>(F);

impl<F: Fn(&Head<'_>, &mut Key) -> Result<(), NoKey> + Send + Sync> Extract for FromFn<F> {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        (self.0)(head, key)
    }
}

/// One extractor, or another if the first finds nothing: [`Extract::or`].
pub(super) struct Or<A, B> {
    pub(super) first: A,
    pub(super) second: B,
}

impl<A: Extract, B: Extract> Extract for Or<A, B> {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        let before = *key;
        key.push(b"1");
        match self.first.extract(head, key) {
            Err(NoKey::Missing) => {
                *key = before;
                key.push(b"2");
                self.second.extract(head, key)
            }
            done => done,
        }
    }

    fn warnings(&self) -> Warnings {
        self.first.warnings().and(self.second.warnings())
    }
}

/// An extractor that may find nothing: [`Extract::optional`].
pub(super) struct Optional<E> {
    pub(super) extractor: E,
}

impl<E: Extract> Extract for Optional<E> {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        let before = *key;
        match self.extractor.extract(head, key) {
            Err(NoKey::Missing) => {
                *key = before;
                key.push_absent();
                Ok(())
            }
            done => done,
        }
    }

    fn warnings(&self) -> Warnings {
        self.extractor.warnings()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// The key of a request with these headers.
    fn key(by: &impl Extract, headers: &[(&str, &str)]) -> Result<Vec<u8>, NoKey> {
        let mut request = Request::new(());
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a name");
            request.headers_mut().append(name, value.parse().expect("a value"));
        }
        let mut key = Key::new();
        by.extract(&Head::of(&request), &mut key)?;
        Ok(key.as_bytes().to_vec())
    }

    #[test]
    fn a_header_is_its_lines_in_order() {
        let by = Header::new(HeaderName::from_static("tenant"));
        assert_eq!(key(&by, &[]), Err(NoKey::Missing));
        assert_eq!(
            key(&by, &[("tenant", "red"), ("tenant", "blue")]),
            Ok(b"\x03red\x04blue".to_vec())
        );
    }

    #[test]
    fn api_keys_and_tokens_are_digests_that_differ() {
        let by = ApiKey::new(HeaderName::from_static("api-key"));
        assert_eq!(key(&by, &[]), Err(NoKey::Missing));
        let digest = |secret| key(&by, &[("api-key", secret)]).expect("a key");
        assert_ne!(digest("one"), digest("two"));
        let token = |value| key(&Bearer, &[("authorization", value)]);
        assert_eq!(token("bearer  one "), Ok(digest("one")));
        assert_ne!(token("Bearer two"), Ok(digest("one")));
        for none in ["Bearer", "Bearer ", "Digest! one", "Bearer\tone"] {
            assert_eq!(token(none), Err(NoKey::Missing), "{none:?}");
        }
    }

    /// A text found by the first extractor does not share a key with the same text found by the second.
    #[test]
    fn an_alternative_is_tried_where_nothing_is_found_and_leaves_no_trace() {
        let [left, right] =
            ["left", "right"].map(|name| Header::new(HeaderName::from_static(name)));
        let by = || left.clone().or(right.clone());
        assert_eq!(key(&by(), &[("left", "a")]), Ok(b"\x011\x01a".to_vec()));
        assert_eq!(key(&by(), &[("right", "a")]), Ok(b"\x012\x01a".to_vec()));
        assert_eq!(key(&by(), &[]), Err(NoKey::Missing));
        let mut absent = Key::new();
        absent.push_absent();
        assert_eq!(key(&by().optional(), &[]), Ok(absent.as_bytes().to_vec()));
        assert_eq!(key(&by().optional(), &[("right", "a")]), Ok(b"\x012\x01a".to_vec()));
    }
}
