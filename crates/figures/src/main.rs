//! Counts the size and the shape of this repository and holds each figure to its limit in `figures.toml`, where
//! the reason for it stands, too.
//!
//! ```sh
//! cargo run -q --release -p tollgate-figures                          # the figures, and what is beyond its limit
//! cargo run -q --release -p tollgate-figures -- --list                # also every place that counts against one
//! cargo run -q --release -p tollgate-figures -- --list circles        # the places of one figure
//! cargo run -q --release -p tollgate-figures -- --root ../other       # another tree, by the limits of this one
//! ```
//!
//! A figure may not rise above its ceiling, which is where it stands today, and a ceiling may not stand above its
//! figure: so what has been gained is not lost again. How each is counted is said where it is counted.

mod api;
mod circles;
mod figures;
#[cfg(test)]
mod fixture;
mod imports;
mod limits;
mod modules;
mod names;
mod orderings;
mod prose;
mod report;
mod shapes;
mod source;
mod workspace;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use figures::FigureCounter;
use imports::ImportMap;
use limits::LimitsFile;
use report::FiguresReport;
use workspace::Repository;

const LIMITS: &str = "figures.toml";

/// What the command line asks for.
struct FiguresCommand {
    root: PathBuf,
    /// The figures whose places are listed: all, if this is empty.
    list: Option<Vec<String>>,
}

impl FiguresCommand {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut command = Self { root: PathBuf::from("."), list: None };
        while let Some(word) = words.next() {
            match (word.as_str(), &mut command.list) {
                ("--root", _) => {
                    command.root = words.next().context("--root needs a folder")?.into();
                }
                ("--list", list) => *list = Some(Vec::new()),
                (_, Some(list)) if !word.starts_with('-') => list.push(word),
                _ => {
                    bail!("not understood: {word}; there are --root FOLDER and --list [FIGURE...]")
                }
            }
        }
        Ok(command)
    }
}

fn main() -> Result<ExitCode> {
    let command = FiguresCommand::parse(std::env::args().skip(1))?;
    let text = std::fs::read_to_string(LIMITS).context(LIMITS)?;
    let limits = LimitsFile::parse(&text).context(LIMITS)?;
    figures::all_limited(&limits).context(LIMITS)?;
    let repository = Repository::read(&command.root)?;
    let trees = repository.trees();
    let imports: Vec<ImportMap<'_>> = trees.iter().map(ImportMap::of).collect();
    let figures = FigureCounter::of(&repository, &imports);
    let report = FiguresReport::of(&limits, |limit| figures.count(limit))?;
    let list = command.list.map(|figures| report.places(&figures)).transpose()?.unwrap_or_default();
    let complaints = report.complaints();
    std::io::stdout().write_all((report.table() + &list + &complaints).as_bytes())?;
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
