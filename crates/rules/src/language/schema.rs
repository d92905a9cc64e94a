//! [`RULES_SCHEMA`]: the language of rules for editors.

/// The JSON Schema (draft 2020-12) of rule files, with which an editor completes keys and marks mistakes. `tollgate
/// schema` prints it.
///
/// It cannot say everything that a load checks, such as whether an algorithm takes a burst: a file without marks may
/// still be refused. Where a load accepts several spellings, as of units, it has the usual one only.
///
/// ```
/// assert!(tollgate_rules::RULES_SCHEMA.contains("\"requests_per_unit\""));
/// ```
pub const RULES_SCHEMA: &str = include_str!("../../rules.schema.json");
