//! Files that a command writes in addition to what it prints.

use std::fs;

use crate::failure::Failure;

/// Refuses to overwrite an input, because logs are hard to replace.
pub(crate) fn keep_inputs<'f>(
    outputs: impl IntoIterator<Item = &'f String>,
    inputs: &[String],
) -> Result<(), Failure> {
    for output in outputs {
        // A file that does not exist yet is not an input.
        let Ok(path) = fs::canonicalize(output) else { continue };
        let is_same = |input: &String| fs::canonicalize(input).is_ok_and(|input| input == path);
        if inputs.iter().any(is_same) {
            return Err(Failure::OutputIsInput { file: output.clone() });
        }
    }
    Ok(())
}

/// Writes a file.
pub(crate) fn write(file: &str, content: &str) -> Result<(), Failure> {
    fs::write(file, content).map_err(|error| Failure::Unwritable { file: file.to_owned(), error })
}
