//! The binary of the `tollgate` command; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::main()
}
