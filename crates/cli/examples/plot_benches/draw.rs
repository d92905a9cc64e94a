//! The pictures. Times have logarithmic axes, because they span three powers of ten; bytes have linear ones.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "pixels of a picture, and counts of what is in it"
)]

use std::io;

use plotters::prelude::*;

use crate::figures::{Figures, Peer};
use crate::plot::{self, Canvas, Drawn};

const WIDTH: i32 = 960;
/// The room left of a plot, for the names.
const NAMES: i32 = 250;
/// The room right of a plot, for half a label or for the numbers of the longest bar.
const RIGHT: i32 = 70;
const ROW: i32 = 22;
const HEADING: i32 = 36;
const LABELS: i32 = 34;

/// Rows that are not limiters: the least work that any limiter must do, and the noise of the measurement.
const NO_PEERS: [&str; 2] = ["floor", "governor (control)"];

/// Returns the names and texts of all pictures.
pub(crate) fn all(figures: &Figures) -> io::Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("decision.svg", decision(figures)?),
        ("threads.svg", threads(figures)?),
        ("latency.svg", latency(figures)?),
        ("memory.svg", memory(figures)?),
    ])
}

/// A logarithmic axis from 10^`low` to 10^`high`, drawn from pixel `from` to pixel `to`.
#[derive(Clone, Copy)]
struct LogScale {
    low: i32,
    high: i32,
    from: i32,
    to: i32,
}

impl LogScale {
    fn at(self, value: f64) -> i32 {
        let part =
            (value.max(1e-9).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + (part.clamp(0.0, 1.0) * f64::from(self.to - self.from)).round() as i32
    }

    fn marks(self) -> impl Iterator<Item = (i32, String)> {
        (self.low..=self.high).map(move |power| {
            let value = 10_f64.powi(power);
            (self.at(value), time(value))
        })
    }
}

/// `170 ns`, `2.6 us`, `1.2 ms`.
fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        ..1e3 => (nanos, "ns"),
        ..1e6 => (nanos / 1e3, "\u{b5}s"),
        _ => (nanos / 1e6, "ms"),
    };
    if value < 9.95 && value.fract() > 0.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

fn line(canvas: &Canvas<'_>, points: &[(i32, i32)], colour: RGBColor, width: u32) -> Drawn {
    canvas.draw(&PathElement::new(points.to_vec(), colour.stroke_width(width)))
}

fn panel_height(rows: usize) -> i32 {
    HEADING + ROW * rows as i32 + LABELS
}

fn colour(contender: &str) -> RGBColor {
    match contender {
        _ if contender.starts_with("tollgate") => plot::ADMITTED,
        _ if NO_PEERS.contains(&contender) => plot::AXIS,
        _ => plot::REFUSED,
    }
}

/// Returns the contenders of a workload, ordered by their time on the maximum number of threads, fastest first.
fn contenders<'f>(figures: &'f Figures, workload: &str) -> Vec<(&'f str, Vec<&'f Peer>)> {
    let mut found: Vec<(&str, Vec<&Peer>)> = Vec::new();
    for peer in figures.peers.iter().filter(|peer| peer.workload == workload) {
        match found.iter_mut().find(|(name, _)| *name == peer.contender) {
            Some((_, peers)) => peers.push(peer),
            None => found.push((&peer.contender, vec![peer])),
        }
    }
    let last = |peers: &[&Peer]| peers.last().map_or(0.0, |peer| peer.value);
    found.sort_by(|(_, a), (_, b)| last(a).total_cmp(&last(b)));
    found
}

const WORKLOADS: [&str; 6] = [
    "u64, 1 M keys",
    "u64, 10 M keys",
    "String, 1 M keys",
    "u64, 1 k keys",
    "String, 1 k keys",
    "direct, allowed",
];

