//! [`RulesFrom`]: the source of rules: files, a hash in Redis, or a control plane.

mod address;
mod hash;
mod push;
mod xds;

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_rules::{Changed, FileSource, RuleError, RuleSource, RuleText};

use crate::address_error::AddressError;

pub use address::RedisRules;
use hash::RedisSource;
pub use push::Pushed;
use xds::XdsSource;
pub use xds::{XdsRules, XdsTls};

/// The source of rules.
///
/// ```
/// use tollgate_service::RulesFrom;
/// let files = RulesFrom::named("examples/rules")?;
/// assert_eq!(files, RulesFrom::Files("examples/rules".into()));
/// let redis = RulesFrom::named("redis://reader:secret@127.0.0.1/2#shop:rules")?;
/// assert_eq!(redis.to_string(), "redis://127.0.0.1:6379/2#shop:rules");
/// # Ok::<(), tollgate_service::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum RulesFrom {
    /// A directory of rule files, or one file.
    Files(PathBuf),
    /// A hash of rule texts in Redis.
    Redis(Box<RedisRules>),
    /// A control plane that speaks xDS. It works only in a running service: [`read`](RulesFrom::read) returns an error.
    Xds(Box<XdsRules>),
}

impl RulesFrom {
    /// The source that a command line names. A text that begins like an address of [Redis](RedisRules) or of a [control
    /// plane](XdsRules) is read as such an address; any other text is a path.
    ///
    /// # Errors
    /// The address is not valid. A missing hash or file is found when it is read.
    ///
    /// ```
    /// use tollgate_service::RulesFrom;
    /// assert!(RulesFrom::named("redis://127.0.0.1/0#").is_err());
    /// ```
    pub fn named(name: impl Into<PathBuf>) -> Result<Self, AddressError> {
        let path = name.into();
        match path.to_str() {
            Some(text) if RedisRules::is_address(text) => {
                text.parse().map(Box::new).map(Self::Redis)
            }
            Some(text) if XdsRules::is_address(text) => text.parse().map(Box::new).map(Self::Xds),
            _ => Ok(Self::Files(path)),
        }
    }

    /// Reads all rule texts as they are now.
    ///
    /// # Errors
    /// The reason why the rules cannot be read.
    ///
    /// ```
    /// use tollgate_service::RulesFrom;
    /// let file = std::env::temp_dir().join(format!("tollgate-rules-read-{}.yaml", std::process::id()));
    /// std::fs::write(&file, "domain: shop")?;
    /// assert_eq!(RulesFrom::named(&file)?.read()?.len(), 1);
    /// # std::fs::remove_file(file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&self) -> Result<Vec<RuleText>, RuleError> {
        self.clone().source().read()
    }

    /// Returns the reader of these rules.
    pub(crate) fn source(self) -> RulesSource {
        match self {
            Self::Files(path) => RulesSource::Files(FileSource::new(path)),
            Self::Redis(rules) => RulesSource::Redis(Box::new(RedisSource::new(*rules))),
            Self::Xds(rules) => RulesSource::Xds(Box::new(XdsSource::new(*rules))),
        }
    }
}

impl fmt::Display for RulesFrom {
    /// A path, or an address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(path) => path.display().fmt(f),
            Self::Redis(rules) => rules.fmt(f),
            Self::Xds(rules) => rules.fmt(f),
        }
    }
}

impl From<PathBuf> for RulesFrom {
    fn from(path: PathBuf) -> Self {
        Self::Files(path)
    }
}

impl From<&PathBuf> for RulesFrom {
    fn from(path: &PathBuf) -> Self {
        Self::Files(path.clone())
    }
}

impl From<&Path> for RulesFrom {
    fn from(path: &Path) -> Self {
        Self::Files(path.to_owned())
    }
}

impl From<&str> for RulesFrom {
    /// The text is always a path, even if it has the form of an address.
    fn from(path: &str) -> Self {
        Self::Files(path.into())
    }
}

impl From<RedisRules> for RulesFrom {
    fn from(rules: RedisRules) -> Self {
        Self::Redis(Box::new(rules))
    }
}

impl From<XdsRules> for RulesFrom {
    fn from(rules: XdsRules) -> Self {
        Self::Xds(Box::new(rules))
    }
}

/// A reader of one of the kinds of sources.
#[derive(Debug)]
pub(crate) enum RulesSource {
    Files(FileSource),
    Redis(Box<RedisSource>),
    Xds(Box<XdsSource>),
}

impl RuleSource for RulesSource {
    fn read(&mut self) -> Result<Vec<RuleText>, RuleError> {
        match self {
            Self::Files(source) => source.read(),
            Self::Redis(source) => source.read(),
            Self::Xds(source) => source.read(),
        }
    }

    fn loaded(&mut self, errors: &[RuleError]) {
        match self {
            Self::Files(source) => source.loaded(errors),
            Self::Redis(source) => source.loaded(errors),
            Self::Xds(source) => source.loaded(errors),
        }
    }

    fn watch(&mut self, changed: Changed) -> Result<(), RuleError> {
        match self {
            Self::Files(source) => source.watch(changed),
            Self::Redis(source) => source.watch(changed),
            Self::Xds(source) => source.watch(changed),
        }
    }
}
