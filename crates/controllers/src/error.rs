//! The error for a number that is refused.

use std::fmt;

/// The reason why a controller refused a number.
///
/// ```
/// let error = tollgate_controllers::Aimd::new(5, 10..=20).unwrap_err();
/// assert_eq!(error.to_string(), "initial limit 5 is refused; use one within the range of limits");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ControllerError {
    /// The name of the setting.
    pub setting: &'static str,
    /// The refused value, which may be NaN.
    pub found: f64,
    /// The values that would be accepted.
    pub accepted: &'static str,
}

impl ControllerError {
    pub(crate) fn unless(
        is_right: bool,
        setting: &'static str,
        found: f64,
        accepted: &'static str,
    ) -> Result<(), Self> {
        if is_right { Ok(()) } else { Err(Self { setting, found, accepted }) }
    }
}

impl fmt::Display for ControllerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, found, accepted } = self;
        write!(f, "{setting} {found} is refused; use {accepted}")
    }
}

impl std::error::Error for ControllerError {}
