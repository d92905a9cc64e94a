//! [`Retriever`]: reads a source again when it may have changed, and puts its rules in force.
//!
//! A retriever is one thread, separate from all requests. It wakes on a signal from the source, or when the polling
//! interval is over. After a signal it waits for further changes, so that a hundred changes cause one load. Then it
//! reads the source, and loads the texts if they have changed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::language::error::RuleError;
use crate::language::source::{Changed, RuleSource, RuleText};
use crate::load::cache::RuleCache;
use crate::set::rule_set::RuleSet;

/// The times at which a [`Retriever`] reads.
///
/// ```
/// assert_eq!(tollgate_rules::Timing::default().poll.as_secs(), 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The maximum time between two readings if no change is signalled. Default: 30 s.
    pub poll: Duration,
    /// The time to wait for further changes after a change is signalled. Default: 100 ms, so there are at most ten
    /// loads a second.
    pub settle: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { poll: Duration::from_secs(30), settle: Duration::from_millis(100) }
    }
}

/// The outcome of reading a source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refresh {
    /// The texts, or the error, are the same as before. This outcome is reported only after [`Retriever::reload`].
    Unchanged,
    /// These rules are in force now.
    Loaded(Arc<RuleSet>),
    /// The previous rules stay in force.
    Refused(Vec<RuleError>),
    /// The source cannot be watched: changes are found only by polling.
    Unwatched(RuleError),
}

/// Keeps the rules of a [`RuleCache`] equal to those of a [`RuleSource`], until it is dropped.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{FileSource, Refresh, Retriever, RuleCache, RuleSettings, Timing};
/// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
/// let source = FileSource::new("no/such/rules");
/// let retriever = Retriever::start(source, Arc::clone(&cache), Timing::default(), |refresh| {
///     if let Refresh::Refused(errors) = refresh {
///         eprintln!("rules stay as they are: {}", errors[0]);
///     }
/// })?;
/// assert_eq!(cache.status().refused_loads, 1);
/// retriever.changed().notify();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Retriever {
    changed: Changed,
    /// Whether the next outcome is reported even if nothing has changed.
    asked: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Retriever {
    /// Loads once, and then continues in a thread of its own. Calls `observe` with each outcome, for logs. The first
    /// call, for the first load, comes before this function returns.
    ///
    /// # Errors
    /// The system cannot start a thread. Bad rules are not an error of this function: they are passed to `observe` and
    /// to the [status](RuleCache::status) of the cache.
    pub fn start(
        mut source: impl RuleSource,
        cache: Arc<RuleCache>,
        timing: Timing,
        mut observe: impl FnMut(&Refresh) + Send + 'static,
    ) -> io::Result<Self> {
        let (signal, signals) = sync_channel(1);
        let changed = Changed { signal };
        // Watching begins before the first reading, so that a change during that reading causes another reading.
        if let Err(error) = source.watch(changed.clone()) {
            observe(&Refresh::Unwatched(error));
        }
        let mut loader = Loader::new(source, cache);
        observe(&loader.refresh());
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicBool::new(false));
        let (stopped, is_asked) = (Arc::clone(&stop), Arc::clone(&asked));
        let thread =
            std::thread::Builder::new().name("tollgate-rules".into()).spawn(move || {
                // Acquire: pairs with the Release store in `drop`. The signal that follows the store wakes this thread.
                // The thread then sees the store, and does not read the rules once more.
                while wait(&signals, timing) && !stopped.load(Ordering::Acquire) {
                    // Relaxed: the flag publishes no other memory. A store of the flag after this swap is followed by
                    // another signal.
                    let is_told = is_asked.swap(false, Ordering::Relaxed);
                    match loader.refresh() {
                        Refresh::Unchanged if !is_told => {}
                        refresh => observe(&refresh),
                    }
                }
            })?;
        Ok(Self { changed, asked, stop, thread: Some(thread) })
    }

    /// A handle that makes the retriever read again when something may have changed.
    #[must_use]
    pub fn changed(&self) -> Changed {
        self.changed.clone()
    }

    /// Makes the retriever read again at an operator's request. `observe` is then called even if nothing has changed.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::mpsc::channel;
    /// use tollgate_rules::{FileSource, Refresh, Retriever, RuleCache, RuleSettings, Timing};
    /// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
    /// let (tell, told) = channel();
    /// let observe = move |refresh: &Refresh| drop(tell.send(refresh.clone()));
    /// let retriever = Retriever::start(FileSource::new("no/such"), cache, Timing::default(), observe)?;
    /// retriever.reload();
    /// # let told: Vec<_> = told.iter().filter(|refresh| !matches!(refresh, Refresh::Unwatched(_))).take(2).collect();
    /// # let told: [_; 2] = told.try_into().expect("two");
    /// assert!(matches!(told, [Refresh::Refused(_), Refresh::Unchanged]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reload(&self) {
        // Relaxed: the thread sees the flag because it is woken afterwards, by the signal that follows or by an earlier
        // signal that is still in the channel.
        self.asked.store(true, Ordering::Relaxed);
        self.changed.notify();
    }
}

