//! The public items of the core, a line for each, as `docs/api.txt` lists them.

use std::collections::BTreeSet;

use crate::report::Offender;

pub(crate) struct PublicItems<'a> {
    path: &'a str,
    lines: Vec<&'a str>,
    /// Methods and functions, as `tollgate::Limiter::check`.
    functions: BTreeSet<String>,
}

impl<'a> PublicItems<'a> {
    pub(crate) fn of(path: &'a str, text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let functions = lines.iter().filter_map(|item| function_of(item)).collect();
        Self { path, lines, functions }
    }

    pub(crate) fn count(&self) -> usize {
        self.lines.len()
    }

    /// Structs, enums, unions and traits. A `pub type` names another type.
    pub(crate) fn types(&self) -> Vec<Offender> {
        self.lines_where(type_of)
    }

    /// Types that a caller asks for decisions: they have a method `check`, or are called a limiter.
    pub(crate) fn limiters(&self) -> Vec<Offender> {
        self.lines_where(|item| {
            type_of(item).filter(|name| {
                name.ends_with("Limiter") || self.functions.contains(&format!("{name}::check"))
            })
        })
    }

    /// Methods `x_at` beside a method `x` of the same type.
    pub(crate) fn at_twins(&self) -> Vec<Offender> {
        self.lines_where(|item| {
            function_of(item).filter(|name| {
                name.strip_suffix("_at").is_some_and(|twin| self.functions.contains(twin))
            })
        })
    }

    fn lines_where(&self, what: impl Fn(&str) -> Option<String>) -> Vec<Offender> {
        let numbered = self.lines.iter().enumerate();
        let found = numbered.filter_map(|(index, item)| Some((index + 1, what(item)?)));
        found.map(|(line, what)| Offender { path: self.path.to_owned(), line, what }).collect()
    }
}

/// What follows `pub` and the attributes before it.
fn public(item: &str) -> Option<&str> {
    let attribute = item.strip_prefix("#[").and_then(|rest| rest.split_once("] "));
    attribute.map_or(item, |(_, item)| item).strip_prefix("pub ")
}

fn type_of(item: &str) -> Option<String> {
    let (kind, name) = public(item)?.split_once(' ')?;
    ["struct", "enum", "union", "trait"].contains(&kind).then(|| path_of(name))
}

fn function_of(item: &str) -> Option<String> {
    let (before, name) = public(item)?.split_once("fn ")?;
    let is_function =
        before.split(' ').all(|word| ["", "const", "async", "unsafe"].contains(&word));
    is_function.then(|| path_of(name))
}

/// A path up to its arguments, bounds or fields. Generics stand in the middle of one, too:
/// `Tier<'a, K>::check(..)`.
fn path_of(name: &str) -> String {
    let mut depth = 0_u32;
    let mut path = String::new();
    // The arrow of a bound (`F: Fn(u64) -> u64`) closes nothing.
    for letter in name.replace("->", "").chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' | ' ' if depth == 0 => break,
            letter if depth == 0 => path.push(letter),
            _ => {}
        }
    }
    path.trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::whats;

    const ITEMS: &str = "\
pub mod tollgate
#[non_exhaustive] pub enum tollgate::Full
pub tollgate::Full::Deny
pub struct tollgate::Meter
impl tollgate::Meter
pub const fn tollgate::Meter::peek(&self, u64) -> u64
pub struct tollgate::Clock(_)
pub fn tollgate::Clock::resumed_at(&self) -> u64
pub struct tollgate::Tier<'a, K: ?core::marker::Sized, S>
pub fn tollgate::Tier<'_, K, S>::check(&self, &K, u64) -> tollgate::Decision
pub fn tollgate::Tier<'_, K, S>::check_at(&self, &K, u64, tollgate::Timestamp) -> tollgate::Decision
pub struct tollgate::TieredLimiter<K, F: core::ops::Fn(u64) -> usize>
pub type tollgate::TieredLimiter::Output = u64
pub trait tollgate::Timer: core::marker::Sync
";

    #[test]
    fn types_are_told_from_aliases_and_variants() {
        let items = PublicItems::of("api.txt", ITEMS);
        assert_eq!(items.count(), 14);
        let types = ["Full", "Meter", "Clock", "Tier", "TieredLimiter", "Timer"];
        assert_eq!(whats(&items.types()), types.map(|name| format!("tollgate::{name}")));
    }

    #[test]
    fn a_limiter_has_a_check_or_is_called_one() {
        let limiters = PublicItems::of("api.txt", ITEMS).limiters();
        assert_eq!(whats(&limiters), ["tollgate::Tier", "tollgate::TieredLimiter"]);
        assert_eq!(limiters[0].line, 9);
    }

    #[test]
    fn a_twin_stands_beside_the_method_without_at() {
        let twins = PublicItems::of("api.txt", ITEMS).at_twins();
        assert_eq!(whats(&twins), ["tollgate::Tier::check_at"]);
        assert_eq!(twins[0].line, 11);
    }
}
