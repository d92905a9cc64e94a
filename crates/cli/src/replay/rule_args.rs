//! The arguments of `replay` that are about rules.

use std::path::PathBuf;

use tollgate_rules::RuleSettings;

use super::mapping::Mapping;

/// The options that exclude rules. Each option below names them again, because clap does not require `--rules` if
/// another option excludes it.
const NOT_RULES: [&str; 2] = ["policies", "suggest"];

/// Rules in place of policies.
#[derive(clap::Args)]
pub(crate) struct RuleArgs {
    #[cfg_attr(
        feature = "serve",
        doc = "Try the rules of this directory, file or hash in Redis, as `tollgate serve` would decide by them"
    )]
    #[cfg_attr(
        not(feature = "serve"),
        doc = "Try the rules of this directory or file, as `tollgate serve` would decide by them"
    )]
    #[arg(long, group = "limits", requires = "descriptors", value_name = "DIR")]
    #[arg(conflicts_with_all = ["key", "suggest"])]
    pub(crate) rules: Option<PathBuf>,

    /// With --rules: compare with these rules; exit code 1 if anything changes
    #[arg(long, requires = "rules", value_name = "NEW")]
    #[arg(conflicts_with_all = NOT_RULES, conflicts_with_all = ["html", "svg"])]
    pub(crate) diff: Option<PathBuf>,

    /// With --rules: what a line asks about, such as "remote_address={ip}"; repeat for several at once
    ///
    /// Entries are key=value, separated by commas, as in "user={user}, path={path}". In a value, {ip}, {user},
    /// {method}, {path}, {referer}, {user-agent} or {a field of JSON lines} stands for the line's text in that field; a
    /// literal comma or brace is written twice. A value that is the name of a field without braces, as in
    /// remote_address=ip, is refused; a value in double quotes is taken literally. If a field of a descriptor is empty
    /// (`-`) in a line, that line has no such descriptor, as in Envoy.
    #[arg(long = "descriptor", requires = "rules", value_name = "ENTRIES")]
    #[arg(conflicts_with_all = NOT_RULES)]
    pub(crate) descriptors: Vec<Mapping>,

    /// With --rules: whose rules apply [default: the only domain that there is]
    #[arg(long, requires = "rules", value_name = "NAME")]
    #[arg(conflicts_with_all = NOT_RULES)]
    pub(crate) domain: Option<String>,

    /// With --rules: decide each descriptor on its own, as envoyproxy/ratelimit does
    #[arg(long, requires = "rules")]
    #[arg(conflicts_with_all = NOT_RULES)]
    pub(crate) compat: bool,

    /// With --rules: allow several files to hold parts of one domain
    #[arg(long, requires = "rules")]
    #[arg(conflicts_with_all = NOT_RULES)]
    pub(crate) merge_domains: bool,

    /// With --rules: clients at a time that a rule is built for where its file does not say [default: 65536, or less
    /// where there are many rules]
    #[arg(long, requires = "rules", value_name = "CLIENTS")]
    #[arg(conflicts_with_all = NOT_RULES)]
    pub(crate) capacity: Option<usize>,
}

impl RuleArgs {
    /// Returns the settings of all rules. They set no limit on the size of descriptors, because the size of a line's
    /// values has no limit either.
    pub(super) fn settings(&self) -> RuleSettings {
        RuleSettings {
            compat: self.compat,
            merge_domains: self.merge_domains,
            default_capacity: self.capacity,
            override_capacity: 0,
            max_descriptors: usize::MAX,
            max_key_bytes: usize::MAX,
            ..RuleSettings::default()
        }
    }
}
