//! [`Reorder`]: puts the lines of an endless input in the order of time, within a span.
//!
//! A line is held back until a line arrives that is newer by at least the reorder span. Then it is handed over, after
//! all older lines that were held back. A line that is older than the newest line by more than this span is late. It is
//! handed over at once, with the time up to which lines have been handed over. So time never runs backwards, and every
//! line is handed over exactly once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The waiting lines. Lines of one time are ordered by their values.
#[derive(Debug)]
pub(crate) struct Reorder<T> {
    waiting: BinaryHeap<Reverse<(u64, T)>>,
    reorder_ns: u64,
    /// All lines up to this time have been handed over.
    decided_to_ns: u64,
    late_lines: u64,
    span: Option<(u64, u64)>,
}

impl<T: Ord> Reorder<T> {
    /// Makes a buffer for lines that are out of order by at most `reorder_ns`.
    pub(crate) fn new(reorder_ns: u64) -> Self {
        let waiting = BinaryHeap::new();
        Self { waiting, reorder_ns, decided_to_ns: 0, late_lines: 0, span: None }
    }

    /// Adds the next line, and hands over the lines that need not wait any longer.
    pub(crate) fn push<E>(
        &mut self,
        now: u64,
        line: T,
        mut decide: impl FnMut(u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        let (first, last) = self.span.unwrap_or((now, now));
        let (first, last) = (first.min(now), last.max(now));
        self.span = Some((first, last));
        if now < self.decided_to_ns {
            self.late_lines += 1;
            return decide(self.decided_to_ns, line);
        }
        self.waiting.push(Reverse((now, line)));
        self.decided_to_ns = last.saturating_sub(self.reorder_ns);
        while let Some(Reverse((oldest, _))) = self.waiting.peek()
            && *oldest <= self.decided_to_ns
            && let Some(Reverse((at, line))) = self.waiting.pop()
        {
            decide(at, line)?;
        }
        Ok(())
    }

    /// Hands over all lines that still wait.
    pub(crate) fn finish<E>(
        &mut self,
        mut decide: impl FnMut(u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(Reverse((at, line))) = self.waiting.pop() {
            decide(at, line)?;
        }
        Ok(())
    }

    /// Returns the number of lines that came too late to be reordered.
    pub(crate) fn late_lines(&self) -> u64 {
        self.late_lines
    }

    /// Returns the times of the oldest and of the newest line.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        self.span
    }
}
