//! Logs what SIGHUP makes the service read, and each reading of rules.

use clap::ArgMatches;
use tollgate_rules::{Refresh, RuleSet};
use tollgate_service::{Options, RulesFrom};

use super::environment::Environment;
use super::given::Given;
use super::layers::LAYERS;
use super::options::options;

/// The settings as they were when the service started.
pub(super) struct AtStart {
    pub(super) flags: ArgMatches,
    pub(super) environment: Environment,
    pub(super) given: Given,
    pub(super) options: Options,
}

impl AtStart {
    /// Logs what SIGHUP makes the service read, and whether the settings have changed: changed settings need a restart.
    pub(super) fn tell_reload(&self) {
        let rules = &self.options.rules;
        let rules = match rules {
            RulesFrom::Xds(_) => {
                format!("what {rules} sent last, which sends changes without being asked")
            }
            _ => format!("rules of {rules}"),
        };
        let tls = [&self.options.http_tls, &self.options.grpc_tls];
        let certificates = match tls.into_iter().flatten().count() {
            0 => "no certificates",
            1 => "1 certificate",
            _ => "2 certificates",
        };
        tracing::info!("SIGHUP: reading again {rules}; {certificates}");
        let Some(file) = &self.given.file else { return };
        let file = file.display();
        let path = self.given.file.as_deref();
        let now = Given::resolve(&self.flags, path, &self.environment, &LAYERS).and_then(|given| {
            options(&given, &self.environment)?;
            Ok(given)
        });
        match now {
            Err(error) => {
                tracing::error!("settings refused, those of the start stay in force: {error}");
            }
            Ok(now) => match self.given.different(&now)[..] {
                [] => tracing::info!("settings unchanged: {file}"),
                ref names => {
                    let names = names.join(", ");
                    tracing::warn!(
                        "settings changed in {file} and not in force before a restart: {names}"
                    );
                }
            },
        }
    }
}

/// Logs each reading of the rules.
pub(super) struct Teller {
    /// Whether denied hits are charged.
    compat: bool,
    /// The number of rules in force, in words, as in `6 in 1 domain`; `None` before the first load.
    in_force: Option<String>,
    /// The reason why the newest rules are not in force.
    refused: Option<String>,
}

impl Teller {
    pub(super) fn new(compat: bool) -> Self {
        Self { compat, in_force: None, refused: None }
    }

    pub(super) fn tell(&mut self, refresh: &Refresh) {
        match refresh {
            Refresh::Loaded(rules) => {
                self.refused = None;
                let amount = amount(rules);
                tell_of(rules, &amount);
                if !self.compat {
                    tell_of_costs(rules);
                }
                self.in_force = Some(amount);
            }
            Refresh::Refused(errors) => {
                errors.iter().for_each(|error| tracing::error!("rules refused: {error}"));
                self.refused = errors.first().map(ToString::to_string);
            }
            Refresh::Unwatched(error) => tracing::warn!("{error}"),
            Refresh::Unchanged => match (&self.refused, &self.in_force) {
                (Some(error), Some(amount)) => {
                    tracing::error!(
                        "rules unchanged and still refused, {amount} stay in force: {error}"
                    );
                }
                (Some(error), None) => {
                    tracing::error!("rules unchanged and still refused, there are none: {error}");
                }
                (None, Some(amount)) => tracing::info!("rules unchanged: {amount}"),
                (None, None) => {}
            },
            _ => {}
        }
    }
}

fn amount(rules: &RuleSet) -> String {
    let (count, domains) = (rules.rules().len(), rules.domains().count());
    let s = if domains == 1 { "" } else { "s" };
    format!("{count} in {domains} domain{s}")
}

/// Logs the number of rules that charge nothing for a denied cost. Such a rule does not keep a budget if its costs come
/// after the response. The service cannot know when costs come, unless the rule or `--compat` says it.
fn tell_of_costs(rules: &RuleSet) {
    const SAY: &str = "if costs come after a response, as the tokens of a language model do, say usage: true there, \
                       or start with --compat; usage: false says that none do";
    let [quota, others] = rules.without_usage();
    if quota > 0 {
        tracing::warn!(
            "rules with quota_mode that charge nothing for a denied cost: {quota}; {SAY}"
        );
    }
    if others > 0 {
        tracing::info!(
            "rules without usage that charge nothing for a denied cost: {others}; {SAY}"
        );
    }
}

/// Logs the result of a load: the rules in force, and the counts that were kept and lost.
fn tell_of(rules: &RuleSet, amount: &str) {
    if rules.rules().is_empty() {
        tracing::warn!("rules loaded: {amount}; nothing is limited");
    } else {
        tracing::info!("rules loaded: {amount}");
    }
    for domain in rules.kept_domains() {
        let domain = domain.escape_debug();
        tracing::warn!(
            "domain {domain} has no rules any more; its last good ones stay in force (to end them, write a \
             rule there that is unlimited, or start with --allow-empty)"
        );
    }
    for domain in rules.dropped_domains() {
        let domain = domain.escape_debug();
        tracing::warn!(
            "domain {domain} has no rules any more, and its last good ones are given up: other rules need their memory \
             (--table-bytes)"
        );
    }
    for change in rules.changes() {
        if change.is_kept() {
            tracing::info!("limit changed: {change}");
        } else {
            tracing::warn!("limit changed: {change}");
        }
    }
    if rules.lingering() > 0 {
        let s = if rules.lingering() == 1 { "" } else { "s" };
        tracing::info!(
            "{} limit{s} gone; what was spent is kept for a while, in case of a return",
            rules.lingering()
        );
    }
    rules
        .hidden()
        .iter()
        .for_each(|entry| tracing::warn!("rules loaded with an entry in vain: {entry}"));
    rules
        .lowered()
        .iter()
        .for_each(|limit| tracing::warn!("rules loaded with a limit that is lowered: {limit}"));
    rules
        .narrowed()
        .iter()
        .for_each(|rules| tracing::warn!("rules loaded with small tables: {rules}"));
    rules.forgotten().iter().for_each(|limit| tracing::warn!("limit forgotten: {limit}"));
}
