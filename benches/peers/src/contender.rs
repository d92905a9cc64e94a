//! [`Contender`] is a limiter that is measured, with the loop in which every contender runs.

use hdrhistogram::Histogram;

use crate::machine::fence;
use crate::pace::Stopwatch;
use crate::shares::{CountedTable, TableCounts};

/// Says whether the decisions of a run overlap, and whether each of them is timed.
pub(crate) enum RunPace<'a> {
    /// The decisions are made one after the other, and the CPU may overlap them.
    BackToBack,
    /// Each decision ends before the next begins, as it does for one request in a server.
    Isolated,
    /// Isolated decisions, each of which is timed in nanoseconds.
    Timed(&'a mut Histogram<u64>),
}

/// One limiter under one policy.
pub(crate) trait Contender<K>: Sync {
    fn name(&self) -> &str;

    /// Decides a request of cost 1 for each key, in order, and returns the number of admitted requests.
    fn decide(&self, keys: &[K], pace: RunPace<'_>) -> u64;

    /// Prepares a round, untimed. All contenders are prepared before the first is timed, so that no contender still has
    /// its preparation in the caches.
    fn prepare(&self) {}

    /// The counts of the contender's table, if it has one that keeps counts. They are read while nothing is timed.
    fn counts(&self) -> Option<TableCounts> {
        None
    }
}

/// A contender made of one function that decides one request.
pub(crate) fn single<K>(
    name: &str,
    check: impl Fn(&K) -> bool + Sync + 'static,
) -> Box<dyn Contender<K> + Sync> {
    counted(name, (), move |(), key| check(key))
}

/// Like [`single`], for a limiter whose table may count installs, reclaims and requests without a cell (see
/// [`TableCounts`]).
pub(crate) fn counted<K, L: CountedTable + Sync + 'static>(
    name: &str,
    limiter: L,
    check: impl Fn(&L, &K) -> bool + Sync + 'static,
) -> Box<dyn Contender<K> + Sync> {
    Box::new(Single { name: name.to_owned(), limiter, check })
}

/// A limiter and the function that uses it. The limiter is stored directly beside the function, so loading it is as
/// cheap as if the function had captured it. The function itself captures nothing: a second address, for a capture,
/// would be one more instruction in the loops.
struct Single<L, F> {
    name: String,
    limiter: L,
    check: F,
}

impl<K, L: CountedTable + Sync, F: Fn(&L, &K) -> bool + Sync> Contender<K> for Single<L, F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, keys: &[K], pace: RunPace<'_>) -> u64 {
        let mut admitted = 0;
        match pace {
            RunPace::BackToBack => {
                for key in keys {
                    admitted += u64::from((self.check)(&self.limiter, key));
                }
            }
            RunPace::Isolated => {
                for key in keys {
                    admitted += u64::from((self.check)(&self.limiter, key));
                    fence();
                }
            }
            RunPace::Timed(times) => {
                let stopwatch = Stopwatch::new();
                for key in keys {
                    let start = stopwatch.start();
                    admitted += u64::from((self.check)(&self.limiter, key));
                    times.saturating_record(stopwatch.stop_ns(start));
                }
            }
        }
        admitted
    }

    fn counts(&self) -> Option<TableCounts> {
        self.limiter.counts()
    }
}

/// A contender made of one function that decides a slice of requests and returns the number of admitted ones.
pub(crate) fn many<K>(
    name: &str,
    check: impl Fn(&[K]) -> u64 + Sync + 'static,
) -> Box<dyn Contender<K> + Sync> {
    counted_many(name, (), move |(), keys| check(keys))
}

/// Like [`many`], for a limiter whose table may keep counts.
pub(crate) fn counted_many<K, L: CountedTable + Sync + 'static>(
    name: &str,
    limiter: L,
    check: impl Fn(&L, &[K]) -> u64 + Sync + 'static,
) -> Box<dyn Contender<K> + Sync> {
    Box::new(Many { name: name.to_owned(), limiter, check })
}

struct Many<L, F> {
    name: String,
    limiter: L,
    check: F,
}

impl<K, L: CountedTable + Sync, F: Fn(&L, &[K]) -> u64 + Sync> Contender<K> for Many<L, F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, keys: &[K], pace: RunPace<'_>) -> u64 {
        assert!(matches!(pace, RunPace::BackToBack), "{} decides a slice at once", self.name);
        (self.check)(&self.limiter, keys)
    }

    fn counts(&self) -> Option<TableCounts> {
        self.limiter.counts()
    }
}
