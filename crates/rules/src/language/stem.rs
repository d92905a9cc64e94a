//! [`Stem`]: the name under which envoyproxy/ratelimit counts the descriptors of a rule.

use crate::language::identifier::{AddressBits, KeyPart};
use crate::language::rule_id::PathStep;
use crate::language::value::{DescriptorEntry, ValueMatch};

/// The names under which envoyproxy/ratelimit counts a rule's descriptors.
#[derive(Debug)]
pub(crate) struct Stem {
    /// For each level, the text of its pattern if all values that match the pattern share one limit.
    shared: Box<[Option<Box<str>>]>,
    /// Whether envoyproxy/ratelimit can read the rule, and tells the same clients apart.
    pub(crate) is_known: bool,
}

impl Stem {
    /// The stem of a rule with these steps and this many limits.
    pub(crate) fn of(steps: &[PathStep], bits: AddressBits, limits: usize) -> Self {
        let is_known = |step: &PathStep| {
            !step.key.contains('*') && matches!(step.value, None | Some(ValueMatch::Text(_)))
        };
        let shared = |step: &PathStep| match &step.value {
            Some(ValueMatch::Text(text)) if text.contains('*') && step.part == KeyPart::Fixed => {
                Some(text.clone())
            }
            _ => None,
        };
        Self {
            shared: steps.iter().map(shared).collect(),
            is_known: bits == AddressBits::default() && limits <= 1 && steps.iter().all(is_known),
        }
    }

    /// Appends the domain, and each key and value, each followed by `_`. Envoyproxy/ratelimit completes the key with
    /// the time at which the window began.
    pub(crate) fn append(&self, to: &mut Vec<u8>, domain: &str, entries: &[DescriptorEntry<'_>]) {
        append(to, domain, entries, &self.shared);
    }
}

/// Appends the stem of a descriptor. For each level where several values share a limit, `shared` has the text that
/// replaces the value. It is empty for a limit that came with the request.
pub(crate) fn append(
    to: &mut Vec<u8>,
    domain: &str,
    entries: &[DescriptorEntry<'_>],
    shared: &[Option<Box<str>>],
) {
    let mut append = |part: &str| {
        to.extend_from_slice(part.as_bytes());
        to.push(b'_');
    };
    append(domain);
    for (n, (key, value)) in entries.iter().enumerate() {
        append(key);
        append(shared.get(n).and_then(Option::as_deref).unwrap_or(value));
    }
}
