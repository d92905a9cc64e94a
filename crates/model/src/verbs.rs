//! [`LimitVerb`]: what can be done with a limit.

use arbitrary::Arbitrary;

use crate::step::{Span, StepCost};

/// Something that is done with a limit.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum LimitVerb {
    /// All or nothing.
    Take { cost: StepCost },
    /// As much as there is.
    UpTo { cost: StepCost },
    /// Fit or not.
    Charge { cost: StepCost },
    /// A place that comes after at most so many thousandths of the period.
    Reserve { cost: StepCost, thousandths: u16 },
    /// Refunds the permit so many before the last one, so many units at most.
    Refund { nth: u8, most: u8 },
    /// The place so many before the last one.
    Cancel { nth: u8 },
    /// The limit is as never used.
    Reset,
    /// Time moves on.
    Later { span: Span, fine: i8 },
    /// Time moves back.
    Earlier { span: Span, fine: i8 },
}
