//! Makes pages that grow with the number of rules apart from the threads of connections.
//!
//! The metrics of 10,000 rules take 30 ms. A connection stays on its thread, so all others there would wait as long.

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// One page at a time: with many rules it has megabytes, and anyone may ask for it.
static PAGES: Semaphore = Semaphore::const_new(1);

/// What `page` returns, on a thread that may block, once no other page is being made. `None` if it panics, or the runtime
/// ends.
pub(crate) async fn make<P: Send + 'static>(
    page: impl FnOnce() -> P + Send + 'static,
) -> Option<P> {
    let permit = PAGES.acquire().await.ok()?;
    let made = spawn_blocking(move || {
        // Given back here, also if the client has gone: nothing ends a page that is begun.
        let _permit = permit;
        page()
    });
    made.await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Longer than anything that a busy machine delays.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_page_keeps_no_request_of_its_thread_waiting() {
        let (answer, answered) = mpsc::channel();
        let page = make(move || answered.recv_timeout(PATIENCE));
        // Polled after the page has begun, on the only thread of this runtime.
        let (page, sent) = tokio::join!(page, async { answer.send("a request") });
        assert_eq!((page, sent), (Some(Ok("a request")), Ok(())));
    }

    #[tokio::test]
    async fn one_page_is_made_at_a_time_also_if_its_client_has_gone() {
        let (begun, has_begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let first = tokio::spawn(make(move || {
            begun.send(()).expect("the test waits");
            ended.recv_timeout(PATIENCE)
        }));
        while has_begun.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        first.abort();
        assert!(first.await.is_err_and(|error| error.is_cancelled()));
        assert!(PAGES.try_acquire().is_err(), "the page is still being made");
        end.send(()).expect("the page waits");
        assert_eq!(make(|| 2).await, Some(2));
    }
}
