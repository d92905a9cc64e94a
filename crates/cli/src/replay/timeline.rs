//! The admitted and refused requests over time: a fixed number of bins, however long the log.
//!
//! The length of a stream is not known at its start. So bins begin as narrow as possible, and are merged when time runs
//! past the last one. Widths are [round](crate::spans), aligned to Unix time, and divide each other. Therefore the
//! result depends only on the requests, and parts that were counted separately can be added up.

use crate::spans;

/// The maximum number of bins, for which a picture has room. They take 4 KB for each part of a log.
const BINS: u64 = 240;

/// The requests of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bin {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
}

/// Counts of requests over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    first_ns: u64,
    last_ns: u64,
    width_ns: u64,
    /// The end of the last bin; 0 if there is none.
    end_ns: u64,
    bins: Vec<Bin>,
}

impl Timeline {
    /// Counts one request. Requests must come in the order of time.
    pub(crate) fn add(&mut self, nanos: u64, is_admitted: bool) {
        if nanos >= self.end_ns {
            let first_ns = if self.bins.is_empty() { nanos } else { self.first_ns };
            let mut longer = Self::spanning(first_ns, nanos);
            longer.take(self);
            *self = longer;
        }
        self.last_ns = self.last_ns.max(nanos);
        if let Some(bin) = self.bins.last_mut() {
            bin.admitted += u64::from(is_admitted);
            bin.refused += u64::from(!is_admitted);
        }
    }

    /// Adds the counts of another part.
    pub(crate) fn merge(self, other: Self) -> Self {
        if self.bins.is_empty() {
            return other;
        }
        if other.bins.is_empty() {
            return self;
        }
        let first_ns = self.first_ns.min(other.first_ns);
        let mut both = Self::spanning(first_ns, self.last_ns.max(other.last_ns));
        both.take(&self);
        both.take(&other);
        both
    }

    /// Returns the start of the first bin, and the end of the last one.
    pub(crate) fn span_ns(&self) -> (u64, u64) {
        (self.first_ns - self.first_ns % self.width_ns.max(1), self.end_ns)
    }

    /// Returns the length of a bin.
    pub(crate) fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Returns every bin with its start.
    pub(crate) fn bins(&self) -> impl Iterator<Item = (u64, Bin)> {
        let (start_ns, _) = self.span_ns();
        self.bins.iter().zip(0..).map(move |(bin, index)| (start_ns + index * self.width_ns, *bin))
    }

    /// Makes empty bins for requests between these times.
    fn spanning(first_ns: u64, last_ns: u64) -> Self {
        let width_ns = spans::fitting(first_ns, last_ns, BINS);
        let count = last_ns / width_ns - first_ns / width_ns + 1;
        let bins = (0..count).map(|_| Bin::default()).collect();
        let end_ns = (last_ns / width_ns + 1).saturating_mul(width_ns);
        Self { first_ns, last_ns, width_ns, end_ns, bins }
    }

    /// Adds the bins of `part`, which are not wider than those of `self`.
    fn take(&mut self, part: &Self) {
        let first = self.first_ns / self.width_ns;
        for (start_ns, bin) in part.bins() {
            let index = usize::try_from(start_ns / self.width_ns - first);
            if let Some(sum) = index.ok().and_then(|index| self.bins.get_mut(index)) {
                sum.admitted += bin.admitted;
                sum.refused += bin.refused;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn timeline(nanos: impl IntoIterator<Item = u64>) -> Timeline {
        let mut timeline = Timeline::default();
        nanos.into_iter().zip(0_u64..).for_each(|(at, n)| timeline.add(at, n.is_multiple_of(3)));
        timeline
    }

    fn total(timeline: &Timeline) -> (u64, u64) {
        timeline.bins().fold((0, 0), |sum, (_, bin)| (sum.0 + bin.admitted, sum.1 + bin.refused))
    }

    #[test]
    fn two_hours_are_bins_of_a_minute_on_the_minute() {
        let times = (0..7_200).map(|second| (1_000_030 + second) * SECOND_NS);
        let timeline = timeline(times);
        assert_eq!(timeline.width_ns(), 60 * SECOND_NS);
        let (start_ns, end_ns) = timeline.span_ns();
        assert_eq!((start_ns, end_ns), (1_000_020 * SECOND_NS, 1_007_280 * SECOND_NS));
        let bins: Vec<_> = timeline.bins().collect();
        assert_eq!(bins.len(), 121);
        assert_eq!(bins[1], (1_000_080 * SECOND_NS, Bin { admitted: 20, refused: 40 }));
        assert_eq!(total(&timeline), (2_400, 4_800));
    }

    #[test]
    fn memory_does_not_depend_on_the_length_of_a_stream() {
        let mut timeline = Timeline::default();
        // The times go from one nanosecond to the end of the calendar, with growing distances.
        let mut at = 1;
        let mut requests = 0;
        while at < 4_102_444_800 * SECOND_NS {
            timeline.add(at, true);
            assert!(timeline.bins.len() <= 240);
            at += 1 + at / 7;
            requests += 1;
        }
        assert_eq!(total(&timeline), (requests, 0));
    }

    #[test]
    fn parts_add_up_to_the_whole_however_they_are_cut() {
        let times: Vec<u64> = (0..5_000_u64).map(|n| n * n * 1_000_003).collect();
        let count = |keep: &dyn Fn(usize) -> bool| {
            let mut part = Timeline::default();
            for (n, &at) in times.iter().enumerate().filter(|(n, _)| keep(*n)) {
                part.add(at, n % 3 == 0);
            }
            part
        };
        let whole = count(&|_| true);
        for parts in [2, 7] {
            let merged = (0..parts)
                .map(|part| count(&|n| n % parts == part))
                .fold(Timeline::default(), Timeline::merge);
            assert_eq!(merged, whole);
        }
        let halves = count(&|n| n < 900).merge(count(&|n| n >= 900));
        assert_eq!(halves, whole);
    }

    #[test]
    fn one_request_is_one_bin() {
        let timeline = timeline([5 * SECOND_NS]);
        let only = (5 * SECOND_NS, Bin { admitted: 1, refused: 0 });
        assert_eq!(timeline.bins().collect::<Vec<_>>(), [only]);
        assert_eq!(timeline.span_ns(), (5 * SECOND_NS, 5 * SECOND_NS + 1));
    }
}
