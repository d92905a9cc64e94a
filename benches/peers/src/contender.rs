//! [`Contender`]: what is measured, and the loop that every contender runs in.

use hdrhistogram::Histogram;

use crate::machine::fence;
use crate::pace::Stopwatch;

/// How the decisions of one run follow each other.
pub(crate) enum Pace<'a> {
    /// One after the other, as fast as the machine overlaps them.
    BackToBack,
    /// Each ended before the next begins: what one request in a server sees.
    Isolated,
    /// Isolated, and each one's time in nanoseconds recorded.
    Timed(&'a mut Histogram<u64>),
}

/// One limiter under one policy.
pub(crate) trait Contender<K>: Sync {
    fn name(&self) -> &str;

    /// Decides a request of cost 1 for each key, in order, and says how many were admitted.
    fn decide(&self, keys: &[K], pace: Pace<'_>) -> u64;
}

/// A contender made of one function that decides one request.
pub(crate) fn single<K>(
    name: &str,
    check: impl Fn(&K) -> bool + Sync + 'static,
) -> Box<dyn Contender<K> + Sync> {
    Box::new(Single { name: name.to_owned(), check })
}

struct Single<F> {
    name: String,
    check: F,
}

impl<K, F: Fn(&K) -> bool + Sync> Contender<K> for Single<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, keys: &[K], pace: Pace<'_>) -> u64 {
        let mut admitted = 0;
        match pace {
            Pace::BackToBack => {
                for key in keys {
                    admitted += u64::from((self.check)(key));
                }
            }
            Pace::Isolated => {
                for key in keys {
                    admitted += u64::from((self.check)(key));
                    fence();
                }
            }
            Pace::Timed(times) => {
                let stopwatch = Stopwatch::new();
                for key in keys {
                    let start = stopwatch.start();
                    admitted += u64::from((self.check)(key));
                    times.saturating_record(stopwatch.stop_ns(start));
                }
            }
        }
        admitted
    }
}

/// A contender made of one function that decides a slice of requests and says how many it admitted.
pub(crate) fn many<K>(
    name: &str,
    check: impl Fn(&[K]) -> u64 + Sync + 'static,
) -> Box<dyn Contender<K> + Sync> {
    Box::new(Many { name: name.to_owned(), check })
}

struct Many<F> {
    name: String,
    check: F,
}

impl<K, F: Fn(&[K]) -> u64 + Sync> Contender<K> for Many<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, keys: &[K], pace: Pace<'_>) -> u64 {
        assert!(matches!(pace, Pace::BackToBack), "{} decides a slice at once", self.name);
        (self.check)(keys)
    }
}
