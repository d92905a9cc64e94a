//! Finds the rule that matches a descriptor, in the order in which envoyproxy/ratelimit searches its tree.
//!
//! Per entry, in order: the exact key and value; then patterns, in the order of the file; then the key alone. The
//! search descends into the chosen node only, without backtracking. A limit counts if it stands at the descriptor's
//! last entry. Key and value are compared separately, never joined: `a_b`, `c` and `a`, `b_c` are different.

use std::collections::HashMap;

use ahash::RandomState;

use crate::pattern::Pattern;
use crate::request::DescriptorEntry;

/// The node that one entry matches. Rules are stored by index, because callers need the index.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) rule: Option<usize>,
    pub(crate) below: Level,
}

/// The children of a node.
#[derive(Debug, Default)]
pub(crate) struct Level {
    keys: HashMap<Box<str>, OfKey, RandomState>,
    patterns: Vec<OfPattern>,
}

#[derive(Debug, Default)]
struct OfKey {
    values: HashMap<Box<str>, Node, RandomState>,
    any: Option<Box<Node>>,
}

#[derive(Debug)]
struct OfPattern {
    key: Pattern,
    /// `None` if any value matches.
    value: Option<Pattern>,
    node: Node,
}

impl Level {
    pub(crate) fn insert(&mut self, key: &str, value: Option<&str>, node: Node) {
        if has_star(key, value) {
            let (key, value) = (Pattern::of(key), value.map(Pattern::of));
            self.patterns.push(OfPattern { key, value, node });
            return;
        }
        let of_key = self.keys.entry(key.into()).or_default();
        match value {
            Some(value) => {
                of_key.values.insert(value.into(), node);
            }
            None => of_key.any = Some(Box::new(node)),
        }
    }

    fn step(&self, (key, value): DescriptorEntry<'_>) -> Option<&Node> {
        let of_key = self.keys.get(key);
        if let Some(node) = of_key.and_then(|of_key| of_key.values.get(value)) {
            return Some(node);
        }
        let fits = |pattern: &&OfPattern| {
            let of_value = pattern.value.as_ref();
            pattern.key.matches(key) && of_value.is_none_or(|of_value| of_value.matches(value))
        };
        match self.patterns.iter().find(fits) {
            Some(pattern) => Some(&pattern.node),
            None => of_key.and_then(|of_key| of_key.any.as_deref()),
        }
    }

    /// The rule of a descriptor.
    pub(crate) fn find(&self, entries: &[DescriptorEntry<'_>]) -> Option<usize> {
        let (mut level, mut rule) = (self, None);
        for entry in entries {
            // No rule is as deep as this descriptor: a limit further up does not apply to it.
            let node = level.step(*entry)?;
            (level, rule) = (&node.below, node.rule);
        }
        rule
    }
}

/// Whether a descriptor matches several values, or keys.
pub(crate) fn has_star(key: &str, value: Option<&str>) -> bool {
    key.contains('*') || value.is_some_and(|value| value.contains('*'))
}
