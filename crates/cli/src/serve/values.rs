//! [`Values`]: the texts of settings before they are parsed, each with its source.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::environment::Environment;
use super::setting::{SettingError, SettingSource};

/// A function that gives values to settings that have none.
pub(super) type Layer = fn(&mut Values, &Environment) -> Result<(), SettingError>;

/// The value or the values of a setting, as text.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) texts: Vec<OsString>,
    pub(super) source: SettingSource,
}

/// The settings that have a value so far, by their names. A setting that has none takes the default of its flag.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(pub(super) BTreeMap<String, Value>);

impl Values {
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the first text of a setting.
    pub(super) fn text(&self, name: &str) -> Option<&OsStr> {
        self.0.get(name)?.texts.first().map(OsString::as_os_str)
    }

    pub(super) fn source(&self, name: &str) -> SettingSource {
        self.0.get(name).map_or(SettingSource::Default, |value| value.source.clone())
    }

    /// Gives a setting a value, unless it has one.
    pub(super) fn put(&mut self, name: &str, text: impl Into<OsString>, source: SettingSource) {
        let value = || Value { texts: vec![text.into()], source };
        self.0.entry(name.to_owned()).or_insert_with(value);
    }

    /// Gives a setting the value that a variable of envoyproxy/ratelimit asks for, unless it has one.
    pub(super) fn put_of(&mut self, variable: &'static str, name: &str, text: impl Into<OsString>) {
        self.put(name, text, SettingSource::Envoyproxy(variable));
    }
}
