//! Counts the words that a decision reads, to test the bounds in *What it costs* of `log/mod.rs`.

use std::cell::Cell;

use crate::sync::AtomicU64;
use crate::verb::Verb;
use crate::{Policy, Quota};

use super::ring::Ring;
use super::rule::{LogRequest, LogRule};
use super::slots::Slots;

/// A ring that counts the words that are read from it. Reading a row counts as reading all of its slots, and reading a
/// bound counts as reading one word.
struct Counted {
    ring: Ring,
    words: Cell<usize>,
}

impl Counted {
    fn count(&self, words: usize) {
        self.words.set(self.words.get() + words);
    }
}

impl Slots for Counted {
    fn rows(&self) -> usize {
        self.ring.rows()
    }

    fn row(&self, row: usize) -> &[AtomicU64] {
        let slots = self.ring.row(row);
        self.count(slots.len());
        slots
    }

    fn row_len(&self, row: usize) -> usize {
        self.ring.row(row).len()
    }

    fn low_ns(&self, row: usize) -> u64 {
        self.count(1);
        self.ring.low_ns(row)
    }

    fn high_ns(&self, row: usize) -> u64 {
        self.count(1);
        self.ring.high_ns(row)
    }

    fn raise_low(&self, row: usize, to_ns: u64) {
        self.ring.raise_low(row, to_ns);
    }

    fn lower_low(&self, row: usize, to_ns: u64) {
        self.ring.lower_low(row, to_ns);
    }

    fn raise_high(&self, row: usize, to_ns: u64) {
        self.ring.raise_high(row, to_ns);
    }

    fn start(&self, now_ns: u64) -> (usize, usize) {
        self.ring.start(now_ns)
    }

    fn taken(&self, row: usize, index: usize) {
        self.ring.taken(row, index);
    }

    fn oldest(&self) -> usize {
        self.ring.oldest()
    }

    fn guess_ns(&self, units: u64) -> Option<u64> {
        self.ring.guess_ns(units)
    }
}

/// The largest number of words that one of these decisions reads, in a log of `limit` units a second.
fn max_read(limit: u64, costs: &[u64], nows_ns: impl Iterator<Item = u64>) -> usize {
    let policy = Policy::sliding_log(Quota::per_second(limit)).expect("a log");
    let rule = LogRule::of(&policy).expect("a log");
    let slots = Counted { ring: Ring::new(rule.slots), words: Cell::new(0) };
    let requests = nows_ns.zip(costs.iter().cycle());
    let words = requests.map(|(now_ns, &cost)| {
        slots.words.set(0);
        let _ = rule.decide(&slots, LogRequest::new(Verb::Check, cost, now_ns, true));
        slots.words.get()
    });
    words.max().unwrap_or(0)
}

#[test]
fn while_times_rise_a_decision_reads_a_few_rows_and_the_bounds_of_the_others() {
    for (limit, words) in [(100_u64, 170), (10_000, 750)] {
        let window_ns = 1_000_000_000;
        // The load is a fifth of the limit, half of it, exactly all of it, and twice the limit.
        for (parts, of) in [(1, 5), (1, 2), (1, 1), (2, 1)] {
            let step_ns = window_ns * of / (limit * parts);
            let nows = (0..3 * limit * parts / of).map(|n| n * step_ns);
            let most = max_read(limit, &[1], nows);
            assert!(most <= words, "{most} words of {limit}, {parts} in {of}");
        }
        // The load comes in bursts of five times the limit, with pauses between them.
        let bursts = (0..10 * limit).map(|n| n / (5 * limit) * 2 * window_ns + n % (5 * limit));
        let most = max_read(limit, &[1], bursts);
        assert!(most <= words, "{most} words of {limit} in bursts");
    }
}

#[test]
fn a_denial_of_several_units_does_not_search_while_times_rise() {
    let nows = (0..40_000_u64).map(|n| n * 40_000);
    let most = max_read(10_000, &[1, 3, 7, 50], nows);
    // The bound is this high because each row from which the 50 units are taken counts as a whole.
    assert!(most <= 20_000, "{most}");
}

#[test]
fn a_log_whose_times_leap_is_read_as_a_whole() {
    // This is the control: if times come in no order, the bounds of the rows save few reads.
    let leaps = (0..30_000_u64).map(|n| n * 2_654_435_761 % 3_000_000_000);
    assert!(max_read(10_000, &[1], leaps) > 5_000);
}
