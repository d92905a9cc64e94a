//! Gives up the rules that were kept for domains that are gone from the files, if other rules need the memory.
//!
//! A domain that has lost all its rules keeps its last good ones ([`crate::set::texts`]), so that a file that is
//! missing for a moment removes no limit. But the kept rules take memory while the domain is gone. If new domains kept
//! coming and going, such rules would fill the memory, and then every load would be refused. So a load that finds no
//! room gives such domains up: first those that have been gone for longest, and only as many as it needs to. If that is
//! not enough, rules without a `capacity` begin anew, with smaller tables.

use tollgate::Clock;

use crate::language::error::{Problem, RuleError};
use crate::language::source::RuleText;
use crate::set::before::Before;
use crate::set::compile::compile;
use crate::set::rule_set::RuleSet;
use crate::set::settings::RuleSettings;
use crate::set::texts;

/// Compiles like [`compile`]. If there is no room for all rules, leaves out as few as possible of the domains that are
/// gone. If leaving out all of them is not enough, rules that name no capacity get smaller tables as well.
pub(crate) fn compile_in_room(
    texts: &[RuleText],
    settings: &RuleSettings,
    clock: &Clock,
    before: Before<'_>,
    vet: Option<&impl Fn(&RuleSet) -> Vec<RuleError>>,
) -> Result<RuleSet, Vec<RuleError>> {
    let without = |dropped| compile(texts, settings, clock, Before { dropped, ..before }, vet);
    match without(&[]) {
        Err(errors) if errors.iter().all(is_for_room) => {}
        done => return done,
    }
    let kept = before.rules.filter(|_| !settings.allow_empty);
    let kept = texts::read(texts, kept, &[]).kept_domains;
    let (dropped, anew) = if kept.is_empty() || without(&kept).is_err() {
        (&kept[..], true)
    } else {
        // Binary search: there is no room if `few` domains are left out, and there is room if `enough` are.
        let (mut few, mut enough) = (0, kept.len());
        while enough - few > 1 {
            let middle = usize::midpoint(few, enough);
            match without(&kept[..middle]) {
                Ok(_) => enough = middle,
                Err(_) => few = middle,
            }
        }
        (&kept[..enough], false)
    };
    let rules = compile(texts, settings, clock, Before { dropped, anew, ..before }, vet)?;
    Ok(RuleSet { dropped_domains: dropped.to_vec(), ..rules })
}

/// Whether more room might have avoided this error.
fn is_for_room(error: &RuleError) -> bool {
    matches!(error.problem, Problem::TooMuchMemory { .. } | Problem::TooLarge { .. })
}
