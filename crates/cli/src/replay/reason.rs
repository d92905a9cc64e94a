//! The reasons why lines are bad; each says what would be accepted.

use std::borrow::Cow;
use std::fmt;

use crate::replay::text;

/// The reason why a line is bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason(String);

/// The maximum length of quoted input: enough to recognise it.
const QUOTED_CHARS: usize = 40;

impl Reason {
    #[cold]
    pub(crate) fn not_an_address(found: &[u8]) -> Self {
        let found = quoted(found);
        Self(format!("{found} is no client address; expected an IP address or a host name"))
    }

    #[cold]
    pub(crate) fn chain(found: &[u8]) -> Self {
        let found = quoted(found);
        Self(format!(
            "{found} is a chain of addresses, of which your proxies have written those on the right; say which \
             they are, as in --trusted-proxies 10.0.0.0/8, or none"
        ))
    }

    /// `later` is an address behind the text that stands in the place of the client.
    #[cold]
    pub(super) fn client_behind(found: &[u8], later: &[u8], format: &str) -> Self {
        let (found, later) = (quoted(found), quoted(later));
        Self(format!(
            "{found} stands where {format} lines have the client, and is no address, but {later} behind it is one; \
             cut what a tool has put in front of the line, or give a --format that has it"
        ))
    }

    #[cold]
    pub(super) fn not_a_time(found: &[u8]) -> Self {
        let found = quoted(found);
        Self(format!(
            "{found} is no time; expected 17/May/2015:10:05:03 +0000, 2015-05-17T10:05:03Z or a \
             Unix time"
        ))
    }

    #[cold]
    pub(super) fn outside_the_calendar(found: &[u8]) -> Self {
        let found = quoted(found);
        Self(format!("the time {found} is outside the years 1970 to 2099"))
    }

    #[cold]
    pub(super) fn not_a_time_as(found: &[u8], form: &str) -> Self {
        Self(format!("{} is no time; expected {form}", quoted(found)))
    }

    /// `present` are the names that the format has.
    #[cold]
    pub(super) fn not_in_format(key: &str, format: &str, present: &[Cow<'_, str>]) -> Self {
        let key = quoted(key.as_bytes());
        Self(format!("{key} is not in {format} lines, which have {}", present.join(", ")))
    }

    /// `after` is the text that should stand behind the field, or at the start of the line.
    #[cold]
    pub(super) fn no_text(after: &[u8], field: Option<&str>, format: &str) -> Self {
        let place = field.map_or("at the start".to_owned(), |field| format!("behind {field}"));
        Self(format!("no {} {place}, where {format} lines have it", quoted(after)))
    }

    #[cold]
    pub(super) fn blank_inside(found: &[u8], field: &str, format: &str) -> Self {
        Self(format!("{} has a blank, and {field} of {format} lines has none", quoted(found)))
    }

    #[cold]
    pub(super) fn part_of_chain(found: &[u8], field: &str, format: &str) -> Self {
        let found = quoted(found);
        Self(format!(
            "{found} begins a chain of addresses, and {field} of {format} lines is none; give a --format that has it"
        ))
    }

    #[cold]
    pub(super) fn ended(field: &str, format: &str) -> Self {
        Self(format!("the line ends before {field}, which {format} lines have"))
    }

    #[cold]
    pub(super) fn no_columns() -> Self {
        Self(
            "no #Fields line above it says what its columns are; give --format \"#Fields: date time \
             c-ip ...\" with all of them"
                .to_owned(),
        )
    }

    #[cold]
    pub(super) fn bad_columns(error: &dyn fmt::Display) -> Self {
        Self(format!("the columns of this #Fields line cannot be read: {error}"))
    }

    #[cold]
    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        Self(format!("not a JSON object: {error}"))
    }

    #[cold]
    pub(super) fn no_object() -> Self {
        Self("not a JSON object, but a single value".to_owned())
    }

    #[cold]
    pub(super) fn many_objects() -> Self {
        Self(
            "this line is an array of objects; write each object on a line of its own, as \
             jq -c '.[]' FILE | tollgate replay - does"
                .to_owned(),
        )
    }

    #[cold]
    pub(super) fn many_lines() -> Self {
        Self(
            "its JSON goes over several lines; write each object on a line of its own, as \
             jq -c '.[]?' FILE | tollgate replay - does for an array, and jq -c . for objects"
                .to_owned(),
        )
    }

    #[cold]
    pub(super) fn not_logfmt(found: &[u8]) -> Self {
        Self(format!("{} is no name=value pair, or its quote does not end", quoted(found)))
    }

    /// `names` are the fields that would be accepted, `present` those of the line.
    #[cold]
    pub(super) fn no_such_field<'p>(
        names: &[&str],
        present: impl Iterator<Item = &'p String>,
    ) -> Self {
        let list = |names: Vec<String>| names.join(", ");
        let wanted = list(names.iter().map(|name| quoted(name.as_bytes())).collect());
        let present = list(present.take(8).map(|name| quoted(name.as_bytes())).collect());
        Self(format!("no field {wanted}; the line has {present}"))
    }

    #[cold]
    pub(super) fn not_plain(name: &str) -> Self {
        let name = quoted(name.as_bytes());
        Self(format!("the field {name} is no text, number or boolean"))
    }

    #[cold]
    pub(super) fn block_too_large() -> Self {
        Self("more keys in one block than a number can tell apart".to_owned())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn quoted(found: &[u8]) -> String {
    format!("\"{}\"", text::shortened(found, QUOTED_CHARS))
}
