//! [`Percent`]: a share, such as the share by which a limit is softened.

use std::fmt;

/// A share of a whole, in hundredths of a percent: 0 % to 655.35 %.
///
/// ```
/// use tollgate::Percent;
/// assert_eq!(Percent::new(5), Percent::from_hundredths(500));
/// assert_eq!(Percent::from_hundredths(25).to_string(), "0.25%");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u16);

impl Percent {
    /// A share of `percent` percent.
    #[must_use]
    pub const fn new(percent: u8) -> Self {
        // The largest value is 255 %, which is 25,500 hundredths. `From` cannot be used, since it is not const.
        Self(percent as u16 * 100)
    }

    /// A share of `hundredths` hundredths of a percent.
    #[must_use]
    pub const fn from_hundredths(hundredths: u16) -> Self {
        Self(hundredths)
    }

    /// The share in hundredths of a percent.
    #[must_use]
    pub const fn hundredths(self) -> u16 {
        self.0
    }

    /// True for 0 %.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Prints the share in the form of a policy's text: `5%`, `0.25%`, `12.5%`.
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}%"),
            (whole, part) if part % 10 == 0 => write!(f, "{whole}.{}%", part / 10),
            (whole, part) => write!(f, "{whole}.{part:02}%"),
        }
    }
}
