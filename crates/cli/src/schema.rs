//! `tollgate schema`: prints the JSON Schema of rule files.

use std::io::{self, Write};

use tollgate_rules::RULES_SCHEMA;

use crate::failure::Failure;

const AFTER_HELP: &str = "\
An editor with a language server for YAML completes and checks a rule file whose first line names the schema:
  # yaml-language-server: $schema=./rules.schema.json

Example:
  tollgate schema > rules.schema.json";

/// Print the JSON Schema of rule files, for editors
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SchemaArgs {}

pub(crate) fn run() -> Result<(), Failure> {
    io::stdout().lock().write_all(RULES_SCHEMA.as_bytes()).map_err(Failure::Output)
}
