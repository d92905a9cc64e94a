//! [`HeadroomError`]: the reason why a headroom was refused.

use std::fmt;

/// The reason why a [`SparePool`](crate::SparePool), or a `SharedPool` of `tollgate-redis`, refused a headroom.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_elastic::SparePool;
/// let error = SparePool::new(Quota::per_second(5)).report_headroom(1.5).unwrap_err();
/// assert_eq!(error.to_string(), "headroom 1.5 is refused; use 0 to 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadroomError {
    /// The headroom that was reported; possibly not a number.
    pub found: f64,
}

impl fmt::Display for HeadroomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "headroom {} is refused; use 0 to 1", self.found)
    }
}

impl std::error::Error for HeadroomError {}
