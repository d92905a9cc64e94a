//! `tollgate serve`, `tollgate rules` and `tollgate health` in a build without the feature `serve`: print how to get them.

use std::ffi::OsString;

/// Not in this build: needs the feature `serve`
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct UnavailableArgs {
    /// All arguments of the command are accepted.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}
