//! [`Given`]: the settings of `tollgate serve`. They come from flags, from Tollgate's own variables, from a file, and
//! from the layers below these (layers.rs).
//!
//! All names of a setting follow from its flag: `--http-socket`, the variable `TOLLGATE_HTTP_SOCKET`, and the key
//! `http-socket` of the file. So there is no list of the names: each flag that [`ServeArgs`] declares is looked up in
//! the flags, the variables and the file. The texts of all sources are put together first. Then clap, which knows the
//! defaults, parses all of them at once.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::args::{ServeArgs, TRUTH};
use super::environment::Environment;
use super::setting::{BadValue, SettingError, SettingSource};
use super::settings_file::{FileError, FileProblem, SettingsFile};
use super::values::{Layer, Value, Values};
use crate::serve_redis;

/// The beginning of the names of our own variables.
const PREFIX: &str = "TOLLGATE_";

/// The flag that names the file. It is the only flag with a value that has no key in the file.
const FILE: &str = "config";

/// Pairs of settings of which the first has no effect without the second. If only the first is given, it is refused; if
/// it has its default, it is printed as a comment.
const NEEDS: [(&str, &str); 14] = [
    ("http-tls-cert", "http-tls-key"),
    ("http-tls-key", "http-tls-cert"),
    ("http-tls-client-ca", "http-tls-cert"),
    ("grpc-tls-cert", "grpc-tls-key"),
    ("grpc-tls-key", "grpc-tls-cert"),
    ("grpc-tls-client-ca", "grpc-tls-cert"),
    ("grpc-max-age-grace", "grpc-max-age"),
    ("resp-password", "resp"),
    ("state-every", "state"),
    ("otlp-protocol", "otlp"),
    ("trace-sample", "otlp"),
    ("statsd-every", "statsd"),
    ("statsd-style", "statsd"),
    ("statsd-tags", "statsd"),
];

/// The values of all settings.
pub(super) struct Given {
    /// The arguments as if the command line had all of the values.
    pub(super) args: ServeArgs,
    /// The file that was read.
    pub(super) file: Option<PathBuf>,
    values: Values,
}

/// Returns the arguments of `serve`, as a command of their own.
pub(super) fn command() -> Command {
    with_truths(ServeArgs::augment_args(Command::new("tollgate serve")).no_binary_name(true))
}

/// Lets each setting that is on or off take a value behind `=`. Without a value it is on, and without the flag it is off.
fn with_truths(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_value_names() {
        Some([word]) if word == TRUTH => arg
            .action(ArgAction::Set)
            .default_value("false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        _ => arg,
    })
}

/// Returns the flags that take a value, and their names.
pub(super) fn settings(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let named = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    named.filter(|(name, arg)| *name != FILE && arg.get_action().takes_values())
}

