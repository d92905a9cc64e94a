//! [`Op`]: the operations on keys, for any kind of limiter.

use arbitrary::Arbitrary;

use crate::step::{Span, StepCost};

/// An operation on keys.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Op {
    /// A request.
    Check { key: u8, cost: StepCost },
    /// One request for each of `keys` keys, which are numbered from `first` on.
    Crowd { first: u8, keys: u8, cost: StepCost },
    /// A peek.
    Peek { key: u8, cost: StepCost },
    /// Time moves on.
    Advance { span: Span, fine: i8 },
    /// Time moves back.
    Back { span: Span, fine: i8 },
}

/// A subject with keys, and the answers that are expected of it.
pub(crate) trait Observed {
    /// Makes a request, or peeks.
    fn request(&mut self, key: u8, cost: StepCost, charge: bool);

    fn move_by(&mut self, span: Span, fine: i8, backward: bool);

    fn play(&mut self, ops: &[Op]) {
        for op in ops {
            match *op {
                Op::Check { key, cost } => self.request(key, cost, true),
                Op::Crowd { first, keys, cost } => (0..=keys % 64)
                    .for_each(|number| self.request(first.wrapping_add(number), cost, true)),
                Op::Peek { key, cost } => self.request(key, cost, false),
                Op::Advance { span, fine } => self.move_by(span, fine, false),
                Op::Back { span, fine } => self.move_by(span, fine, true),
            }
        }
    }
}
