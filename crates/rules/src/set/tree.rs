//! Finds the rule that matches a descriptor, in the order in which envoyproxy/ratelimit searches its tree.
//!
//! For each entry it tries the exact key and value first; then the network with the longest prefix that contains the
//! value; then patterns, in the order of the file; then regular expressions, in the order of the file; then the key
//! alone. The search descends into the chosen node only, without backtracking. A limit applies if it stands at the
//! level of the descriptor's last entry. Key and value are compared separately and never joined, so `a_b`, `c` and `a`,
//! `b_c` are different.

use std::collections::HashMap;

use ahash::RandomState;

use crate::language::expression::{Expression, ExpressionSet};
use crate::language::pattern::Pattern;
use crate::language::position::Origin;
use crate::language::ranges::Ranges;
use crate::language::value::{DescriptorEntry, ValueMatch};

/// The node of one entry of a rule file. It holds the index of its rule, because callers need the index.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) rule: Option<usize>,
    pub(crate) below: Level,
    /// The file and the position of the node, if another entry could hide it.
    pub(crate) origin: Option<Box<Origin>>,
}

/// The children of a node.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) keys: HashMap<Box<str>, OfKey, RandomState>,
    pub(crate) patterns: Vec<OfPattern>,
}

#[derive(Debug, Default)]
pub(crate) struct OfKey {
    pub(crate) values: HashMap<Box<str>, Node, RandomState>,
    pub(crate) any: Option<Box<Node>>,
    /// `None` if the key has no networks and no expressions. Most keys have none, so their values need not be parsed.
    pub(crate) matched: Option<Box<Matched>>,
}

/// The entries that match values by a network or by a regular expression.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    pub(crate) ranges: Ranges<Node>,
    pub(crate) expressions: Vec<(Expression, Node)>,
    /// All expressions in one set; `None` if there are fewer than two, or if they are too large together.
    set: Option<ExpressionSet>,
}

#[derive(Debug)]
pub(crate) struct OfPattern {
    key: Pattern,
    /// `None` if any value matches.
    value: Option<Pattern>,
    pub(crate) node: Node,
}

impl OfPattern {
    pub(crate) fn matches(&self, key: &str, value: &str) -> bool {
        self.key.matches(key) && self.value.as_ref().is_none_or(|own| own.matches(value))
    }

    /// The key and the value, with their stars. Another entry [matches](OfPattern::matches) these texts if and only if
    /// it matches everything that this entry matches: see [`Pattern::text`].
    pub(crate) fn texts(&self) -> (String, String) {
        let value = self.value.as_ref().map_or_else(|| "*".to_owned(), Pattern::text);
        (self.key.text(), value)
    }
}

impl Level {
    /// Adds an entry. `expression` is the compiled value, if the value is a regular expression.
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

    /// Compiles the expressions of each key into a set. It is called after the last insert.
    pub(crate) fn finish(&mut self) {
        self.patterns.iter_mut().for_each(|pattern| pattern.node.below.finish());
        for of_key in self.keys.values_mut() {
            of_key.values.values_mut().for_each(|node| node.below.finish());
            if let Some(any) = &mut of_key.any {
                any.below.finish();
            }
            if let Some(matched) = &mut of_key.matched {
                matched.ranges.all_mut().for_each(|node| node.below.finish());
                matched.expressions.iter_mut().for_each(|(_, node)| node.below.finish());
                let expressions = matched.expressions.iter().map(|(expression, _)| expression);
                matched.set = ExpressionSet::of(expressions);
            }
        }
    }

    /// Whether some rule can match descriptors with these keys.
    pub(crate) fn has_rule(&self, keys: &[&str]) -> bool {
        let Some((key, rest)) = keys.split_first() else { return false };
        let of_key = self.keys.get(*key).into_iter().flat_map(|of_key| of_key.nodes());
        let of_patterns = self.patterns.iter().filter(|pattern| pattern.key.matches(key));
        let mut nodes = of_key.chain(of_patterns.map(|pattern| &pattern.node));
        nodes.any(|node| match rest {
            [] => node.rule.is_some(),
            rest => node.below.has_rule(rest),
        })
    }

    fn step(&self, key: &str, value: &str) -> Option<&Node> {
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
        let found = self.patterns.iter().find(|pattern| pattern.matches(key, value));
        found.map(|pattern| &pattern.node)
    }

    /// The rule of a descriptor.
    pub(crate) fn find(&self, entries: &[DescriptorEntry<'_>]) -> Option<usize> {
        let (mut level, mut rule) = (self, None);
        for (key, value) in entries {
            // If no entry of the level matches, no rule matches the descriptor: a limit of a level above does not
            // apply.
            let node = level.step(key, value)?;
            (level, rule) = (&node.below, node.rule);
        }
        rule
    }
}

impl OfKey {
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        let matched = self.matched.iter().flat_map(|matched| {
            let of_expressions = matched.expressions.iter().map(|(_, node)| node);
            matched.ranges.all().chain(of_expressions)
        });
        self.values.values().chain(self.any.as_deref()).chain(matched)
    }
}

impl Matched {
    fn of_expression(&self, value: &str) -> Option<&Node> {
        if let Some(set) = &self.set {
            return set.first(value).and_then(|n| self.expressions.get(n)).map(|(_, node)| node);
        }
        self.expressions
            .iter()
            .find(|(expression, _)| expression.matches(value))
            .map(|(_, node)| node)
    }
}
