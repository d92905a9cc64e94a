//! [`CoarseClock`]: a clock whose time another thread keeps up to date, so that a decision only loads a number.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::{Clock, ManualClock};
use crate::error::BuildError;
use crate::sync::Arc;

/// A clock that is read by one load instead of a reading of the machine's counter. Its time is a little late.
///
/// Its owner has to advance it. Either an event loop calls [`tick`](CoarseClock::tick) often enough, or
/// [`start`](CoarseClock::start) runs a thread that calls it until the owner is dropped. A limiter gets its [`Clock`]
/// from the `CoarseClock`. A new `CoarseClock` already has the present time, so no limiter has a clock that was never
/// advanced. When the owner is dropped, time stands still: limiters admit the units that are left, and then nothing
/// more.
///
/// The cost is precision: a request is decided at the time of the last tick before it. Bounds hold in the time of this
/// clock. In real time, the bound of an interval is the policy's bound for an interval that is one tick longer.
///
/// ```
/// use tollgate::{CoarseClock, Limiter, Quota};
/// let coarse = CoarseClock::new();
/// let limiter = Limiter::builder(Quota::per_second(100)).clock(coarse.clock()).build();
/// // Once each time round the event loop:
/// coarse.tick();
/// assert!(limiter.check().is_allowed());
/// ```
pub struct CoarseClock {
    ticker: Arc<Ticker>,
    thread: Option<JoinHandle<()>>,
}

struct Ticker {
    source: Clock,
    recent: ManualClock,
    stopped: AtomicBool,
}

impl Ticker {
    fn tick(&self) {
        self.recent.set(self.source.now());
    }
}

impl CoarseClock {
    /// A clock that stands still until [`tick`](CoarseClock::tick) is called. Its origin is the time of this call.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Clock::monotonic())
    }

    /// A coarse clock that takes its time from another clock, such as [`Clock::unix`].
    ///
    /// ```
    /// use tollgate::{Clock, CoarseClock, Timestamp};
    /// let coarse = CoarseClock::of(Clock::unix());
    /// assert!(coarse.clock().now() > Timestamp::from_secs(1_700_000_000));
    /// ```
    #[must_use]
    pub fn of(source: Clock) -> Self {
        let ticker = Ticker { source, recent: ManualClock::new(), stopped: AtomicBool::new(false) };
        ticker.tick();
        Self { ticker: Arc::new(ticker), thread: None }
    }

    /// Runs a thread that ticks every `interval`, until this value is dropped.
    ///
    /// # Errors
    /// Returns an error if the interval is zero or above a second, or if the system refuses the thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CoarseClock, Limiter, Quota};
    /// let coarse = CoarseClock::new().start(Duration::from_millis(1))?;
    /// let limiter = Limiter::builder(Quota::per_second(100)).clock(coarse.clock()).build();
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn start(mut self, interval: Duration) -> Result<Self, BuildError> {
        // At zero the thread would spin, and above a second the bounds would be too loose to be of use.
        if interval.is_zero() || interval > Duration::from_secs(1) {
            return Err(BuildError::OutOfRange(format!(
                "a clock cannot tick every {interval:?}; use up to 1s, as in 1ms"
            )));
        }
        let ticker = Arc::clone(&self.ticker);
        let thread = thread::Builder::new().name("tollgate-clock".to_owned()).spawn(move || {
            // Relaxed: the flag orders no other memory, and the `unpark` in `drop` makes the thread load it.
            while !ticker.stopped.load(Ordering::Relaxed) {
                ticker.tick();
                thread::park_timeout(interval);
            }
        });
        self.thread = Some(thread.map_err(|error| BuildError::Thread(error.kind()))?);
        Ok(self)
    }

    /// Advances the clock to now.
    pub fn tick(&self) {
        self.ticker.tick();
    }

    /// The clock for limiters. All clocks of one `CoarseClock` have the same time.
    ///
    /// ```
    /// use tollgate::{CoarseClock, KeyedLimiter, Quota};
    /// let coarse = CoarseClock::new();
    /// let limiter = KeyedLimiter::builder(Quota::per_second(9)).clock(coarse.clock()).build(1_000)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::from(self.ticker.recent.clone())
    }
}

impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for CoarseClock {
    fn drop(&mut self) {
        // Relaxed: the flag publishes nothing but itself.
        self.ticker.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Without this call the sleeping thread would load the flag only at its next tick.
            thread.thread().unpark();
            // The thread cannot panic, and if it did, nothing could be done about it here.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for CoarseClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoarseClock")
            .field("source", &self.ticker.source)
            .field("now", &self.ticker.recent.now())
            .field("has_thread", &self.thread.is_some())
            .finish()
    }
}
