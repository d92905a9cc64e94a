//! The lanes as a picture. The curve of a policy shows at every moment how many requests were admitted in the period
//! before. If the policy has several limits, it is the period of the first one. Below the curve are all requests: when
//! they came, and when they were admitted or refused. A policy with a queue admits later than requests come. All lanes
//! have the same scale. The picture has the same size for any number of requests: each column of pixels shows its
//! maximum.

use std::io;

use plotters::prelude::*;

use super::lane::{SimulatedLane, limit, period_ns, trailing};
use crate::plot::{self, Canvas, CountAxis, Drawn, MarkLabels, TimeAxis};
use crate::replay::shortened;
use crate::spans::{DAY_NS, name};
use crate::tables::grouped;
use crate::traffic::Traffic;

/// The width of the picture in pixels.
const WIDTH: u32 = 960;
const HEAD: u32 = 40;
const LANE: u32 = 246;
/// The height of the marks for a lane's requests, above its axis of time.
const MARKS: u32 = 54;

/// Draws all lanes, one below the other.
pub(super) fn draw(traffic: &Traffic, lanes: &[SimulatedLane]) -> io::Result<String> {
    let height = HEAD + LANE * u32::try_from(lanes.len()).unwrap_or(u32::MAX / LANE - 1);
    let title = format!("{}: what {} policies admit", traffic.name, lanes.len());
    let highest = lanes.iter().map(|lane| {
        limit(lane.policy.first.policy).max(lane.max_in_period.first().copied().unwrap_or(0))
    });
    let highest = highest.max().unwrap_or(1);
    let drawn = plot::svg(&title, (WIDTH, height), |canvas| {
        let (head, mut rest) = canvas.split_vertically(HEAD);
        let name = shortened(traffic.name.as_bytes(), plot::NAME_CHARS);
        plot::text(&head, &name, (16, 20), plot::HEADING)?;
        let key = "filled: in the last period; line: limit";
        plot::text(&head, key, (330, 20), plot::REMARK)?;
        plot::legend(&head, plot::AXIS, "came", 640, 20)?;
        plot::legend(&head, plot::ADMITTED, "admitted", 730, 20)?;
        plot::legend(&head, plot::REFUSED, "refused", 840, 20)?;
        for lane in lanes {
            let (panel, below) = rest.split_vertically(LANE);
            draw_lane(traffic, lane, highest, &panel)?;
            rest = below;
        }
        Ok(())
    })?;
    Ok(plot::standalone(&drawn))
}

/// Draws one lane. `highest` is the number that the scale of all lanes has to reach.
fn draw_lane(traffic: &Traffic, lane: &SimulatedLane, highest: u64, canvas: &Canvas<'_>) -> Drawn {
    let policy = shortened(lane.policy.to_string().as_bytes(), plot::NAME_CHARS);
    let in_periods = lane.policy.all().zip(&lane.max_in_period);
    let in_periods = in_periods
        .map(|(one, units)| format!("{} in {}", grouped(*units), name(period_ns(one.policy))));
    let counts = format!(
        "admitted {}, refused {}; at most {}",
        grouped(lane.admitted_count),
        grouped(lane.refused_count),
        in_periods.collect::<Vec<_>>().join(", ")
    );
    plot::text(canvas, &policy, (16, 18), plot::HEADING)?;
    plot::text(canvas, &counts, (390, 18), plot::REMARK)?;
    let (_, body) = canvas.split_vertically(34);
    let (curve, marks) = body.split_vertically(LANE - 34 - MARKS - 32);
    let pass: Vec<u64> = admitted(traffic, lane).collect();
    let top = highest.saturating_add(highest / 6 + 1);
    draw_curve(traffic, lane, &pass, top, &curve)?;
    draw_marks(traffic, lane, &marks)
}

fn admitted<'l>(traffic: &'l Traffic, lane: &'l SimulatedLane) -> impl Iterator<Item = u64> + 'l {
    // A request whose turn comes after the last request is beyond the picture.
    lane.left.iter().copied().take_while(|at| *at <= traffic.span_ns.1)
}

/// Returns an axis from zero, or by the calendar if the times are dates.
fn axis(traffic: &Traffic) -> TimeAxis {
    let is_dated = traffic.span_ns.0 >= DAY_NS;
    TimeAxis::new(traffic.span_ns, if is_dated { MarkLabels::Clock } else { MarkLabels::Elapsed })
}

/// Draws the number of requests admitted in the last period, and the limit.
fn draw_curve(
    traffic: &Traffic,
    lane: &SimulatedLane,
    pass: &[u64],
    top: u64,
    canvas: &Canvas<'_>,
) -> Drawn {
    let limit = limit(lane.policy.first.policy);
    let mut chart = plot::chart(canvas, 0, axis(traffic), CountAxis::new(top, 4))?;
    let (start_ns, end_ns) = traffic.span_ns;
    let columns = Columns::new(traffic.span_ns);
    let highest = columns.highest(pass, period_ns(lane.policy.first.policy));
    chart.draw_series(columns.joined(&highest).filter(|run| run.value > 0).map(|run| {
        Rectangle::new([(run.start_ns, 0), (run.end_ns, run.value)], plot::ADMITTED.filled())
    }))?;
    let line = [(start_ns, limit), (end_ns.max(start_ns + 1), limit)];
    chart.draw_series(LineSeries::new(line, plot::INK.stroke_width(2)))?;
    Ok(())
}