impl Drop for Retriever {
    fn drop(&mut self) {
        // Release: pairs with the Acquire load in the thread, which the signal wakes. If the channel is full, the
        // signal in it wakes the thread.
        self.stop.store(true, Ordering::Release);
        self.changed.notify();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

/// Waits until a change has settled, or until it is time to poll. Returns `false` if all senders of changes are gone.
fn wait(signals: &Receiver<()>, timing: Timing) -> bool {
    match signals.recv_timeout(timing.poll) {
        Ok(()) => {}
        Err(RecvTimeoutError::Timeout) => return true,
        Err(RecvTimeoutError::Disconnected) => return false,
    }
    let settled = Instant::now() + timing.settle;
    loop {
        let left = settled.saturating_duration_since(Instant::now());
        match signals.recv_timeout(left) {
            Ok(()) if !left.is_zero() => {}
            _ => return true,
        }
    }
}

/// The texts that a reading returned, or its error, together with the errors for which the texts were refused.
struct Reading {
    texts: Result<Vec<RuleText>, RuleError>,
    errors: Vec<RuleError>,
}

/// Reads the source, compares the texts with the last ones, and loads them if they differ.
struct Loader<S> {
    source: S,
    cache: Arc<RuleCache>,
    last: Option<Reading>,
}

impl<S: RuleSource> Loader<S> {
    fn new(source: S, cache: Arc<RuleCache>) -> Self {
        Self { source, cache, last: None }
    }

    fn refresh(&mut self) -> Refresh {
        let read = self.source.read();
        // Each load also drops lingering tables whose time is over. This call drops them if there is no load.
        self.cache.loading().lingering.expire(self.cache.clock().now());
        if let Some(last) = self.last.as_ref().filter(|last| last.texts == read) {
            if read.is_ok() {
                self.source.loaded(&last.errors);
            }
            return Refresh::Unchanged;
        }
        let (outcome, errors) = match &read {
            Ok(texts) => match self.cache.load(texts) {
                Ok(rules) => (Refresh::Loaded(rules), Vec::new()),
                Err(errors) => (Refresh::Refused(errors.clone()), errors),
            },
            Err(error) => (Refresh::Refused(self.cache.refuse(error.clone())), Vec::new()),
        };
        if read.is_ok() {
            self.source.loaded(&errors);
        }
        self.last = Some(Reading { texts: read, errors });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::error::Problem;
    use crate::set::settings::RuleSettings;

    /// A source with texts from the test, and the number of errors that each call of `loaded` passed to it.
    struct GivenTexts(Vec<Result<Vec<RuleText>, RuleError>>, Vec<usize>);

    impl RuleSource for GivenTexts {
        fn read(&mut self) -> Result<Vec<RuleText>, RuleError> {
            self.0.remove(0)
        }

        fn loaded(&mut self, errors: &[RuleError]) {
            self.1.push(errors.len());
        }
    }

    fn domain(name: &str) -> Result<Vec<RuleText>, RuleError> {
        Ok(vec![RuleText::new("a.yaml", format!("domain: {name}"))])
    }

    #[test]
    fn the_last_good_rules_stay_and_the_same_error_counts_once() {
        let gone = || {
            let problem = Problem::Unreadable { reason: "gone".to_owned() };
            Err(RuleError { file: "rules".to_owned(), at: None, problem })
        };
        let reads = vec![
            domain("one"),
            domain("one"),
            domain("''"),
            domain("''"),
            gone(),
            gone(),
            domain("two"),
        ];
        let cache = Arc::new(RuleCache::new(RuleSettings::default()));
        let mut loader = Loader::new(GivenTexts(reads, Vec::new()), Arc::clone(&cache));
        let mut outcomes = Vec::new();
        for _ in 0..7 {
            outcomes.push(match loader.refresh() {
                Refresh::Unchanged => "unchanged",
                Refresh::Loaded(_) => "loaded",
                Refresh::Refused(_) => "refused",
                Refresh::Unwatched(_) => "unwatched",
            });
            let domains: Vec<String> =
                cache.rules().expect("loaded").domains().map(str::to_owned).collect();
            let expected = if outcomes.len() < 7 { "one" } else { "two" };
            assert_eq!(domains, [expected]);
        }
        let expected =
            ["loaded", "unchanged", "refused", "unchanged", "refused", "unchanged", "loaded"];
        assert_eq!(outcomes, expected);
        // One call for each reading that returned texts, also if they were unchanged.
        assert_eq!(loader.source.1, [0, 0, 1, 1, 0]);
        let status = cache.status();
        assert_eq!((status.loads, status.refused_loads, status.errors), (2, 2, Vec::new()));
    }

    #[test]
    fn a_poll_that_finds_nothing_new_lets_go_of_what_lingered_long_enough() {
        let limit = "rate_limit: {unit: second, requests_per_unit: 1}";
        let with = |key: &str| {
            let text = format!("domain: d\ndescriptors:\n  - {{key: {key}, {limit}}}\n");
            Ok(vec![RuleText::new("a.yaml", text)])
        };
        let clock = tollgate::ManualClock::new();
        let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), clock.clone()));
        let texts = GivenTexts(vec![with("a"), with("b"), with("b")], Vec::new());
        let mut loader = Loader::new(texts, Arc::clone(&cache));
        assert!(matches!(loader.refresh(), Refresh::Loaded(_)));
        assert!(matches!(loader.refresh(), Refresh::Loaded(_)));
        assert_eq!(cache.status().lingering_tables, 1);
        clock.advance(Duration::from_secs(600));
        assert!(matches!(loader.refresh(), Refresh::Unchanged));
        assert_eq!(cache.status().lingering_tables, 0);
    }

