//! `tollgate completions` and `tollgate man`: files for shells and for `man`, made from the definition of the commands.

use std::io::{self, Write};
use std::path::PathBuf;

use clap_complete::Shell;

use crate::failure::Failure;

const COMPLETIONS_HELP: &str = "\
Examples:
  tollgate completions bash > /etc/bash_completion.d/tollgate
  tollgate completions zsh > ~/.zfunc/_tollgate
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish";

/// Print a script by which a shell completes the commands and options
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS_HELP, arg_required_else_help = true)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write the manual pages, one for each command
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tollgate man ~/.local/share/man/man1 && man tollgate-replay",
    arg_required_else_help = true
)]
pub(crate) struct ManArgs {
    /// A directory that exists; files of the same names in it are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the script.
pub(crate) fn completions(
    args: &CompletionsArgs,
    mut command: clap::Command,
) -> Result<(), Failure> {
    // Written to memory first: clap_complete panics if the output is a pipe that was closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tollgate", &mut script);
    io::stdout().lock().write_all(&script).map_err(Failure::Output)
}

/// Writes the pages.
pub(crate) fn pages(args: &ManArgs, command: clap::Command) -> Result<(), Failure> {
    clap_mangen::generate_to(command, &args.directory)
        .map_err(|error| Failure::Unwritable { file: args.directory.display().to_string(), error })
}
