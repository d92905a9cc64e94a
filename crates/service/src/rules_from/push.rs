//! [`RedisRules::push`]: writes rule texts into a hash, all at once.

use std::io;
use std::path::Path;

use tollgate_rules::RuleText;

use super::address::RedisRules;
use super::hash::{MAX_TEXTS, VERSION};

const PUSH: &str = include_str!("push.lua");

/// The result of a push.
///
/// ```no_run
/// use tollgate_rules::RuleText;
/// use tollgate_service::RedisRules;
/// let rules: RedisRules = "redis://127.0.0.1/0#shop:rules".parse()?;
/// let pushed = rules.push(&[RuleText::new("shop.yaml", "domain: shop")])?;
/// println!("version {}", pushed.version);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {
    /// The new version of the hash. It is computed from the texts, so the same texts have the same version.
    pub version: String,
    /// Whether the version differs from the previous version.
    pub is_new: bool,
}

impl RedisRules {
    /// Replaces the whole content of the hash by these texts, and by a version computed from them, in one transaction.
    /// The field of a text is the last part of its name. The rules are not validated. To validate them, load them
    /// before the push, as `tollgate rules push` does.
    ///
    /// # Errors
    /// Two texts have the same name, a text is named `version`, or there are too many texts. Or the key is not a hash,
    /// or the server refuses or does not answer within 2 s. The hash is unchanged, unless the connection broke: then the
    /// texts may have been written. The error names the address without its password.
    ///
    /// ```
    /// use tollgate_service::RedisRules;
    /// let rules: RedisRules = "redis://127.0.0.1:1/0#shop:rules".parse()?;
    /// let error = rules.push(&[]).unwrap_err();
    /// assert!(error.to_string().starts_with("redis://127.0.0.1:1/0#shop:rules: cannot be written: "));
    /// # Ok::<(), tollgate_service::AddressError>(())
    /// ```
    pub fn push(&self, texts: &[RuleText]) -> io::Result<Pushed> {
        let refused =
            |reason: String| io::Error::other(format!("{self}: cannot be written: {reason}"));
        let mut pairs: Vec<(&str, &[u8])> =
            texts.iter().map(|text| (field(text.file()), text.bytes())).collect();
        pairs.sort_unstable();
        if pairs.len() > MAX_TEXTS {
            return Err(refused(format!("{} texts; at most {MAX_TEXTS}", pairs.len())));
        }
        if let Some([(name, _), _]) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(refused(format!("two texts are called {name}; rename one")));
        }
        if pairs.iter().any(|(name, _)| *name == VERSION) {
            return Err(refused(format!("a text is called {VERSION}, as is a field; rename it")));
        }
        let mut command = redis::cmd("EVAL");
        command.arg(PUSH).arg(1).arg(self.key());
        for (name, text) in pairs {
            command.arg(name).arg(text);
        }
        let pushed = self.connect().and_then(|mut connection| command.query(&mut connection));
        let (version, what): (String, String) =
            pushed.map_err(|error| refused(error.to_string()))?;
        Ok(Pushed { version, is_new: what == "new" })
    }
}

/// The last part of a path, or the whole text if it has no such part.
fn field(name: &str) -> &str {
    Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name)
}
