//! Which rule matches a descriptor: envoyproxy/ratelimit's way down the tree.
//!
//! Per entry, in order: the exact key and value; then patterns, in the order of the file; then the key
//! alone. Only the chosen node is descended into, and never another one tried later. A limit counts if it
//! stands at the descriptor's last entry. Key and value are compared apart, never joined: `a_b`, `c` and
//! `a`, `b_c` are two things here.

use std::collections::HashMap;

use ahash::RandomState;

use crate::pattern::Pattern;
use crate::request::Entry;

/// What is found by one entry. An index, since rules are asked for by index afterwards.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) rule: Option<usize>,
    pub(crate) below: Level,
}

/// What may follow a node.
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
    /// `None` if any value will do.
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

    fn step(&self, (key, value): Entry<'_>) -> Option<&Node> {
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
    pub(crate) fn find(&self, entries: &[Entry<'_>]) -> Option<usize> {
        let (mut level, mut rule) = (self, None);
        for entry in entries {
            // Deeper than any rule there is none: a limit further up is none of this request's.
            let node = level.step(*entry)?;
            (level, rule) = (&node.below, node.rule);
        }
        rule
    }
}

/// Whether a descriptor stands for several values, or keys.
pub(crate) fn has_star(key: &str, value: Option<&str>) -> bool {
    key.contains('*') || value.is_some_and(|value| value.contains('*'))
}
