//! [`LayerState`]: the state that a layer and its services share.

use http::Response;
use tollgate_http::keys::Head;

use crate::decide::GateRules;
use crate::deny::{Denied, Deny};
use crate::refusal::Refusal;

/// The state that clones of a layer and its services share. Changing a layer makes a new state around the same gates.
pub(crate) struct LayerState<D> {
    pub(crate) rules: GateRules,
    pub(crate) deny: D,
}

impl<D: Clone> Clone for LayerState<D> {
    fn clone(&self) -> Self {
        Self { rules: self.rules.clone(), deny: self.deny.clone() }
    }
}

impl<D> LayerState<D> {
    /// Makes the answer to a denied request, after it has called the functions of `on_denied`.
    pub(crate) fn answer<B>(&self, refusal: Refusal<'_>, head: Head<'_>) -> Response<B>
    where
        D: Deny<B>,
    {
        let Refusal { policy, problems, key, denial, retry_after_secs, mut stamp } = refusal;
        let (key, denial) = (key.as_ref(), denial.as_ref());
        let denied = Denied { policy, key, denial, retry_after_secs, head, problems };
        self.rules.on_denied.iter().for_each(|tell| tell(&denied));
        let mut response = self.deny.deny(&denied);
        stamp.put(response.headers_mut());
        response
    }
}