/// Returns the default of a flag, as text.
pub(super) fn usual_text(name: &str) -> String {
    let command = command();
    let arg = settings(&command).find(|(known, _)| *known == name).map(|(_, arg)| arg);
    let texts = arg.map(Arg::get_default_values).unwrap_or_default();
    texts.first().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns whether a flag may be repeated.
pub(super) fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Returns the variable of a flag.
pub(super) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// Adds to the help texts the names that each setting has besides its flag.
pub(crate) fn with_names(command: Command) -> Command {
    with_truths(command).mut_args(|arg| {
        let Some(name) = arg.get_long().filter(|_| arg.get_action().takes_values()) else {
            return arg;
        };
        let key = if name == FILE { String::new() } else { format!(", key {name}") };
        let names = format!("[variable {}{key}]", variable(name));
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        arg.long_help(format!("{}\n\n{names}", help.unwrap_or_default()))
    })
}

impl Given {
    /// Finds the value of each flag, and parses the values. `path` is the value of `--config`.
    pub(super) fn resolve(
        flags: &ArgMatches,
        path: Option<&Path>,
        environment: &Environment,
        layers: &[Layer],
    ) -> Result<Self, SettingError> {
        let command = command();
        let of_variable = || environment.own(&variable(FILE)).map(PathBuf::from);
        let path = path.map(Path::to_owned).or_else(of_variable);
        let file = path.as_deref().map(SettingsFile::read).transpose()?;
        if let Some(file) = &file {
            refuse_unknown_keys(file, &command)?;
        }
        let mut values = Values::default();
        for (name, arg) in settings(&command) {
            let value = of_flag(arg, name, flags).or_else(|| of_own_variable(name, environment));
            let value = match (value, &file) {
                (None, Some(file)) => of_file(arg, name, file)?,
                (value, _) => value,
            };
            values.0.extend(value.map(|value| (name.to_owned(), value)));
        }
        layers.iter().try_for_each(|layer| layer(&mut values, environment))?;
        let words = values.0.iter().flat_map(|(name, value): (&String, &Value)| {
            value.texts.iter().map(move |text| {
                let mut word = OsString::from(format!("--{name}="));
                word.push(text);
                word
            })
        });
        let parsed = command.clone().try_get_matches_from(words);
        let args = parsed.and_then(|parsed| ServeArgs::from_arg_matches(&parsed));
        match args {
            Ok(args) => Ok(Self { args, file: path, values }),
            Err(error) => Err(SettingError::Value(Box::new(bad_value(&error, &command, &values)))),
        }
    }

    /// Returns the source of a setting's value.
    pub(super) fn source(&self, name: &str) -> SettingSource {
        debug_assert!(settings(&command()).any(|(known, _)| known == name), "{name}");
        self.values.source(name)
    }

    /// Returns the values of a setting, each as it would be written behind its flag. A setting without a value has its
    /// default.
    pub(super) fn texts(&self, name: &str, arg: &Arg) -> Vec<String> {
        let texts = self.values.0.get(name).map(|value| &value.texts[..]);
        let texts = texts.into_iter().flatten().map(|text| text.to_string_lossy().into_owned());
        let texts: Vec<String> = match arg.get_value_delimiter() {
            Some(mark) => texts.flat_map(|text| split(&text, mark)).collect(),
            None => texts.collect(),
        };
        let usual = || arg.get_default_values().iter().map(|text| text.to_string_lossy().into());
        if self.values.has(name) { texts } else { usual().collect() }
    }

    /// Returns the settings that this one needs and that are not given.
    pub(super) fn missing(&self, name: &str) -> impl Iterator<Item = &'static str> {
        NEEDS
            .into_iter()
            .chain(serve_redis::NEEDS)
            .filter(move |(found, needed)| *found == name && !self.values.has(needed))
            .map(|(_, needed)| needed)
    }

    /// Refuses a setting that is given without another that it needs.
    pub(super) fn refuse_halves(&self) -> Result<(), SettingError> {
        for (name, value) in &self.values.0 {
            if value.source != SettingSource::Default
                && let Some(missing) = self.missing(name).next()
            {
                return Err(SettingError::Half {
                    found: self.name_of(name),
                    missing: format!("--{missing}"),
                });
            }
        }
        Ok(())
    }

    /// Returns the name by which the user has given a setting.
    fn name_of(&self, name: &str) -> String {
        match self.source(name) {
            SettingSource::Variable(variable) => variable,
            SettingSource::Envoyproxy(variable) => variable.to_owned(),
            SettingSource::Line { .. } => format!("{name} ({})", self.source(name)),
            SettingSource::Default | SettingSource::Flag(_) => format!("--{name}"),
        }
    }

    /// Returns the settings that have other values in `other`. Only values from the file are compared, because flags
    /// and variables cannot change while the process runs.
    pub(super) fn different<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let of_file = |given: &'a Self, name: &str| {
            let value = given.values.0.get(name)?;
            matches!(value.source, SettingSource::Line { .. }).then_some(&value.texts)
        };
        let names = self.values.0.keys().chain(other.values.0.keys());
        let differs = |name: &&String| of_file(self, name) != of_file(other, name);
        let mut names: Vec<_> = names.filter(differs).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Splits a text with several values at the separators between them.
fn split(text: &str, mark: char) -> Vec<String> {
    text.split(mark).map(str::to_owned).collect()
}

fn of_flag(arg: &Arg, name: &str, flags: &ArgMatches) -> Option<Value> {
    let id = arg.get_id().as_str();
    if flags.value_source(id) != Some(ValueSource::CommandLine) {
        return None;
    }
    let texts = flags.get_raw(id)?.map(ToOwned::to_owned).collect();
    Some(Value { texts, source: SettingSource::Flag(format!("--{name}")) })
}

fn of_own_variable(name: &str, environment: &Environment) -> Option<Value> {
    let variable = variable(name);
    let texts = vec![environment.own(&variable)?.into()];
    Some(Value { texts, source: SettingSource::Variable(variable) })
}

fn of_file(arg: &Arg, name: &str, file: &SettingsFile) -> Result<Option<Value>, FileError> {
    let Some(entry) = file.entries.get(name) else { return Ok(None) };
    if entry.is_list && !is_list(arg) {
        return Err(file.refused(entry.line, FileProblem::List { key: name.to_owned() }));
    }
    let source = SettingSource::Line { file: file.path.clone(), line: entry.line };
    Ok(Some(Value { texts: entry.texts.iter().map(OsString::from).collect(), source }))
}

