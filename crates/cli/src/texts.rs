//! Reads the rule texts that a command line names.

use std::path::Path;

use tollgate_rules::RuleText;

use crate::failure::Failure;

/// Reads all rule texts of a directory, of a file, or of a hash in Redis. It is an error if there are no texts.
#[cfg(feature = "serve")]
pub(crate) fn texts(name: &Path) -> Result<Vec<RuleText>, Failure> {
    use tollgate_service::RulesFrom;

    let from = RulesFrom::named(name).map_err(Failure::Address)?;
    let texts = from.read().map_err(|error| Failure::Rules(vec![error]))?;
    match from {
        _ if !texts.is_empty() => Ok(texts),
        RulesFrom::Files(path) => Err(Failure::NoRules { path: path.display().to_string() }),
        from => Err(Failure::NoTexts { address: from.to_string() }),
    }
}

/// Reads all rule texts of a directory or of a file. Fails if there is none, and for a hash in Redis, which this build
/// cannot read.
#[cfg(not(feature = "serve"))]
pub(crate) fn texts(name: &Path) -> Result<Vec<RuleText>, Failure> {
    use tollgate_rules::{FileSource, RuleSource};

    if name.to_str().is_some_and(|name| name.contains("://")) {
        return Err(Failure::WithoutService { what: "rules in Redis" });
    }
    let texts = FileSource::new(name).read().map_err(|error| Failure::Rules(vec![error]))?;
    if texts.is_empty() {
        return Err(Failure::NoRules { path: name.display().to_string() });
    }
    Ok(texts)
}