/// Draws three rows of marks and the axis of time. The rows are the requests as they came, the admitted ones as they
/// left, and the refused ones.
fn draw_marks(traffic: &Traffic, lane: &SimulatedLane, canvas: &Canvas<'_>) -> Drawn {
    let mut chart = ChartBuilder::on(canvas)
        .margin_right(plot::RIGHT)
        .x_label_area_size(32)
        .y_label_area_size(plot::LEFT)
        .build_cartesian_2d(axis(traffic), CountAxis::new(29, 0))?;
    let label = ("sans-serif", 16).into_text_style(canvas).color(&plot::INK);
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_y_axis()
        .axis_style(plot::AXIS)
        .label_style(label)
        .draw()?;
    let columns = Columns::new(traffic.span_ns);
    let refused = traffic.times.iter().zip(&lane.admitted).filter(|(_, pass)| !**pass);
    for (met, low, colour) in [
        (columns.met(traffic.times.iter().copied()), 20, plot::AXIS),
        (columns.met(admitted(traffic, lane)), 11, plot::ADMITTED),
        (columns.met(refused.map(|(at, _)| *at)), 2, plot::REFUSED),
    ] {
        chart.draw_series(columns.joined(&met).filter(|run| run.value > 0).map(|run| {
            Rectangle::new([(run.start_ns, low), (run.end_ns, low + 7)], colour.filled())
        }))?;
    }
    Ok(())
}

/// The columns of the plot from left to right.
struct Columns {
    start_ns: u64,
    end_ns: u64,
}

/// Adjacent columns with the same value.
#[derive(Debug, PartialEq, Eq)]
struct ColumnRun {
    start_ns: u64,
    end_ns: u64,
    value: u64,
}

impl Columns {
    /// The number of columns. It is one less than the pixels, because an axis ends on the last pixel: so each column
    /// has a pixel of its own.
    const COUNT: u64 = (WIDTH - plot::LEFT - plot::RIGHT - 1) as u64;

    fn new((start_ns, end_ns): (u64, u64)) -> Self {
        Self { start_ns, end_ns: end_ns.max(start_ns + 1) }
    }

    /// Returns the start of a column.
    fn starts_ns(&self, column: u64) -> u64 {
        let offset = u128::from(self.end_ns - self.start_ns) * u128::from(column);
        let offset = offset.div_ceil(u128::from(Self::COUNT));
        self.start_ns + u64::try_from(offset).unwrap_or(0)
    }

    /// Returns the column of a time. The right edge belongs to the last column.
    fn of(&self, nanos: u64) -> u64 {
        let offset = u128::from(nanos.saturating_sub(self.start_ns)) * u128::from(Self::COUNT);
        let column = offset / u128::from(self.end_ns - self.start_ns);
        u64::try_from(column).unwrap_or(u64::MAX).min(Self::COUNT - 1)
    }

    /// Returns for each column the maximum number admitted within the last period. It is reached at the start of the
    /// column, or at an admission.
    fn highest(&self, pass: &[u64], period_ns: u64) -> Vec<u64> {
        let mut held = trailing(pass, period_ns).peekable();
        let column = |column| {
            let now_ns = self.starts_ns(column);
            let came = pass.partition_point(|at_ns| *at_ns <= now_ns);
            let gone = pass[..came].partition_point(|at_ns| now_ns - at_ns >= period_ns);
            let mut most = (came - gone) as u64;
            while let Some((_, units)) = held.next_if(|(at_ns, _)| self.of(*at_ns) <= column) {
                most = most.max(units);
            }
            most
        };
        (0..Self::COUNT).map(column).collect()
    }

    /// 1 for each column that contains any of the times, else 0.
    fn met(&self, times: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut met: Vec<u64> = (0..Self::COUNT).map(|_| 0).collect();
        for nanos in times {
            if let Some(met) = usize::try_from(self.of(nanos)).ok().and_then(|n| met.get_mut(n)) {
                *met = 1;
            }
        }
        met
    }

    /// Merges adjacent columns of equal values.
    fn joined<'c>(&'c self, values: &'c [u64]) -> impl Iterator<Item = ColumnRun> + 'c {
        let mut column = 0;
        values.chunk_by(|a, b| a == b).map(move |run| {
            let start_ns = self.starts_ns(column);
            column += run.len() as u64;
            let value = run.first().copied().unwrap_or(0);
            ColumnRun { start_ns, end_ns: self.starts_ns(column), value }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One nanosecond for each column.
    fn columns() -> Columns {
        Columns::new((100, 100 + Columns::COUNT))
    }

    #[test]
    fn a_column_shows_the_most_that_was_held_in_it() {
        let end = 100 + Columns::COUNT;
        let highest = columns().highest(&[100, 102, 102, end], 5);
        assert_eq!(highest[..8], [1, 1, 3, 3, 3, 2, 2, 0]);
        assert_eq!(highest.len() as u64, Columns::COUNT);
        assert_eq!(highest.last(), Some(&1), "the right edge is in the picture");
        // Narrow columns of a long span show their maximum, not the value at their start.
        let wide = Columns::new((0, 1_000 * Columns::COUNT));
        assert_eq!(wide.highest(&[500, 501, 502], 5)[..2], [3, 0]);
    }

    #[test]
    fn equal_neighbours_are_one_run() {
        let mut met = columns().met([101, 102, 500].into_iter());
        assert_eq!(met.iter().sum::<u64>(), 3);
        met.truncate(402);
        let runs: Vec<_> = columns().joined(&met).collect();
        let run = |start_ns, end_ns, value| ColumnRun { start_ns, end_ns, value };
        let expected = [
            run(100, 101, 0),
            run(101, 103, 1),
            run(103, 500, 0),
            run(500, 501, 1),
            run(501, 502, 0),
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn one_instant_is_a_picture() {
        let columns = Columns::new((7, 7));
        assert_eq!(columns.of(7), 0);
        assert_eq!(columns.highest(&[7, 7], 1)[..2], [2, 0]);
    }
}
