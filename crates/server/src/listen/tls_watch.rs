//! Keeps certificates those of their files.
//!
//! What is watched is the directories, as with rules: a mount that is swapped as a whole, as Kubernetes does
//! with secrets, is a renaming in the directory. Beside it the files are read now and then, since a watch
//! may be impossible or miss something. A certificate and its key change one after the other: so a change is
//! given a moment to settle, and what does not fit together then is refused, and read again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};

use super::tls::Tls;

/// The latest that a change is noticed.
const POLL: Duration = Duration::from_secs(10);

/// For the other file.
const SETTLE: Duration = Duration::from_millis(100);

/// Reads the files again when they change, when `asked`, and now and then, until `stopped` says so.
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
        // Files may be on a disk that is slow.
        let read = tokio::task::spawn_blocking(move || all.iter().for_each(|tls| reload(tls)));
        // An error: it panicked, and will be tried again.
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
        // Reading a file is an event, too, and would have it read again and again.
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
