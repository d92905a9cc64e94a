//! Mends lines of JSON into which a server has written invalid values. Unless `escape=json` is set, nginx writes `\x22`
//! for a quote, and it writes a bare `-` for a missing number.

/// Returns the line with such values written as in JSON, or none if it has no such values. Other errors stay as they
/// are.
///
/// A backslash that escapes nothing stands for itself: `\x22` is text, as it is in other logs of the same server. A
/// bare value that is not valid JSON becomes text; `-`, or no value at all, becomes null.
pub(super) fn mended(line: &[u8]) -> Option<Vec<u8>> {
    let mut made = Vec::with_capacity(line.len() + 16);
    let mut rest = line;
    while let Some((&byte, behind)) = rest.split_first() {
        made.push(byte);
        rest = match byte {
            b'"' => string(behind, &mut made),
            b':' => bare(behind, &mut made),
            _ => behind,
        };
    }
    (made != line).then_some(made)
}

/// Copies the rest of a string, and returns the text behind it.
fn string<'l>(text: &'l [u8], made: &mut Vec<u8>) -> &'l [u8] {
    let mut rest = text;
    loop {
        match rest {
            [] => return rest,
            [b'"', behind @ ..] => {
                made.push(b'"');
                return behind;
            }
            [b'\\', escaped, behind @ ..] => {
                let is_known = match escaped {
                    b'u' => behind.len() >= 4 && behind[..4].iter().all(u8::is_ascii_hexdigit),
                    _ => b"\"\\/bfnrt".contains(escaped),
                };
                made.extend_from_slice(if is_known { b"\\" } else { b"\\\\" });
                made.push(*escaped);
                rest = behind;
            }
            // A character that has to be escaped, such as a tab.
            [byte @ 0..0x20, behind @ ..] => {
                made.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                rest = behind;
            }
            [byte, behind @ ..] => {
                made.push(*byte);
                rest = behind;
            }
        }
    }
}

/// Copies a value behind a colon if nothing encloses it, and returns the text behind it.
fn bare<'l>(text: &'l [u8], made: &mut Vec<u8>) -> &'l [u8] {
    let start = text.trim_ascii_start();
    if matches!(start.first(), None | Some(b'"' | b'{' | b'[')) {
        return text;
    }
    // A comma belongs to the value unless a name follows: `0.1, 0.2`.
    let is_end = |place: &usize| match start[*place] {
        b'}' | b']' => true,
        b',' => start[place + 1..].trim_ascii_start().first() == Some(&b'"'),
        _ => false,
    };
    let end = (0..start.len()).find(is_end).unwrap_or(start.len());
    let value = start[..end].trim_ascii();
    if serde_json::from_slice::<serde_json::Value>(value).is_ok() {
        made.extend_from_slice(value);
    } else if matches!(value, b"" | b"-") {
        made.extend_from_slice(b"null");
    } else {
        let quoted = serde_json::to_vec(&String::from_utf8_lossy(value));
        made.extend(quoted.unwrap_or_default());
    }
    &start[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_put_into_json_is_mended_and_nothing_else() {
        for (line, expected) in [
            (r#"{"a":"\x22b\x22"}"#, Some(r#"{"a":"\\x22b\\x22"}"#)),
            (r#"{"a":-,"b":1}"#, Some(r#"{"a":null,"b":1}"#)),
            (r#"{"a":,"b": -}"#, Some(r#"{"a":null,"b":null}"#)),
            (r#"{"a":0.1, 0.2,"b":1}"#, Some(r#"{"a":"0.1, 0.2","b":1}"#)),
            ("{\"a\":\"x\ty\"}", Some(r#"{"a":"x\u0009y"}"#)),
            (r#"{"a":"\u12"}"#, Some(r#"{"a":"\\u12"}"#)),
            (r#"{"a":"b:-\"c\\","d":[-1.5],"e":{"f":true}}"#, None),
            (r#"{"a":"x"#, None),
            (r#"{"a":"x\"#, None),
            ("", None),
        ] {
            let mended = mended(line.as_bytes());
            let mended = mended.map(|mended| String::from_utf8(mended).expect("text"));
            assert_eq!(mended.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_value_cannot_add_a_field() {
        let line = r#"{"ip":"192.0.2.1","a":"\x22,\x22ip\x22:\x22192.0.2.9"}"#;
        let mended = mended(line.as_bytes()).expect("it is no JSON");
        let value: serde_json::Value = serde_json::from_slice(&mended).expect("it is now");
        assert_eq!(
            (&value["ip"], value.as_object().map(|o| o.len())),
            (&"192.0.2.1".into(), Some(2))
        );
    }
}
