//! The condensed results of the benches: medians over runs, in four digits.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Everything that is drawn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The number of runs.
    pub(crate) runs: usize,
    /// The results of `cargo bench --bench peers`, in its order.
    pub(crate) peers: Vec<Peer>,
    /// The results of `cargo bench --bench contention`.
    pub(crate) threads: Vec<Contended>,
}

/// A contender in a workload: nanoseconds, or bytes in workloads about memory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) workload: String,
    pub(crate) contender: String,
    pub(crate) threads: u32,
    pub(crate) value: f64,
}

/// One of criterion's benchmarks on this many threads: nanoseconds per decision of each thread.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Contended {
    pub(crate) name: String,
    pub(crate) threads: u32,
    pub(crate) value: f64,
}

/// A row of `target/peers.json`.
#[derive(Debug, Deserialize)]
struct PeerRow {
    workload: String,
    contender: String,
    threads: u32,
    median_ns: f64,
}

impl Figures {
    /// A path to a file is a run of `peers`; a path to a directory is criterion's output.
    pub(crate) fn of_runs(inputs: &[PathBuf]) -> Result<Self, Box<dyn Error>> {
        let mut figures = Self::default();
        let mut runs: Vec<Vec<PeerRow>> = Vec::new();
        for input in inputs {
            if input.is_dir() {
                figures.threads = contended(input)?;
            } else {
                runs.push(serde_json::from_str(&fs::read_to_string(input)?)?);
            }
        }
        figures.runs = runs.len();
        for row in runs.first().into_iter().flatten() {
            let is_same = |other: &&PeerRow| {
                (&other.workload, &other.contender, other.threads)
                    == (&row.workload, &row.contender, row.threads)
            };
            let found = runs.iter().filter_map(|run| run.iter().find(is_same));
            let mut values: Vec<f64> = found.map(|row| row.median_ns).collect();
            values.sort_by(f64::total_cmp);
            let (workload, contender) = (row.workload.clone(), row.contender.clone());
            let value = four_digits(values[values.len() / 2]);
            figures.peers.push(Peer { workload, contender, threads: row.threads, value });
        }
        Ok(figures)
    }

    pub(crate) fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

/// `contention_one limit/striped_2 threads/new/estimates.json`
fn contended(criterion: &Path) -> Result<Vec<Contended>, Box<dyn Error>> {
    let mut found = BTreeMap::new();
    for group in directories(criterion)? {
        let group_name = name(&group);
        let Some(group_name) = group_name.strip_prefix("contention_") else { continue };
        for bench in directories(&group)? {
            let bench_name = name(&bench);
            let Some((what, threads)) = bench_name.rsplit_once('_') else { continue };
            let threads: u32 = threads.split(' ').next().unwrap_or_default().parse()?;
            let Ok(text) = fs::read_to_string(bench.join("new/estimates.json")) else { continue };
            let estimates: serde_json::Value = serde_json::from_str(&text)?;
            let nanos = estimates["median"]["point_estimate"].as_f64().ok_or("no median")?;
            found.insert((format!("{group_name}: {what}"), threads), four_digits(nanos));
        }
    }
    let contended = |((name, threads), value)| Contended { name, threads, value };
    Ok(found.into_iter().map(contended).collect())
}

fn directories(of: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = fs::read_dir(of)?.collect::<Result<Vec<_>, _>>()?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Further digits are noise.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
