//! The binary of the `tollgate` command; its code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::main()
}
