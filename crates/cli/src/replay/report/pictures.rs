//! The report as pictures: the cumulative refusals over time, and for each policy its timeline, its most refused keys
//! and the waits of refused requests.
//!
//! Refusals are accumulated, not admissions: with few refusals the curves of all policies' admissions would coincide.

use std::io;

use plotters::prelude::*;

use super::{PolicyReport, ReplayReport};
use crate::plot::{self, Canvas, CountAxis, Drawn, MarkLabels, TimeAxis};
use crate::replay::text;
use crate::spans;
use crate::tables::{grouped, share};

/// The width of a picture in pixels.
const WIDTH: u32 = 960;
const CUMULATIVE_HEIGHT: u32 = 320;
const HEADING_HEIGHT: u32 = 34;
const TIMELINE_HEIGHT: u32 = 206;
/// The width of the column of names beside the cumulative curves.
const NAMES_WIDTH: i32 = 330;
const ROW_HEIGHT: i32 = 22;
/// The room left of the bars, for a key or a class of waits.
const KEY_WIDTH: i32 = 270;
const WAIT_WIDTH: i32 = 90;
const KEY_CHARS: usize = 30;
/// The room right of the bars, for the numbers.
const NUMBERS_WIDTH: i32 = 130;

impl ReplayReport {
    /// Returns all pictures as one SVG, one below the other, for a file of its own.
    pub(crate) fn to_svg(&self) -> io::Result<String> {
        let height = |policy: &PolicyReport| HEADING_HEIGHT + TIMELINE_HEIGHT + bars_height(policy);
        let all = cumulative_height(self) + self.rows().iter().map(height).sum::<u32>();
        let drawn = plot::svg(&title(self), (WIDTH, all), |canvas| {
            let (top, mut rest) = canvas.split_vertically(cumulative_height(self));
            draw_cumulative(self, &top)?;
            for policy in self.rows() {
                let (panel, below) = rest.split_vertically(height(policy));
                let (heading, body) = panel.split_vertically(HEADING_HEIGHT);
                let name = text::shortened(policy.name().as_bytes(), plot::NAME_CHARS);
                plot::text(&heading, &name, (16, 20), plot::HEADING)?;
                let (timeline, bars) = body.split_vertically(TIMELINE_HEIGHT);
                draw_timeline(policy, tallest(self), &timeline)?;
                draw_bars(policy, &bars)?;
                rest = below;
            }
            Ok(())
        })?;
        Ok(plot::standalone(&drawn))
    }
}

/// Draws the cumulative refusals of each policy.
pub(super) fn cumulative(report: &ReplayReport) -> io::Result<String> {
    let size = (WIDTH, cumulative_height(report));
    plot::svg(&title(report), size, |canvas| draw_cumulative(report, canvas))
}

/// Draws the admitted and refused requests of one policy over time.
pub(super) fn timeline(report: &ReplayReport, policy: &PolicyReport) -> io::Result<String> {
    let title = format!(
        "{}: {} requests admitted and {} refused over time",
        policy.name(),
        grouped(policy.admitted),
        grouped(policy.refused)
    );
    plot::svg(&title, (WIDTH, TIMELINE_HEIGHT), |canvas| {
        draw_timeline(policy, tallest(report), canvas)
    })
}

/// Returns the number of requests in the fullest bin, which sets one scale for all timelines.
fn tallest(report: &ReplayReport) -> u64 {
    let bins = report.rows().iter().flat_map(|policy| policy.timeline.bins());
    bins.map(|(_, bin)| bin.admitted + bin.refused).max().unwrap_or(0)
}

fn title(report: &ReplayReport) -> String {
    format!("requests refused over time, {} to {}", report.log.first, report.log.last)
}

fn cumulative_height(report: &ReplayReport) -> u32 {
    let names = u32::try_from(report.rows().len()).unwrap_or(u32::MAX).saturating_add(4);
    CUMULATIVE_HEIGHT.max(names.saturating_mul(ROW_HEIGHT.unsigned_abs()))
}

fn draw_cumulative(report: &ReplayReport, canvas: &Canvas<'_>) -> Drawn {
    let Some(first) = report.rows().first() else { return Ok(()) };
    plot::text(canvas, "refused requests, added up", (16, 20), plot::HEADING)?;
    let (_, body) = canvas.split_vertically(36);
    let (plot_area, names) = body.split_horizontally(WIDTH.cast_signed() - NAMES_WIDTH);
    let time = TimeAxis::new(first.timeline.span_ns(), MarkLabels::Clock);
    let most = report.rows().iter().map(|policy| policy.refused).max().unwrap_or(0);
    let mut chart = plot::chart(&plot_area, 32, time, CountAxis::new(most, 6))?;
    for (n, policy) in report.rows().iter().enumerate() {
        let colour = plot::LINES[n % plot::LINES.len()];
        chart.draw_series(LineSeries::new(added_up(policy), colour.stroke_width(2)))?;
        let name = text::shortened(policy.name().as_bytes(), plot::NAME_CHARS);
        let row = 10 + ROW_HEIGHT * i32::try_from(n).unwrap_or(i32::MAX / ROW_HEIGHT - 1);
        let entry = format!("{name}: {}", grouped(policy.refused));
        plot::legend(&names, colour, &entry, 0, row)?;
    }
    Ok(())
}

