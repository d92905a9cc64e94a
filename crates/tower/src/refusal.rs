//! [`Refusal`]: a denied request.

use tollgate::Denial;
use tollgate_http::headers::PolicyName;
use tollgate_http::headers::write::Stamp;
use tollgate_http::keys::Key;

use crate::deny::Problems;

/// A denied request.
pub(crate) struct Refusal<'g> {
    pub(crate) policy: &'g PolicyName,
    pub(crate) problems: &'g Problems,
    /// `None` if the tier is unknown.
    pub(crate) key: Option<Key>,
    /// `None` if the tier is unknown.
    pub(crate) denial: Option<Denial>,
    pub(crate) retry_after_secs: Option<u64>,
    pub(crate) stamp: Stamp,
}
