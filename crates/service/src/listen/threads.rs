//! [`Threads`]: threads that connections are spread over, each with a runtime of its own.
//!
//! Requests over HTTP and Redis' protocol are decided in a few microseconds and wait for nothing but their socket.
//! Threads that wake each other and take over each other's connections would cost more than the decision, and lengthen
//! the slowest answers. So a connection stays on the thread where it begins, and long work runs on other threads: see
//! `apart.rs`. `crates/service/docs/load.md` has figures.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::watch;

/// The threads of connections; if there are none, connections run in the runtime that accepts them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    threads: Arc<[Thread]>,
    /// Held by every clone: the threads end when the last clone is dropped.
    #[expect(dead_code, reason = "its end is what threads wait for")]
    running: Option<Arc<watch::Sender<()>>>,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// Counts a connection from its creation until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        // Relaxed: the count only says which thread is the least busy.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    /// Starts a thread for each core. If the current runtime has a single thread, none is started: the runtime's owner
    /// wants no more threads, and tests may have paused the runtime's time.
    ///
    /// # Errors
    /// The system cannot start a thread, or has no file descriptor for the thread's events.
    pub(crate) fn start() -> io::Result<Self> {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Ok(Self::default());
        }
        let (running, stopped) = watch::channel(());
        // If the system does not report the number of cores, one thread is started.
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = (0..cores).map(|_| Thread::start(stopped.clone()));
        let threads = threads.collect::<io::Result<Arc<[_]>>>()?;
        Ok(Self { threads, running: Some(Arc::new(running)) })
    }

    /// Runs a connection on the thread that has the fewest connections.
    pub(super) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        // Relaxed, as in `Open`: the count only says which thread is the least busy. Two acceptors may choose the same
        // thread at once; the next connection evens that out.
        let count = |thread: &&Thread| thread.connections.load(Ordering::Relaxed);
        let Some(thread) = self.threads.iter().min_by_key(count) else {
            tokio::spawn(connection);
            return;
        };
        // Relaxed, as in `Open`.
        thread.connections.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(&thread.connections));
        thread.runtime.spawn(async move {
            let _open = open;
            connection.await;
        });
    }
}

impl Thread {
    fn start(mut stopped: watch::Receiver<()>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        // When the last `Threads` is gone, the runtime is dropped with all that still runs on it.
        let run = move || runtime.block_on(async move { while stopped.changed().await.is_ok() {} });
        thread::Builder::new().name("connections".to_owned()).spawn(run)?;
        Ok(Self { runtime: handle, connections: Arc::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::thread::ThreadId;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// A connection that stays open: the thread that it runs on, and the sender whose end closes it.
    struct OpenConnection {
        thread: ThreadId,
        _end: oneshot::Sender<()>,
    }

    async fn open(threads: &Threads, count: usize) -> Vec<OpenConnection> {
        let mut open = Vec::new();
        for _ in 0..count {
            let (end, ended) = oneshot::channel();
            let (tell, mut told) = mpsc::channel(1);
            threads.spawn(async move {
                let _ = tell.send(thread::current().id()).await;
                let _ = ended.await;
            });
            let thread = told.recv().await.expect("it runs");
            open.push(OpenConnection { thread, _end: end });
        }
        open
    }

    fn by_thread(open: &[OpenConnection]) -> HashMap<ThreadId, usize> {
        let mut counts = HashMap::new();
        open.iter().for_each(|one| *counts.entry(one.thread).or_default() += 1);
        counts
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn connections_are_dealt_out_evenly_also_after_some_have_ended() {
        let threads = Threads::start().expect("threads");
        let cores = threads.threads.len();
        let mut all = open(&threads, 8 * cores).await;
        assert_eq!(by_thread(&all).len(), cores);
        assert!(by_thread(&all).values().all(|&count| count == 8));
        // All connections of one thread end, so the next connections fill that thread.
        let emptied = all[0].thread;
        all.retain(|one| one.thread != emptied);
        while threads.threads.iter().all(|thread| thread.connections.load(Ordering::Relaxed) != 0) {
            tokio::task::yield_now().await;
        }
        all.extend(open(&threads, 8).await);
        assert!(by_thread(&all).values().all(|&count| count == 8));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn connections_end_with_the_last_clone() {
        let threads = Threads::start().expect("threads");
        let (tell, mut told) = mpsc::channel::<()>(1);
        let clone = threads.clone();
        clone.spawn(async move {
            std::future::pending::<()>().await;
            drop(tell);
        });
        drop(clone);
        assert_eq!(told.try_recv(), Err(mpsc::error::TryRecvError::Empty));
        drop(threads);
        assert_eq!(told.recv().await, None);
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_keeps_its_connections() {
        let threads = Threads::start().expect("none");
        let here = thread::current().id();
        assert!(open(&threads, 3).await.iter().all(|one| one.thread == here));
    }
}
