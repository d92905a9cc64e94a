//! `tollgate serve` and `tollgate rules` in a build without the feature `serve`: says how to get them.

use std::ffi::OsString;

/// Not in this build: needs the feature `serve`
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Whatever the command would take.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}
