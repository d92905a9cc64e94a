//! A [`Kernel`] as five numbers that can be stored in atomic words. A quota that may change is stored in this form,
//! because other threads read it while it changes.
//!
//! The lowest byte of the first number names the algorithm, and its other bytes are small parameters. The other numbers
//! are the lengths and limits of the algorithm. A kernel that is read from these numbers decides exactly like the
//! kernel that was written.

use super::{
    Algorithm, CalendarUnit, CalendarWindow, FixedWindow, FromFirst, Gcra, Kernel, Packing,
    Rounding, SegmentedWindow, SlidingWindow,
};
use crate::divisor::Divisor;
use crate::ticks::TickScale;

/// The five numbers of an algorithm.
pub(crate) const CODE_WORDS: usize = 5;

/// Runs code for the algorithm `A` of these numbers. The code is compiled for each algorithm separately.
macro_rules! by_code {
    ($code:expr, $A:ident => $run:expr) => {
        match $code[0] & 0xff {
            0 => {
                type $A = $crate::algorithm::Gcra;
                $run
            }
            1 => {
                type $A = $crate::algorithm::FixedWindow;
                $run
            }
            2 => {
                type $A = $crate::algorithm::FromFirst;
                $run
            }
            3 => {
                type $A = $crate::algorithm::SlidingWindow;
                $run
            }
            5 => {
                type $A = $crate::algorithm::CalendarWindow;
                $run
            }
            _ => {
                type $A = $crate::algorithm::SegmentedWindow;
                $run
            }
        }
    };
}
pub(crate) use by_code;

/// The algorithm for which these numbers stand.
pub(crate) fn kernel_of_code(code: [u64; CODE_WORDS]) -> Kernel {
    by_code!(code, A => A::of_code(code).kernel())
}

impl Kernel {
    /// The numbers that stand for the algorithm.
    pub(crate) fn code(&self) -> [u64; CODE_WORDS] {
        // The first byte becomes the lowest byte, which names the algorithm.
        let small = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
        match self {
            Self::Gcra(gcra) => {
                // The rules for the limit are stored separately for each quota.
                let (factor, shift) = gcra.scale.parts();
                [small([0, shift, 0, 0]), factor, gcra.burst_ticks, gcra.unit_ticks, 0]
            }
            Self::FixedWindow(window) => {
                let [window_ns, multiplier] = window.window.parts();
                [1, window_ns, window.limit, 0, multiplier]
            }
            Self::FromFirst(window) => {
                let [quantum_ns, multiplier] = window.quantum.parts();
                [2, window.window_ns, window.limit, quantum_ns, multiplier]
            }
            Self::SlidingWindow(window) => {
                let [window_ns, multiplier] = window.window.parts();
                let rounding = match window.rounding {
                    Rounding::Exact => 0,
                    Rounding::Down => 1,
                    Rounding::Strict => 2,
                };
                let small = small([3, rounding, window.count_bits, 0]);
                [small, window_ns, window.limit, 0, multiplier]
            }
            Self::SegmentedWindow(window) => {
                let [segment_ns, multiplier] = window.segment.parts();
                let small = small([4, window.segments, window.count_bits, window.packing.0]);
                [small, segment_ns, window.limit, 0, multiplier]
            }
            Self::CalendarWindow(window) => {
                [small([5, window.unit.number(), 0, 0]), window.limit(), 0, 0, 0]
            }
        }
    }
}

/// The small parameters of an algorithm, from the first number.
#[inline(always)]
fn small(code: [u64; CODE_WORDS]) -> [u8; 3] {
    let [_, one, two, three, ..] = code[0].to_le_bytes();
    [one, two, three]
}

/// An algorithm whose numbers can be kept in atomic words.
pub(crate) trait FromCode: Algorithm {
    /// Makes the algorithm from numbers that were written for the same kind of algorithm.
    fn of_code(code: [u64; CODE_WORDS]) -> Self;
}

impl FromCode for Gcra {
    #[inline(always)]
    fn of_code(code: [u64; CODE_WORDS]) -> Self {
        let ([shift, ..], [_, factor, burst_ticks, unit_ticks, _]) = (small(code), code);
        Self { scale: TickScale::of_parts(factor, shift), burst_ticks, unit_ticks }
    }
}

impl FromCode for FixedWindow {
    #[inline(always)]
    fn of_code([_, window_ns, limit, _, multiplier]: [u64; CODE_WORDS]) -> Self {
        Self { window: Divisor::of_parts(window_ns, multiplier), limit }
    }
}

impl FromCode for CalendarWindow {
    #[inline(always)]
    fn of_code(code: [u64; CODE_WORDS]) -> Self {
        let ([unit, ..], [_, limit, ..]) = (small(code), code);
        // An unknown number can only be read while another thread is writing it. The reader then decides again.
        Self::new(CalendarUnit::of_number(unit).unwrap_or(CalendarUnit::Month), limit)
    }
}

impl FromCode for FromFirst {
    #[inline(always)]
    fn of_code([_, window_ns, limit, quantum_ns, multiplier]: [u64; CODE_WORDS]) -> Self {
        Self { window_ns, limit, quantum: Divisor::of_parts(quantum_ns, multiplier) }
    }
}

impl FromCode for SlidingWindow {
    #[inline(always)]
    fn of_code(code: [u64; CODE_WORDS]) -> Self {
        let ([rounding, count_bits, _], [_, window_ns, limit, _, multiplier]) = (small(code), code);
        let rounding = match rounding {
            // These are the numbers that [`Kernel::code`] writes.
            0 => Rounding::Exact,
            1 => Rounding::Down,
            // A larger number can only be read during a write, and the reader then discards it.
            _ => Rounding::Strict,
        };
        Self { window: Divisor::of_parts(window_ns, multiplier), limit, rounding, count_bits }
    }
}

impl FromCode for SegmentedWindow {
    #[inline(always)]
    fn of_code(code: [u64; CODE_WORDS]) -> Self {
        let [segments, count_bits, packing] = small(code);
        let [_, segment_ns, limit, _, multiplier] = code;
        let segment = Divisor::of_parts(segment_ns, multiplier);
        Self { segment, limit, segments, count_bits, packing: Packing(packing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Meter, Policy};

    fn of_code(code: [u64; CODE_WORDS]) -> Kernel {
        by_code!(code, A => A::of_code(code).kernel())
    }

    #[test]
    fn what_is_written_in_numbers_is_read_back_for_every_algorithm() {
        for text in [
            "gcra 7/s burst 3",
            "gcra 2000000000/s burst 1000000",
            "gcra 1/30d burst 100000",
            "fixed-window 100/m",
            "fixed-window 100/m from-first",
            "calendar-month 10000",
            "calendar-year 10000",
            "calendar-week 10000",
            "calendar-week 10000 from-sunday",
            "sliding-window 100/m exact",
            "sliding-window 100/m",
            "sliding-window 100/m strict",
            "segmented-window 20/m x4",
            "segmented-window 100/m x6",
        ] {
            let kernel =
                Meter::new(text.parse::<Policy>().expect("a policy")).expect("a word").kernel;
            assert_eq!(of_code(kernel.code()), kernel, "{text}");
        }
        for (packing, _) in Packing::all(5, 3) {
            let kernel = Kernel::SegmentedWindow(SegmentedWindow::new(5, 20, 3, 3, packing));
            assert_eq!(of_code(kernel.code()), kernel);
        }
    }
}
