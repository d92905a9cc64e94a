//! A [`Kernel`] as four numbers, for who keeps it in atomic words: a quota that can be changed while others
//! decide by it.
//!
//! The first number says which algorithm it is, in its lowest byte, and holds what is small; the others
//! are its lengths and limits. What is read back decides exactly as what was written.

use super::{FixedWindow, FromFirst, Gcra, Kernel, Rounding, SegmentedWindow, SlidingWindow};
use crate::ticks::TickScale;

/// How many numbers an algorithm is.
pub(crate) const CODE_WORDS: usize = 4;

impl Kernel {
    /// The numbers of an algorithm that keeps its state in a word, else `None`.
    pub(crate) fn code(&self) -> Option<[u64; CODE_WORDS]> {
        let small = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
        Some(match self {
            Self::Gcra(gcra) => {
                let (scale, burst_ticks, unit_ticks) = gcra.parts();
                let (factor, shift) = scale.parts();
                [small([0, shift, 0, 0]), factor, burst_ticks, unit_ticks]
            }
            Self::FixedWindow(window) => [1, window.window_ns(), window.limit(), 0],
            Self::FromFirst(window) => [2, window.window_ns(), window.limit(), window.quantum_ns()],
            Self::SlidingWindow(window) => {
                let (window_ns, rounding, count_bits) = window.parts();
                let rounding = match rounding {
                    Rounding::Exact => 0,
                    Rounding::Down => 1,
                    Rounding::Strict => 2,
                };
                [small([3, rounding, count_bits, 0]), window_ns, window.limit(), 0]
            }
            Self::SegmentedWindow(window) => {
                let (segment_ns, segments, count_bits, ranked) = window.parts();
                let small = small([4, segments, count_bits, u8::from(ranked)]);
                [small, segment_ns, window.limit(), 0]
            }
            _ => return None, // has slots in place of a word
        })
    }

    /// The algorithm of numbers that [`Self::code`] gave.
    pub(crate) fn of_code([small, length_ns, limit, fine]: [u64; CODE_WORDS]) -> Self {
        let [form, one, two, three, ..] = small.to_le_bytes();
        match form {
            0 => {
                let scale = TickScale::of_parts((length_ns, one));
                Self::Gcra(Gcra::of_parts((scale, limit, fine)))
            }
            1 => Self::FixedWindow(FixedWindow::new(limit, length_ns)),
            2 => Self::FromFirst(FromFirst::new(limit, length_ns, fine)),
            3 => {
                let rounding = match one {
                    0 => Rounding::Exact,
                    1 => Rounding::Down,
                    _ => Rounding::Strict,
                };
                Self::SlidingWindow(SlidingWindow::new(limit, length_ns, rounding, two))
            }
            _ => {
                let ring = SegmentedWindow::new(limit, length_ns, one, two, three != 0);
                Self::SegmentedWindow(ring)
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
