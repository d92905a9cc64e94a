//! [`Route`]: the route that axum has matched.

use tollgate_http::keys::{Extract, Head, Key, NoKey};

/// The route that axum has matched, in the form in which it was registered: `/users/{id}`, whatever the id. Requests
/// that match no route share one key. Needs the feature `axum`, and a layer that is added with `Router::layer` or
/// `route_layer`, since a layer around the router runs before the route is known.
///
/// ```
/// use http::Request;
/// use tollgate_tower::keys::{Extract, Head, Key, Route};
/// let mut key = Key::new();
/// assert!(Route.extract(&Head::of(&Request::new(())), &mut key).is_ok());
/// let mut absent = Key::new();
/// absent.push_absent();
/// assert_eq!(key, absent);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Route;

impl Extract for Route {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        match route_of(head) {
            Some(route) => key.push(route.as_bytes()),
            None => key.push_absent(),
        }
        Ok(())
    }
}

/// The matched route, if it is known.
pub(crate) fn route_of<'r>(head: &Head<'r>) -> Option<&'r str> {
    head.extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str)
}
