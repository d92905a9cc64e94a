//! The algorithms: each is a pure function on the state of one word.
//!
//! This module uses no clock and no atomics, and allocates nothing. The same functions decide for
//! [`Limiter`](crate::Limiter), [`KeyedLimiter`](crate::KeyedLimiter) and [`Meter`](crate::Meter), which the replay
//! tool uses. Only the width of the word differs.
//!
//! A word holds a *time* and *counts*. The time is in the algorithm's own unit: ticks for GCRA, windows for fixed and
//! sliding windows, windows of the calendar, segments, quanta. A step gets the distance of the word's time from now
//! instead of the absolute time. A decision needs only the distance, which can be computed even if the word stores only
//! the low bits of the time.

mod adds;
mod answers;
mod at_limit;
mod by_counts;
mod calendar;
mod carry;
mod code;
mod fixed_window;
mod from_first;
mod gcra;
#[cfg(test)]
mod proofs;
mod ranked;
mod rebase;
mod segmented_window;
mod sliding_window;
mod surplus;

pub(crate) use adds::{Adds, Load};
pub(crate) use answers::{Answers, ChargedSlots, Figures};
pub(crate) use at_limit::{GRANULES, Penalty, RULES_WORDS, Ruled, Rules, softened, unsoftened};
pub(crate) use calendar::CalendarWindow;
pub use calendar::{CalendarUnit, Weekday};
pub(crate) use code::{CODE_WORDS, FromCode, by_code, kernel_of_code};
pub(crate) use fixed_window::FixedWindow;
pub(crate) use from_first::FromFirst;
pub(crate) use gcra::Gcra;
pub(crate) use ranked::{Packing, bits_for};
pub(crate) use rebase::{Change, Rebased};
pub(crate) use segmented_window::SegmentedWindow;
pub use sliding_window::Rounding;
pub(crate) use sliding_window::SlidingWindow;
pub(crate) use surplus::{Former, SURPLUS_BITS_MAX, SurplusScale};

use crate::clock::LATEST_NS;
use crate::verdict::{Mark, Verdict};

/// The state of a word: its counts, and the distance of its time from a moment that the caller has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The distance by which the word's time lies ahead of the moment, in the algorithm's unit; 0 if it does not.
    pub(crate) ahead: u64,
    /// The distance by which the word's time lies behind the moment, in the algorithm's unit; 0 if it does not.
    pub(crate) behind: u64,
    /// The counts of the word, in the packing of the algorithm.
    pub(crate) counts: u64,
}

impl Held {
    /// True if the word's time lies further ahead than 64 bits can hold. Nothing can be admitted then. To compute the
    /// wait, the distance must be measured from an instant closer to the word's time.
    pub(crate) fn is_cut(self) -> bool {
        self.ahead == u64::MAX
    }

    /// The state of a word that was never used. It is the same for every moment.
    // It is the state of a key that owes nothing.
    pub(crate) const IDLE: Self = Self { ahead: 0, behind: 0, counts: 0 };

    /// The same state, measured from a moment that is `passed` units later. If more units have passed than 64 bits can
    /// hold, [`Kernel::passed`] gives `u64::MAX`. This value needs no special case here, since a word whose time lies
    /// so far behind owes nothing.
    pub(crate) fn seen_later(self, passed: u64) -> Self {
        Self {
            // The later moment is nearer to the word's time. If it is after that time, the time lies behind.
            ahead: self.ahead.saturating_sub(passed),
            behind: self.behind.saturating_add(passed.saturating_sub(self.ahead)),
            ..self
        }
    }

    /// The same state, measured from a moment that is `passed` units earlier. If more units have passed than 64 bits
    /// can hold, [`Kernel::passed`] gives `u64::MAX`, and the result is [cut](Self::is_cut).
    pub(crate) fn seen_earlier(self, passed: u64) -> Self {
        // The moment is further back than 64 bits can hold, so the word's time is also too far ahead for 64 bits.
        if passed == u64::MAX {
            return Self { ahead: u64::MAX, behind: 0, ..self };
        }
        Self {
            ahead: self.ahead.saturating_add(passed.saturating_sub(self.behind)),
            behind: self.behind.saturating_sub(passed),
            ..self
        }
    }
}

