//! The parts of a line that are needed: one key, or several as one row.
//!
//! A row is bytes: each part is prefixed with its length, so that no two lists of parts give the same bytes.

use std::borrow::Cow;
use std::slice::from_ref;

use super::chain::is_chain;
use super::key::LineKey;
use super::reason::Reason;

/// The parts that are read from each line besides its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// One part.
    One(LineKey),
    /// All of these parts, in this order.
    Row(Vec<LineKey>),
    /// All of these parts as one readable text, with `, ` in between, and commas within a part doubled.
    Joined(Vec<LineKey>),
}

impl Wanted {
    /// Returns the canonical text of `found`: equal keys have equal texts.
    pub(crate) fn canonical<'t>(&self, found: &'t [u8]) -> Result<Cow<'t, [u8]>, Reason> {
        match self {
            Self::One(key) => key.canonical(found),
            Self::Row(keys) => {
                let mut row = Vec::with_capacity(found.len());
                for (key, part) in keys.iter().zip(parts(found)) {
                    push(&mut row, &key.canonical(part)?);
                }
                Ok(Cow::Owned(row))
            }
            Self::Joined(keys) => {
                let mut text = Vec::with_capacity(found.len());
                for (key, part) in keys.iter().zip(parts(found)) {
                    if !text.is_empty() {
                        text.extend_from_slice(b", ");
                    }
                    for &byte in &*key.canonical(part)? {
                        text.extend_from_slice(if byte == b',' { b",," } else { from_ref(&byte) });
                    }
                }
                Ok(Cow::Owned(text))
            }
        }
    }

    /// Returns the first part of `found` that is a chain of addresses and is used as a key unchanged, without a search
    /// for the client in it.
    pub(crate) fn chain<'t>(&self, found: &'t [u8]) -> Option<&'t [u8]> {
        let whole = |key: &LineKey| {
            matches!(key, LineKey::Field(_) | LineKey::AddressField(..)) && !key.follows_chains()
        };
        match self {
            Self::One(key) => Some(found).filter(|found| whole(key) && is_chain(found)),
            Self::Row(keys) | Self::Joined(keys) => {
                let mut pairs = keys.iter().zip(parts(found));
                pairs.find(|(key, part)| whole(key) && is_chain(part)).map(|(_, part)| part)
            }
        }
    }

    /// Returns the client's address in a canonical text, if it is among the parts.
    pub(crate) fn client<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let is_client = |key: &LineKey| matches!(key, LineKey::Ip(_));
        match self {
            Self::One(key) => Some(text).filter(|_| is_client(key)),
            Self::Row(keys) => {
                keys.iter().zip(parts(text)).find(|(key, _)| is_client(key)).map(|(_, part)| part)
            }
            // The address is looked for only in the first place, because other parts may contain any text.
            Self::Joined(keys) => {
                let end = memchr::memmem::find(text, b", ").unwrap_or(text.len());
                keys.first().filter(|key| is_client(key)).map(|_| &text[..end])
            }
        }
    }

    /// Returns the parts, in their order.
    pub(crate) fn keys(&self) -> &[LineKey] {
        match self {
            Self::One(key) => from_ref(key),
            Self::Row(keys) | Self::Joined(keys) => keys,
        }
    }

    /// Gathers the parts; `value` returns each part by its index.
    #[inline]
    pub(crate) fn gather<'l>(
        &self,
        value: impl Fn(usize) -> Result<Cow<'l, [u8]>, Reason>,
    ) -> Result<Cow<'l, [u8]>, Reason> {
        if let Self::One(_) = self {
            return value(0);
        }
        let mut row = Vec::new();
        for place in 0..self.keys().len() {
            push(&mut row, &value(place)?);
        }
        Ok(Cow::Owned(row))
    }
}

/// Appends a part to a row.
pub(crate) fn push(row: &mut Vec<u8>, part: &[u8]) {
    row.extend_from_slice(&part.len().to_le_bytes());
    row.extend_from_slice(part);
}

/// Returns the parts of a row that [`push`] has made.
pub(crate) fn parts(mut row: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = row.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(usize::from_le_bytes(*length))?;
        row = rest;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::clients::ClientsBy;

    fn row(parts: &[&str]) -> Vec<u8> {
        let mut row = Vec::new();
        parts.iter().for_each(|part| push(&mut row, part.as_bytes()));
        row
    }

    #[test]
    fn a_row_gives_back_its_parts_and_no_other_row_is_the_same() {
        let rows: [&[&str]; 6] =
            [&[], &[""], &["", ""], &["ab", "c"], &["a", "bc"], &["abc", "\0\0\0\0\0\0\0\0"]];
        for (n, one) in rows.iter().enumerate() {
            let made = row(one);
            let back: Vec<_> = parts(&made).map(|part| String::from_utf8_lossy(part)).collect();
            assert_eq!(back, *one);
            for other in &rows[..n] {
                assert_ne!(made, row(other));
            }
        }
    }

    #[test]
    fn joined_parts_can_be_told_apart() {
        let wanted = Wanted::Joined(vec![LineKey::User, LineKey::Referer]);
        let joined = |parts: &[&str]| {
            let found = row(parts);
            let made = wanted.canonical(&found).expect("all good").into_owned();
            String::from_utf8(made).expect("made from text")
        };
        assert_eq!(joined(&["a", "/x"]), "a, /x");
        assert_eq!(joined(&["a, b", ""]), "a,, b, -");
        assert_ne!(joined(&["a, b", "c"]), joined(&["a", "b, c"]));
    }

    #[test]
    fn each_part_of_a_row_is_made_canonical_by_its_own_key() {
        let wanted = Wanted::Row(vec![LineKey::Ip(ClientsBy::EACH), LineKey::Path, LineKey::User]);
        let found = row(&["::ffff:192.0.2.1", "/a?b", ""]);
        let made = wanted.canonical(&found).expect("all good");
        assert_eq!(*made, row(&["192.0.2.1", "/a", "-"]));
        assert!(wanted.canonical(&row(&["1.2.3", "/a", ""])).is_err());
    }
}
