//! Parses `forward_auth`: the descriptors to make of a forwarded request.

use std::collections::HashMap;

use crate::language::error::{LocatedProblem, Problem};
use crate::language::forward::ForwardEntry;
use crate::language::position::Position;
use crate::language::yaml::{Data, YamlKey, YamlNode};

/// A descriptor as parsed.
#[derive(Clone, Debug)]
pub(crate) struct ForwardText {
    pub(crate) at: Position,
    pub(crate) entries: Vec<ForwardEntry>,
}

pub(super) fn read_all(nodes: &[YamlNode]) -> Result<Vec<ForwardText>, LocatedProblem> {
    nodes.iter().map(read).collect()
}

/// Reads a descriptor. Its keys are chosen by the user, so there is no list of accepted keys.
fn read(node: &YamlNode) -> Result<ForwardText, LocatedProblem> {
    let pairs = match &node.data {
        Data::Map(pairs) => &pairs[..],
        _ => &[],
    };
    let mut places = HashMap::new();
    let mut entries = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        if let Some(first) = places.insert(key.text.as_str(), key.at) {
            let problem = Problem::DuplicateKey { key: key.text.clone(), first };
            return Err(LocatedProblem { at: key.at, problem });
        }
        entries.push(entry(key, value)?);
    }
    if entries.is_empty() {
        return Err(LocatedProblem { at: node.at, problem: Problem::EmptyKey });
    }
    Ok(ForwardText { at: node.at, entries })
}

fn entry(key: &YamlKey, value: &YamlNode) -> Result<ForwardEntry, LocatedProblem> {
    if key.text.is_empty() {
        return Err(LocatedProblem { at: key.at, problem: Problem::EmptyKey });
    }
    let refused = |problem| LocatedProblem { at: value.at, problem };
    let Data::Scalar(source) = &value.data else {
        let (key, accepted) = ("a part of forward_auth", "a text, as in path");
        return Err(refused(Problem::Kind { key, accepted, found: value.kind() }));
    };
    ForwardEntry::parse(&key.text, &source.text).map_err(refused)
}