/// Dots by contender and workload: a ring for one thread, a disc for two threads.
fn decision(figures: &Figures) -> io::Result<String> {
    let panels = WORKLOADS.map(|workload| (workload, contenders(figures, workload)));
    let height: i32 = panels.iter().map(|(_, found)| panel_height(found.len())).sum();
    let title = "nanoseconds per decision, by workload and contender, on one thread and on two";
    let size = (WIDTH.unsigned_abs(), (height + 20).unsigned_abs());
    let drawn = plot::svg(title, size, |canvas| {
        let mut top = 10;
        for (workload, found) in &panels {
            draw_decisions(canvas, workload, found, top)?;
            top += panel_height(found.len());
        }
        Ok(())
    })?;
    Ok(plot::standalone(&drawn))
}

fn draw_decisions(
    canvas: &Canvas<'_>,
    workload: &str,
    found: &[(&str, Vec<&Peer>)],
    top: i32,
) -> Drawn {
    let axis = LogScale { low: 0, high: 4, from: NAMES, to: WIDTH - RIGHT };
    plot::text(canvas, workload, (16, top + 14), plot::HEADING)?;
    let remark = "per decision of each thread; a ring: one thread, a disc: two";
    plot::text(canvas, remark, (NAMES, top + 14), plot::REMARK)?;
    let (first, end) = (top + HEADING, top + HEADING + ROW * found.len() as i32);
    for (x, name) in axis.marks() {
        line(canvas, &[(x, first), (x, end)], plot::GRID, 1)?;
        plot::text(canvas, &name, (x - 16, end + 12), plot::REMARK)?;
    }
    for ((name, peers), row) in found.iter().zip(0..) {
        let y = first + ROW * row + ROW / 2;
        plot::text(canvas, name, (NAMES - 14, y), plot::LABEL_ENDING)?;
        let colour = colour(name);
        let places: Vec<(i32, i32)> = peers.iter().map(|peer| (axis.at(peer.value), y)).collect();
        line(canvas, &places, colour, 2)?;
        for (peer, place) in peers.iter().zip(&places) {
            canvas.draw(&Circle::new(*place, 5, colour.filled()))?;
            if peer.threads == 1 {
                canvas.draw(&Circle::new(*place, 3, plot::PAPER.filled()))?;
            }
        }
    }
    Ok(())
}

/// Curves from left to right, with a legend below.
struct Curves<'c> {
    title: &'c str,
    heading: &'c str,
    steps: Vec<String>,
    powers: (i32, i32),
    /// The name of each curve, and its value at each step.
    lines: Vec<(String, Vec<Option<f64>>)>,
}

impl Curves<'_> {
    fn draw(&self) -> io::Result<String> {
        const PLOT: i32 = 330;
        let legend = self.lines.len().div_ceil(2) as i32;
        let height = HEADING + PLOT + LABELS + ROW * legend + 20;
        let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
        let drawn = plot::svg(self.title, size, |canvas| {
            plot::text(canvas, self.heading, (16, 22), plot::HEADING)?;
            let axis = LogScale {
                low: self.powers.0,
                high: self.powers.1,
                from: HEADING + PLOT,
                to: HEADING + 16,
            };
            let (left, right) = (90, WIDTH - 90);
            for (y, name) in axis.marks() {
                line(canvas, &[(left, y), (right, y)], plot::GRID, 1)?;
                plot::text(canvas, &name, (left - 10, y), plot::LABEL_ENDING)?;
            }
            let gaps = (self.steps.len().max(2) - 1) as i32;
            let x = |step: usize| left + 40 + (right - left - 80) * step as i32 / gaps;
            for (step, name) in self.steps.iter().enumerate() {
                let half = 4 * name.chars().count() as i32;
                plot::text(canvas, name, (x(step) - half, HEADING + PLOT + 16), plot::LABEL)?;
            }
            for (n, (name, values)) in self.lines.iter().enumerate() {
                let colour = plot::LINES[n % plot::LINES.len()];
                let known = values.iter().enumerate();
                let places: Vec<(i32, i32)> =
                    known.filter_map(|(step, value)| Some((x(step), axis.at((*value)?)))).collect();
                line(canvas, &places, colour, if name.starts_with("tollgate") { 4 } else { 2 })?;
                for place in &places {
                    canvas.draw(&Circle::new(*place, 4, colour.filled()))?;
                }
                let (column, row) = ((n % 2) as i32, (n / 2) as i32);
                let y = HEADING + PLOT + LABELS + 16 + ROW * row;
                plot::legend(canvas, colour, name, left + column * 380, y)?;
            }
            Ok(())
        })?;
        Ok(plot::standalone(&drawn))
    }
}

