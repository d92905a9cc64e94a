//! Keeps the certificates in use up to date with their files.
//!
//! The directories are watched, as for rules: when a mount is swapped as a whole, as Kubernetes does with secrets,
//! the change is a renaming in the directory. The files are also read at intervals, because a watch may be impossible
//! or miss a change. A certificate and its key change one after the other: so a change is given a moment to settle,
//! and files that do not fit together then are refused, and read again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};

use super::tls::Tls;

/// The maximum time until a change is noticed.
const POLL: Duration = Duration::from_secs(10);

/// The time for the other file to follow.
const SETTLE: Duration = Duration::from_millis(100);

/// Reads the files again when they change, when `asked`, and at intervals, until `stopped` is set.
pub(crate) async fn keep_fresh(
    all: Vec<Arc<Tls>>,
    asked: Arc<Notify>,
    mut stopped: watch::Receiver<bool>,
) {
    let watcher = watch_files(&all, &asked);
    if let Err(error) = &watcher {
        tracing::warn!("no watch on certificates ({error}); they are read again every 10 s");
    }
    loop {
        let has_changed = tokio::select! {
            () = asked.notified() => true,
            () = tokio::time::sleep(POLL) => false,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if has_changed {
            tokio::time::sleep(SETTLE).await;
        }
        let all = all.clone();
        // In a blocking task, because the disk may be slow.
        let read = tokio::task::spawn_blocking(move || all.iter().for_each(|tls| reload(tls)));
        // An error means that it panicked; it will be tried again.
        let _ = read.await;
    }
}

fn reload(tls: &Tls) {
    match tls.reload() {
        Ok(true) => tracing::info!("certificate loaded: {}", tls.files().certificate.display()),
        Ok(false) => {}
        Err(error) => tracing::warn!("certificate refused, the last good one stays: {error}"),
    }
}

fn watch_files(all: &[Arc<Tls>], asked: &Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let asked = Arc::clone(asked);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // Reading a file also causes an event, which must not cause another reading.
        if event.map_or(true, |event| !matches!(event.kind, EventKind::Access(_))) {
            asked.notify_one();
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
