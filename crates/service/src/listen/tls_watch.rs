//! Keeps the certificates in use up to date with their files.
//!
//! The directories are watched, as for rules. Kubernetes replaces a mounted secret as a whole: the change is then a
//! renaming in the directory, and the file itself does not change. The files are also read at intervals, because a
//! watch may be impossible or miss a change. A certificate and its key are replaced one after the other, so both are
//! read a moment after the first change. If they still do not fit together, they are refused, and read again later.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};

use super::tls::Tls;

/// The maximum time until a change is noticed.
const POLL: Duration = Duration::from_secs(10);

/// The time between a change and the reading, in which the second of two files can change, too.
const SETTLE: Duration = Duration::from_millis(100);

/// A request to read the files again.
#[derive(Debug, Default)]
pub(crate) struct Rereading {
    wake: Notify,
    /// Set if an operator asks: the log then also says that nothing has changed.
    by_operator: AtomicBool,
}

impl Rereading {
    /// Asks for a reading on behalf of an operator.
    pub(crate) fn by_operator(&self) {
        // Relaxed: no other memory is handed over, and `notify_one` publishes the flag to the task that it wakes.
        self.by_operator.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

/// Reads the files again when they change, when `asked`, and at intervals, until `stopped` is set.
pub(crate) async fn keep_fresh(
    all: Vec<Arc<Tls>>,
    asked: Arc<Rereading>,
    mut stopped: watch::Receiver<bool>,
) {
    let watcher = watch_files(&all, &asked);
    if let Err(error) = &watcher {
        tracing::warn!("no watch on certificates ({error}); they are read again every 10 s");
    }
    loop {
        let has_changed = tokio::select! {
            () = asked.wake.notified() => true,
            () = tokio::time::sleep(POLL) => false,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if has_changed {
            tokio::time::sleep(SETTLE).await;
        }
        let all = all.clone();
        // Relaxed: see `Rereading::by_operator`. A request that comes later causes another reading, which logs the
        // result.
        let is_told = asked.by_operator.swap(false, Ordering::Relaxed);
        // The files are read in a blocking task, because the disk may be slow.
        let read =
            tokio::task::spawn_blocking(move || all.iter().for_each(|tls| reload(tls, is_told)));
        // An error means that the reading panicked; it will be tried again.
        let _ = read.await;
    }
}

/// Reads the files again. Changed files are logged; if they have not changed, this is logged only if `is_told`.
fn reload(tls: &Tls, is_told: bool) {
    let file = tls.files().certificate.display();
    match tls.reload() {
        (true, Ok(())) => tracing::info!("certificate loaded: {file}"),
        (true, Err(error)) => {
            tracing::warn!("certificate refused, the last good one stays: {error}");
        }
        (false, Ok(())) if is_told => tracing::info!("certificate unchanged: {file}"),
        (false, Err(error)) if is_told => {
            tracing::warn!(
                "certificate unchanged and still refused, the last good one stays: {error}"
            );
        }
        (false, _) => {}
    }
}

fn watch_files(all: &[Arc<Tls>], asked: &Arc<Rereading>) -> notify::Result<RecommendedWatcher> {
    let asked = Arc::clone(asked);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // Reading a file also causes an event, which must not cause another reading.
        if event.map_or(true, |event| !matches!(event.kind, EventKind::Access(_))) {
            asked.wake.notify_one();
        }
    })?;
    let files = all.iter().flat_map(|tls| tls.files().all());
    let directories: BTreeSet<PathBuf> = files
        .filter_map(|file| file.parent())
        .map(
            |directory| {
                if directory.as_os_str().is_empty() { ".".into() } else { directory.into() }
            },
        )
        .collect();
    for directory in directories {
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}