/// An instant in an algorithm's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The low 64 bits of the number of whole units that have passed.
    pub(crate) unit: u64,
    /// The nanoseconds since the last whole unit, for the algorithms that need them; 0 for the others.
    pub(crate) into_ns: u64,
}

/// A policy compiled to arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Gcra(Gcra),
    FixedWindow(FixedWindow),
    CalendarWindow(CalendarWindow),
    FromFirst(FromFirst),
    SlidingWindow(SlidingWindow),
    SegmentedWindow(SegmentedWindow),
}

/// Runs code with the algorithm of a kernel. The code is compiled once for each algorithm.
macro_rules! laid_out {
    ($kernel:expr, $algorithm:ident => $code:expr) => {
        match $kernel {
            $crate::algorithm::Kernel::Gcra($algorithm) => $code,
            $crate::algorithm::Kernel::FixedWindow($algorithm) => $code,
            $crate::algorithm::Kernel::CalendarWindow($algorithm) => $code,
            $crate::algorithm::Kernel::FromFirst($algorithm) => $code,
            $crate::algorithm::Kernel::SlidingWindow($algorithm) => $code,
            $crate::algorithm::Kernel::SegmentedWindow($algorithm) => $code,
        }
    };
}

pub(crate) use laid_out;

/// The functions of an algorithm that a decision calls. Each algorithm implements this trait, so that the compiler can
/// make code for that algorithm alone. [`Kernel`] implements it, too.
pub(crate) trait Decides {
    /// True if its words hold counts besides the time.
    const COUNTS: bool;

    /// An instant in this algorithm's unit of time.
    fn moment(&self, at_ns: u64) -> Moment;

    /// The latest instant that an absolute time of a word can hold. Later instants are treated like this one, so that
    /// no time is too large for its word. Windows of the calendar need no such bound: they are so long that a word has
    /// room for every time of a clock.
    #[inline(always)]
    fn latest_ns(&self) -> u64 {
        LATEST_NS
    }

    /// Decides one request: returns the state afterwards, or `None` if it is denied.
    ///
    /// `late` is [`Kernel::lateness`], 0 for a request on time. A cost of 0 is a peek: the result may be `Some`, but
    /// must not be written.
    fn step(&self, held: Held, moment: Moment, late: u64, cost: u64) -> Option<Held>;

    /// Returns the state of a word after a denial at `at`, if the denial is to be written. No algorithm writes a denial
    /// by itself: only the rules of a policy do.
    #[inline(always)]
    fn refuse(&self, _held: Held, _at_ns: u64, _cost: u64) -> Option<Held> {
        None
    }

    /// Returns the parts of an answer: its mark, the state of the algorithm, and the instant from which this state is
    /// measured.
    ///
    /// `late` is the lateness of the request, in the algorithm's unit. `unpaid` is the number of units that were
    /// requested but not charged.
    #[inline(always)]
    fn tell(
        &self,
        _verdict: Verdict,
        held: Held,
        at_ns: u64,
        _late: u64,
        _unpaid: u64,
    ) -> (Mark, Held, u64) {
        (Mark::None, held, at_ns)
    }
}

/// One of the algorithms, or the enum of all of them. Generic code is compiled for each algorithm separately.
pub(crate) trait Algorithm: Decides {
    /// Returns the algorithm in the kernel if it is this one.
    fn of(kernel: &Kernel) -> Option<&Self>;

    /// The kernel of this algorithm. If the compiler knows the algorithm, it also knows the variant of the result.
    fn kernel(&self) -> Kernel;
}

impl Algorithm for Kernel {
    #[inline(always)]
    fn of(kernel: &Kernel) -> Option<&Self> {
        Some(kernel)
    }

