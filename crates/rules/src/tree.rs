//! Finds the rule that matches a descriptor, in the order in which envoyproxy/ratelimit searches its tree.
//!
//! Per entry, in order: the exact key and value; then the longest network that holds the value; then patterns, in the
//! order of the file; then regular expressions, in that order; then the key alone. The
//! search descends into the chosen node only, without backtracking. A limit counts if it stands at the descriptor's
//! last entry. Key and value are compared separately, never joined: `a_b`, `c` and `a`, `b_c` are different.

use std::collections::HashMap;

use ahash::RandomState;

use crate::expression::Expression;
use crate::pattern::Pattern;
use crate::ranges::Ranges;
use crate::request::DescriptorEntry;
use crate::value::ValueMatch;

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
    /// `None` for most keys, so that their values are not read for this.
    matched: Option<Box<Matched>>,
}

/// What matches values by more than their text.
#[derive(Debug, Default)]
struct Matched {
    ranges: Ranges<Node>,
    expressions: Vec<(Expression, Node)>,
}

#[derive(Debug)]
struct OfPattern {
    key: Pattern,
    /// `None` if any value matches.
    value: Option<Pattern>,
    node: Node,
}

impl Level {
    /// `expression` is the value, compiled, if it is one.
    pub(crate) fn insert(
        &mut self,
        key: &str,
        value: Option<&ValueMatch>,
        expression: Option<Expression>,
        node: Node,
    ) {
        let is_pattern = match value {
            Some(ValueMatch::Text(text)) => key.contains('*') || text.contains('*'),
            Some(_) => false,
            None => key.contains('*'),
        };
        let text = match value {
            Some(ValueMatch::Text(text)) => Some(text),
            _ => None,
        };
        if is_pattern {
            let (key, value) = (Pattern::of(key), text.map(|text| Pattern::of(text)));
            self.patterns.push(OfPattern { key, value, node });
            return;
        }
        let of_key = self.keys.entry(key.into()).or_default();
        match (value, expression) {
            (Some(ValueMatch::Range(range)), _) => {
                of_key.matched.get_or_insert_default().ranges.insert(*range, node);
            }
            (_, Some(expression)) => {
                of_key.matched.get_or_insert_default().expressions.push((expression, node));
            }
            _ => match text {
                Some(text) => {
                    of_key.values.insert(text.clone(), node);
                }
                None => of_key.any = Some(Box::new(node)),
            },
        }
    }

    fn step(&self, (key, value): DescriptorEntry<'_>) -> Option<&Node> {
        let of_key = self.keys.get(key);
        if let Some(node) = of_key.and_then(|of_key| of_key.values.get(value)) {
            return Some(node);
        }
        let matched = of_key.and_then(|of_key| of_key.matched.as_deref());
        let found = match matched {
            None => self.of_pattern(key, value),
            Some(matched) => {
                let of_range = matched.ranges.find(value);
                let of_pattern = of_range.or_else(|| self.of_pattern(key, value));
                of_pattern.or_else(|| matched.of_expression(value))
            }
        };
        found.or_else(|| of_key.and_then(|of_key| of_key.any.as_deref()))
    }

    fn of_pattern(&self, key: &str, value: &str) -> Option<&Node> {
        let fits = |pattern: &&OfPattern| {
            let of_value = pattern.value.as_ref();
            pattern.key.matches(key) && of_value.is_none_or(|of_value| of_value.matches(value))
        };
        self.patterns.iter().find(fits).map(|pattern| &pattern.node)
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

impl Matched {
    fn of_expression(&self, value: &str) -> Option<&Node> {
        self.expressions
            .iter()
            .find(|(expression, _)| expression.matches(value))
            .map(|(_, node)| node)
    }
}