/// Returns the end of each bin, with the number of requests refused until then.
fn added_up(policy: &PolicyReport) -> Vec<(u64, u64)> {
    let (start_ns, end_ns) = policy.timeline.span_ns();
    let mut sum = 0;
    let sums = policy.timeline.bins().map(|(at_ns, bin)| {
        sum += bin.refused;
        (at_ns.saturating_add(policy.timeline.width_ns()).min(end_ns), sum)
    });
    [(start_ns, 0)].into_iter().chain(sums).collect()
}

fn draw_timeline(policy: &PolicyReport, tallest: u64, canvas: &Canvas<'_>) -> Drawn {
    let width = spans::name(policy.timeline.width_ns());
    plot::text(canvas, &format!("requests in {width}"), (16, 16), plot::REMARK)?;
    plot::legend(canvas, plot::ADMITTED, "admitted", 190, 16)?;
    plot::legend(canvas, plot::REFUSED, "refused", 300, 16)?;
    let (_, body) = canvas.split_vertically(32);
    let time = TimeAxis::new(policy.timeline.span_ns(), MarkLabels::Clock);
    let mut chart = plot::chart(&body, 32, time, CountAxis::new(tallest, 4))?;
    let width_ns = policy.timeline.width_ns();
    let bar = |start_ns: u64, low: u64, high: u64, colour: RGBColor| {
        let corners = [(start_ns, low), (start_ns.saturating_add(width_ns), high)];
        Rectangle::new(corners, colour.filled())
    };
    let bins = || policy.timeline.bins();
    let admitted = bins().filter(|(_, bin)| bin.admitted > 0);
    chart.draw_series(admitted.map(|(at, bin)| bar(at, 0, bin.admitted, plot::ADMITTED)))?;
    let refused = bins().filter(|(_, bin)| bin.refused > 0);
    chart.draw_series(
        refused.map(|(at, bin)| bar(at, bin.admitted, bin.admitted + bin.refused, plot::REFUSED)),
    )?;
    Ok(())
}

fn bars_height(policy: &PolicyReport) -> u32 {
    let rows = policy.worst.len().max(policy.waits.classes().len());
    let rows = i32::try_from(rows).unwrap_or(0);
    (if rows == 0 { 52 } else { 70 + rows * ROW_HEIGHT }).unsigned_abs()
}

/// Draws the most refused keys on the left, and the waits on the right.
fn draw_bars(policy: &PolicyReport, canvas: &Canvas<'_>) -> Drawn {
    if policy.worst.is_empty() {
        return plot::text(canvas, "nothing refused", (16, 20), plot::REMARK);
    }
    let (keys, waits) = canvas.split_horizontally(580);
    plot::text(&keys, "most refused keys, of their requests", (16, 20), plot::REMARK)?;
    let most = policy.worst.iter().map(|worst| worst.requests).max().unwrap_or(1);
    for (worst, row) in policy.worst.iter().zip(0..) {
        let bar = Bar {
            name: text::shortened(&worst.raw, KEY_CHARS),
            parts: [worst.refused, worst.requests - worst.refused],
            whole: most,
            numbers: format!("{} of {}", grouped(worst.refused), grouped(worst.requests)),
        };
        bar.draw(&keys, row, KEY_WIDTH)?;
    }
    plot::text(&waits, "refused were told to wait", (16, 20), plot::REMARK)?;
    let classes = policy.waits.classes();
    let most = classes.iter().map(|(_, count)| *count).max().unwrap_or(1);
    for ((name, count), row) in classes.into_iter().zip(0..) {
        let numbers = format!("{} ({})", grouped(count), share(count, policy.refused));
        let bar = Bar { name: name.to_owned(), parts: [count, 0], whole: most, numbers };
        bar.draw(&waits, row, WAIT_WIDTH)?;
    }
    Ok(())
}

/// A row of a bar chart: the refused requests, and the others.
struct Bar {
    name: String,
    parts: [u64; 2],
    whole: u64,
    numbers: String,
}

impl Bar {
    fn draw(&self, canvas: &Canvas<'_>, row: i32, left: i32) -> Drawn {
        let y = 46 + row * ROW_HEIGHT;
        plot::text(canvas, &self.name, (left, y), plot::LABEL_ENDING)?;
        let (width, _) = canvas.dim_in_pixel();
        let room = width.cast_signed() - left - 8 - NUMBERS_WIDTH;
        let pixels = |part: u64| {
            let pixels =
                u128::from(part) * u128::from(room.unsigned_abs()) / u128::from(self.whole.max(1));
            // A part above zero is at least one pixel wide.
            i32::try_from(pixels).unwrap_or(room).max(i32::from(part > 0))
        };
        let (from, middle) = (left + 8, left + 8 + pixels(self.parts[0]));
        let end = middle + pixels(self.parts[1]);
        let half = ROW_HEIGHT / 2 - 4;
        for (x, right, colour) in [(from, middle, plot::REFUSED), (middle, end, plot::ADMITTED)] {
            if right > x {
                canvas
                    .draw(&Rectangle::new([(x, y - half), (right, y + half)], colour.filled()))?;
            }
        }
        plot::text(canvas, &self.numbers, (end + 8, y), plot::LABEL)
    }
}
