//! Takes out lines that a collector keeps inside of objects: Docker's json-file, and the journal as JSON.

use serde::Deserialize;

/// The object that Docker writes for a line, or for a part of a long line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "an object without these, or with more, is something else")]
struct DockerLine {
    log: String,
    stream: String,
    time: String,
    attrs: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The object that `journalctl -o json` writes.
#[derive(Deserialize)]
struct JournalLine {
    #[serde(rename = "MESSAGE")]
    message: String,
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    _time: String,
}

/// Replaces the objects of such a collector by the lines inside them. Returns the new length of the block, which is
/// never more than the old one.
pub(super) fn unwrap(block: &mut [u8]) -> usize {
    let start = block.trim_ascii_start();
    if !start.starts_with(b"{\"") || inner(first_line(start)).is_none() {
        return block.len();
    }
    let (mut read, mut written) = (0, 0);
    while read < block.len() {
        let line = first_line(&block[read..]);
        let length = line.len();
        match inner(line) {
            Some(text) => {
                block[written..written + text.len()].copy_from_slice(text.as_bytes());
                written += text.len();
            }
            None => {
                block.copy_within(read..read + length, written);
                written += length;
            }
        }
        read += length;
    }
    written
}

/// Returns the first line, with its end.
fn first_line(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1)]
}

fn inner(line: &[u8]) -> Option<String> {
    let of_docker = || serde_json::from_slice(line).map(|line: DockerLine| line.log);
    let of_journal = || serde_json::from_slice(line).map(|line: JournalLine| line.message + "\n");
    let text = of_docker().or_else(|_| of_journal()).ok()?;
    (text.len() <= line.len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let length = unwrap(&mut bytes);
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    }

    #[test]
    fn the_lines_inside_are_the_log_and_parts_of_one_are_joined() {
        let line = |log: &str| {
            format!(r#"{{"log":"{log}","stream":"stdout","time":"2015-05-17T10:05:03Z"}}"#)
        };
        let text = [line(r#"a \"b\"\n"#), line("c "), "bad".to_owned(), line(r"d\n")].join("\n");
        assert_eq!(unwrapped(&text), "a \"b\"\nc bad\nd\n");
        let journal = r#"{"MESSAGE":"a","__REALTIME_TIMESTAMP":"1","_PID":"7"}"#;
        assert_eq!(unwrapped(&format!("{journal}\n{journal}")), "a\na\n");
    }

    #[test]
    fn other_objects_are_kept() {
        for text in [
            r#"{"log":"a\n","stream":"stdout","time":"2015-05-17T10:05:03Z","ip":"192.0.2.1"}"#,
            r#"{"MESSAGE":"a"}"#,
            "a\n",
            "",
        ] {
            assert_eq!(unwrapped(text), text);
        }
    }
}
