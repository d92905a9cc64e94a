//! Writes the seeds of the fuzz targets that are not about the core. They are the same in every run:
//!
//! ```text
//! cargo run -p tollgate-fuzz-bodies --example seeds -- fuzz/seeds
//! ```
//!
//! Seeds that were added by hand, such as an input that failed before, are kept. The seeds of the core are written by
//! the example `core_seeds` of `crates/model`.

mod headers;
mod lines;
mod service;

use std::path::Path;
use std::{fs, io};

/// The name of a seed, and its content.
pub(crate) type NamedSeed<C> = (&'static str, C);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("give the directory of the seeds")?;
    let root = Path::new(&root);
    write_all(&root.join("log_line"), lines::LOGS)?;
    write_all(&root.join("http_headers"), headers::HEADERS)?;
    let messages = service::messages();
    write_all(&root.join("rls_request"), messages.iter().map(|(name, bytes)| (*name, &bytes[..])))?;
    write_all(&root.join("json_body"), service::BODIES)?;
    write_all(&root.join("resp_bytes"), service::REDIS)?;
    write_all(&root.join("rules_yaml"), service::RULES)?;
    Ok(())
}

fn write_all<'s>(
    directory: &Path,
    seeds: impl IntoIterator<Item = (&'s str, &'s [u8])>,
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    seeds.into_iter().try_for_each(|(name, bytes)| fs::write(directory.join(name), bytes))
}
