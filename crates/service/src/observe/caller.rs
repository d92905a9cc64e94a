//! [`Caller`]: what is known of a request before it is read: its connection.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use tollgate_tower::PeerAddress;

use super::observers::Observers;

/// The other side of a connection.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) peer: Option<IpAddr>,
}

impl Caller {
    pub(crate) fn of(observers: &Observers, extensions: &Extensions) -> Self {
        if observers.is_blind() {
            return Self::default();
        }
        Self { peer: extensions.get().map(|PeerAddress(address)| *address) }
    }
}

impl<S: AsRef<Observers> + Send + Sync> FromRequestParts<Arc<S>> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<S>,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self::of(state.as_ref().as_ref(), &parts.extensions))
    }
}
