//! `--print-config`: all settings as a file that `--config` reads, each with its value, its source and its names.

use std::io::{self, Write};

use clap::Arg;
use tollgate_service::Options;

use super::environment::Environment;
use super::given::{Given, command, is_list, settings, variable};
use super::setting::SettingSource;

const HEAD: &str = "\
# The settings of tollgate serve, in a file that --config reads. Each line ends with where its value comes from, with its
# flag and with its variable. A flag beats a variable, that this file, that the variables of envoyproxy/ratelimit, and
# these the default.
";

/// The settings that `--print-config` prints.
pub(super) struct PrintedSource<'a> {
    pub(super) given: &'a Given,
    pub(super) options: &'a Options,
    pub(super) environment: &'a Environment,
}

impl PrintedSource<'_> {
    /// Prints a line for each setting, below its help, and a heading above settings that belong together. After the
    /// settings it prints the warnings that the log would contain, and the variables of envoyproxy/ratelimit that are
    /// honoured, since some of these have no setting of their own.
    pub(super) fn print(&self, warnings: &[String], mut out: impl Write) -> io::Result<()> {
        let Self { given, options, environment } = self;
        write!(out, "{HEAD}")?;
        let mut heading = None;
        for (name, arg) in settings(&command()) {
            if arg.get_help_heading() != heading {
                heading = arg.get_help_heading();
                writeln!(out, "\n## {}", heading.unwrap_or_default())?;
            }
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let usual = arg.get_default_values().iter().map(|text| text.to_string_lossy());
            let usual: String = usual.map(|text| format!(" [default: {text}]")).collect();
            let (line, source) = (self.assigned(name, arg), given.source(name));
            writeln!(out, "\n# {help}{usual}\n{line}  # {source}; --{name}, {}", variable(name))?;
        }
        let settings = &options.settings;
        writeln!(out, "\n# What cannot be set: max-descriptors {}", settings.max_descriptors)?;
        let (entries, bytes) = (settings.max_entries, settings.max_key_bytes);
        writeln!(out, "# max-entries {entries}, max-key-bytes {bytes}")?;
        writeln!(out, "# settle {:?}, grace {:?}", options.timing.settle, options.grace)?;
        for (n, warning) in warnings.iter().enumerate() {
            let head = if n == 0 { "\n# What the log warns of at the start:\n" } else { "" };
            // In a comment quotes need no backslash.
            let warning = warning.escape_debug().to_string().replace("\\'", "'");
            writeln!(out, "{head}# {warning}")?;
        }
        for (n, (name, value)) in environment.heeded().enumerate() {
            let head = "\n# The variables of envoyproxy/ratelimit that are set and honoured:\n";
            let head = if n == 0 { head } else { "" };
            let value = value
                .map_or_else(|| "(set, and not shown)".into(), |v| v.escape_debug().to_string());
            writeln!(out, "{head}# {name}={value}")?;
        }
        out.flush()
    }

    /// Returns the line of a setting as the file has it. It is a comment if the setting has no value, is secret, or has
    /// no effect because another setting is missing.
    fn assigned(&self, name: &str, arg: &Arg) -> String {
        let texts = self.given.texts(name, arg);
        if texts.iter().any(|text| is_secret(kind(arg), text)) {
            return format!("# {name} = (set, and not shown)");
        }
        let texts: Vec<_> = texts.into_iter().map(|text| self.shown(name, arg, text)).collect();
        let value = match (is_list(arg), &texts[..]) {
            (true, texts) => format!("[{}]", texts.join(", ")),
            (false, [text, ..]) => text.clone(),
            (false, []) => {
                return format!("# {name} = {}", kind(arg));
            }
        };
        let is_idle = self.given.source(name) == SettingSource::Default
            && self.given.missing(name).next().is_some();
        if is_idle { format!("# {name} = {value}") } else { format!("{name} = {value}") }
    }

    fn shown(&self, name: &str, arg: &Arg, text: String) -> String {
        if name == "rules" {
            // This is the address without user and password.
            return quoted(&self.options.rules.to_string());
        }
        let words = arg.get_possible_values();
        let word = words.iter().find(|word| word.matches(&text, arg.is_ignore_case_set()));
        let text = word.map_or(text, |word| word.get_name().to_owned());
        if is_bare(&text) { text } else { quoted(&text) }
    }
}

/// Returns the kind of a setting's values: the word behind its flag in `--help`.
fn kind(arg: &Arg) -> &str {
    arg.get_value_names().and_then(<[_]>::first).map(AsRef::as_ref).unwrap_or_default()
}

/// Returns whether a value of this kind may contain a password. A URL may have a password before an @, or in its
/// arguments.
fn is_secret(kind: &str, text: &str) -> bool {
    match kind {
        "PASSWORD" => true,
        "URL" => text.contains(['@', '?']),
        _ => false,
    }
}

/// Returns whether a text needs no quotes in the file, because it is true, false, or a number in its usual form.
fn is_bare(text: &str) -> bool {
    let is_whole = text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
    let is_share = text.contains('.') && text.parse::<f64>().is_ok_and(|n| n.to_string() == text);
    is_whole || is_share || text.parse::<bool>().is_ok()
}

/// Writes a text as a basic string of TOML. Every string of JSON is such a string.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}
