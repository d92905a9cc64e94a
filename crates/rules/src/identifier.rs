//! The client identifier builder: from a descriptor's entries to the bytes that a table is asked for.
//!
//! Every rule has a table of its own, so what is the same in all requests of a rule says nothing: only
//! what a rule leaves open is part of its key. Parts are prefixed with their length, so that no two lists
//! of parts make the same bytes; how many there are, the rule knows.

use crate::request::Entry;

/// What one entry contributes, known from the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Nothing: the rule names it, or shares one limit between all that match.
    Fixed,
    /// The value, for the key is the rule's.
    Value,
    /// Both, since the key is a pattern.
    KeyAndValue,
}

/// Whether all requests of a rule are one client.
pub(crate) fn is_constant(parts: &[Part]) -> bool {
    parts.iter().all(|part| *part == Part::Fixed)
}

/// Appends what the entries of one descriptor leave open.
pub(crate) fn append(key: &mut Vec<u8>, parts: &[Part], entries: &[Entry<'_>]) {
    for (part, (entry_key, entry_value)) in parts.iter().zip(entries) {
        match part {
            Part::Fixed => {}
            Part::Value => append_part(key, entry_value),
            Part::KeyAndValue => {
                append_part(key, entry_key);
                append_part(key, entry_value);
            }
        }
    }
}

/// Appends everything: for limits that come with the request and belong to no rule.
pub(crate) fn append_all(key: &mut Vec<u8>, domain: &str, entries: &[Entry<'_>]) {
    append_part(key, domain);
    for (entry_key, entry_value) in entries {
        append_part(key, entry_key);
        append_part(key, entry_value);
    }
}

fn append_part(key: &mut Vec<u8>, part: &str) {
    key.extend_from_slice(&(part.len() as u64).to_le_bytes());
    key.extend_from_slice(part.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(parts: &[Part], entries: &[Entry<'_>]) -> Vec<u8> {
        let mut key = Vec::new();
        append(&mut key, parts, entries);
        key
    }

    #[test]
    fn no_two_lists_of_values_make_one_key() {
        let values = ["", "a", "b", "ab", "\0", "a\0", "1\0\0\0\0\0\0\0a", "a_b", "b_c"];
        let mut seen = std::collections::HashSet::new();
        for one in values {
            for other in values {
                let key = built(&[Part::Value; 2], &[("k", one), ("l", other)]);
                assert!(seen.insert(key), "{one:?} and {other:?}");
            }
        }
        let joined = built(&[Part::KeyAndValue], &[("a_b", "c")]);
        assert_ne!(joined, built(&[Part::KeyAndValue], &[("a", "b_c")]));
    }

    #[test]
    fn what_a_rule_names_is_no_part_of_its_key() {
        let parts = [Part::Fixed, Part::Value];
        let key = built(&parts, &[("plan", "free"), ("user", "alice")]);
        assert_eq!(key, [&5_u64.to_le_bytes()[..], b"alice"].concat());
        assert!(is_constant(&[Part::Fixed; 3]) && !is_constant(&parts));
    }
}
