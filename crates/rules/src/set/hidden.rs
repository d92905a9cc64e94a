//! Finds entries that can never match, because an earlier entry matches all values that they would match.
//!
//! It reports only cases that are certain: a pattern behind a pattern that covers it, a regular expression behind an
//! equal one, and any entry behind an entry that matches every value. Files with such entries are valid for
//! envoyproxy/ratelimit, so they are loaded with a warning; `tollgate check` refuses them.

use crate::language::error::{Problem, RuleError};
use crate::set::tree::{Level, Node, OfKey, OfPattern};

/// The maximum number of pairs of entries that are compared in one load, which takes some 10 ms. Pairs beyond this
/// number are not examined.
const MAX_PAIRS: usize = 1_000_000;

/// The entries of all domains that can never match, in the order of files.
pub(crate) fn hidden<'l>(domains: impl Iterator<Item = &'l Level>) -> Vec<RuleError> {
    let mut search = Search { left: MAX_PAIRS, found: Vec::new() };
    domains.for_each(|level| search.level(level));
    let mut found = search.found;
    found.sort_by(|one, other| (&one.file, one.at).cmp(&(&other.file, other.at)));
    found
}

struct Search {
    /// The number of pairs that may still be compared.
    left: usize,
    found: Vec<RuleError>,
}

impl Search {
    fn level(&mut self, level: &Level) {
        for (n, later) in level.patterns.iter().enumerate() {
            let (key, value) = later.texts();
            let by = self.first(&level.patterns[..n], |earlier| earlier.matches(&key, &value));
            self.tell(&later.node, by.map(|earlier| &earlier.node));
            self.level(&later.node.below);
        }
        for (key, of_key) in &level.keys {
            self.key(key, of_key, &level.patterns);
        }
    }

    fn key(&mut self, key: &str, of_key: &OfKey, patterns: &[OfPattern]) {
        of_key.values.values().for_each(|node| self.level(&node.below));
        // Patterns are tried before expressions, and before the key alone.
        let is_last = of_key.matched.is_none() && of_key.any.is_none();
        let all =
            if is_last { None } else { self.first(patterns, |pattern| pattern.matches(key, "*")) };
        let mut all = all.map(|pattern| &pattern.node);
        if let Some(matched) = of_key.matched.as_deref() {
            matched.ranges.all().for_each(|node| self.level(&node.below));
            for (n, (expression, node)) in matched.expressions.iter().enumerate() {
                let earlier = &matched.expressions[..n];
                let equal = self.first(earlier, |(earlier, _)| earlier.is_equal(expression));
                let by = all.or(equal.map(|(_, node)| node));
                self.tell(node, by);
                self.level(&node.below);
                all = all.or(expression.is_all().then_some(node));
            }
        }
        if let Some(any) = of_key.any.as_deref() {
            self.tell(any, all);
            self.level(&any.below);
        }
    }

    /// The first of these earlier entries for which `hides` is true. At most `left` pairs are compared.
    fn first<'e, T>(&mut self, earlier: &'e [T], hides: impl Fn(&T) -> bool) -> Option<&'e T> {
        let tried = &earlier[..earlier.len().min(self.left)];
        self.left -= tried.len();
        tried.iter().find(|entry| hides(entry))
    }

    fn tell(&mut self, node: &Node, by: Option<&Node>) {
        let (Some(own), Some(by)) = (node.origin.as_ref(), by.and_then(|by| by.origin.as_ref()))
        else {
            return;
        };
        let is_here = own.file == by.file;
        let at = if is_here { by.at.to_string() } else { format!("{}:{}", by.file, by.at) };
        let [entry, by] = [own, by].map(|origin| origin.name.escape_debug().to_string());
        let problem = Problem::Hidden { entry, by, at };
        self.found.push(RuleError { file: own.file.to_string(), at: Some(own.at), problem });
    }
}
