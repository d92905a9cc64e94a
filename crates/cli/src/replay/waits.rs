//! The waits of refused requests, in a fixed number of classes.

use std::time::Duration;

/// The maximum wait of each class in seconds, and its name. A tenth class holds longer waits.
const CLASSES: [(u64, &str); 9] = [
    (1, "up to 1s"),
    (5, "up to 5s"),
    (15, "up to 15s"),
    (60, "up to 1m"),
    (300, "up to 5m"),
    (900, "up to 15m"),
    (3_600, "up to 1h"),
    (21_600, "up to 6h"),
    (86_400, "up to 1d"),
];

/// The number of refusals by wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits([u64; CLASSES.len() + 1]);

impl Waits {
    /// Counts one refusal.
    pub(crate) fn add(&mut self, wait: Duration) {
        self.0[CLASSES.partition_point(|(secs, _)| wait > Duration::from_secs(*secs))] += 1;
    }

    /// Adds the counts of another part.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Names and counts, from the first class that is not empty to the last one.
    pub(crate) fn classes(&self) -> Vec<(&'static str, u64)> {
        let names = CLASSES.iter().map(|(_, name)| *name).chain(["longer"]);
        let filled = |count: &u64| *count > 0;
        let first = self.0.iter().position(filled).unwrap_or(0);
        let end = self.0.iter().rposition(filled).map_or(0, |last| last + 1);
        names.zip(self.0).take(end).skip(first).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_in_the_first_class_that_is_long_enough() {
        let mut waits = Waits::default();
        assert_eq!(waits.classes(), []);
        for millis in [1, 1_000, 5_001, 15_000, 60_000, 60_001, 86_400_001] {
            waits.add(Duration::from_millis(millis));
        }
        let mut twice = waits;
        twice.append(waits);
        let expected = [
            ("up to 1s", 4),
            ("up to 5s", 0),
            ("up to 15s", 4),
            ("up to 1m", 2),
            ("up to 5m", 2),
            ("up to 15m", 0),
            ("up to 1h", 0),
            ("up to 6h", 0),
            ("up to 1d", 0),
            ("longer", 2),
        ];
        assert_eq!(twice.classes(), expected);
    }

    #[test]
    fn empty_classes_at_both_ends_are_left_out() {
        let mut waits = Waits::default();
        waits.add(Duration::from_secs(10));
        waits.add(Duration::from_secs(200));
        assert_eq!(waits.classes(), [("up to 15s", 1), ("up to 1m", 0), ("up to 5m", 1)]);
    }
}
