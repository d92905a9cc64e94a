//! The measured figures, printed as lines.

use hdrhistogram::Histogram;

use crate::drive::DriveRound;
use crate::options::RlsOptions;

/// The least share of the bare server's requests per second that the service must reach.
const LEAST_RATE: f64 = 0.92;
/// The highest 99th percentile that the service may have, as a multiple of the bare server's.
const MAX_P99: f64 = 1.50;

/// Prints each round as it ends, and the medians at the end.
pub(crate) struct RlsReport {
    rounds: Vec<RoundLine>,
}

/// The results of one round: the service's first, then the bare server's.
#[derive(Clone, Copy)]
struct RoundLine {
    rate: [f64; 2],
    p50_us: [f64; 2],
    p99_us: [f64; 2],
    cpu_us: [f64; 2],
}

impl RlsReport {
    pub(crate) fn new(options: &RlsOptions) -> Self {
        let RlsOptions { rounds, millis, connections, descriptors, .. } = options;
        println!(
            "{rounds} rounds of {millis} ms each; {connections} connections, {descriptors} descriptors \
             in a request\nours / bare tonic server of the same messages = ratio\n"
        );
        println!(
            "{:>5}  {:^26}  {:^24}  {:^24}  {:^24}",
            "round", "requests/s", "p50 us", "p99 us", "server's CPU us/request"
        );
        Self { rounds: Vec::new() }
    }

    pub(crate) fn add(&mut self, ours: &DriveRound, echo: &DriveRound) {
        let both = |of: fn(&DriveRound) -> f64| [of(ours), of(echo)];
        let line = RoundLine {
            rate: both(|round| count(round) / round.took.as_secs_f64()),
            p50_us: both(|round| quantile_us(&round.latencies_ns, 0.50)),
            p99_us: both(|round| quantile_us(&round.latencies_ns, 0.99)),
            cpu_us: both(|round| round.cpu_s * 1e6 / count(round)),
        };
        self.rounds.push(line);
        print(&self.rounds.len().to_string(), line);
    }

    pub(crate) fn end(&self) {
        let both = |of: fn(&RoundLine) -> [f64; 2]| {
            [0, 1].map(|which| median(self.rounds.iter().map(|line| of(line)[which])))
        };
        let line = RoundLine {
            rate: both(|line| line.rate),
            p50_us: both(|line| line.p50_us),
            p99_us: both(|line| line.p99_us),
            cpu_us: both(|line| line.cpu_us),
        };
        println!();
        print("each", line);
        let ratio = |of: fn(&RoundLine) -> [f64; 2]| {
            median(self.rounds.iter().map(|line| of(line)[0] / of(line)[1]))
        };
        let (rate, p99) = (ratio(|line| line.rate), ratio(|line| line.p99_us));
        println!(
            "median of the rounds' ratios: requests/s {rate:.3} (goal: at least {LEAST_RATE}), p50 \
             {:.3}, p99 {p99:.3} (goal: at most {MAX_P99}), CPU {:.3}",
            ratio(|line| line.p50_us),
            ratio(|line| line.cpu_us)
        );
        let is_reached = rate >= LEAST_RATE && p99 <= MAX_P99;
        println!("goals: {}", if is_reached { "reached" } else { "not reached" });
    }
}

fn print(name: &str, line: RoundLine) {
    let pair = |[ours, echo]: [f64; 2], digits: usize| {
        format!("{ours:>7.digits$} / {echo:>7.digits$} = {:5.3}", ours / echo)
    };
    println!(
        "{name:>5}  {:>26}  {:>24}  {:>24}  {:>24}",
        pair(line.rate, 0),
        pair(line.p50_us, 0),
        pair(line.p99_us, 0),
        pair(line.cpu_us, 2)
    );
}

#[expect(clippy::cast_precision_loss, reason = "a rate, to be printed")]
fn count(round: &DriveRound) -> f64 {
    round.requests as f64
}

#[expect(clippy::cast_precision_loss, reason = "a latency, to be printed")]
fn quantile_us(latencies_ns: &Histogram<u64>, quantile: f64) -> f64 {
    latencies_ns.value_at_quantile(quantile) as f64 / 1e3
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}
