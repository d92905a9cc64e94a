//! `tollgate rules`: writes rules to Redis.

use std::io::{self, Write};
use std::path::PathBuf;

use tollgate_service::RedisRules;

use crate::check::{self, Sizes};
use crate::failure::Failure;

const AFTER_HELP: &str = "\
Services that are started with --rules URL read the hash again when its version has changed.

Examples:
  tollgate rules push examples/rules redis://127.0.0.1
  tollgate rules push rules 'redis://writer:secret@10.0.0.7/2#shop:rules'
  tollgate serve --rules 'redis://reader:secret@10.0.0.7/2#shop:rules'";

/// Keep rate limit rules in Redis
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    verb: RulesVerb,
}

#[derive(clap::Subcommand)]
enum RulesVerb {
    Push(PushArgs),
}

/// Validate rules and put them into Redis, all at once
///
/// Replaces the whole content of the hash, in one transaction: a field for each file, and a version that follows from
/// their texts. Rules that `tollgate check` refuses are not written. `--redis` names the Redis of `serve --redis`,
/// which is not contacted: with this flag, rules whose limits Redis cannot keep are refused as well.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
struct PushArgs {
    /// A directory of .yaml files, or one file
    #[arg(value_name = "DIR")]
    rules: PathBuf,

    /// The hash: redis://user:password@host:port/database#key; without a key it is tollgate:rules
    #[arg(value_name = "URL")]
    hash: String,

    #[command(flatten)]
    sizes: Sizes,

    /// Validate for services that decide each descriptor on its own, as envoyproxy/ratelimit does
    #[arg(long)]
    compat: bool,

    #[command(flatten)]
    redis: crate::serve_redis::RedisArgs,
}

/// Runs the command.
pub(crate) fn run(args: &RulesArgs) -> Result<(), Failure> {
    let RulesVerb::Push(args) = &args.verb;
    let redis: RedisRules = args.hash.parse().map_err(Failure::Address)?;
    let (texts, rules) = check::compile(&args.rules, &args.sizes, args.compat, &args.redis)?;
    let pushed = redis.push(&texts).map_err(Failure::Push)?;
    let (files, count) = (texts.len(), rules.rules().len());
    let what = check::amounts(files, rules.domains().count(), count);
    let then = if pushed.is_new { "" } else { ", as before" };
    let mut out = io::stdout().lock();
    writeln!(out, "{redis}: {what}; version {}{then}", pushed.version).map_err(Failure::Output)
}
