//! Measures a decision on 1, 2, 4 and so on threads, up to the number of threads that the machine runs at once. The
//! threads share one limit (under each algorithm), the stripes or leases of one limit, or the keys of one table. The
//! tables at the end show how the cost grows with the threads.
//!
//! ```text
//! cargo bench --bench contention
//! cargo bench --bench contention -- --threads 1,2,8     these numbers of threads
//! cargo bench --bench contention -- keyed               these rows
//! ```
//!
//! The benchmark asserts every decision. All are admitted, except in the row whose name says that they are denied.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod common;

use common::{KeyStream, contend, filled, on_threads, threads};
use criterion::Criterion;
use tollgate::{Limiter, Policy, Quota, StripedLimiter};

/// A measurement asks for fewer units than this, on any machine and with all threads.
const PLENTY: Quota = Quota::per_second(1_000_000_000).burst(1_000_000_000_000);

/// Policies of windows, with the number of units that each admits. A measurement asks for more units than that, so the
/// threads renew the limits.
const WINDOWS: [(&str, &str, u64); 3] = [
    ("fixed-window", "fixed-window 16000000/d", 16_000_000),
    ("sliding-window", "sliding-window 16000000/d", 16_000_000),
    ("segmented-window x3", "segmented-window 8000/d x3", 8_000),
];

fn main() {
    threads::run(|criterion| {
        let mut table = ScalingTable { counts: threads::counts(), rows: Vec::new() };
        one_limit(criterion, &mut table);
        one_table(criterion, &mut table);
        table.print();
    });
}

fn one_limit(criterion: &mut Criterion, table: &mut ScalingTable) {
    let mut group = criterion.benchmark_group("contention/one limit");
    table.measure("one limit, gcra", |threads| {
        let limiter = Limiter::new(PLENTY);
        on_threads(&mut group, "gcra", threads, |_, _| limiter.check().is_allowed())
    });
    let denied = Limiter::new(Quota::per_hour(1));
    assert!(denied.check().is_allowed());
    table.measure("one limit, gcra, denied", |threads| {
        on_threads(&mut group, "gcra, denied", threads, |_, _| !denied.check().is_allowed())
    });
    for (name, text, room) in WINDOWS {
        let limiter = Limiter::new(text.parse::<Policy>().expect("a policy that fits"));
        table.measure(&format!("one limit, {name}"), |threads| {
            let is_due = renewals(room, threads);
            on_threads(&mut group, name, threads, |_, nth| {
                if is_due(nth) {
                    limiter.entry().reset();
                }
                limiter.check().is_allowed()
            })
        });
    }
    table.measure("one limit in stripes, gcra", |threads| {
        let striped = StripedLimiter::new(PLENTY).expect("stripes");
        on_threads(&mut group, "striped", threads, |_, _| striped.check().is_allowed())
    });
    table.measure("one limit, gcra, leases of 32", |threads| {
        let limiter = Limiter::new(PLENTY);
        contend(&mut group, "lease of 32", threads, |_| {
            let mut lease = limiter.entry().lease(32).expect("units");
            move |_| lease.check().is_ok()
        })
    });
    group.finish();
}

/// Returns a function that says whether a thread renews the limit before its nth decision. Each thread makes `every`
/// decisions between two renewals of its own, so all threads together make at most `threads * every` decisions between
/// any two renewals. The limit has room for that many, so no decision is ever denied.
fn renewals(room: u64, threads: usize) -> impl Fn(usize) -> bool {
    let every = 1_usize << (room / threads as u64).ilog2();
    move |nth| nth & (every - 1) == 0
}

fn one_table(criterion: &mut Criterion, table: &mut ScalingTable) {
    const KEYS: u64 = 1_000_000;
    // The burst is enough for a tenth of a second, even if every request is for one key.
    let keyed = filled(Quota::per_second(500_000_000).burst(50_000_000), KEYS, |number| number);
    let mut group = criterion.benchmark_group("contention/keyed");
    for (name, stream) in [
        ("uniform", KeyStream::uniform(KEYS, 0)),
        ("Zipf", KeyStream::zipf(KEYS, 0)),
        ("one key", KeyStream::one(7)),
    ] {
        table.measure(&format!("keyed, {name}"), |threads| {
            on_threads(&mut group, name, threads, |thread, nth| {
                keyed.check(stream.shared(thread, threads, nth)).is_allowed()
            })
        });
    }
    group.finish();
}

/// The medians of criterion, by number of threads.
struct ScalingTable {
    counts: Vec<usize>,
    rows: Vec<(String, Vec<Option<f64>>)>,
}

impl ScalingTable {
    /// Measures a row. `ns` returns the time per decision on a number of threads, if that was measured.
    fn measure(&mut self, name: &str, ns: impl FnMut(usize) -> Option<f64>) {
        let all = self.counts.iter().copied().map(ns).collect();
        self.rows.push((name.to_owned(), all));
    }

    /// Prints the measured figures, if there are any.
    fn print(&self) {
        let single = self.counts.iter().position(|threads| *threads == 1);
        let per_second = |threads: usize, ns: f64| threads as f64 * 1e9 / ns;
        self.print_as("nanoseconds per decision of each thread", 1, |_, _, ns| Some(ns));
        self.print_as(
            "million decisions per second, of all threads together",
            1,
            |_, threads, ns| Some(per_second(threads, ns) / 1e6),
        );
        self.print_as(
            "times as many decisions per second as one thread makes",
            2,
            |row, threads, ns| Some(per_second(threads, ns) / per_second(1, row[single?]?)),
        );
    }

    /// Prints one table. `cell` makes a figure from a row, a number of threads and the nanoseconds measured there.
    fn print_as(
        &self,
        title: &str,
        digits: usize,
        cell: impl Fn(&[Option<f64>], usize, f64) -> Option<f64>,
    ) {
        let measured = self.rows.iter().filter(|(_, row)| row.iter().any(Option::is_some));
        for (nth, (name, row)) in measured.enumerate() {
            if nth == 0 {
                let counts = self.counts.iter().map(|threads| format!("{threads:>9}"));
                println!("\n{title}\n{:<32}{}", "threads:", counts.collect::<String>());
            }
            let cells = self.counts.iter().zip(row).map(|(&threads, ns)| {
                let value = ns.and_then(|ns| cell(row, threads, ns));
                value.map_or_else(|| format!("{:>9}", "-"), |value| format!("{value:>9.digits$}"))
            });
            println!("{name:<32}{}", cells.collect::<String>());
        }
    }
}
