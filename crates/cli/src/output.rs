//! Files that a command writes beside what it prints.

use std::fs;

use crate::failure::Failure;

/// Refuses to replace what is to be read. Logs are not easily come by again.
pub(crate) fn keep_inputs<'f>(
    outputs: impl IntoIterator<Item = &'f String>,
    inputs: &[String],
) -> Result<(), Failure> {
    for output in outputs {
        // What does not exist yet is no input.
        let Ok(path) = fs::canonicalize(output) else { continue };
        let is_same = |input: &String| fs::canonicalize(input).is_ok_and(|input| input == path);
        if inputs.iter().any(is_same) {
            return Err(Failure::OutputIsInput { file: output.clone() });
        }
    }
    Ok(())
}

/// Writes a file, or says why not.
pub(crate) fn write(file: &str, content: &str) -> Result<(), Failure> {
    fs::write(file, content).map_err(|error| Failure::Unwritable { file: file.to_owned(), error })
}