/// Criterion's results: one limit and one table, over the number of threads.
fn threads(figures: &Figures) -> io::Result<String> {
    let mut counts: Vec<u32> = figures.threads.iter().map(|found| found.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut lines: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for found in &figures.threads {
        let place = counts.iter().position(|threads| *threads == found.threads).unwrap_or(0);
        let known = lines.iter().position(|(name, _)| *name == found.name);
        let known = known.unwrap_or_else(|| {
            lines.push((found.name.clone(), vec![None; counts.len()]));
            lines.len() - 1
        });
        lines[known].1[place] = Some(found.value);
    }
    let steps = counts.iter().map(|n| format!("{n} thread{}", if *n == 1 { "" } else { "s" }));
    Curves {
        title: "nanoseconds per decision of each thread, over the number of threads",
        heading: "a decision of each thread, over threads (on two cores)",
        steps: steps.collect(),
        powers: (0, 3),
        lines,
    }
    .draw()
}

const LATENCY: &str = "latency of a check, 1 M keys, ";
const QUANTILES: [&str; 5] = ["p50", "p99", "p99.9", "p99.99", "worst"];

/// Single checks, from the median to the maximum.
fn latency(figures: &Figures) -> io::Result<String> {
    let of = |contender: &str, quantile: &str| {
        let workload = format!("{LATENCY}{quantile}");
        let is_it = |peer: &&Peer| peer.workload == workload && peer.contender == contender;
        figures.peers.iter().find(is_it).map(|peer| peer.value)
    };
    let first = format!("{LATENCY}{}", QUANTILES[0]);
    let lines = contenders(figures, &first).into_iter().map(|(contender, _)| {
        let values = QUANTILES.iter().map(|quantile| of(contender, quantile)).collect();
        (contender.to_owned(), values)
    });
    Curves {
        title: "latency of single checks by quantile and contender",
        heading: "one check among 1 M keys, two threads",
        steps: QUANTILES.map(str::to_owned).into(),
        powers: (2, 7),
        lines: lines.collect(),
    }
    .draw()
}

/// Bars: bytes for each key.
fn memory(figures: &Figures) -> io::Result<String> {
    let panels = ["bytes per key, 1 M u64", "bytes per key, 1 M String"]
        .map(|workload| (workload, contenders(figures, workload)));
    let height: i32 = panels.iter().map(|(_, found)| HEADING + ROW * found.len() as i32 + 14).sum();
    let size = (WIDTH.unsigned_abs(), (height + 20).unsigned_abs());
    let values = panels.iter().flat_map(|(_, found)| found).flat_map(|(_, peers)| peers);
    let most = values.map(|peer| peer.value).fold(1.0, f64::max);
    let drawn = plot::svg("bytes per key, by contender", size, |canvas| {
        let mut top = 10;
        for (workload, found) in &panels {
            plot::text(canvas, workload, (16, top + 14), plot::HEADING)?;
            for ((name, peers), row) in found.iter().zip(0..) {
                let y = top + HEADING + ROW * row + ROW / 2;
                plot::text(canvas, name, (NAMES - 14, y), plot::LABEL_ENDING)?;
                let value = peers.first().map_or(0.0, |peer| peer.value);
                let length = (value / most * f64::from(WIDTH - RIGHT - NAMES)) as i32;
                let bar = [(NAMES, y - 7), (NAMES + length, y + 7)];
                canvas.draw(&Rectangle::new(bar, colour(name).filled()))?;
                let place = (NAMES + length + 8, y);
                plot::text(canvas, &format!("{value:.1}"), place, plot::LABEL)?;
            }
            top += HEADING + ROW * found.len() as i32 + 14;
        }
        Ok(())
    })?;
    Ok(plot::standalone(&drawn))
}
