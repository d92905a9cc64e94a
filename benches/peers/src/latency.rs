//! Latencies of single operations, up to the slowest.

use hdrhistogram::Histogram;

use crate::contender::{Contender, RunPace};
use crate::options::PeersOptions;
use crate::report::{Measured, PeersReport};
use crate::shares::{Shares, TableCounts};
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
                    let admitted = contender.decide(stream, RunPace::Timed(&mut times));
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
pub(crate) fn checks(options: &PeersOptions, report: &mut PeersReport) {
    let name = "latency of a check, 1 M keys";
    if !options.wants(name) {
        return;
    }
    let all = stream::all(M);
    let contenders: Vec<_> = FEW.iter().filter_map(|name| few::<u64>(name, M)).collect();
    for contender in &contenders {
        contender.decide(&all, RunPace::BackToBack);
    }
    let streams = stream::uniform(M, options.decisions(), 2);
    let mut times: Vec<Vec<Histogram<u64>>> = contenders.iter().map(|_| Vec::new()).collect();
    let counts = || contenders.iter().map(|contender| contender.counts()).collect::<Vec<_>>();
    let before = counts();
    for _ in 0..options.rounds {
        for (contender, times) in contenders.iter().zip(&mut times) {
            times.push(timed(&**contender, &streams));
        }
    }
    let decisions = (2 * options.decisions() * options.rounds) as u64;
    let between = before.into_iter().zip(counts());
    let shares = between.map(|(before, after)| Some(after?.since(before?, decisions)));
    let timed: Vec<_> = times.into_iter().zip(shares).collect();
    let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
    add(name, 2, &quantiles, &timed, report);
}

/// Times inserts of new keys, one after the other, into limiters with their default settings.
pub(crate) fn inserts(options: &PeersOptions, report: &mut PeersReport) {
    let many = if options.full { 10 * M } else { 4 * M };
    // The usual quantiles, and those that show the growth of a map with many keys.
    inserts_of(M, options.rounds, &[("p50", 0.5), ("p99", 0.99)], options, report);
    inserts_of(many, options.rounds.min(3), &[("p50", 0.5), ("p99.99", 0.9999)], options, report);
}

fn inserts_of(
    keys: u64,
    rounds: usize,
    quantiles: &[(&str, f64)],
    options: &PeersOptions,
    report: &mut PeersReport,
) {
    let name = format!("latency of a new key, {} M of them", keys / M);
    if !options.wants(&name) {
        return;
    }
    let stream = vec![stream::all::<u64>(keys)];
    let mut all: Vec<Timed> = FEW.iter().map(|_| (Vec::new(), None)).collect();
    for _ in 0..rounds {
        // All contenders are built before any is timed, because a table that has just been written is in the cache.
        let contenders = FEW.map(|name| few::<u64>(name, keys).expect("one of the few"));
        for (contender, (times, shares)) in contenders.iter().zip(&mut all) {
            times.push(timed(&**contender, &stream));
            // The limiters of one round. All keys are new to each of them.
            *shares = contender.counts().map(|counts| counts.since(TableCounts::NONE, keys));
        }
    }
    add(&name, 1, quantiles, &all, report);
}

/// The times of one contender of [`FEW`] in each round, and the shares of its table's decisions.
type Timed = (Vec<Histogram<u64>>, Option<Shares>);

/// Adds rows of these quantiles, and of the worst time, for each contender of [`FEW`].
fn add(
    workload: &str,
    threads: usize,
    quantiles: &[(&str, f64)],
    timed: &[Timed],
    report: &mut PeersReport,
) {
    let worst = ("worst", 1.0);
    for &(label, quantile) in quantiles.iter().chain([&worst]) {
        let at = |times: &Histogram<u64>| times.value_at_quantile(quantile) as f64;
        let measured = FEW.iter().zip(timed).map(|(contender, (times, shares))| Measured {
            contender,
            figures: times.iter().map(at).collect(),
            shares: *shares,
        });
        let rows = measured.collect::<Vec<_>>();
        report.compare(&format!("{workload}, {label}"), threads, &rows);
    }
}
