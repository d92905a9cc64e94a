//! Endless input in bounded memory: decides while it reads.
//!
//! Lines wait until one comes that is newer by more than the reorder span; then they are decided in
//! the order of time. What remains in memory is the lines of that span and one account per key.
//!
//! A line that is older than what was already decided has lost its place. It is decided at the time
//! up to which lines were decided: so time never runs backwards for a key, nothing is admitted that
//! a limiter at that moment would not admit, and every line is decided exactly once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate::Policy;

use super::decide::{Outcome, Run};
use super::event::Event;
use super::gather::{Keys, checked, number_all};
use super::parse::{Parser, Tally};
use super::seconds::Peak;
use super::source::Sources;
use crate::failure::Failure;

/// Everything that is kept of a stream.
pub(crate) struct Stream {
    keys: Keys,
    waiting: BinaryHeap<Reverse<Event>>,
    reorder_ns: u64,
    /// Lines up to here are decided.
    decided_to_ns: u64,
    late_lines: u64,
    span: Option<(u64, u64)>,
    runs: Vec<(Run, Peak)>,
}

/// What a stream comes to.
pub(crate) struct Finished {
    /// The texts of the keys.
    pub(crate) keys: Keys,
    /// The times of the oldest and of the newest line.
    pub(crate) span: Option<(u64, u64)>,
    /// Lines that came too late to be put in order.
    pub(crate) late_lines: u64,
    /// In the order of the policies.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Stream {
    /// A stream whose lines are out of order by at most `reorder_ns`.
    pub(crate) fn new(policies: &[Policy], reorder_ns: u64) -> Self {
        Self {
            keys: Keys::default(),
            waiting: BinaryHeap::new(),
            reorder_ns,
            decided_to_ns: 0,
            late_lines: 0,
            span: None,
            runs: policies.iter().map(|&policy| (Run::new(policy, 0), Peak::default())).collect(),
        }
    }

    /// Reads the files one after the other, to their ends.
    pub(crate) fn read(
        &mut self,
        files: &[String],
        parser: &Parser,
        sources: &Sources,
    ) -> Result<Vec<Tally>, Failure> {
        let read = |file: &String| {
            let unreadable = |error| Failure::Unreadable { file: file.clone(), error };
            let mut tally = Tally::default();
            for block in sources.open(file).map_err(unreadable)? {
                let block = block.map_err(unreadable)?;
                let parsed = parser.block(block.bytes());
                let numbers = number_all(&mut self.keys, &parsed)?;
                self.runs.iter_mut().for_each(|(run, _)| run.grow(self.keys.len()));
                for event in &parsed.events {
                    self.push(event.with_key(numbers[event.key() as usize]));
                }
                tally.append(parsed.tally);
                sources.recycle(block);
            }
            checked(tally, file)
        };
        let tallies = files.iter().take_while(|_| !sources.is_stopped()).map(read).collect();
        sources.finish();
        tallies
    }

    /// Takes the next line in, and decides what need not wait any longer.
    fn push(&mut self, event: Event) {
        let now = event.nanos();
        let (first, last) = self.span.unwrap_or((now, now));
        let (first, last) = (first.min(now), last.max(now));
        self.span = Some((first, last));
        if now < self.decided_to_ns {
            self.late_lines += 1;
            self.decide(Event::new(self.decided_to_ns, event.key()));
            return;
        }
        self.waiting.push(Reverse(event));
        self.decided_to_ns = last.saturating_sub(self.reorder_ns);
        while let Some(&Reverse(oldest)) = self.waiting.peek()
            && oldest.nanos() <= self.decided_to_ns
        {
            self.waiting.pop();
            self.decide(oldest);
        }
    }

    fn decide(&mut self, event: Event) {
        for (run, peak) in &mut self.runs {
            if run.decide(event.key() as usize, event.nanos()) {
                peak.add(event.nanos());
            }
        }
    }

    /// Decides what still waits, and sums up.
    pub(crate) fn finish(mut self) -> Finished {
        while let Some(Reverse(event)) = self.waiting.pop() {
            self.decide(event);
        }
        let sum_up = |(run, peak): (Run, Peak)| {
            let outcome = run.finish(|account| account, &self.keys);
            Outcome { peak_admitted_per_second: peak.most(), ..outcome }
        };
        let outcomes = self.runs.into_iter().map(sum_up).collect();
        Finished { keys: self.keys, span: self.span, late_lines: self.late_lines, outcomes }
    }
}
