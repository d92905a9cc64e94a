//! The driver: it interleaves rounds in one process, and times each contender in each round.

use std::sync::Barrier;
use std::time::Instant;

use crate::contender::{Contender, RunPace};

/// The requests that a workload should admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    All,
    Nothing,
}

/// The rate of all keys together in workloads that admit everything: several times as much as any contender decides. A
/// key's burst is a tenth of its rate, so that a thread that is preempted between reading its clock and deciding is
/// still admitted.
pub(crate) const PLENTY_PER_SECOND: u64 = 1_000_000_000;

/// How a contender runs in one workload.
pub(crate) struct Entrant<K> {
    pub(crate) contender: Box<dyn Contender<K> + Sync>,
    /// The entrant gets only one key out of `one_in`. This is above 1 where all keys would take it minutes.
    pub(crate) one_in: usize,
    /// False for entrants whose answers are not checked, such as the one that only measures the machine's floor.
    pub(crate) decides: bool,
    pub(crate) isolated: bool,
}

impl<K> From<Box<dyn Contender<K> + Sync>> for Entrant<K> {
    fn from(contender: Box<dyn Contender<K> + Sync>) -> Self {
        Self { contender, one_in: 1, decides: true, isolated: false }
    }
}

impl<K> Entrant<K> {
    /// Returns true if at least 9,999 of 10,000 decisions were those that the workload demands. The remaining ones may
    /// be wrong, because a thread may be preempted between reading its clock and deciding, and because a full table may
    /// refuse 1 key in 100,000.
    pub(crate) fn is_right(&self, admitted: u64, asked: usize, expect: Expect) -> bool {
        let asked = asked as u64;
        let wrong = if expect == Expect::All { asked.abs_diff(admitted) } else { admitted };
        !self.decides || wrong <= asked / 10_000
    }
}

/// Nanoseconds per decision of each thread, by entrant and round.
pub(crate) type Times = Vec<Vec<f64>>;

/// Runs the entrants in the order A B C, A B C, and so on, so that a disturbance of the machine affects all of them
/// alike.
pub(crate) fn interleave<K: Sync>(
    entrants: &[Entrant<K>],
    streams: &[Vec<K>],
    rounds: usize,
    expect: Expect,
) -> Times {
    let mut times = vec![Vec::with_capacity(rounds); entrants.len()];
    for _ in 0..rounds {
        for entrant in entrants {
            entrant.contender.prepare();
        }
        for (entrant, times) in entrants.iter().zip(&mut times) {
            times.push(run(entrant, streams, expect));
        }
    }
    times
}

/// Runs one round of one entrant, with a thread for each stream.
pub(crate) fn run<K: Sync>(entrant: &Entrant<K>, streams: &[Vec<K>], expect: Expect) -> f64 {
    let barrier = Barrier::new(streams.len());
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter()
            .map(|stream| {
                let barrier = &barrier;
                scope.spawn(move || one_thread(entrant, stream, barrier, expect))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a round")).collect::<Vec<_>>()
    });
    times.iter().sum::<f64>() / times.len() as f64
}

fn one_thread<K>(entrant: &Entrant<K>, stream: &[K], barrier: &Barrier, expect: Expect) -> f64 {
    let length = stream.len() / entrant.one_in;
    let keys = &stream[..length];
    let pace = if entrant.isolated { RunPace::Isolated } else { RunPace::BackToBack };
    barrier.wait();
    let start = Instant::now();
    let admitted = entrant.contender.decide(keys, pace);
    let elapsed = start.elapsed();
    assert!(entrant.is_right(admitted, length, expect), "{}", entrant.contender.name());
    elapsed.as_nanos() as f64 / length as f64
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures[middle]
    } else {
        (figures[middle - 1] + figures[middle]) / 2.0
    }
}
