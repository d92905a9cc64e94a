//! Writes the seeds of the targets of the core, the same ones on every run:
//!
//! ```text
//! cargo run -p tollgate-model --example core_seeds -- fuzz/seeds
//! ```
//!
//! Seeds that were added by hand, such as an input that failed before, are left as they are.

mod encode;
mod limits;
mod logs;
mod mixed;
mod named;
mod policies;
mod sketches;
mod snapshots;
mod tables;
mod together;
mod verbs;

use std::fmt::Debug;
use std::path::Path;
use std::{fs, io};

use arbitrary::{Arbitrary, Unstructured};

use encode::Encode;
use named::NamedSeed;
use tollgate_model::SnapshotCase;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("give the directory of the seeds")?;
    let root = Path::new(&root);
    write_cases(&root.join("gcra_oracle"), &limits::gcra())?;
    write_cases(&root.join("window_oracle"), &limits::windows())?;
    write_cases(&root.join("layout_roundtrip"), &tables::layouts())?;
    write_cases(&root.join("keyed_ops"), &tables::many_keys())?;
    write_cases(&root.join("sketch_ops"), &sketches::sketches())?;
    write_cases(&root.join("log_ops"), &logs::logs())?;
    write_cases(&root.join("mixed_ops"), &mixed::mixed())?;
    write_cases(&root.join("mixed_ops"), &verbs::verbs())?;
    write_cases(&root.join("together_ops"), &together::together())?;
    let policies = policies::POLICIES.map(|(name, text)| (name, text.as_bytes()));
    write_all(&root.join("policy_text"), policies)?;
    write_snapshots(&root.join("snapshot_bytes"))?;
    Ok(())
}

fn write_cases<C>(directory: &Path, cases: &[NamedSeed<C>]) -> io::Result<()>
where
    C: Encode + Debug + PartialEq + for<'b> Arbitrary<'b>,
{
    let encoded: Vec<_> = cases
        .iter()
        .map(|(name, case)| {
            let mut bytes = Vec::new();
            case.encode(&mut bytes);
            let read = C::arbitrary_take_rest(Unstructured::new(&bytes));
            assert_eq!(read.as_ref(), Ok(case), "{name} is not read as it was written");
            (*name, bytes)
        })
        .collect();
    write_all(directory, encoded.iter().map(|(name, bytes)| (*name, &bytes[..])))
}

fn write_snapshots(directory: &Path) -> io::Result<()> {
    let encoded = snapshots::cases().into_iter().map(|(name, case)| {
        let mut bytes = Vec::new();
        case.encode(&mut bytes);
        let read = SnapshotCase::arbitrary_take_rest(Unstructured::new(&bytes));
        assert_eq!(read.as_ref(), Ok(&case), "{name} is not read as it was written");
        (name, bytes)
    });
    let encoded: Vec<_> = encoded.collect();
    write_all(directory, encoded.iter().map(|(name, bytes)| (*name, &bytes[..])))
}

fn write_all<'s>(
    directory: &Path,
    seeds: impl IntoIterator<Item = (&'s str, &'s [u8])>,
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    seeds.into_iter().try_for_each(|(name, bytes)| fs::write(directory.join(name), bytes))
}
