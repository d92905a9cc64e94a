//! [`LookupLayer`]: looks up data for a key that needs an await, such as the account of an API key.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use tollgate_http::keys::Head;
use tower_layer::Layer;
use tower_service::Service;

/// Looks something up for each request, outside the layer that limits, and puts it into the request's extensions, where
/// extractors and the handler find it.
///
/// Nothing is charged before the lookup has ended; a caller that goes away meanwhile has been charged nothing. A lookup
/// that finds nothing adds nothing to the extensions. If the extractor then finds no key, the request shares one limit
/// with all such requests, or skips the gate ([`Gate::pass_without_key`](crate::Gate::pass_without_key)).
///
/// Requests are not limited while their lookup runs, so bound the lookup itself: with a cache, with a time limit, or
/// with a limit by [`ClientAddress`](crate::ClientAddress) around this layer.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
/// use tollgate_tower::keys::{LookupLayer, NoKey, from_fn};
/// use tollgate_tower::RateLimitLayer;
/// use tower::ServiceBuilder;
///
/// #[derive(Clone)]
/// struct Account(u64);
///
/// async fn account_of(api_key: Vec<u8>) -> Option<Account> {
///     // Ask a database.
/// #   (api_key == b"secret").then_some(Account(7))
/// }
///
/// let lookup = LookupLayer::new(|head| {
///     let api_key = head.headers.get("x-api-key").map(|value| value.as_bytes().to_vec());
///     async { account_of(api_key?).await }
/// });
/// let by_account = from_fn(|head, key| {
///     let Account(id) = head.extensions.get().ok_or(NoKey::Missing)?;
///     key.push(&id.to_be_bytes());
///     Ok(())
/// });
/// let limit = KeyedLimiter::new(Quota::per_second(100), 100_000)?;
/// let layers = ServiceBuilder::new().layer(lookup).layer(RateLimitLayer::new(limit, by_account));
/// # let _ = layers;
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct LookupLayer<T> {
    lookup: Arc<LookUp<T>>,
}

type Finding<T> = Pin<Box<dyn Future<Output = Option<T>> + Send>>;
type LookUp<T> = dyn Fn(&Head<'_>) -> Finding<T> + Send + Sync;

impl<T> LookupLayer<T> {
    /// Calls this function for each request, and awaits the future that it returns. The future cannot borrow from the
    /// request, so it has to own what it needs.
    #[must_use]
    pub fn new<F>(lookup: impl Fn(&Head<'_>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        Self { lookup: Arc::new(move |head| Box::pin(lookup(head))) }
    }
}

impl<T, S> Layer<S> for LookupLayer<T> {
    type Service = Lookup<T, S>;

    fn layer(&self, inner: S) -> Self::Service {
        Lookup { lookup: Arc::clone(&self.lookup), inner }
    }
}

impl<T> Clone for LookupLayer<T> {
    fn clone(&self) -> Self {
        Self { lookup: Arc::clone(&self.lookup) }
    }
}

impl<T> fmt::Debug for LookupLayer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookupLayer").finish_non_exhaustive()
    }
}

/// The service of a [`LookupLayer`].
pub struct Lookup<T, S> {
    lookup: Arc<LookUp<T>>,
    inner: S,
}

impl<T, S: Clone> Clone for Lookup<T, S> {
    fn clone(&self) -> Self {
        Self { lookup: Arc::clone(&self.lookup), inner: self.inner.clone() }
    }
}

impl<T, S> fmt::Debug for Lookup<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl<T, S, R> Service<Request<R>> for Lookup<T, S>
where
    T: Clone + Send + Sync + 'static,
    S: Service<Request<R>> + Clone + Send + 'static,
    S::Future: Send,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<R>) -> Self::Future {
        let finding = (self.lookup)(&Head::of(&request));
        // The instance that was polled ready makes the call; a clone would have to become ready first.
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            if let Some(found) = finding.await {
                request.extensions_mut().insert(found);
            }
            ready.call(request).await
        })
    }
}
