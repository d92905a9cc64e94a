//! Reads a map that may have only known keys, each at most once.

use crate::language::error::{LocatedProblem, Problem};
use crate::language::position::Position;
use crate::language::yaml::{Data, Scalar, YamlKey, YamlNode};

/// The pairs of a map, after merge keys (`<<`) are resolved.
#[derive(Debug)]
pub(crate) struct MapFields<'n> {
    pub(crate) at: Position,
    pairs: Vec<(&'n YamlKey, &'n YamlNode)>,
}

impl<'n> MapFields<'n> {
    /// Reads the map that is the value of `key`.
    pub(crate) fn of(
        node: &'n YamlNode,
        key: &'static str,
        accepted: &'static [&'static str],
    ) -> Result<Self, LocatedProblem> {
        let mut fields = Self { at: node.at, pairs: Vec::new() };
        for (name, value) in map_of(node, key)? {
            if name.text == "<<" {
                continue;
            }
            if !accepted.contains(&name.text.as_str()) {
                // If `-x` stands for an accepted key `x`, as in `-value`, the key of this map was meant. Otherwise an
                // entry of a list was meant.
                let after_dash = name.text.strip_prefix('-');
                let key = name.text.clone();
                let problem = match after_dash.filter(|after| !accepted.contains(after)) {
                    Some(_) => Problem::DashWithoutBlank { key },
                    None => Problem::UnknownKey { key, accepted },
                };
                return Err(LocatedProblem { at: name.at, problem });
            }
            if let Some((first, _)) = fields.pairs.iter().find(|(first, _)| first.text == name.text)
            {
                let problem = Problem::DuplicateKey { key: name.text.clone(), first: first.at };
                return Err(LocatedProblem { at: name.at, problem });
            }
            fields.pairs.push((name, value));
        }
        fields.merge(node, key, accepted)?;
        Ok(fields)
    }

    /// Adds the pairs of the maps named by `<<` whose keys the map itself does not have. If several of these maps have
    /// the same key, the value in the first of them is taken.
    fn merge(
        &mut self,
        node: &'n YamlNode,
        key: &'static str,
        accepted: &'static [&'static str],
    ) -> Result<(), LocatedProblem> {
        for (name, value) in map_of(node, key)? {
            if name.text != "<<" {
                continue;
            }
            let merged = match &value.data {
                Data::List(items) => items.iter().collect(),
                _ => vec![value],
            };
            for map in merged {
                for (name, value) in Self::of(map, "<<", accepted)?.pairs {
                    if self.pairs.iter().all(|(first, _)| first.text != name.text) {
                        self.pairs.push((name, value));
                    }
                }
            }
        }
        Ok(())
    }

    /// The value of a key. An empty value is treated as missing.
    pub(crate) fn get(&self, key: &str) -> Option<&'n YamlNode> {
        let (_, node) = self.pairs.iter().find(|(name, _)| name.text == key)?;
        let is_null = matches!(&node.data, Data::Scalar(scalar) if scalar.is_null());
        (!is_null).then_some(node)
    }

    pub(crate) fn scalar(
        &self,
        key: &'static str,
    ) -> Result<Option<(&'n Scalar, Position)>, LocatedProblem> {
        match self.get(key) {
            None => Ok(None),
            Some(YamlNode { at, data: Data::Scalar(scalar) }) => Ok(Some((scalar, *at))),
            Some(node) => Err(kind(node, key, "a single value")),
        }
    }

    /// Text as it is written; numbers and booleans are text as well.
    pub(crate) fn text(&self, key: &'static str) -> Result<Option<&'n str>, LocatedProblem> {
        Ok(self.scalar(key)?.map(|(scalar, _)| scalar.text.as_str()))
    }

    /// A boolean in any form of YAML 1.1, which files for envoyproxy/ratelimit use.
    pub(crate) fn truth(&self, key: &'static str) -> Result<bool, LocatedProblem> {
        let Some((scalar, at)) = self.scalar(key)? else { return Ok(false) };
        match scalar.text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" if scalar.plain => Ok(true),
            "false" | "no" | "off" | "n" if scalar.plain => Ok(false),
            _ => Err(value(scalar, at, key, "true or false")),
        }
    }

    /// A whole number, in digits only. A leading 0 is refused, since YAML 1.1 reads such a number in
    /// base 8.
    pub(crate) fn number<N: std::str::FromStr>(
        &self,
        key: &'static str,
        accepted: &'static str,
    ) -> Result<Option<N>, LocatedProblem> {
        const OCTAL: &str =
            "a number without a 0 before it: YAML 1.1 reads that in base 8, YAML 1.2 in base 10";
        let Some((scalar, at)) = self.scalar(key)? else { return Ok(None) };
        if scalar.text.len() > 1
            && scalar.text.bytes().all(|b| b.is_ascii_digit())
            && scalar.text.starts_with('0')
        {
            return Err(value(scalar, at, key, OCTAL));
        }
        let in_digits = !scalar.text.is_empty() && scalar.text.bytes().all(|b| b.is_ascii_digit());
        match scalar.text.parse() {
            Ok(number) if in_digits => Ok(Some(number)),
            _ => Err(value(scalar, at, key, accepted)),
        }
    }

    /// The items of a list of maps.
    pub(crate) fn maps(&self, key: &'static str) -> Result<&'n [YamlNode], LocatedProblem> {
        let items = match self.get(key) {
            None => return Ok(&[]),
            Some(YamlNode { data: Data::List(items), .. }) => items,
            Some(node) => return Err(not_a_list(node, key)),
        };
        for item in items {
            let found = match &item.data {
                Data::Map(_) => continue,
                Data::Scalar(scalar) => scalar.text.clone(),
                Data::List(_) => item.kind().to_owned(),
            };
            return Err(LocatedProblem { at: item.at, problem: Problem::NotAMap { found } });
        }
        Ok(items)
    }
}

fn map_of<'n>(
    node: &'n YamlNode,
    key: &'static str,
) -> Result<&'n [(YamlKey, YamlNode)], LocatedProblem> {
    match &node.data {
        Data::Map(pairs) => Ok(pairs),
        _ => Err(kind(node, key, "a map")),
    }
}

/// The problem to report for a value in the place of a list.
fn not_a_list(node: &YamlNode, key: &'static str) -> LocatedProblem {
    match &node.data {
        // For YAML, `-key: x` is a map with the key `-key`.
        Data::Map(pairs) => match pairs.iter().find(|(name, _)| name.text.starts_with('-')) {
            Some((name, _)) => {
                let problem = Problem::DashWithoutBlank { key: name.text.clone() };
                LocatedProblem { at: name.at, problem }
            }
            None => kind(node, key, "a list"),
        },
        _ => kind(node, key, "a list"),
    }
}

fn kind(node: &YamlNode, key: &'static str, accepted: &'static str) -> LocatedProblem {
    LocatedProblem { at: node.at, problem: Problem::Kind { key, accepted, found: node.kind() } }
}

pub(crate) fn value(
    found: &Scalar,
    at: Position,
    key: &'static str,
    accepted: &'static str,
) -> LocatedProblem {
    let found = format!("'{}'", found.text.escape_debug());
    LocatedProblem { at, problem: Problem::Value { key, found, accepted } }
}
