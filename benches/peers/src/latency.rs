//! Single operations: how long the slowest takes.

use hdrhistogram::Histogram;

use crate::Options;
use crate::contender::{Contender, Pace};
use crate::drive::median;
use crate::report::{Report, Row};
use crate::stream;
use crate::workloads::{FEW, few};

const M: u64 = 1_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("bounds")
}

/// Times every check of every thread.
fn timed(contender: &(dyn Contender<u64> + Sync), streams: &[Vec<u64>]) -> Histogram<u64> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter()
            .map(|stream| {
                scope.spawn(move || {
                    let mut times = histogram();
                    let admitted = contender.decide(stream, Pace::Timed(&mut times));
                    let denied = stream.len() as u64 - admitted;
                    assert!(denied <= stream.len() as u64 / 10_000, "{}", contender.name());
                    times
                })
            })
            .collect();
        let mut all = histogram();
        for thread in threads {
            all.add(thread.join().expect("a thread")).expect("equal bounds");
        }
        all
    })
}

/// Percentiles of checks of existing keys: 1 M keys, 2 threads.
pub(crate) fn checks(options: &Options, report: &mut Report) {
    let name = "latency of a check, 1 M keys";
    if !options.wants(name) {
        return;
    }
    let all = stream::all(M);
    let contenders: Vec<_> = FEW.iter().filter_map(|name| few::<u64>(name, M)).collect();
    for contender in &contenders {
        contender.decide(&all, Pace::BackToBack);
    }
    let streams = stream::uniform(M, options.decisions(), 2);
    let mut times: Vec<Vec<Histogram<u64>>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        for (contender, times) in contenders.iter().zip(&mut times) {
            times.push(timed(&**contender, &streams));
        }
    }
    for (label, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)] {
        let at = |times: &Histogram<u64>| times.value_at_quantile(quantile) as f64;
        add(&format!("{name}, {label}"), 2, &times, at, report);
    }
    add(&format!("{name}, worst"), 2, &times, |times| times.max() as f64, report);
}

/// Fresh keys, one after the other, into limiters as they are built by default.
pub(crate) fn inserts(options: &Options, report: &mut Report) {
    let keys = if options.full { 10 * M } else { 4 * M };
    let name = format!("latency of a new key, {} M of them", keys / M);
    if !options.wants(&name) {
        return;
    }
    let stream = vec![stream::all::<u64>(keys)];
    let mut times: Vec<Vec<Histogram<u64>>> = FEW.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds.min(3) {
        for (name, times) in FEW.iter().zip(&mut times) {
            let contender = few::<u64>(name, keys).expect("one of the few");
            times.push(timed(&*contender, &stream));
        }
    }
    let at = |times: &Histogram<u64>| times.value_at_quantile(0.9999) as f64;
    add(&format!("{name}, p99.99"), 1, &times, at, report);
    add(&format!("{name}, worst"), 1, &times, |times| times.max() as f64, report);
}

/// A row for each of the [`FEW`], whose times these are.
fn add(
    workload: &str,
    threads: usize,
    times: &[Vec<Histogram<u64>>],
    figure: impl Fn(&Histogram<u64>) -> f64,
    report: &mut Report,
) {
    let governor: Vec<f64> = times[0].iter().map(&figure).collect();
    for (contender, times) in FEW.iter().zip(times) {
        let own: Vec<f64> = times.iter().map(&figure).collect();
        let ratios = governor.iter().zip(&own).map(|(governor, own)| governor / own);
        report.add(Row {
            workload: workload.to_owned(),
            contender: (*contender).to_owned(),
            threads,
            ratio_to_governor: median(ratios.collect()),
            median_ns: median(own),
        });
    }
}
