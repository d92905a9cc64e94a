//! The language of rules: types for the content of a rule file, and errors for content that is not accepted.
//!
//! [`yaml`] parses the text of a file, and [`file`] reads the result into a [`file::RuleFile`], key by key. Every error
//! names the file, the position and the words that are accepted.

pub(crate) mod error;
pub(crate) mod expression;
pub(crate) mod file;
pub(crate) mod forward;
pub(crate) mod identifier;
pub(crate) mod lowered;
pub(crate) mod meant;
pub(crate) mod on_full;
pub(crate) mod pace;
pub(crate) mod pattern;
pub(crate) mod position;
pub(crate) mod ranges;
pub(crate) mod rule_id;
pub(crate) mod schema;
pub(crate) mod source;
pub(crate) mod stem;
pub(crate) mod unit;
pub(crate) mod value;
pub(crate) mod yaml;
pub(crate) mod zone;
