//! [`RedisSource`]: polls a hash in Redis for rules.
//!
//! One script reads the version and, if the version has changed, the texts. So a poll without a change costs one short
//! answer, and all texts that a poll reads were in the hash at the same moment. If a writer replaces texts and version
//! in one transaction, a half-written state is never read.
//!
//! Reading the hash blocks, as reading files does, so it runs on the thread of a retriever.

use std::fmt;

use redis::{Connection, RedisResult};
use tollgate_rules::{Problem, RuleError, RuleSource, RuleText};

use super::address::RedisRules;

const READ: &str = include_str!("read.lua");

/// The maximum number of texts in a hash. Each text is a domain, or a part of a domain.
pub(super) const MAX_TEXTS: usize = 10_000;

/// The name of the field that holds the version and not a text.
pub(super) const VERSION: &str = "version";

/// Rules from a hash in Redis: see [`RedisRules::source`].
pub(crate) struct RedisSource {
    rules: RedisRules,
    connection: Option<Connection>,
    last: Option<Last>,
}

/// The result of the last reading.
#[derive(Debug)]
struct Last {
    version: Vec<u8>,
    texts: Vec<RuleText>,
}

impl RedisRules {
    /// A source of the rules in this hash. The hash need not exist yet. The texts are in the order of the names of
    /// their fields.
    ///
    /// The hash is read when the [`Retriever`](tollgate_rules::Retriever) polls. A hash that is missing or has no
    /// version is an error, so a Redis that has lost its data removes no rules.
    ///
    /// ```
    /// use tollgate_rules::RuleSource;
    /// use tollgate_service::RedisRules;
    /// let rules: RedisRules = "redis://127.0.0.1:1/0#rules".parse()?;
    /// let mut source = rules.source();
    /// let error = source.read().unwrap_err();
    /// assert!(error.to_string().starts_with("redis://127.0.0.1:1/0#rules: cannot be read: "));
    /// assert!(format!("{source:?}").contains("redis://127.0.0.1:1/0#rules"));
    /// # Ok::<(), tollgate_service::AddressError>(())
    /// ```
    #[must_use]
    pub fn source(self) -> impl RuleSource + fmt::Debug {
        RedisSource::new(self)
    }
}

impl RedisSource {
    pub(super) fn new(rules: RedisRules) -> Self {
        Self { rules, connection: None, last: None }
    }

    /// Sends the script over the existing connection, or over a new one if there is none or the server has closed it.
    fn ask(&mut self) -> RedisResult<Vec<Vec<u8>>> {
        let mut command = redis::cmd("EVAL");
        command.arg(READ).arg(1).arg(self.rules.key());
        command.arg(RuleText::MAX_BYTES).arg(RuleText::MAX_BYTES_TOGETHER).arg(MAX_TEXTS);
        if let Some(last) = &self.last {
            command.arg(&last.version[..]);
        }
        if let Some(mut connection) = self.connection.take() {
            match command.query(&mut connection) {
                Ok(reply) => {
                    self.connection = Some(connection);
                    return Ok(reply);
                }
                Err(error) if error.is_connection_dropped() => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = self.rules.connect()?;
        let reply = command.query(&mut connection)?;
        self.connection = Some(connection);
        Ok(reply)
    }

    /// Parses the texts of a reply.
    fn understood(&mut self, reply: Vec<Vec<u8>>) -> Result<Vec<RuleText>, RuleError> {
        let mut parts = reply.into_iter();
        let word = parts.next().unwrap_or_default();
        match (&word[..], parts.next(), self.last.take()) {
            (b"unchanged", None, Some(last)) => Ok(self.last.insert(last).texts.clone()),
            (b"texts", Some(version), _) => {
                let mut texts = Vec::new();
                while let (Some(name), Some(text)) = (parts.next(), parts.next()) {
                    texts.push(RuleText::new(self.name(&name), text));
                }
                texts.sort_by(|one, other| one.file().cmp(other.file()));
                Ok(self.last.insert(Last { version, texts }).texts.clone())
            }
            (b"large", Some(name), _) => {
                let problem = Problem::TooLarge { most: RuleText::MAX_BYTES };
                Err(RuleError { file: self.name(&name), at: None, problem })
            }
            (b"large", None, _) => {
                Err(self.error(Problem::TooLarge { most: RuleText::MAX_BYTES_TOGETHER }))
            }
            (b"many", ..) => Err(self.unreadable(&format!(
                "it has more than {MAX_TEXTS} fields; write fewer and larger texts"
            ))),
            (b"absent", ..) => Err(self
                .unreadable("there is no such hash; write it with tollgate rules push DIR ADDRESS")),
            (b"unversioned", ..) => Err(self.unreadable(
                "the hash has no field version; write one, in one transaction with the texts, that is \
                 another whenever a text is",
            )),
            _ => Err(self.unreadable("the server answered something else; use Redis or Valkey")),
        }
    }

    /// The name of a text in errors: the hash, and the field.
    fn name(&self, field: &[u8]) -> String {
        format!("{}/{}", self.rules, String::from_utf8_lossy(field))
    }

    fn unreadable(&self, reason: &str) -> RuleError {
        self.error(Problem::Unreadable { reason: reason.to_owned() })
    }

    fn error(&self, problem: Problem) -> RuleError {
        RuleError { file: self.rules.to_string(), at: None, problem }
    }
}

impl RuleSource for RedisSource {
    fn read(&mut self) -> Result<Vec<RuleText>, RuleError> {
        match self.ask() {
            Ok(reply) => self.understood(reply),
            Err(error) => {
                // The version is forgotten, because the next connection may be to another server, with other texts
                // under the same version.
                self.last = None;
                Err(self.unreadable(&error.to_string()))
            }
        }
    }
}

impl fmt::Debug for RedisSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSource")
            .field("rules", &self.rules)
            .field("is_connected", &self.connection.is_some())
            .finish_non_exhaustive()
    }
}
