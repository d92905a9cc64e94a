//! Prints the case of a file that libFuzzer left, as Rust source, and runs it:
//!
//! ```text
//! cargo run -p tollgate-fuzz-bodies --example replay -- keyed_ops fuzz/artifacts/keyed_ops/crash-...
//! ```

use tollgate_fuzz_bodies::TARGETS;
use tollgate_model::Plant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(file), None) = (args.next(), args.next(), args.next()) else {
        return Err("give the name of a target and a file".into());
    };
    let targets = || tollgate_model::TARGETS.iter().chain(TARGETS);
    let known = || targets().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let target = targets()
        .find(|target| target.name == name)
        .ok_or_else(|| format!("there is no target {name}; use one of {}", known()))?;
    let bytes = std::fs::read(&file).map_err(|error| format!("cannot read {file}: {error}"))?;
    println!("use tollgate_fuzz_bodies::source::*;\n{}", (target.source)(&bytes));
    (target.run)(&bytes, Plant::Nothing);
    println!("// runs without a finding");
    Ok(())
}
