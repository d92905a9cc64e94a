//! Extractors find the key that a request is charged to: [`Extract`], and its implementations.

mod address;
mod cookie;
mod forwarded;
mod node;
mod parts;
mod path;
mod peer;
mod tiered;

use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Uri};

use crate::key::Key;
use crate::warning::Warnings;
use parts::{Optional, Or};
use tiered::Tiered;

pub use address::ClientAddress;
pub use cookie::Cookie;
pub use node::address as node_address;
pub use parts::{ApiKey, Bearer, Everyone, Header, Methods, from_fn};
pub use path::NormalPath;
pub use peer::{PeerAddress, peer_address};

/// A request without its body: the input of extractors, costs and exemptions.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::Head;
/// let request = Request::post("/user").body(())?;
/// assert_eq!(Head::of(&request).uri.path(), "/user");
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    /// The method.
    pub method: &'r Method,
    /// The target.
    pub uri: &'r Uri,
    /// The headers.
    pub headers: &'r HeaderMap,
    /// The extensions that the server and other layers have added: the peer's address, the matched route.
    pub extensions: &'r Extensions,
}

impl<'r> Head<'r> {
    /// The head of a request.
    ///
    /// ```
    /// use http::{Method, Request};
    /// use tollgate_http::keys::Head;
    /// assert_eq!(Head::of(&Request::new(())).method, Method::GET);
    /// ```
    #[inline]
    #[must_use]
    pub fn of<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

/// The reason why a request has no key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoKey {
    /// A part that the request should have is missing: the gate of a middleware decides what becomes of it
    /// (`Gate::pass_without_key`).
    Missing,
    /// The policy does not apply to such requests: the gate is skipped.
    NotConcerned,
}

/// Finds the key that a request is charged to.
///
/// A tuple of extractors is an extractor that adds all their parts, in order. A struct that stores an extractor of any
/// type can store an `Arc<dyn Extract>`, which is an extractor too.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{ClientAddress, Extract, Head, Key, Methods, NoKey, PeerAddress};
/// let mut request = Request::new(());
/// let by = (ClientAddress::peer(), Methods);
/// assert_eq!(by.extract(&Head::of(&request), &mut Key::new()), Err(NoKey::Missing));
/// request.extensions_mut().insert(PeerAddress([203, 0, 113, 7].into()));
/// let mut key = Key::new();
/// by.extract(&Head::of(&request), &mut key)?;
/// assert_eq!(key.as_bytes(), b"\x04\xcb\0\x71\x07\x03GET");
/// # Ok::<(), NoKey>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which key a request is charged to",
    label = "no extractor",
    note = "use `ClientAddress`, `ApiKey`, `Header`, `Everyone` or another extractor of `tollgate_tower`, a tuple of them, or \
            `keys::from_fn` for a function of the request's `Head`"
)]
pub trait Extract: Send + Sync {
    /// Adds the parts of this request to `key`.
    ///
    /// # Errors
    /// Fails with the reason why the request has no such parts. `key` is then discarded, so parts that were added
    /// before the error have no effect.
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey>;

    /// The configuration mistakes that this extractor has detected so far.
    fn warnings(&self) -> Warnings {
        Warnings::NONE
    }

    /// Uses `other` if this extractor finds nothing. The two never make equal keys, so a client that leaves something
    /// out does not get another client's key.
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_http::keys::{Bearer, ClientAddress, Extract, Head, Key, PeerAddress};
    /// let by = Bearer.or(ClientAddress::peer());
    /// let mut request = Request::new(());
    /// request.extensions_mut().insert(PeerAddress([203, 0, 113, 7].into()));
    /// assert!(by.extract(&Head::of(&request), &mut Key::new()).is_ok());
    /// ```
    fn or<E: Extract>(self, other: E) -> impl Extract
    where
        Self: Sized,
    {
        Or { first: self, second: other }
    }

    /// Makes this extractor optional: if it finds nothing, the key gets a mark that the part is missing.
    ///
    /// ```
    /// use http::{HeaderName, Request};
    /// use tollgate_http::keys::{ClientAddress, Extract, Head, Header, Key, PeerAddress};
    /// let tenant = Header::new(HeaderName::from_static("x-tenant"));
    /// let by = (ClientAddress::peer(), tenant.optional());
    /// let mut request = Request::new(());
    /// request.extensions_mut().insert(PeerAddress([203, 0, 113, 7].into()));
    /// assert!(by.extract(&Head::of(&request), &mut Key::new()).is_ok());
    /// ```
    fn optional(self) -> impl Extract
    where
        Self: Sized,
    {
        Optional { extractor: self }
    }

