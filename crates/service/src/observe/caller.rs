//! [`Caller`]: the facts about a request that are known before it is read: the address of its client, and its span.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use tollgate_http::keys::PeerAddress;

use super::observers::Observers;
use crate::traces::{ServerSpan, SpanName};

/// The address at the other end of the connection, and the span of the request if the request is sampled.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) peer: Option<IpAddr>,
    pub(crate) span: Option<Box<ServerSpan>>,
}

impl Caller {
    pub(crate) fn of(
        observers: &Observers,
        headers: &HeaderMap,
        extensions: &Extensions,
        name: SpanName<'_>,
    ) -> Self {
        if observers.is_blind() {
            return Self::default();
        }
        let peer = extensions.get().map(|PeerAddress(address)| *address);
        let tracer = observers.tracer.as_ref();
        let span = tracer.and_then(|tracer| tracer.begin(headers, name, peer)).map(Box::new);
        Self { peer, span }
    }
}

impl<S: AsRef<Observers> + Send + Sync> FromRequestParts<Arc<S>> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<S>,
    ) -> Result<Self, Self::Rejection> {
        let name = SpanName::Http { method: parts.method.as_str(), route: parts.uri.path() };
        Ok(Self::of(state.as_ref().as_ref(), &parts.headers, &parts.extensions, name))
    }
}
