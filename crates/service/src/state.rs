//! [`StateKeeper`]: what was spent, in a file, over a restart.
//!
//! The file is read before rules are loaded. It is written at intervals and when the service stops: to a new file, which
//! is synced and then renamed, so there is a whole one at every moment. Decisions do not wait for it.
//!
//! A file that cannot be read does not keep the service from starting: a limiter that does not run limits nothing, and
//! one that begins anew admits each client at most one limit more. It is logged, counted, and kept as `FILE.bad`.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval_at};
use tollgate_rules::{RuleCache, StateError};

use crate::metrics::{ServiceTotal, encode_gauge, encode_total};
use crate::options::StateFile;

/// Reads and writes the file.
#[derive(Debug)]
pub(crate) struct StateKeeper {
    file: StateFile,
    /// One write at a time: the last one waits for one that is under way.
    writing: Mutex<()>,
    written: ServiceTotal,
    errors: ServiceTotal,
    begun: Instant,
    /// Milliseconds from `begun` to the last write, or to the start.
    last_ms: AtomicU64,
}

impl StateKeeper {
    /// Restores what the file holds, for the first load to keep.
    pub(crate) fn open(file: StateFile, cache: &mut RuleCache) -> Self {
        let keeper = Self {
            file,
            writing: Mutex::new(()),
            written: ServiceTotal::default(),
            errors: ServiceTotal::default(),
            begun: Instant::now(),
            last_ms: AtomicU64::new(0),
        };
        keeper.restore(cache);
        keeper
    }

    fn restore(&self, cache: &mut RuleCache) {
        let path = &self.file.path;
        let restored = match File::open(path) {
            Ok(file) => cache.restore(BufReader::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return tracing::info!("no state yet: {}", path.display());
            }
            Err(error) => Err(error.into()),
        };
        match restored {
            Ok(state) => {
                let (tables, bytes) = (state.tables, state.bytes);
                tracing::info!(
                    "state restored: {tables} tables, {bytes} bytes from {}",
                    path.display()
                );
            }
            Err(error) => {
                self.errors.add(1);
                let aside = beside(path, "bad");
                let kept = match fs::rename(path, &aside) {
                    Ok(()) => format!("the file is now {}", aside.display()),
                    Err(error) => format!("the file stays where it is: {error}"),
                };
                tracing::error!(
                    "state of {} refused, all limits begin anew: {error}; {kept}",
                    path.display()
                );
            }
        }
    }

    /// Writes the file. Blocks: not for a thread that answers requests.
    fn write(&self, cache: &RuleCache) {
        // A write that panicked has left only its own new file behind.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.replace(cache) {
            Ok(()) => {
                self.written.add(1);
                let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                // Relaxed: a figure by itself, for the metrics.
                self.last_ms.store(ms, Ordering::Relaxed);
            }
            // Nothing has been decided yet, and a restored state is not in force: the file stays as it is.
            Err(StateError::NoRules) => {}
            Err(error) => {
                self.errors.add(1);
                let path = self.file.path.display();
                tracing::error!("state not written to {path}, an older one stays: {error}");
            }
        }
    }

    fn replace(&self, cache: &RuleCache) -> Result<(), StateError> {
        let (path, new) = (&self.file.path, beside(&self.file.path, "new"));
        // It may be left of a process that was killed. Created anew, it has our rights and is no link.
        let _ = fs::remove_file(&new);
        let file = for_its_owner().write(true).create_new(true).open(&new)?;
        let mut writer = BufWriter::new(&file);
        cache.save(&mut writer)?;
        writer.flush()?;
        drop(writer);
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_directory(path)?;
        Ok(())
    }

    async fn write_apart(self: &Arc<Self>, cache: &Arc<RuleCache>) {
        let (keeper, cache) = (Arc::clone(self), Arc::clone(cache));
        // An error is a panic, which the runtime has reported.
        let _ = tokio::task::spawn_blocking(move || keeper.write(&cache)).await;
    }

    /// Writes at intervals until the service stops.
    pub(crate) async fn keep(
        self: Arc<Self>,
        cache: Arc<RuleCache>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let every = self.file.every.max(Duration::from_secs(1));
        let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Dropped before the next await: what a channel gives is locked while it is held.
        let mut ends =
            std::pin::pin!(async move { drop(stopped.wait_for(|stopped| *stopped).await) });
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = &mut ends => return,
            }
            self.write_apart(&cache).await;
        }
    }

    /// Writes once more, when nothing is decided any longer.
    pub(crate) async fn close(self: &Arc<Self>, cache: &Arc<RuleCache>) {
        self.write_apart(cache).await;
    }
}

/// The same file name with a further ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::new("."));
    name.push(ending);
    name.into()
}

fn for_its_owner() -> OpenOptions {
    #[allow(unused_mut)] // where there are no modes
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// A renamed file is there after a loss of power only if its directory has been synced.
fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Shows the keeper's figures.
#[derive(Debug)]
pub(crate) struct OfState(pub(crate) Arc<StateKeeper>);

impl Collector for OfState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(keeper) = self;
        // Relaxed: a figure to be shown, which orders nothing.
        let last = Duration::from_millis(keeper.last_ms.load(Ordering::Relaxed));
        let age = keeper.begun.elapsed().saturating_sub(last).as_secs();
        let written = keeper.written.get();
        encode_total(&mut encoder, "state_written", "Times that the state was written", written)?;
        let help = "Times that the state could not be written or restored";
        encode_total(&mut encoder, "state_errors", help, keeper.errors.get())?;
        let help = "Seconds since the state was written, or since the start";
        encode_gauge(&mut encoder, "state_age_seconds", help, age)
    }
}
