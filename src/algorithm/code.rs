//! A [`Kernel`] as five numbers, to be kept in atomic words: a quota that can be changed while others
//! decide by it.
//!
//! The first number says which algorithm it is, in its lowest byte, and holds what is small; the others
//! are its lengths and limits. What is read back decides exactly as what was written.

use super::{FixedWindow, FromFirst, Gcra, Kernel, Rounding, SegmentedWindow, SlidingWindow};
use crate::divisor::Divisor;
use crate::ticks::TickScale;

/// How many numbers an algorithm is.
pub(crate) const CODE_WORDS: usize = 5;

impl Kernel {
    /// The numbers of an algorithm that keeps its state in a word, else `None`.
    pub(crate) fn code(&self) -> Option<[u64; CODE_WORDS]> {
        let small = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
        Some(match self {
            Self::Gcra(gcra) => {
                let (scale, burst_ticks, unit_ticks) = gcra.parts();
                let (factor, shift) = scale.parts();
                [small([0, shift, 0, 0]), factor, burst_ticks, unit_ticks, 0]
            }
            Self::FixedWindow(window) => {
                let [window_ns, multiplier] = window.window().parts();
                [1, window_ns, window.limit(), 0, multiplier]
            }
            Self::FromFirst(window) => {
                let [quantum_ns, multiplier] = window.quantum().parts();
                [2, window.window_ns(), window.limit(), quantum_ns, multiplier]
            }
            Self::SlidingWindow(window) => {
                let (divisor, rounding, count_bits) = window.parts();
                let [window_ns, multiplier] = divisor.parts();
                let rounding = match rounding {
                    Rounding::Exact => 0,
                    Rounding::Down => 1,
                    Rounding::Strict => 2,
                };
                [small([3, rounding, count_bits, 0]), window_ns, window.limit(), 0, multiplier]
            }
            Self::SegmentedWindow(window) => {
                let (divisor, segments, count_bits, ranked) = window.parts();
                let [segment_ns, multiplier] = divisor.parts();
                let small = small([4, segments, count_bits, u8::from(ranked)]);
                [small, segment_ns, window.limit(), 0, multiplier]
            }
            _ => return None, // has slots in place of a word
        })
    }

    /// The algorithm of numbers that [`Self::code`] gave.
    pub(crate) fn of_code(code: [u64; CODE_WORDS]) -> Self {
        let [small, length_ns, limit, fine, multiplier] = code;
        let divisor = |number| Divisor::of_parts([number, multiplier]);
        let [form, one, two, three, ..] = small.to_le_bytes();
        match form {
            0 => {
                let scale = TickScale::of_parts((length_ns, one));
                Self::Gcra(Gcra::of_parts((scale, limit, fine)))
            }
            1 => Self::FixedWindow(FixedWindow::of_parts(limit, divisor(length_ns))),
            2 => Self::FromFirst(FromFirst::of_parts(limit, length_ns, divisor(fine))),
            3 => {
                let rounding = match one {
                    0 => Rounding::Exact,
                    1 => Rounding::Down,
                    _ => Rounding::Strict,
                };
                let parts = (divisor(length_ns), rounding, two);
                Self::SlidingWindow(SlidingWindow::of_parts(limit, parts))
            }
            _ => {
                let parts = (divisor(length_ns), one, two, three != 0);
                Self::SegmentedWindow(SegmentedWindow::of_parts(limit, parts))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Answers;
    use crate::{Meter, Policy};

    #[test]
    fn what_is_written_in_numbers_is_read_back_for_every_algorithm() {
        for text in [
            "gcra 7/s burst 3",
            "gcra 2000000000/s burst 1000000",
            "gcra 1/30d burst 100000",
            "fixed-window 100/m",
            "fixed-window 100/m from-first",
            "sliding-window 100/m",
            "sliding-window 100/m round-down",
            "sliding-window 100/m strict",
            "segmented-window 20/m x4",
            "segmented-window 100/m x6",
        ] {
            let kernel = Meter::new(text.parse::<Policy>().expect("a policy")).kernel;
            assert_eq!(kernel.code().map(Kernel::of_code), Some(kernel), "{text}");
        }
        let ring = |ranked| Kernel::SegmentedWindow(SegmentedWindow::new(5, 20, 3, 3, ranked));
        for kernel in [ring(false), ring(true)] {
            assert_eq!(kernel.code().map(Kernel::of_code), Some(kernel));
        }
    }

    #[test]
    fn what_has_no_word_has_no_numbers() {
        let answers = Answers { limit: 1, remaining: 0, ready_ns: 0, idle_ns: 0, spilled: false };
        assert_eq!(Kernel::Log(answers).code(), None);
    }
}