fn refuse_unknown_keys(file: &SettingsFile, command: &Command) -> Result<(), FileError> {
    let is_known = |key: &str| settings(command).any(|(name, _)| name == key);
    let unknown = file.entries.iter().filter(|(key, _)| !is_known(key));
    match unknown.min_by_key(|(_, entry)| entry.line) {
        None => Ok(()),
        Some((key, entry)) => {
            let problem = FileProblem::UnknownKey { key: key.clone(), meant: meant(key, command) };
            Err(file.refused(entry.line, problem))
        }
    }
}

/// Returns the setting that an unknown name may mean: the flag that clap would suggest for it.
fn meant(name: &str, command: &Command) -> Option<String> {
    let refused = command.clone().try_get_matches_from([format!("--{name}")]).err()?;
    let Some(ContextValue::String(flag)) = refused.get(ContextKind::SuggestedArg) else {
        return None;
    };
    let flag = flag.strip_prefix("--")?;
    settings(command).map(|(name, _)| name).find(|name| *name == flag).map(str::to_owned)
}

/// Returns a sentence for each variable whose name begins like that of a setting, but belongs to no setting.
pub(super) fn unknown_variables(environment: &Environment) -> Vec<String> {
    let command = command();
    let is_known = |found: &str| {
        found == variable(FILE) || settings(&command).any(|(name, _)| found == variable(name))
    };
    let unknown = environment.names().filter_map(|name| Some((name, name.strip_prefix(PREFIX)?)));
    let unknown =
        unknown.filter(|(name, rest)| !is_known(name) && !is_of_a_kubernetes_service(rest));
    let told = unknown.map(|(name, rest)| {
        let flag = rest.to_ascii_lowercase().replace('_', "-");
        let meant = meant(&flag, &command);
        let meant =
            meant.map_or_else(String::new, |name| format!("; did you mean {}?", variable(&name)));
        format!("{name} is set and is no setting{meant}")
    });
    told.collect()
}

/// Returns whether Kubernetes sets a variable for a Service. Each pod has variables for the Services of its namespace;
/// for a Service named `tollgate` they are `TOLLGATE_SERVICE_HOST`, `TOLLGATE_PORT` and so on. A test ensures that no
/// setting has such a variable.
fn is_of_a_kubernetes_service(rest: &str) -> bool {
    rest.ends_with("PORT") || rest.contains("PORT_") || rest.ends_with("SERVICE_HOST")
}

/// Returns the value that clap has refused, and the reason.
fn bad_value(error: &clap::Error, command: &Command, values: &Values) -> BadValue {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    // The text is as in `--poll <SECONDS>` or `--shadow[=<TRUTH>]`.
    let flag = text(ContextKind::InvalidArg);
    let name = flag.trim_start_matches('-').split([' ', '=', '[']).next().unwrap_or_default();
    let arg = settings(command).find(|(known, _)| *known == name).map(|(_, arg)| arg);
    let accepted = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(words)) if !words.is_empty() => words.join(" or "),
        _ => {
            let help = arg.and_then(Arg::get_help).map(ToString::to_string);
            format!("what --{name} takes: {}", help.unwrap_or_default())
        }
    };
    BadValue {
        name: name.to_owned(),
        source: values.source(name),
        found: text(ContextKind::InvalidValue),
        reason: error.source().map(ToString::to_string),
        accepted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_setting_has_a_name_that_kubernetes_sets() {
        let command = command();
        for (name, _) in settings(&command) {
            let variable = variable(name);
            let rest = variable.strip_prefix(PREFIX).expect("ours");
            assert!(!is_of_a_kubernetes_service(rest), "{variable}");
        }
        for of_kubernetes in [
            "TOLLGATE_PORT",
            "TOLLGATE_SERVICE_HOST",
            "TOLLGATE_SERVICE_PORT",
            "TOLLGATE_SERVICE_PORT_GRPC",
            "TOLLGATE_PORT_8080_TCP_ADDR",
            "TOLLGATE_CANARY_PORT_8080_TCP",
        ] {
            let environment = Environment::of(&[(of_kubernetes, "tcp://10.0.0.1:8080")]);
            assert_eq!(unknown_variables(&environment), [""; 0]);
        }
    }

    #[test]
    fn a_variable_that_is_near_a_setting_is_told_with_it() {
        let environment = [("TOLLGATE_POL", "5"), ("TOLLGATE_ZZZZZ", "5"), ("TOLLGATE_POLL", "5")];
        assert_eq!(
            unknown_variables(&Environment::of(&environment)),
            [
                "TOLLGATE_POL is set and is no setting; did you mean TOLLGATE_POLL?",
                "TOLLGATE_ZZZZZ is set and is no setting",
            ]
        );
    }
}
