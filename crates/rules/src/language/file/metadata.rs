//! [`Metadata`]: values in a rule's file that are returned in answers.

use crate::language::error::{LocatedProblem, Problem};
use crate::language::yaml::{Data, Scalar, YamlNode};

/// A value of a rule's `metadata`, of the kinds that protobuf's `Struct` has.
///
/// ```
/// use tollgate_rules::{Metadata, RuleCache, RuleText, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    metadata: {tier: 1}\n    \
///             rate_limit: {unit: minute, requests_per_unit: 5}\n";
/// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let metadata = rules.rules()[0].metadata();
/// assert_eq!(metadata, Some(&Metadata::Map(vec![("tier".into(), Metadata::Number(1.0))])));
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Metadata {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, as in JSON.
    Number(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Metadata>),
    /// Names and values, in the order of the file. Each name occurs once.
    Map(Vec<(String, Metadata)>),
}

impl Metadata {
    pub(super) fn of(node: &YamlNode) -> Result<Self, LocatedProblem> {
        Ok(match &node.data {
            Data::Scalar(scalar) => Self::of_scalar(scalar),
            Data::List(items) => {
                Self::List(items.iter().map(Self::of).collect::<Result<_, LocatedProblem>>()?)
            }
            Data::Map(pairs) => {
                let mut map: Vec<(String, Self)> = Vec::with_capacity(pairs.len());
                let mut places = std::collections::HashMap::new();
                for (key, value) in pairs {
                    if let Some(first) = places.insert(key.text.as_str(), key.at) {
                        let problem = Problem::DuplicateKey { key: key.text.clone(), first };
                        return Err(LocatedProblem { at: key.at, problem });
                    }
                    map.push((key.text.clone(), Self::of(value)?));
                }
                Self::Map(map)
            }
        })
    }

    fn of_scalar(scalar: &Scalar) -> Self {
        let text = || Self::Text(scalar.text.clone());
        if scalar.is_null() {
            return Self::Null;
        }
        match scalar.text.as_str() {
            _ if !scalar.plain => text(),
            "true" | "True" | "TRUE" => Self::Bool(true),
            "false" | "False" | "FALSE" => Self::Bool(false),
            // Rust also parses "inf" and "nan", which protobuf's `Struct` cannot hold.
            number if number.ends_with(|last: char| last.is_ascii_digit() || last == '.') => {
                number.parse().ok().filter(|n: &f64| n.is_finite()).map_or_else(text, Self::Number)
            }
            _ => text(),
        }
    }
}
