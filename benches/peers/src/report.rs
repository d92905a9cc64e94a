//! The measured figures: printed as tables, and written as JSON.

use std::path::PathBuf;
use std::{fs, io};

use serde::Serialize;

use crate::drive::median;
use crate::shares::Shares;

/// One contender in one workload.
#[derive(Serialize)]
pub(crate) struct WorkloadRow {
    pub(crate) workload: String,
    pub(crate) contender: String,
    pub(crate) threads: usize,
    /// The figure in nanoseconds, or in the unit that the workload's name gives.
    pub(crate) median_ns: f64,
    /// Governor's figure divided by this one: how many times as fast this contender is.
    pub(crate) ratio_to_governor: f64,
    /// The shares of its decisions, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shares: Option<Shares>,
}

/// One contender, and its figure in each round.
pub(crate) struct Measured<'a> {
    pub(crate) contender: &'a str,
    pub(crate) figures: Vec<f64>,
    pub(crate) shares: Option<Shares>,
}

/// All rows. They are printed as they are added.
#[derive(Default)]
pub(crate) struct PeersReport {
    rows: Vec<WorkloadRow>,
    last: Option<String>,
}

impl PeersReport {
    pub(crate) fn add(&mut self, row: WorkloadRow) {
        if self.last.as_ref() != Some(&row.workload) {
            println!("\n{:<44} threads   median     x governor", row.workload);
            self.last = Some(row.workload.clone());
        }
        let shares = row.shares.map_or_else(String::new, |shares| format!("  {shares}"));
        println!(
            "  {:<42} {:>7} {:>10.1} {:>10.2}x{shares}",
            row.contender, row.threads, row.median_ns, row.ratio_to_governor
        );
        self.rows.push(row);
    }

    /// Adds a row for each contender of a workload. The first contender is governor.
    pub(crate) fn compare(&mut self, workload: &str, threads: usize, all: &[Measured<'_>]) {
        let Some(governor) = all.first() else { return };
        for Measured { contender, figures, shares } in all {
            let ratios = governor.figures.iter().zip(figures).map(|(governor, own)| governor / own);
            self.add(WorkloadRow {
                workload: workload.to_owned(),
                contender: (*contender).to_owned(),
                threads,
                median_ns: median(figures.clone()),
                ratio_to_governor: median(ratios.collect()),
                shares: *shares,
            });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the file `target/peers.json` in the workspace.
    pub(crate) fn write(&self) -> io::Result<PathBuf> {
        let path = target()?.join("peers.json");
        fs::write(&path, serde_json::to_string_pretty(&self.rows)?)?;
        Ok(path)
    }
}

/// The directory `target` of the workspace.
pub(crate) fn target() -> io::Result<PathBuf> {
    let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let path = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from);
    fs::create_dir_all(&path)?;
    path.canonicalize()
}
