//! [`Setting`]: a value and where it comes from; and why a value is refused.

use std::fmt;

use tollgate_service::RulesAddressError;

use super::environment::BadVariable;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingSource {
    Default,
    Flag(&'static str),
    Variable(&'static str),
    /// Combined from these, and defaults.
    Variables(&'static str),
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Flag(name) | Self::Variable(name) | Self::Variables(name) => name,
        })
    }
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting<T> {
    pub(super) value: T,
    pub(super) source: SettingSource,
}

impl<T> Setting<T> {
    /// Another value from the same source.
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: change(self.value), source: self.source }
    }
}

/// Why the service cannot be started with these settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingError {
    Variable(BadVariable),
    /// No setting says where rules are.
    NoRules,
    /// The address of the rules is one of neither a Redis nor a control plane.
    Address(RulesAddressError),
    /// A setting that has no meaning without another: a certificate without a key.
    Half {
        found: &'static str,
        missing: &'static str,
    },
}

impl From<BadVariable> for SettingError {
    fn from(error: BadVariable) -> Self {
        Self::Variable(error)
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(error) => error.fmt(f),
            Self::NoRules => f.write_str(
                "no setting says where rules are; give --rules DIR, or set RUNTIME_ROOT or \
                 RUNTIME_SUBDIRECTORY in the environment",
            ),
            Self::Address(error) => error.fmt(f),
            Self::Half { found, missing } => {
                write!(f, "{found} is given without {missing}; give both")
            }
        }
    }
}

/// A flag, else a variable, else the default.
pub(super) fn first<T>(
    flag: (Option<T>, &'static str),
    variable: (Option<T>, &'static str),
    default: T,
) -> Setting<T> {
    let flag = flag.0.map(|value| Setting { value, source: SettingSource::Flag(flag.1) });
    let variable =
        variable.0.map(|value| Setting { value, source: SettingSource::Variable(variable.1) });
    flag.or(variable).unwrap_or(Setting { value: default, source: SettingSource::Default })
}

pub(super) fn optional<T>(
    flag: (Option<T>, &'static str),
    variable: (Option<T>, &'static str),
) -> Setting<Option<T>> {
    first((flag.0.map(Some), flag.1), (variable.0.map(Some), variable.1), None)
}

/// A setting that has a flag and no variable.
pub(super) fn of_flag<T>(flag: (Option<T>, &'static str), default: T) -> Setting<T> {
    first(flag, (None, ""), default)
}