    /// Adds a function that chooses a quota for each request, for example by the plan of a customer. It is for limits
    /// with several quotas, which are called [tiers](tollgate::KeyedBuilder::tier) and have numbers from 0. `None`, and
    /// a number that the limit does not have, are unknown tiers: a gate of the middleware denies such requests, or lets
    /// them pass (`Gate::pass_unknown_tier`). A key has a separate count in each tier.
    ///
    /// ```
    /// use http::{HeaderName, Request};
    /// use tollgate_http::keys::{ApiKey, Extract, Head, Key};
    /// /// What a lookup has put into the extensions.
    /// #[derive(Clone)]
    /// enum Plan {
    ///     Free,
    ///     Paid,
    /// }
    /// let by = ApiKey::new(HeaderName::from_static("x-api-key")).tier(|head| {
    ///     head.extensions.get().map(|plan| match plan {
    ///         Plan::Free => 0,
    ///         Plan::Paid => 1,
    ///     })
    /// });
    /// let mut request = Request::builder().header("x-api-key", "secret").body(())?;
    /// request.extensions_mut().insert(Plan::Paid);
    /// let mut key = Key::new();
    /// assert!(by.extract(&Head::of(&request), &mut key).is_ok());
    /// assert_eq!(key.tier(), Some(1));
    /// # let _ = Plan::Free;
    /// # Ok::<(), http::Error>(())
    /// ```
    fn tier<F>(self, of: F) -> impl Extract
    where
        F: Fn(&Head<'_>) -> Option<usize> + Send + Sync,
        Self: Sized,
    {
        Tiered { extractor: self, of }
    }
}

impl<E: Extract + ?Sized> Extract for Arc<E> {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        (**self).extract(head, key)
    }

    fn warnings(&self) -> Warnings {
        (**self).warnings()
    }
}

impl<A: Extract, B: Extract> Extract for (A, B) {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        self.0.extract(head, key)?;
        self.1.extract(head, key)
    }

    fn warnings(&self) -> Warnings {
        self.0.warnings().and(self.1.warnings())
    }
}

impl<A: Extract, B: Extract, C: Extract> Extract for (A, B, C) {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        self.0.extract(head, key)?;
        self.1.extract(head, key)?;
        self.2.extract(head, key)
    }

    fn warnings(&self) -> Warnings {
        self.0.warnings().and(self.1.warnings()).and(self.2.warnings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warning::Warning;

    /// An extractor that adds this text.
    fn part(text: &'static str) -> impl Extract {
        from_fn(move |_, key| {
            key.push(text.as_bytes());
            Ok(())
        })
    }

    fn parts(by: &impl Extract) -> Result<Vec<u8>, NoKey> {
        let mut key = Key::new();
        by.extract(&Head::of(&Request::new(())), &mut key)?;
        Ok(key.as_bytes().to_vec())
    }

    #[test]
    fn a_tuple_adds_the_parts_of_each_in_order() {
        assert_eq!(parts(&(part("a"), part("b"))), Ok(b"\x01a\x01b".to_vec()));
        let three = (part("a"), part("b"), part("c"));
        assert_eq!(parts(&three), Ok(b"\x01a\x01b\x01c".to_vec()));
    }

    #[test]
    fn a_tuple_has_no_key_if_one_of_its_parts_has_none() {
        let none = || from_fn(|_, _| Err(NoKey::NotConcerned));
        let (missing, concerned) = (Err(NoKey::Missing), Err(NoKey::NotConcerned));
        assert_eq!(parts(&(Bearer, part("b"))), missing);
        assert_eq!(parts(&(part("a"), none())), concerned);
        assert_eq!(parts(&(Bearer, none(), part("c"))), missing);
        assert_eq!(parts(&(part("a"), none(), Bearer)), concerned);
        assert_eq!(parts(&(part("a"), part("b"), Bearer)), missing);
    }

    #[test]
    fn a_tuple_warns_of_what_each_of_its_parts_warns_of() {
        let warns = || ClientAddress::trusting(["::/0".parse().expect("a network")]);
        let found = [
            (warns(), Everyone).warnings(),
            (Everyone, warns()).warnings(),
            (warns(), Everyone, Everyone).warnings(),
            (Everyone, warns(), Everyone).warnings(),
            (Everyone, Everyone, warns()).warnings(),
        ];
        assert_eq!(found.map(|it| it.contains(Warning::EverybodyTrusted)), [true; 5]);
        assert_eq!((Everyone, Everyone).warnings(), Warnings::NONE);
        assert_eq!((Everyone, Everyone, Everyone).warnings(), Warnings::NONE);
    }
}
