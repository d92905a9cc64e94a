//! `tollgate check`: are these rules good, and what do they mean?

use std::io::{self, Write};
use std::path::PathBuf;

use tollgate_rules::{FileSource, RuleCache, RuleSet, RuleSource, Settings};

use crate::failure::Failure;

const AFTER_HELP: &str = "\
Prints one line per rule: its domain and keys, the policy that it is enforced by, for how many
clients at a time, and the file's totals. Errors go to standard error, with file, line and column,
one per bad file, and end with exit code 2.

Examples:
  tollgate check examples/rules
  tollgate check rules/shop.yaml";

/// Validate rate limit rules and print what they are compiled to
///
/// Reads files as envoyproxy/ratelimit has them, with Tollgate's additions. The tables are built as a
/// service would build them, so that rules that pass are rules that can be served.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Args {
    /// A directory of .yaml files, or one file
    #[arg(value_name = "DIR")]
    path: PathBuf,

    /// Allow several files to hold parts of one domain
    #[arg(long)]
    merge_domains: bool,

    /// Clients at a time that a rule is built for where its file does not say: 14 to 16 bytes each
    #[arg(long, value_name = "CLIENTS", default_value_t = 65_536)]
    capacity: usize,

    /// The most bytes that all tables may take
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    table_bytes: u64,
}

/// Reads, compiles, prints.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let settings = Settings {
        merge_domains: args.merge_domains,
        default_capacity: args.capacity,
        most_table_bytes: args.table_bytes,
        ..Settings::default()
    };
    let texts = FileSource::new(&args.path).read().map_err(|error| Failure::Rules(vec![error]))?;
    if texts.is_empty() {
        return Err(Failure::NoRules { path: args.path.display().to_string() });
    }
    let rules = RuleCache::new(settings).load(&texts).map_err(Failure::Rules)?;
    print(texts.len(), &rules).map_err(Failure::Output)
}

fn print(files: usize, rules: &RuleSet) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for rule in rules.rules() {
        write!(out, "{rule}")?;
        match (rule.is_unlimited(), rule.capacity()) {
            (true, _) => writeln!(out)?,
            (false, 1) => writeln!(out, ", one for all")?,
            (false, clients) => writeln!(out, ", for {clients} clients")?,
        }
    }
    let (domains, bytes) = (rules.domains().count(), rules.table_bytes());
    let of = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let (files, domains) = (of(files, "file"), of(domains, "domain"));
    let count = of(rules.rules().len(), "rule");
    writeln!(out, "{files}, {domains}, {count}; tables of {bytes} bytes")?;
    out.flush()
}
