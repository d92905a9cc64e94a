//! Axes of time, with marks at round times such as full hours, and axes of counts. Axes of counts are made here,
//! because the axis of plotters for `u64` overflows if it has no room for marks.

use std::ops::Range;

use jiff::Timestamp;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::spans::{self, DAY_NS};
use crate::tables::grouped;

/// The maximum number of marks. More of them would overlap.
const MARKS: u64 = 8;

const MINUTE_NS: u64 = 60_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// The labels of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkLabels {
    /// Date and time, in UTC.
    Clock,
    /// The time since zero.
    Elapsed,
}

/// An axis of time in nanoseconds, from the left edge of a plot to the right one.
#[derive(Clone, Debug)]
pub(crate) struct TimeAxis {
    start_ns: u64,
    end_ns: u64,
    step_ns: u64,
    names: MarkLabels,
}

impl TimeAxis {
    /// Makes an axis over this span, which is at least a nanosecond long.
    pub(crate) fn new((start_ns, end_ns): (u64, u64), names: MarkLabels) -> Self {
        let start_ns = start_ns.min(u64::MAX - 1);
        let end_ns = end_ns.max(start_ns + 1);
        Self { start_ns, end_ns, step_ns: spans::fitting(start_ns, end_ns, MARKS), names }
    }

    fn marks(&self) -> Vec<u64> {
        let (grid_ns, end_ns) = (self.grid_ns(), self.end_ns);
        let first = (self.start_ns - grid_ns).div_ceil(self.step_ns);
        let last = (end_ns - grid_ns) / self.step_ns;
        (first..=last).map(|n| grid_ns + n * self.step_ns).collect()
    }

    /// Returns the origin of the labels. It is the left edge if marks are less than a millisecond apart, because labels
    /// with up to nine decimals would overlap.
    fn grid_ns(&self) -> u64 {
        if self.step_ns < MILLISECOND_NS { self.start_ns } else { 0 }
    }

    fn name(&self, nanos: u64) -> String {
        if self.step_ns < MILLISECOND_NS {
            return format!("+{}", spans::name(nanos - self.grid_ns()));
        }
        let clock = || Timestamp::from_nanosecond(i128::from(nanos)).ok();
        let (MarkLabels::Clock, Some(at)) = (self.names, clock()) else { return elapsed(nanos) };
        let form = match self.step_ns {
            _ if nanos.is_multiple_of(DAY_NS) => "%-d %b",
            MINUTE_NS.. => "%H:%M",
            SECOND_NS.. => "%H:%M:%S",
            _ => "%H:%M:%S%.f",
        };
        at.strftime(form).to_string()
    }
}

/// Returns a span as text, from the largest unit that fits down to seconds with their fraction: `1m30s`, `2.5s`.
fn elapsed(nanos: u64) -> String {
    if nanos.is_multiple_of(MINUTE_NS) && nanos > 0 {
        return spans::name(nanos);
    }
    let (minutes, rest) = (nanos / MINUTE_NS, nanos % MINUTE_NS);
    let seconds = spans::seconds(rest);
    if minutes == 0 { format!("{seconds}s") } else { format!("{minutes}m{seconds}s") }
}

impl Ranged for TimeAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = u64;

    fn map(&self, nanos: &u64, (left, right): (i32, i32)) -> i32 {
        let part = i128::from(*nanos) - i128::from(self.start_ns);
        let whole = i128::from(self.end_ns - self.start_ns);
        let pixel = i128::from(left) + part * i128::from(right - left) / whole;
        // A point far outside of the picture is moved nearer, but stays outside.
        i32::try_from(pixel.clamp(-100_000, 100_000)).unwrap_or(left)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<u64> {
        // Light lines between the marks would have no meaning.
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks() }
    }

    fn range(&self) -> Range<u64> {
        self.start_ns..self.end_ns
    }
}

impl ValueFormatter<u64> for TimeAxis {
    fn format_ext(&self, nanos: &u64) -> String {
        self.name(*nanos)
    }
}

/// An axis of counts, from 0 at the bottom to `top`.
#[derive(Clone, Debug)]
pub(crate) struct CountAxis {
    top: u64,
    marks: u64,
}

impl CountAxis {
    /// Makes an axis with at most `marks` marks above 0. If `marks` is 0, the axis has no marks at all.
    pub(crate) fn new(top: u64, marks: u64) -> Self {
        Self { top: top.max(1), marks }
    }