    #[inline(always)]
    fn kernel(&self) -> Kernel {
        *self
    }
}

impl Decides for Kernel {
    const COUNTS: bool = true;

    fn moment(&self, at_ns: u64) -> Moment {
        laid_out!(self, algorithm => algorithm.moment(at_ns))
    }

    #[inline(always)]
    fn latest_ns(&self) -> u64 {
        match self {
            Self::CalendarWindow(window) => Decides::latest_ns(window),
            _ => LATEST_NS,
        }
    }

    fn step(&self, held: Held, moment: Moment, late: u64, cost: u64) -> Option<Held> {
        laid_out!(self, algorithm => Decides::step(algorithm, held, moment, late, cost))
    }
}

impl Kernel {
    /// The number of whole units from the first instant to the second, at most `u64::MAX`; 0 if the second is the
    /// earlier one.
    pub(crate) fn passed(&self, from_ns: u64, to_ns: u64) -> u64 {
        match self {
            // Ticks are subtracted in full width, since their low 64 bits may wrap in between.
            Self::Gcra(gcra) => gcra.passed(from_ns, to_ns),
            // The number of a window is at most the number of nanoseconds, so it never wraps.
            _ => self.moment(to_ns).unit.saturating_sub(self.moment(from_ns).unit),
        }
    }

    /// Returns the distance from `now` to the later instant `at`, or 0 if the admission test does not depend on this
    /// lateness.
    ///
    /// GCRA tests a late request at the caller's own `now`. Windows decide it in the window of `at`.
    pub(crate) fn lateness(&self, now_ns: u64, at_ns: u64) -> u64 {
        match self {
            // The comparison is a shortcut: every answer needs the lateness, and it is nearly always 0.
            Self::Gcra(gcra) if at_ns > now_ns => gcra.passed(now_ns, at_ns),
            // The request is on time, or a window decides, which uses the time of its word.
            _ => 0,
        }
    }

    /// A request may be so late that its own view is [cut](Held::is_cut). This function returns the state from which
    /// such a request is answered, and the instant of that state. The instant is `at`, or an earlier instant if GCRA's
    /// TAT lies before `at`.
    #[cold]
    pub(crate) fn seen_nearby(&self, held: Held, at_ns: u64) -> (Held, u64) {
        match self {
            // At the TAT nothing is owed any more, so the state is measured from the last nanosecond before the TAT.
            Self::Gcra(gcra) if held.behind > 0 => gcra.seen_before(held, at_ns),
            // Either the word's time is near enough, or a window answers, which uses the time of its word.
            _ => (held, at_ns),
        }
    }