    #[test]
    fn changes_that_come_together_are_one() {
        let (signal, signals) = sync_channel(1);
        let changed = Changed { signal };
        for _ in 0..100 {
            changed.notify();
        }
        let timing = Timing { poll: Duration::from_secs(60), settle: Duration::ZERO };
        assert!(wait(&signals, timing));
        assert!(signals.try_recv().is_err(), "nothing is left to wake up for");
        drop(changed);
        assert!(!wait(&signals, timing));
    }

    /// Three signals that the thread has not seen yet, from a source that is gone.
    fn three_signals() -> Receiver<()> {
        let (signal, signals) = sync_channel(3);
        (0..3).for_each(|_| signal.send(()).expect("room for three"));
        signals
    }

    #[test]
    fn a_change_waits_for_those_that_come_while_it_settles() {
        let signals = three_signals();
        let timing = Timing { poll: Duration::ZERO, settle: Duration::from_secs(3_600) };
        assert!(wait(&signals, timing));
        assert_eq!(signals.try_iter().count(), 0);
    }

    #[test]
    fn changes_that_never_end_do_not_put_off_the_reading() {
        let signals = three_signals();
        let timing = Timing { poll: Duration::ZERO, settle: Duration::ZERO };
        assert!(wait(&signals, timing));
        assert_eq!(signals.try_iter().count(), 1, "one was waited for, one came too late");
    }

    /// A source that can still signal changes after its retriever has gone.
    struct Watching(Option<Changed>);

    impl RuleSource for Watching {
        fn read(&mut self) -> Result<Vec<RuleText>, RuleError> {
            domain("one")
        }

        fn watch(&mut self, changed: Changed) -> Result<(), RuleError> {
            self.0 = Some(changed);
            Ok(())
        }
    }

    #[test]
    fn a_retriever_that_is_dropped_reads_no_more() {
        let cache = Arc::new(RuleCache::new(RuleSettings::default()));
        let hour = Duration::from_secs(3_600);
        let timing = Timing { poll: hour, settle: Duration::ZERO };
        let retriever = Retriever::start(Watching(None), Arc::clone(&cache), timing, |_| {});
        drop(retriever.expect("a thread"));
        assert_eq!(Arc::strong_count(&cache), 1, "its thread and its source are gone");
    }
}
