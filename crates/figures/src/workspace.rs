//! What is read: every file of Rust, the pages, and the targets that cargo knows.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use walkdir::WalkDir;

use crate::modules::ModuleTree;
use crate::source::{RustFile, RustFiles};

#[derive(Default)]
pub(crate) struct Repository {
    pub(crate) rust: RustFiles,
    /// Markdown and plain text, by the path from the root.
    pub(crate) pages: BTreeMap<String, String>,
    /// The first file of each target of the workspace.
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
}

#[derive(Deserialize)]
struct CargoPackage {
    targets: Vec<CargoTarget>,
}

#[derive(Deserialize)]
struct CargoTarget {
    src_path: String,
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
        Ok(Self { pages, ..Self::of(rust, targets(root)?)? })
    }

    /// Of these files, by path and text, of which some are the first of a target.
    pub(crate) fn of(
        files: impl IntoIterator<Item = (String, String)>,
        targets: Vec<String>,
    ) -> Result<Self> {
        let parsed = files
            .into_iter()
            .map(|(path, text)| Ok((path.clone(), RustFile::parse(&path, &text)?)));
        let rust = parsed.collect::<Result<RustFiles>>()?;
        let mut all = Self { rust, targets, ..Self::default() };
        for path in all.only_tests() {
            all.rust.entry(path).and_modify(|file| file.only_tests = true);
        }
        Ok(all)
    }

    /// The modules of each target.
    pub(crate) fn trees(&self) -> Vec<ModuleTree<'_>> {
        self.targets.iter().filter_map(|root| ModuleTree::of(root, &self.rust)).collect()
    }

    pub(crate) fn text(&self, path: &str) -> Result<&str> {
        Ok(self.pages.get(path).with_context(|| format!("there is no {path}"))?)
    }

    /// Files that are modules for tests wherever they are modules.
    fn only_tests(&self) -> BTreeSet<String> {
        let trees = self.trees();
        let modules = || trees.iter().flat_map(|tree| &tree.modules);
        let paths = |is_test: bool| {
            let some = modules().filter(move |module| module.is_test == is_test);
            some.map(|module| module.file.path.clone()).collect::<BTreeSet<String>>()
        };
        &paths(true) - &paths(false)
    }
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo cannot be started")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {complaint}");
    let metadata: CargoMetadata = serde_json::from_slice(&output.stdout)?;
    let root = root.canonicalize()?;
    let mut targets = Vec::new();
    for target in metadata.packages.iter().flat_map(|package| &package.targets) {
        // A package outside of the repository has no files here.
        if let Ok(path) = Path::new(&target.src_path).strip_prefix(&root) {
            targets.push(path.to_str().context("a path is not UTF-8")?.to_owned());
        }
    }
    targets.sort();
    Ok(targets)
}
