//! `tollgate check`: validates rules and prints what they mean.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_rules::{RuleCache, RuleSet, RuleText, Settings};

use crate::failure::Failure;
use crate::texts::texts;

const AFTER_HELP: &str = "\
Prints one line per rule: its domain and keys, the policy that it is enforced by, for how many
clients at a time, and the file's totals. Errors go to standard error, with file, line and column,
one per bad file, and end with exit code 2.

Examples:
  tollgate check examples/rules
  tollgate check rules/shop.yaml
  tollgate check 'redis://10.0.0.7/2#shop:rules'";

/// Validate rate limit rules and print what they are compiled to
///
/// Reads files in the format of envoyproxy/ratelimit, with Tollgate's additions. The tables are built as a service
/// would build them, so that rules that pass can be served.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct CheckArgs {
    /// A directory of .yaml files, one file, or redis://host:port/database#key: a hash of texts in Redis
    #[arg(value_name = "DIR")]
    path: PathBuf,

    #[command(flatten)]
    sizes: Sizes,
}

/// The settings that decide whether rules are valid.
#[derive(clap::Args)]
pub(crate) struct Sizes {
    /// Allow several files to hold parts of one domain
    #[arg(long)]
    merge_domains: bool,

    /// The capacity of rules whose file gives none, in clients: 14 to 16 bytes each
    #[arg(long, value_name = "CLIENTS", default_value_t = 65_536)]
    capacity: usize,

    /// The maximum number of bytes for all tables
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    table_bytes: u64,
}

/// Reads, compiles, prints.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let (texts, rules) = compile(&args.path, &args.sizes)?;
    print(texts.len(), &rules).map_err(Failure::Output)
}

/// Reads and compiles; returns the texts and the compiled rules.
pub(crate) fn compile(
    path: &Path,
    sizes: &Sizes,
) -> Result<(Vec<RuleText>, Arc<RuleSet>), Failure> {
    let settings = Settings {
        merge_domains: sizes.merge_domains,
        default_capacity: sizes.capacity,
        max_table_bytes: sizes.table_bytes,
        ..Settings::default()
    };
    let texts = texts(path)?;
    let rules = RuleCache::new(settings).load(&texts).map_err(Failure::Rules)?;
    Ok((texts, rules))
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
    let what = amounts(files, rules.domains().count(), rules.rules().len());
    writeln!(out, "{what}; tables of {} bytes", rules.table_bytes())?;
    out.flush()
}

/// As in `1 file, 1 domain, 4 rules`.
pub(crate) fn amounts(files: usize, domains: usize, rules: usize) -> String {
    let of = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    format!("{}, {}, {}", of(files, "file"), of(domains, "domain"), of(rules, "rule"))
}
