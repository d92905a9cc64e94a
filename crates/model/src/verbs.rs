//! [`LimitVerb`]: the verbs of a limit.

use arbitrary::Arbitrary;

use crate::step::{Span, StepCost};

/// A verb that is called on a limit.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum LimitVerb {
    /// Takes all units or none.
    Take { cost: StepCost },
    /// Takes as many units as are left, up to the cost.
    UpTo { cost: StepCost },
    /// Charges whether or not the cost fits.
    Charge { cost: StepCost },
    /// Reserves a place, with a wait of at most this many thousandths of the period.
    Reserve { cost: StepCost, thousandths: u16 },
    /// Refunds at most `most` units of the permit that is `nth` places before the newest.
    Refund { nth: u8, most: u8 },
    /// Cancels the place that is `nth` places before the newest.
    Cancel { nth: u8 },
    /// Resets the limit to unused.
    Reset,
    /// Time moves on.
    Later { span: Span, fine: i8 },
    /// Time moves back.
    Earlier { span: Span, fine: i8 },
}
