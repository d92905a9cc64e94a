//! Collects the descriptors of `forward_auth` of all domains, bounds their size, and finds those that no rule matches.

use crate::language::error::{Problem, RuleError};
use crate::language::file::ForwardText;
use crate::language::forward::{Forward, ForwardEntry, ForwardPart};
use crate::set::rule_set::RuleSet;
use crate::set::settings::RuleSettings;

/// Adds the descriptors of a file to those of its domain.
pub(crate) fn add(
    set: &mut RuleSet,
    domain: &str,
    file: &str,
    more: Vec<ForwardText>,
    settings: &RuleSettings,
) -> Result<(), RuleError> {
    let all = set.forwards.entry(domain.into()).or_default();
    let bytes_of = |forward: &Forward| forward.entries.iter().map(max_bytes).sum::<usize>();
    let mut bytes = domain.len() + all.iter().map(bytes_of).sum::<usize>();
    for ForwardText { at, entries } in more {
        let forward = Forward { domain: domain.into(), file: file.into(), at, entries };
        bytes += bytes_of(&forward);
        for (found, most, of) in [
            (all.len() + 1, settings.max_descriptors, "descriptors"),
            (forward.entries.len(), settings.max_entries, "keys in a descriptor"),
            (bytes, settings.max_key_bytes, "bytes of keys and values"),
        ] {
            if found > most {
                return Err(refused(&forward, Problem::ForwardTooLarge { found, most, of }));
            }
        }
        all.push(forward);
    }
    Ok(())
}

/// The most bytes of a key and its value.
fn max_bytes(entry: &ForwardEntry) -> usize {
    let value = match &entry.part {
        ForwardPart::Text(text) => text.len(),
        _ => Forward::MAX_VALUE_BYTES.max(entry.otherwise.as_deref().map_or(0, str::len)),
    };
    entry.key.len() + value
}

/// The descriptors that no rule of their domain can match: they limit nothing.
pub(crate) fn in_vain(set: &RuleSet) -> Vec<RuleError> {
    let in_vain = |forward: &&Forward| {
        let keys: Vec<&str> = forward.entries.iter().map(|entry| &*entry.key).collect();
        !set.domains.get(&forward.domain).is_some_and(|level| level.has_rule(&keys))
    };
    let told = set.all_forwards().filter(in_vain).map(|forward| {
        let keys: Vec<&str> = forward.entries.iter().map(|entry| &*entry.key).collect();
        refused(forward, Problem::ForwardInVain { keys: keys.join(", ") })
    });
    told.collect()
}

fn refused(forward: &Forward, problem: Problem) -> RuleError {
    RuleError { file: forward.file.to_string(), at: Some(forward.at), problem }
}
