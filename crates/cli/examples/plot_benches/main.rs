//! Draws the pictures of `docs/benchmarks.md` from what the benches have written.
//!
//! From the root of the repository, after several runs of `cargo bench --bench peers`, each of whose results
//! (`target/peers.json`) was saved under its own name, and after `cargo bench --bench contention`:
//!
//! ```text
//! cargo run -p tollgate-cli --example plot_benches -- first.json second.json third.json target/criterion
//! ```
//!
//! A file is a run of `peers`; the medians of all runs are used. A directory holds criterion's estimates. Medians and
//! estimates are written to `docs/benchmarks/figures.json`, from which the pictures are drawn. Without arguments only
//! the pictures are drawn again.

#![allow(
    dead_code,
    unused_imports,
    reason = "what is shared with the command has other uses there"
)]

mod draw;
mod figures;
#[path = "../../src/plot/mod.rs"]
mod plot;
#[path = "../../src/spans.rs"]
mod spans;
#[path = "../../src/tables.rs"]
mod tables;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use figures::Figures;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = Path::new("docs/benchmarks");
    let file = directory.join("figures.json");
    let inputs: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    if !inputs.is_empty() {
        fs::write(&file, Figures::of_runs(&inputs)?.to_json()?)?;
    }
    let figures = Figures::from_json(&fs::read_to_string(&file)?)?;
    for (name, picture) in draw::all(&figures)? {
        fs::write(directory.join(name), picture)?;
    }
    Ok(())
}
