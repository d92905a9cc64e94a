//! [`Manifest`]: an object of Kubernetes where a rule file should be.

use std::fmt;

/// An object of Kubernetes in the place of a rule file.
///
/// ```
/// use tollgate_rules::Manifest;
/// let manifest = Manifest { kind: "Secret".to_owned(), file: None };
/// assert!(manifest.to_string().starts_with("config error, this is a Secret of Kubernetes, not a rule file"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its kind, such as `ConfigMap`.
    pub kind: String,
    /// The first of the files that it holds.
    pub file: Option<String>,
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, file } = self;
        write!(f, "config error, this is a {kind} of Kubernetes, ")?;
        match file {
            Some(file) => write!(
                f,
                "which holds the rule file {file}; give that file, as from yq '.data[\"{file}\"]', or the directory \
                 where the {kind} is mounted"
            ),
            None => f.write_str("not a rule file; give a file that begins with domain:"),
        }
    }
}
