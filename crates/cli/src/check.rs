//! `tollgate check`: validates rules and prints what they mean.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tollgate_rules::{Rule, RuleLimit, RuleSet, RuleSettings, RuleText};

use crate::failure::Failure;
use crate::texts::texts;

const AFTER_HELP: &str = "\
Prints one line per rule: its domain and keys, the policy that it is enforced by, for how many \
clients at a time, and the file's totals; with --json the same as one object. Errors go to standard error, with file, \
line and column, one per bad file, and end with exit code 2.

Examples:
  tollgate check examples/rules
  tollgate check rules/shop.yaml
  tollgate check rules/shop.yaml --json";

/// The part of the help text that is about arguments which only a build with the feature `serve` accepts.
const WITH_SERVE: &str = if cfg!(feature = "serve") {
    "
  tollgate check 'redis://10.0.0.7/2#shop:rules'
  tollgate check rules --redis redis://10.0.0.7/ --nodes 3    # with the flags of serve

With --redis, which is not contacted, limits that cannot be kept there are refused, too."
} else {
    ""
};

const PATH_HELP: &str = if cfg!(feature = "serve") {
    "A directory of .yaml files, one file, or redis://host:port/database#key: a hash of texts in Redis"
} else {
    "A directory of .yaml files, or one file"
};

/// Validate rate limit rules and print what they are compiled to
///
/// Reads files in the format of envoyproxy/ratelimit, with Tollgate's additions. The tables are built as a service
/// would build them, so that rules that pass can be served.
#[derive(clap::Args)]
#[command(after_help = format!("{AFTER_HELP}{WITH_SERVE}"), arg_required_else_help = true)]
pub(crate) struct CheckArgs {
    #[arg(value_name = "DIR", help = PATH_HELP)]
    path: PathBuf,

    #[command(flatten)]
    sizes: Sizes,

    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,

    /// Decide each descriptor on its own, as envoyproxy/ratelimit does
    #[arg(long)]
    compat: bool,

    #[cfg(feature = "serve")]
    #[command(flatten)]
    redis: crate::serve_redis::RedisArgs,
}

/// The settings that decide whether rules are valid.
#[derive(clap::Args)]
pub(crate) struct Sizes {
    /// Allow several files to hold parts of one domain
    #[arg(long)]
    merge_domains: bool,

    /// The capacity of rules whose file gives none, in clients: about 15 bytes each [default: 65536, or less where many
    /// rules share --table-bytes]
    #[arg(long, value_name = "CLIENTS")]
    capacity: Option<usize>,

    /// The maximum number of bytes for all tables
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    table_bytes: u64,
}

/// Reads the rules, compiles them, and prints what they mean.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let settings = RuleSettings { compat: args.compat, ..args.sizes.settings() };
    let texts = texts(&args.path)?;
    #[cfg(feature = "serve")]
    let rules = load_as_served(&texts, settings, &args.redis)?;
    #[cfg(not(feature = "serve"))]
    let rules = load(&texts, settings)?;
    let rules = without_hidden(rules)?;
    tell_lowered(&rules);
    match args.json {
        true => print_json(texts.len(), &rules),
        false => print(texts.len(), &rules),
    }
    .map_err(Failure::Output)
}

/// Loads the rules with the cache of a service, so that `check` refuses all rules that a service would refuse. `redis`
/// has the flags that `serve` has, too. Redis is not contacted, so errors that only Redis could report are not found.
#[cfg(feature = "serve")]
fn load_as_served(
    texts: &[RuleText],
    settings: RuleSettings,
    redis: &crate::serve_redis::RedisArgs,
) -> Result<Arc<RuleSet>, Failure> {
    use tollgate_service::{Options, rule_cache};

    let global = redis.global();
    // Limits in Redis need a runtime. No task runs on this runtime, so nothing connects.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Serve(error.to_string()))?;
    let _entered = runtime.enter();
    // The path is empty, since the texts have been read already.
    let cache = rule_cache(Options { settings, global, ..Options::new("") });
    let cache = cache.map_err(|error| Failure::Serve(error.to_string()))?;
    cache.load(texts).map_err(Failure::Rules)
}

/// Refuses rules with entries that can never match. A service loads them with a warning, since envoyproxy/ratelimit
/// loads them, too.
fn without_hidden(rules: Arc<RuleSet>) -> Result<Arc<RuleSet>, Failure> {
    if rules.hidden().is_empty() { Ok(rules) } else { Err(Failure::Rules(rules.hidden().to_vec())) }
}