    /// The most that can be admitted at one instant: a cost above it never fits.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        laid_out!(self, algorithm => algorithm.limit())
    }

    /// The largest cost that would be admitted now.
    #[inline(always)]
    pub(crate) fn remaining(&self, held: Held, moment: Moment, late: u64) -> u64 {
        match self {
            Self::Gcra(gcra) => gcra.remaining(held, late),
            Self::FixedWindow(window) => window.remaining(held),
            Self::CalendarWindow(window) => window.remaining(held),
            Self::FromFirst(window) => window.remaining(held, moment),
            Self::SlidingWindow(window) => window.remaining(held, moment),
            Self::SegmentedWindow(window) => window.remaining(held),
        }
    }

    /// The state after a cost was charged, whether it fits or not, up to `most`. Under GCRA the debt stops at `most`
    /// ticks, and a larger debt stays as it is. The current count of a window stops at `most` units.
    #[inline]
    pub(crate) fn charge_up_to(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        laid_out!(self, algorithm => algorithm.charge_up_to(held, moment, cost, most))
    }

    /// The state after a denied cost was charged, up to `most`.
    #[inline]
    pub(crate) fn charge_denied(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        match self {
            Self::Gcra(gcra) => gcra.charge_denied(held, moment, cost, most),
            // A count that has reached `most` stays as it is.
            other => other.charge_up_to(held, moment, cost, most),
        }
    }

    /// True if the word is as good as a word that was never used: the whole limit is available, now and later.
    pub(crate) fn is_idle(&self, held: Held, moment: Moment) -> bool {
        self.remaining(held, moment, 0) == self.limit()
    }

    /// The part of a word's layout that does not follow from the policy: the ticks in a unit, the nanoseconds in a
    /// quantum, or the packing of segments. Words that differ in this number give different meanings to the same bits.
    pub(crate) fn fineness(&self) -> u64 {
        match self {
            Self::Gcra(gcra) => gcra.unit_ticks(),
            // The word counts time in quanta.
            Self::FromFirst(window) => window.quantum.get(),
            Self::SegmentedWindow(window) => match window.packing() {
                Packing::SIDE_BY_SIDE => 0,
                Packing::RANKED => 1,
                _ => 2, // their sum apart
            },
            Self::FixedWindow(_) | Self::CalendarWindow(_) | Self::SlidingWindow(_) => 0,
        }
    }

    /// The first instant at which `cost` would be admitted. `cost <= limit`.
    ///
    /// Under a window this instant is not before `at`; under GCRA it may be.
    pub(crate) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        match self {
            // The result may lie before `at`: nothing was charged in between, so the cost would have fitted then.
            Self::Gcra(gcra) => gcra.ready_ns(held, at_ns, cost),
            other => laid_out!(other, window => window.ready_ns(held, at_ns, cost)).max(at_ns),
        }
    }

    /// The first instant, not before `at`, at which the word is *idle*: as good as a word that was never used.
    pub(crate) fn idle_ns(&self, held: Held, at_ns: u64) -> u64 {
        let idle_ns = match self {
            Self::Gcra(gcra) => gcra.idle_ns(held, at_ns),
            Self::SlidingWindow(window) => window.idle_ns(held, at_ns),
            // A word that would admit its whole limit now would admit it later, too, since the counts only fall with
            // time.
            Self::FixedWindow(_)
            | Self::CalendarWindow(_)
            | Self::FromFirst(_)
            | Self::SegmentedWindow(_) => self.ready_ns(held, at_ns, self.limit()),
        };
        idle_ns.max(at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_instant_whenever_it_is_read() {
        let seen = |at: u64, from: u64| Held {
            ahead: at.saturating_sub(from),
            behind: from.saturating_sub(at),
            counts: 7,
        };
        for at in 0..6 {
            for (early, late) in (0..6).flat_map(|early| (early..6).map(move |late| (early, late)))
            {
                assert_eq!(seen(at, early).seen_later(late - early), seen(at, late));
                assert_eq!(seen(at, late).seen_earlier(late - early), seen(at, early));
            }
        }
        let cut = Held { ahead: u64::MAX, behind: 0, counts: 7 };
        assert_eq!(seen(1, 5).seen_earlier(u64::MAX), cut);
    }

    #[test]
    fn what_has_passed_is_counted_beyond_64_bits_and_cut_there() {
        let kernel = Kernel::Gcra(Gcra::new(1_000_000_000, 1_000_000_000, 1, 12));
        // A nanosecond has 4,096 ticks here, so the low 64 bits wrap every 52 days.
        let wrap_ns = 1 << 52;
        assert_eq!(kernel.passed(wrap_ns - 1, wrap_ns + 1), 8_192);
        assert_eq!(kernel.passed(0, wrap_ns), u64::MAX);
        assert_eq!(kernel.passed(0, wrap_ns - 1), u64::MAX - 4_095);
        assert_eq!(kernel.passed(1, 0), 0);
        assert_eq!(kernel.lateness(5, 6), 4_096);
        assert_eq!(kernel.lateness(6, 5), 0);
        let window = Kernel::FixedWindow(FixedWindow::new(1, 10));
        assert_eq!((window.passed(9, 31), window.passed(31, 9)), (3, 0));
        assert_eq!(window.lateness(9, 31), 0);
    }
}
