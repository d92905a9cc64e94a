//! [`LimitAnswer`]: an answer that is available now, or comes later.

use std::fmt;
use std::pin::Pin;

use tollgate::Decision;

/// A future on the heap, which owns what it needs.
pub(crate) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An answer that is available now, or comes later.
///
/// A limit in the memory of this process answers now, without an allocation. A limit that is kept elsewhere, such as in
/// Redis, answers later; it answers now only if it can decide without asking its store. The future owns its data, since
/// it may outlive the call. The limit charges nothing before the first poll of the future.
///
/// ```
/// use tollgate_tower::limits::LimitAnswer;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(LimitAnswer::Now(7).now(), Some(7));
/// assert_eq!(LimitAnswer::later(async { 7 }).now(), None);
/// assert_eq!(LimitAnswer::later(async { 7 }).wait().await, 7);
/// # }
/// ```
#[must_use = "an answer that comes later does nothing until it is awaited"]
pub enum LimitAnswer<T = Decision> {
    /// The answer.
    Now(T),
    /// The future of the answer.
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> LimitAnswer<T> {
    /// An answer that comes later. The future must do nothing before its first poll.
    pub fn later(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }

    /// The answer, if it is available now. Otherwise the future is dropped, and the limit is left as it was.
    pub fn now(self) -> Option<T> {
        match self {
            Self::Now(answer) => Some(answer),
            Self::Later(_) => None,
        }
    }

    /// Waits for the answer. An answer that is available now needs no wait.
    pub async fn wait(self) -> T {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => future.await,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for LimitAnswer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}
