//! [`Refusal`]: a denied request, and the answer to it.

use http::Response;
use tollgate::Denial;

use crate::deny::{Denied, Deny, Problems};
use crate::extract::Head;
use crate::headers::Stamp;
use crate::name::PolicyName;

/// A denied request.
pub(crate) struct Refusal<'g> {
    pub(crate) policy: &'g PolicyName,
    pub(crate) problems: &'g Problems,
    /// `None` if the tier is unknown.
    pub(crate) denial: Option<Denial>,
    pub(crate) retry_after_secs: Option<u64>,
    pub(crate) stamp: Stamp,
}

impl Refusal<'_> {
    pub(crate) fn answer<B>(self, deny: &impl Deny<B>, head: Head<'_>) -> Response<B> {
        let Self { policy, problems, denial, retry_after_secs, mut stamp } = self;
        let denied = Denied { policy, denial: denial.as_ref(), retry_after_secs, head, problems };
        let mut response = deny.deny(&denied);
        stamp.put(response.headers_mut());
        response
    }
}
