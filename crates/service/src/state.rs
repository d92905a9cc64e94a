//! [`StateKeeper`]: keeps the state of limits in a file, so that it outlives a restart.
//!
//! The file is read before rules are loaded. It is written at intervals and when the service stops. Each write goes to
//! a new file, which is synced and then renamed, so a complete file exists at every moment. Decisions do not wait for a
//! write.
//!
//! Files are read and written on threads that may block, and the service waits for these threads only for a bounded
//! time. So it starts and stops even if a disk does not answer. A path that is not a regular file is refused at the
//! start.
//!
//! The assignments of quotas to Envoys have a file of their own, `FILE.quotas`. The service writes it once, after its
//! last assignment, and the next service removes it before its own first assignment. So a service that is killed leaves
//! no such file: that file would lack the latest assignments.
//!
//! The service also starts if the file cannot be read. A service that does not start limits nothing, while a service
//! that begins without the state admits each client's whole limit at most once more. The bad file is logged, counted,
//! and kept as `FILE.bad`.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval_at, timeout};
use tollgate_rules::{RuleCache, StateError};

use crate::metrics::{ServiceTotal, encode_gauge, encode_total};
use crate::quota::SavedQuotas;
use crate::start_error::StartError;

/// The time within which the file must be read at the start. It is enough for a gigabyte from a slow disk.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// Reads and writes the state file.
#[derive(Debug)]
pub(crate) struct StateKeeper {
    path: PathBuf,
    /// The time between two writes.
    every: Duration,
    /// Locked during a write, so that the last write waits for the one that is under way. True once the last write has
    /// begun, after which no other may begin.
    writing: Mutex<bool>,
    written: ServiceTotal,
    errors: ServiceTotal,
    begun: Instant,
    /// The time of the last write in milliseconds after `begun`; 0 before the first write.
    last_ms: AtomicU64,
}

/// A keeper, and the state that its files held.
#[derive(Debug)]
pub(crate) struct OpenedState {
    pub(crate) keeper: StateKeeper,
    /// `None` if the file was not read in time.
    pub(crate) cache: Option<RuleCache>,
    pub(crate) quotas: Option<SavedQuotas>,
}

impl StateKeeper {
    /// Restores the file's state into the cache, from which the first load of rules takes it, and reads the quotas that
    /// Envoys hold.
    ///
    /// # Errors
    /// The path exists and is not a regular file.
    pub(crate) async fn open(
        path: PathBuf,
        every: Duration,
        cache: RuleCache,
    ) -> Result<OpenedState, StartError> {
        let keeper = Self {
            path,
            every,
            writing: Mutex::new(false),
            written: ServiceTotal::default(),
            errors: ServiceTotal::default(),
            begun: Instant::now(),
            last_ms: AtomicU64::new(0),
        };
        let (path, late) = (keeper.path.clone(), Arc::new(AtomicBool::new(false)));
        // If the disk does not answer, the reading blocks its thread, perhaps for ever.
        let is_late = Arc::clone(&late);
        let reading = tokio::task::spawn_blocking(move || read(&path, cache, &is_late));
        match timeout(READ_WITHIN, reading).await {
            Ok(Ok(read)) => {
                let ReadState { cache, restored, quotas } = read?;
                keeper.tell(restored);
                let quotas = quotas.map_err(|error| keeper.refuse_quotas(&error)).ok().flatten();
                Ok(OpenedState { keeper, cache: Some(cache), quotas })
            }
            // The reading has not ended, or has panicked.
            _ => {
                // Relaxed: no other memory is published with the flag, and the first write comes a second later at the
                // earliest.
                late.store(true, Ordering::Relaxed);
                let path = keeper.path.display();
                keeper.errors.add(1);
                tracing::error!(
                    "state of {path} not read within {READ_WITHIN:?}, all limits begin anew; the file stays where it is \
                     until the next write"
                );
                Ok(OpenedState { keeper, cache: None, quotas: None })
            }
        }
    }

