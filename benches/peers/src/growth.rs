//! Measures how the cost of a decision grows with the number of keys, the load of the table, the number of threads, and
//! the skew of the keys.
//! `cargo bench --bench peers -- growth` prints the figures and draws them into `target/growth.svg`.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use rand::SeedableRng;
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand_distr::Zipf;

use crate::contender::RunPace;
use crate::cores;
use crate::drive::{Entrant, Expect, interleave, median};
use crate::limiters::policies::{self, CallStyle, DESIGN_LOAD};
use crate::limiters::{floor, prototype, tollgate};
use crate::options::PeersOptions;
use crate::stream::{self, BenchKey};

const M: u64 = 1_000_000;
const POLICY: &str = "gcra 100/s burst 20";

/// One line of a plot: nanoseconds per decision of each thread.
struct GrowthSeries {
    name: String,
    points: Vec<(f64, f64)>,
}

/// One of four plots. Each has a different growing quantity on its horizontal axis.
struct Plot {
    title: &'static str,
    is_log: bool,
    series: Vec<GrowthSeries>,
}

impl Plot {
    fn new(title: &'static str, is_log: bool) -> Self {
        println!("\n{title}");
        Self { title, is_log, series: Vec::new() }
    }

    /// Measures all entrants at one point of the horizontal axis.
    fn measure(
        &mut self,
        at: f64,
        entrants: &[Entrant<u64>],
        streams: &[Vec<u64>],
        options: &PeersOptions,
    ) {
        let times = interleave(entrants, streams, options.rounds, Expect::All);
        for (entrant, own) in entrants.iter().zip(times) {
            let (name, ns) = (entrant.contender.name(), median(own));
            println!("  {at:>12} {name:<34} {ns:>8.1} ns");
            match self.series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push((at, ns)),
                None => {
                    self.series
                        .push(GrowthSeries { name: name.to_owned(), points: vec![(at, ns)] });
                }
            }
        }
    }
}

/// Fills the limiters with these keys before the first round.
fn filled(entrants: Vec<Entrant<u64>>, keys: u64) -> Vec<Entrant<u64>> {
    let all = stream::all(keys);
    for entrant in &entrants {
        entrant.contender.decide(&all, RunPace::BackToBack);
    }
    entrants
}

/// Tollgate, and the entrants that do only the minimum that every table has to do.
fn common(keys: u64) -> Vec<Entrant<u64>> {
    vec![
        Entrant { decides: false, ..floor::keyed(keys).into() },
        Entrant { decides: false, ..prototype::own_clock(keys).into() },
        tollgate::own_clock(keys, Expect::All).into(),
        tollgate::many(keys, Expect::All, 16).into(),
    ]
}

fn by_keys(options: &PeersOptions) -> Plot {
    let mut plot = Plot::new("keys, uniform, 1 thread", true);
    let most = if options.full { 100 * M } else { 16 * M };
    for keys in (0..18).map(|power| 1_000 << power).chain([100 * M]).filter(|keys| *keys <= most) {
        let streams = stream::uniform(keys, options.decisions(), 1);
        plot.measure(keys as f64, &filled(common(keys), keys), &streams, options);
    }
    plot
}

/// Plots the cost by the load of a table in which no key becomes idle. When the table is full, the spill decides the
/// last keys.
fn by_load(options: &PeersOptions) -> Plot {
    let mut plot = Plot::new("percent of cells that hold keys, a table for 1 M, 1 thread", false);
    for percent in (1..=10).map(|tenth| 10 * tenth) {
        let keys = M * percent / DESIGN_LOAD;
        let asked = [CallStyle::OwnClock, CallStyle::ManyOf(16)].map(|way| Entrant {
            decides: false,
            ..policies::keyed(way.name(), POLICY, M, way).into()
        });
        let streams = stream::uniform(keys, options.decisions(), 1);
        plot.measure(percent as f64, &filled(asked.into(), keys), &streams, options);
    }
    plot
}

fn by_threads(options: &PeersOptions) -> Plot {
    let mut plot = Plot::new("threads, 1 M keys, uniform", false);
    let entrants = filled(common(M), M);
    for threads in cores::counts() {
        let streams = stream::uniform(M, options.decisions(), threads);
        plot.measure(threads as f64, &entrants, &streams, options);
    }
    plot
}

#[expect(clippy::cast_sign_loss, reason = "ranks begin with 1")]
fn by_skew(options: &PeersOptions) -> Plot {
    let mut plot = Plot::new("exponent of Zipf's law, 1 M keys, 2 threads", false);
    // The most frequent keys exceed their limit, so some of their requests are denied.
    let any = |entrant| Entrant { decides: false, ..entrant };
    let entrants = filled(common(M).into_iter().map(any).collect(), M);
    for tenths in [0, 4, 8, 10, 12, 15, 20] {
        let exponent = f64::from(tenths) / 10.0;
        let law = Zipf::new(M as f64, exponent).expect("an exponent from 0 on");
        let streams: Vec<Vec<u64>> = (0..2)
            .map(|seed| {
                let mut random = SmallRng::seed_from_u64(seed);
                let ranks = law.sample_iter(&mut random).map(|rank| rank as u64 - 1);
                ranks.take(options.decisions()).map(BenchKey::nth).collect()
            })
            .collect();
        plot.measure(exponent, &entrants, &streams, options);
    }
    plot
}

/// Measures, prints and draws all plots.
pub(crate) fn run(options: &PeersOptions, svg: &Path) -> Result<(), Box<dyn Error>> {
    let plots = [by_keys, by_load, by_threads, by_skew].map(|measured| measured(options));
    let area = SVGBackend::new(svg, (1_100, 800)).into_drawing_area();
    area.fill(&WHITE)?;
    for (plot, area) in plots.iter().zip(area.split_evenly((2, 2))) {
        draw(plot, &area)?;
    }
    area.present()?;
    println!("\ndrawn into {}", svg.display());
    Ok(())
}

fn draw<B: DrawingBackend>(
    plot: &Plot,
    area: &DrawingArea<B, plotters::coord::Shift>,
) -> Result<(), Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    // Logarithms are plotted on a linear axis, so that one kind of axis is enough.
    let place = |x: f64| if plot.is_log { x.log10() } else { x };
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let (first, last) = points()
        .map(|point| place(point.0))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), x| (first.min(x), last.max(x)));
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(plot.title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(46)
        .build_cartesian_2d(first..last, 0.0..highest * 1.1)?;
    let label = |x: &f64| if plot.is_log { format!("10^{x}") } else { x.to_string() };
    chart.configure_mesh().x_label_formatter(&label).y_desc("ns per decision").draw()?;
    for (nth, series) in plot.series.iter().enumerate() {
        let color = Palette99::pick(nth).to_rgba();
        let line = series.points.iter().map(|(x, ns)| (place(*x), *ns));
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)))?
            .label(series.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
