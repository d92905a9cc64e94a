//! Makes large pages, which grow with the number of rules, on other threads than those of connections.
//!
//! The metrics of 10,000 rules take 30 ms. A connection stays on its thread, so all other connections of that thread
//! would wait for the page, too.

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Lets only one page be made at a time, because with many rules a page has megabytes, and anyone may ask for it.
static PAGES: Semaphore = Semaphore::const_new(1);

/// Waits until no other page is being made, runs `page` on a thread that may block, and returns its result. `None` if
/// `page` panics or the runtime ends.
pub(crate) async fn make<P: Send + 'static>(
    page: impl FnOnce() -> P + Send + 'static,
) -> Option<P> {
    let permit = PAGES.acquire().await.ok()?;
    let made = spawn_blocking(move || {
        // The permit goes back when the page is made, even if the client has left meanwhile: nothing stops a page that
        // has begun.
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

    /// A wait that is longer than any delay on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_page_keeps_no_request_of_its_thread_waiting() {
        let (answer, answered) = mpsc::channel();
        let page = make(move || answered.recv_timeout(PATIENCE));
        // This runtime has one thread, which polls the other future after the page has begun.
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
