//! [`RuleId`]: identifies a rule, in this load and in later ones.

use crate::language::file::DescriptorText;
use crate::language::identifier::KeyPart;
use crate::language::position::{Origin, Position};
use crate::language::value::ValueMatch;

/// Identifies a rule across loads: its domain, and the keys and values that lead to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RuleId {
    pub(crate) domain: Box<str>,
    pub(crate) steps: Vec<PathStep>,
}

/// A level on the path to a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathStep {
    pub(crate) key: Box<str>,
    /// The values that match; `None` if any value does.
    pub(crate) value: Option<ValueMatch>,
    /// The part of the request's entry that goes into the key of the rule's tables.
    pub(crate) part: KeyPart,
}

impl RuleId {
    /// A text that no other rule of the domain has, such as `user=alice/path~%2Flogin*`. A value is preceded by `=` if
    /// all requests that match it are one client, and by `~` if each matching value is a client of its own. A network
    /// is preceded by one more `=`, and a regular expression by one more `~`. Separators within keys and values are
    /// escaped.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (n, step) in self.steps.iter().enumerate() {
            text.extend((n > 0).then_some('/'));
            escape(&step.key, &mut text);
            match &step.value {
                None => {}
                Some(value) => {
                    text.push(if step.part == KeyPart::Fixed { '=' } else { '~' });
                    text += value.mark();
                    match value {
                        ValueMatch::Text(part) | ValueMatch::Expression(part) => {
                            escape(part, &mut text);
                        }
                        ValueMatch::Range(range) => escape(&range.to_string(), &mut text),
                    }
                }
            }
        }
        text
    }

    /// The rule with this [text](RuleId::text); `None` if no rule has this text.
    pub(crate) fn parse(domain: &str, text: &str) -> Option<Self> {
        let steps = text.split('/').map(PathStep::parse).collect::<Option<_>>()?;
        // Several texts may parse to the same rule. Only the text that `text` writes is accepted.
        Some(Self { domain: domain.into(), steps }).filter(|id| id.text() == text)
    }

    /// The path of the rule, as in [`Rule::path`](crate::Rule::path).
    pub(crate) fn path(&self) -> String {
        self.steps.iter().map(PathStep::name).collect::<Vec<_>>().join(".")
    }

    /// An id that is equal for all rules that match the same requests, even if only some of them have
    /// `share_threshold`.
    pub(crate) fn of_matches(&self) -> Self {
        let mut id = self.clone();
        id.steps.iter_mut().for_each(|step| step.part = KeyPart::Fixed);
        id
    }
}

fn escape(part: &str, text: &mut String) {
    for letter in part.chars() {
        match letter {
            '%' | '/' | '=' | '~' => *text += &format!("%{:02X}", u32::from(letter)),
            _ => text.push(letter),
        }
    }
}

fn unescape(part: &str) -> Option<Box<str>> {
    let mut pieces = part.split('%');
    let mut text = pieces.next()?.to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        text.push(u8::from_str_radix(digits, 16).ok()?.into());
        text += rest;
    }
    Some(text.into())
}

impl PathStep {
    fn parse(text: &str) -> Option<Self> {
        let (key, is_one, value) = match text.find(['=', '~']) {
            None => (text, false, None),
            Some(at) => (&text[..at], text[at..].starts_with('='), Some(&text[at + 1..])),
        };
        let key = unescape(key)?;
        let part = match is_one {
            true => KeyPart::Fixed,
            false if key.contains('*') => KeyPart::KeyAndValue,
            false => KeyPart::Value,
        };
        let value = match value {
            None => None,
            Some(value) => Some(match value.as_bytes().first() {
                Some(b'=') => ValueMatch::Range(unescape(&value[1..])?.parse().ok()?),
                Some(b'~') => ValueMatch::Expression(unescape(&value[1..])?),
                _ => ValueMatch::Text(unescape(value)?),
            }),
        };
        Some(Self { key, value, part })
    }

    pub(crate) fn of(descriptor: &DescriptorText) -> Self {
        let (key, value) = (descriptor.key.as_str(), descriptor.value.as_ref());
        let part = match value {
            _ if descriptor.share_threshold => KeyPart::Fixed,
            _ if key.contains('*') => KeyPart::KeyAndValue,
            Some(value) if value.is_one() => KeyPart::Fixed,
            _ => KeyPart::Value,
        };
        Self { key: key.into(), value: value.cloned(), part }
    }

    /// Whether the step matches only one key with one value.
    pub(crate) fn is_one(&self) -> bool {
        !self.key.contains('*') && self.value.as_ref().is_some_and(ValueMatch::is_one)
    }

    /// Whether the step matches several values that share one limit.
    pub(crate) fn is_shared(&self) -> bool {
        !self.is_one() && self.part == KeyPart::Fixed
    }

    /// The file and the position of the entry; `None` if it matches only one value, because no other entry can hide
    /// such an entry.
    pub(crate) fn origin(&self, file: &str, at: Position) -> Option<Box<Origin>> {
        let origin = || Box::new(Origin { file: file.into(), at, name: self.name().into() });
        (!self.is_one()).then(origin)
    }

    /// The name of one level of a rule's path.
    pub(crate) fn name(&self) -> String {
        let key = &self.key;
        self.value.as_ref().map_or_else(|| key.to_string(), |value| format!("{key}_{value}"))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, ValueMatch::heap_bytes)
    }
}
