//! The number of requests that were admitted in each second of the wall clock.

use std::cmp::Ordering;

/// A second in nanoseconds.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Returns the second of Unix time. It fits into 32 bits, because the parser refuses times after 2100.
fn second(nanos: u64) -> u32 {
    u32::try_from(nanos / SECOND_NS).unwrap_or(u32::MAX)
}

/// The number of requests that were admitted in each second, in the order of the seconds. Seconds without an admitted
/// request are left out. Parts of a log are counted separately, and merged.
#[derive(Debug, Default)]
pub(crate) struct Seconds(Vec<(u32, u32)>);

impl Seconds {
    /// Counts one admitted request. Requests must come in the order of time.
    pub(crate) fn add(&mut self, nanos: u64) {
        let second = second(nanos);
        match self.0.last_mut() {
            Some((last, admitted)) if *last == second => *admitted = admitted.saturating_add(1),
            _ => self.0.push((second, 1)),
        }
    }

    /// Adds the counts of another part.
    pub(crate) fn merge(self, other: Self) -> Self {
        if self.0.is_empty() {
            return other;
        }
        let mut merged = Vec::with_capacity(self.0.len().max(other.0.len()));
        let (mut a, mut b) = (self.0.into_iter().peekable(), other.0.into_iter().peekable());
        while let (Some(&(at_a, in_a)), Some(&(at_b, in_b))) = (a.peek(), b.peek()) {
            let order = at_a.cmp(&at_b);
            merged.push(match order {
                Ordering::Less => (at_a, in_a),
                Ordering::Greater => (at_b, in_b),
                Ordering::Equal => (at_a, in_a.saturating_add(in_b)),
            });
            if order.is_le() {
                a.next();
            }
            if order.is_ge() {
                b.next();
            }
        }
        merged.extend(a.chain(b));
        Self(merged)
    }

    /// Returns the maximum number admitted in one second.
    pub(crate) fn peak(&self) -> u64 {
        self.0.iter().map(|&(_, admitted)| u64::from(admitted)).max().unwrap_or(0)
    }
}

/// Keeps only the peak, in fixed memory. All requests must come in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    second: u32,
    admitted: u64,
    most: u64,
}

impl Peak {
    /// Counts one admitted request.
    pub(crate) fn add(&mut self, nanos: u64) {
        let second = second(nanos);
        if second != self.second {
            self.second = second;
            self.admitted = 0;
        }
        self.admitted += 1;
        self.most = self.most.max(self.admitted);
    }

    /// Returns the maximum number admitted in one second.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(of: &[u64]) -> Seconds {
        let mut seconds = Seconds::default();
        of.iter().for_each(|&tenths| seconds.add(tenths * SECOND_NS / 10));
        seconds
    }

    #[test]
    fn parts_of_a_log_add_up_by_second() {
        let merged = seconds(&[0, 9, 10, 40]).merge(seconds(&[11, 12, 19, 30, 59]));
        assert_eq!(merged.0, [(0, 2), (1, 4), (3, 1), (4, 1), (5, 1)]);
        assert_eq!(merged.peak(), 4);
        assert_eq!(Seconds::default().merge(merged).merge(Seconds::default()).peak(), 4);
    }

    #[test]
    fn the_running_peak_is_the_peak_of_all_seconds() {
        let times = [0, 1, 2, 10, 19, 20, 25, 26, 29, 30, 31];
        let mut peak = Peak::default();
        times.iter().for_each(|&tenths| peak.add(tenths * SECOND_NS / 10));
        assert_eq!(peak.most(), 4);
        assert_eq!(seconds(&times).peak(), 4);
        assert_eq!(Peak::default().most(), 0);
    }
}
