//! Why a line is bad, with what would be accepted.

use std::fmt;

use crate::replay::text;

/// Why a line is bad.
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
    pub(super) fn not_a_log_line() -> Self {
        Self(
            "neither a JSON object nor an address followed by a [time], as Common and Combined \
             Log Format have it"
                .to_owned(),
        )
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
    pub(super) fn not_in_logs(key: &str) -> Self {
        Self(format!(
            "{} is not in Common or Combined lines, which have ip, user, method, path, \
             referer and user-agent; other keys name a field of JSON lines",
            quoted(key.as_bytes())
        ))
    }

    #[cold]
    pub(super) fn only_in_combined(key: &str) -> Self {
        Self(format!("no {key}: only Combined Log Format has it, this line ends before"))
    }

    #[cold]
    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        Self(format!("not a JSON object: {error}"))
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