/// Prints the limits that are counted at a lower rate than their files say, and a note if tables are smaller than
/// usual.
fn tell_lowered(rules: &RuleSet) {
    let mut log = io::stderr().lock();
    // If standard error is closed, the text is lost.
    rules.lowered().iter().for_each(|limit| _ = writeln!(log, "tollgate: {limit}"));
    rules.narrowed().iter().for_each(|rules| _ = writeln!(log, "tollgate: {rules}"));
}

#[cfg(not(feature = "serve"))]
fn load(texts: &[RuleText], settings: RuleSettings) -> Result<Arc<RuleSet>, Failure> {
    tollgate_rules::RuleCache::new(settings).load(texts).map_err(Failure::Rules)
}

impl Sizes {
    fn settings(&self) -> RuleSettings {
        RuleSettings {
            merge_domains: self.merge_domains,
            default_capacity: self.capacity,
            max_table_bytes: self.table_bytes,
            ..RuleSettings::default()
        }
    }
}

/// Reads the rules and compiles them, and returns their texts and the compiled rules.
#[cfg(feature = "serve")]
pub(crate) fn compile(
    path: &std::path::Path,
    sizes: &Sizes,
    compat: bool,
    redis: &crate::serve_redis::RedisArgs,
) -> Result<(Vec<RuleText>, Arc<RuleSet>), Failure> {
    let texts = texts(path)?;
    let settings = RuleSettings { compat, ..sizes.settings() };
    let rules = without_hidden(load_as_served(&texts, settings, redis)?)?;
    tell_lowered(&rules);
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
    rules.all_forwards().try_for_each(|forward| writeln!(out, "{forward}"))?;
    let what = amounts(files, rules.domains().count(), rules.rules().len());
    writeln!(out, "{what}; tables of {} bytes", rules.table_bytes())?;
    out.flush()
}

/// The output of `--json`. `text` is a rule as it is printed without `--json`, but without its number of clients.
#[derive(Serialize)]
struct CheckReport<'r> {
    files: usize,
    domains: Vec<&'r str>,
    rules: Vec<CheckedRule<'r>>,
    /// The descriptors of requests that proxies ask about.
    forwards: Vec<String>,
    table_bytes: u64,
}

#[derive(Serialize)]
struct CheckedRule<'r> {
    domain: &'r str,
    path: &'r str,
    text: String,
    /// Empty for a rule without a limit.
    limits: Vec<CheckedLimit<'r>>,
    unlimited: bool,
    shadow: bool,
    /// The capacity: 1 if all clients share the limits, and none for a rule without a limit.
    clients: Option<usize>,
}

#[derive(Serialize)]
struct CheckedLimit<'r> {
    name: Option<&'r str>,
    /// None if the limit is 0.
    policy: Option<String>,
}

impl<'r> From<&'r Rule> for CheckedRule<'r> {
    fn from(rule: &'r Rule) -> Self {
        Self {
            domain: rule.domain(),
            path: rule.path(),
            text: rule.to_string(),
            limits: rule.limits().iter().map(CheckedLimit::from).collect(),
            unlimited: rule.is_unlimited(),
            shadow: rule.is_shadow(),
            clients: (!rule.is_unlimited()).then(|| rule.capacity()),
        }
    }
}

impl<'r> From<&'r RuleLimit> for CheckedLimit<'r> {
    fn from(limit: &'r RuleLimit) -> Self {
        Self { name: limit.name(), policy: limit.policy().map(|policy| policy.to_string()) }
    }
}

fn print_json(files: usize, rules: &RuleSet) -> io::Result<()> {
    let object = CheckReport {
        files,
        domains: rules.domains().collect(),
        rules: rules.rules().iter().map(CheckedRule::from).collect(),
        forwards: rules.all_forwards().map(ToString::to_string).collect(),
        table_bytes: rules.table_bytes(),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&object)?)?;
    out.flush()
}

/// Returns the amounts in words, as in `1 file, 1 domain, 4 rules`.
pub(crate) fn amounts(files: usize, domains: usize, rules: usize) -> String {
    let of = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    format!("{}, {}, {}", of(files, "file"), of(domains, "domain"), of(rules, "rule"))
}
