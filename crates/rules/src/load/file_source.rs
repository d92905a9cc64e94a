//! [`FileSource`]: rules from a directory, watched.
//!
//! Kubernetes mounts a ConfigMap as links into a directory `..data`, which is a link as well. It changes all files at
//! once by renaming a new `..data` into place. So names that begin with a dot are not read, and links are followed. The
//! directory is watched in place of the files, because that is where the renaming happens. If the directory itself is a
//! link that is swapped, its parent directory is watched as well.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::language::error::{Problem, RuleError};
use crate::language::source::{Changed, RuleSource, RuleText};

/// Rules from a file, or from all files of a directory whose names end in `.yaml` or `.yml` and do not
/// begin with a dot, in the order of their names.
///
/// ```
/// use tollgate_rules::{FileSource, RuleSource};
/// let error = FileSource::new("no/such/rules").read().unwrap_err();
/// assert!(error.to_string().starts_with("no/such/rules: cannot be read: "));
/// ```
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    watching: Option<DirectoryWatch>,
}

#[derive(Debug)]
struct DirectoryWatch {
    watcher: RecommendedWatcher,
    /// The directory that is watched for changes of files, after all links are resolved.
    directory: PathBuf,
}

impl FileSource {
    /// A source for this path. The path need not exist until it is read.
    ///
    /// ```
    /// let source = tollgate_rules::FileSource::new("examples/rules");
    /// assert_eq!(source.path().to_str(), Some("examples/rules"));
    /// ```
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), watching: None }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn files(&self) -> Result<Vec<PathBuf>, RuleError> {
        if self.path.metadata().map_err(|error| unreadable(&self.path, &error))?.is_file() {
            return Ok(vec![self.path.clone()]);
        }
        let mut files = Vec::new();
        for entry in self.path.read_dir().map_err(|error| unreadable(&self.path, &error))? {
            let path = entry.map_err(|error| unreadable(&self.path, &error))?.path();
            if is_rule_file(&path) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// The directory of the rule files, after all links are resolved.
    fn directory(&self) -> Option<PathBuf> {
        let path = if self.path.is_file() { parent(&self.path) } else { self.path.clone() };
        path.canonicalize().ok()
    }
}

impl RuleSource for FileSource {
    fn read(&mut self) -> Result<Vec<RuleText>, RuleError> {
        let now = self.directory();
        if let (Some(watching), Some(now)) = (&mut self.watching, now)
            && watching.directory != now
        {
            // A link was swapped, and its previous target is no longer needed.
            let _ = watching.watcher.unwatch(&watching.directory);
            if watching.watcher.watch(&now, RecursiveMode::NonRecursive).is_ok() {
                watching.directory = now;
            }
        }
        let mut texts: Vec<RuleText> = Vec::new();
        let mut together = 0;
        for path in self.files()? {
            let bytes = read_bounded(&path)?;
            together += bytes.len();
            if together > RuleText::MAX_BYTES_TOGETHER {
                let problem = Problem::TooLarge { most: RuleText::MAX_BYTES_TOGETHER };
                return Err(RuleError { file: name(&self.path), at: None, problem });
            }
            texts.push(RuleText::new(name(&path), bytes));
        }
        Ok(texts)
    }

    fn watch(&mut self, changed: Changed) -> Result<(), RuleError> {
        let refused = |error: notify::Error| {
            let reason = format!("no watch ({error}); changes are found by polling");
            RuleError { file: name(&self.path), at: None, problem: Problem::Unreadable { reason } }
        };
        let on_event = move |event: Result<Event, notify::Error>| {
            if event.map_or(true, |event| is_change(event.kind)) {
                changed.notify();
            }
        };
        let mut watcher = notify::recommended_watcher(on_event).map_err(refused)?;
        let directory = self.directory().unwrap_or_else(|| self.path.clone());
        watcher.watch(&directory, RecursiveMode::NonRecursive).map_err(refused)?;
        if self.path.is_symlink() {
            watcher.watch(&parent(&self.path), RecursiveMode::NonRecursive).map_err(refused)?;
        }
        self.watching = Some(DirectoryWatch { watcher, directory });
        Ok(())
    }
}

/// Whether an event tells of a change. Reading a file also causes an event, which must not lead to another reading.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn is_rule_file(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    is_yaml && !is_hidden && path.is_file()
}

/// Reads at most one byte more than a file may have, and refuses the file if it has that byte.
fn read_bounded(path: &Path) -> Result<Vec<u8>, RuleError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let read = file.take(RuleText::MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

#[cold]
fn unreadable(path: &Path, error: &std::io::Error) -> RuleError {
    let reason = format!("{error}; give a directory of .yaml files");
    RuleError { file: name(path), at: None, problem: Problem::Unreadable { reason } }
}