    fn tell(&self, restored: Restored) {
        let path = &self.path;
        match restored {
            Restored::Nothing => tracing::info!("no state yet: {}", path.display()),
            Restored::State { tables, bytes } => {
                tracing::info!(
                    "state restored: {tables} tables, {bytes} bytes from {}",
                    path.display()
                );
            }
            Restored::Refused { error, kept } => {
                self.errors.add(1);
                tracing::error!(
                    "state of {} refused, all limits begin anew: {error}; {kept}",
                    path.display()
                );
            }
        }
    }

    /// Logs that the saved quotas cannot be used.
    pub(crate) fn refuse_quotas(&self, error: &StateError) {
        self.errors.add(1);
        let path = beside(&self.path, "quotas");
        tracing::error!(
            "quotas of {} refused, none is given out until all that Envoys may hold is over: {error}",
            path.display()
        );
    }

    /// Writes the state file. The last write, which has `quotas`, also writes their file. Blocks, so no thread that
    /// answers requests may call it.
    fn write(&self, cache: &RuleCache, quotas: Option<&SavedQuotas>) {
        // The poison is ignored: a write that panicked has left only `FILE.new` behind, which the next write removes.
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if *writing {
            return;
        }
        *writing = quotas.is_some();
        let path = beside(&self.path, "quotas");
        let Some(quotas) = quotas else {
            // If the file of quotas still exists, it could not be removed at the start, and by now it is wrong.
            let _ = fs::remove_file(path);
            return self.write_tables(cache);
        };
        let written = replace(&path, |writer| Ok(writer.write_all(&quotas.to_bytes())?));
        if let Err(error) = written {
            self.errors.add(1);
            tracing::error!("quotas not written to {}: {error}", path.display());
        }
        // The tables are written second, because they take longer.
        self.write_tables(cache);
    }

    fn write_tables(&self, cache: &RuleCache) {
        match replace(&self.path, |writer| cache.save(writer).map(drop)) {
            Ok(()) => {
                self.written.add(1);
                let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                // Relaxed: the number is only shown in the metrics.
                self.last_ms.store(ms, Ordering::Relaxed);
            }
            // No rules were loaded, so no rule has taken over the restored state. The file stays as it is.
            Err(StateError::NoRules) => {}
            Err(error) => {
                self.errors.add(1);
                let path = self.path.display();
                tracing::error!("state not written to {path}, an older one stays: {error}");
            }
        }
    }

    async fn write_apart(self: &Arc<Self>, cache: &Arc<RuleCache>, quotas: Option<SavedQuotas>) {
        let (keeper, cache) = (Arc::clone(self), Arc::clone(cache));
        // An error means a panic, which the runtime has reported.
        let _ = tokio::task::spawn_blocking(move || keeper.write(&cache, quotas.as_ref())).await;
    }

    /// Writes at intervals until the service stops.
    pub(crate) async fn keep(
        self: Arc<Self>,
        cache: Arc<RuleCache>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let every = self.every.max(Duration::from_secs(1));
        let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The guard that the channel returns holds a lock, so it is dropped before the next await.
        let mut ends =
            std::pin::pin!(async move { drop(stopped.wait_for(|stopped| *stopped).await) });
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = &mut ends => return,
            }
            // If the service stops meanwhile, the write goes on in its thread, and `close` waits for it.
            tokio::select! {
                () = self.write_apart(&cache, None) => {}
                () = &mut ends => return,
            }
        }
    }

    /// Writes once more after the last decision, and waits at most `grace` for that write.
    pub(crate) async fn close(
        self: &Arc<Self>,
        cache: &Arc<RuleCache>,
        quotas: SavedQuotas,
        grace: Duration,
    ) {
        if timeout(grace, self.write_apart(cache, Some(quotas))).await.is_err() {
            self.errors.add(1);
            let path = self.path.display();
            tracing::error!("state not written to {path} within {grace:?}, an older one stays");
        }
    }
}