    /// Returns the marks. The step between them is 1, 2 or 5 times a power of ten: the smallest step that needs at most
    /// `marks` marks above 0.
    fn marks(&self) -> Vec<u64> {
        let tens = (0..).map_while(|power| 10_u64.checked_pow(power));
        let steps = tens.flat_map(|ten| [1, 2, 5].map(|digit| ten.saturating_mul(digit)));
        let step = steps.filter(|_| self.marks > 0).find(|step| self.top / step <= self.marks);
        step.map_or_else(Vec::new, |step| (0..=self.top / step).map(|n| n * step).collect())
    }
}

impl Ranged for CountAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = u64;

    fn map(&self, count: &u64, (bottom, top): (i32, i32)) -> i32 {
        let part = i128::from(*count) * i128::from(top - bottom) / i128::from(self.top);
        i32::try_from((i128::from(bottom) + part).clamp(-100_000, 100_000)).unwrap_or(bottom)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<u64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks() }
    }

    fn range(&self) -> Range<u64> {
        0..self.top
    }
}

impl ValueFormatter<u64> for CountAxis {
    fn format_ext(&self, count: &u64) -> String {
        grouped(*count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(span_s: (u64, u64), names: MarkLabels) -> Vec<String> {
        let axis = TimeAxis::new((span_s.0 * SECOND_NS, span_s.1 * SECOND_NS), names);
        axis.marks().into_iter().map(|mark| axis.name(mark)).collect()
    }

    #[test]
    fn marks_are_at_round_times_and_midnight_has_a_date() {
        let start_s = 1_431_857_100; // 17 May 2015, 10:05:00
        let two_hours = names((start_s, start_s + 7_200), MarkLabels::Clock);
        assert_eq!(two_hours, ["10:30", "11:00", "11:30", "12:00"]);
        let days = names((start_s, start_s + 3 * 86_400), MarkLabels::Clock);
        assert_eq!(days, ["12:00", "18 May", "12:00", "19 May", "12:00", "20 May"]);
        assert_eq!(
            names((start_s, start_s + 3), MarkLabels::Clock)[..2],
            ["10:05:00", "10:05:00.5"]
        );
    }

    #[test]
    fn elapsed_time_has_no_date() {
        assert_eq!(names((0, 60), MarkLabels::Elapsed), ["0s", "15s", "30s", "45s", "1m"]);
        assert_eq!(
            names((85, 90), MarkLabels::Elapsed),
            ["1m25s", "1m26s", "1m27s", "1m28s", "1m29s", "1m30s"]
        );
        assert_eq!(elapsed(2_500_000_000), "2.5s");
    }

    #[test]
    fn marks_that_are_close_together_are_named_from_the_left_edge() {
        let start_ns = 1_431_857_100_000_000_007;
        let axis = TimeAxis::new((start_ns, start_ns + 12_000), MarkLabels::Clock);
        let names: Vec<_> = axis.marks().into_iter().map(|mark| axis.name(mark)).collect();
        assert_eq!(names, ["+0ns", "+5us", "+10us"]);
    }

    #[test]
    fn the_span_is_mapped_to_the_pixels_to_its_ends() {
        let axis = TimeAxis::new((100, 200), MarkLabels::Elapsed);
        assert_eq!([100, 150, 200].map(|nanos| axis.map(&nanos, (10, 30))), [10, 20, 30]);
        assert_eq!(axis.map(&u64::MAX, (10, 30)), 100_000);
        // A span of one instant can be drawn as well.
        assert_eq!(TimeAxis::new((7, 7), MarkLabels::Elapsed).map(&7, (10, 30)), 10);
        let last = TimeAxis::new((u64::MAX, u64::MAX), MarkLabels::Clock);
        assert_eq!(last.marks(), [u64::MAX - 1, u64::MAX]);
    }

    #[test]
    fn counts_have_round_marks_and_no_more_than_there_is_room_for() {
        assert_eq!(CountAxis::new(7, 4).marks(), [0, 2, 4, 6]);
        assert_eq!(CountAxis::new(1_822, 4).marks(), [0, 500, 1_000, 1_500]);
        assert_eq!(CountAxis::new(0, 4).marks(), [0, 1]);
        assert_eq!(CountAxis::new(u64::MAX, 4).marks().len(), 4);
        assert!(CountAxis::new(7, 0).marks().is_empty());
        assert_eq!(CountAxis::new(7, 4).format_ext(&1_500), "1,500");
    }

    #[test]
    fn counts_are_mapped_from_the_bottom_up() {
        let axis = CountAxis::new(4, 4);
        assert_eq!([0, 1, 4, 5].map(|count| axis.map(&count, (100, 20))), [100, 80, 20, 0]);
        assert_eq!(axis.map(&u64::MAX, (100, 20)), -100_000);
    }
}
