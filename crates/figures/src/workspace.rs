//! What is read: every file of Rust, and the pages.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result};
use walkdir::WalkDir;

use crate::source::{RustFile, RustFiles};

#[derive(Default)]
pub(crate) struct Repository {
    pub(crate) rust: RustFiles,
    /// Markdown and plain text, by the path from the root.
    pub(crate) pages: BTreeMap<String, String>,
}

impl Repository {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let (mut rust, mut pages) = (Vec::new(), BTreeMap::new());
        // Hidden folders hold tools' own files; what cargo builds and what fuzzers find is no source.
        let entries = WalkDir::new(root).into_iter().filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            entry.depth() == 0 || !(name.starts_with('.') || ["target", "corpus"].contains(&&*name))
        });
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let extension = path.extension().and_then(OsStr::to_str);
            if !matches!(extension, Some("rs" | "md" | "txt")) {
                continue;
            }
            let name = path.strip_prefix(root)?.to_str().context("a path is not UTF-8")?;
            let name = name.replace(std::path::MAIN_SEPARATOR, "/");
            let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
            if extension == Some("rs") {
                rust.push((name, text));
            } else {
                pages.insert(name, text);
            }
        }
        Ok(Self { pages, ..Self::of(rust)? })
    }

    /// Of these files, by path and text.
    pub(crate) fn of(files: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let parsed = files
            .into_iter()
            .map(|(path, text)| Ok((path.clone(), RustFile::parse(&path, &text)?)));
        let rust = parsed.collect::<Result<RustFiles>>()?;
        Ok(Self { rust, ..Self::default() })
    }

    pub(crate) fn text(&self, path: &str) -> Result<&str> {
        Ok(self.pages.get(path).with_context(|| format!("there is no {path}"))?)
    }
}