/// Replaces a file by a new file with the content that `fill` writes.
fn replace(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>) -> Result<(), StateError>,
) -> Result<(), StateError> {
    let new = beside(path, "new");
    // A process that was killed may have left this file. It is not reused, because a newly created file has the right
    // permissions and is not a link.
    let _ = fs::remove_file(&new);
    let file = for_its_owner().write(true).create_new(true).open(&new)?;
    let mut writer = BufWriter::new(&file);
    fill(&mut writer)?;
    writer.flush()?;
    drop(writer);
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_directory(path)?;
    Ok(())
}

/// The result of reading the file at the start.
enum Restored {
    /// There is no state file.
    Nothing,
    State {
        tables: usize,
        bytes: u64,
    },
    Refused {
        error: StateError,
        /// A text that says where the bad file is now.
        kept: String,
    },
}

/// The results of the reading: the cache with the tables, and the saved quotas.
struct ReadState {
    cache: RuleCache,
    restored: Restored,
    quotas: Result<Option<SavedQuotas>, StateError>,
}

/// Reads the files. Blocks until the disk answers. Once `is_late` is set, no one waits for the result, and the path may
/// already hold a newer file.
fn read(path: &Path, mut cache: RuleCache, is_late: &AtomicBool) -> Result<ReadState, StartError> {
    // The kind of file is checked before the file is opened, since opening a FIFO would wait for its other end.
    let restored = match path.metadata() {
        Ok(file) if !file.is_file() => {
            return Err(StartError::StateFile { path: path.to_owned(), kind: kind(&file) });
        }
        Ok(_) => File::open(path).map_err(StateError::from).and_then(|file| {
            let state = cache.restore(BufReader::new(file))?;
            Ok(Restored::State { tables: state.tables, bytes: state.bytes })
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Restored::Nothing),
        Err(error) => Err(error.into()),
    };
    let restored = restored.unwrap_or_else(|error| {
        let aside = beside(path, "bad");
        // Relaxed, for the reason in `open`, which sets the flag.
        if is_late.load(Ordering::Relaxed) {
            return Restored::Refused { error, kept: "nobody waits for it any longer".to_owned() };
        }
        let kept = match fs::rename(path, &aside) {
            Ok(()) => format!("the file is now {}", aside.display()),
            Err(error) => format!("the file stays where it is: {error}"),
        };
        Restored::Refused { error, kept }
    });
    Ok(ReadState { cache, restored, quotas: take_quotas(&beside(path, "quotas")) })
}

/// Reads the saved quotas, and removes their file, because new assignments will make it wrong.
fn take_quotas(path: &Path) -> Result<Option<SavedQuotas>, StateError> {
    match path.metadata() {
        // Such a file is not opened, since opening a FIFO would wait for its other end.
        Ok(file) if !file.is_file() => {
            return Err(StateError::Damaged(format!("is {}", kind(&file))));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let read = SavedQuotas::read(File::open(path)?);
    match &read {
        Ok(_) => fs::remove_file(path)?,
        Err(_) => fs::rename(path, beside(path, "bad"))?,
    }
    sync_directory(path)?;
    read.map(Some)
}

/// The kind of a file that is not a regular one.
fn kind(file: &Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = file.file_type();
        let kinds = [
            (kind.is_fifo(), "a FIFO"),
            (kind.is_socket(), "a socket"),
            (kind.is_char_device() || kind.is_block_device(), "a device"),
        ];
        if let Some((_, kind)) = kinds.into_iter().find(|(is_it, _)| *is_it) {
            return kind;
        }
    }
    if file.is_dir() { "a directory" } else { "no regular file" }
}

/// The path with a dot and this ending appended.
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

/// Syncs the directory: without that, a renamed file may be gone after a loss of power.
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

/// Reports the numbers of the keeper as metrics.
#[derive(Debug)]
pub(crate) struct OfState(pub(crate) Arc<StateKeeper>);

impl Collector for OfState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(keeper) = self;
        // Relaxed: the number is only reported.
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
