//! logfmt: lines of `name=value` pairs with blanks in between. A value with blanks is in quotes.

use serde_json::{Map, Value};

use super::Reason;

/// Returns the pairs of a line as an object. If a name occurs several times, its first value is used. A name without a
/// value has the value true.
pub(super) fn object(line: &[u8]) -> Result<Map<String, Value>, Reason> {
    let text = String::from_utf8_lossy(line);
    let (mut rest, mut object) = (text.trim(), Map::new());
    let mut pairs = 0;
    while !rest.is_empty() {
        let bad = || Reason::not_logfmt(rest.as_bytes());
        let end = rest.find([' ', '=', '"']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let (value, behind) = match behind.strip_prefix('=') {
            _ if name.is_empty() => return Err(bad()),
            Some(value) if value.starts_with('"') => {
                let end = end_of_quotes(value).ok_or_else(bad)?;
                let inner: String = serde_json::from_str(&value[..end])
                    .unwrap_or_else(|_| value[1..end - 1].to_owned());
                pairs += 1;
                (Value::String(inner), &value[end..])
            }
            Some(value) => {
                let (value, behind) = value.split_at(value.find(' ').unwrap_or(value.len()));
                pairs += 1;
                (Value::String(value.to_owned()), behind)
            }
            None if behind.starts_with('"') => return Err(bad()),
            None => (Value::Bool(true), behind),
        };
        object.entry(name).or_insert(value);
        rest = behind.trim_start();
    }
    if pairs == 0 { Err(Reason::not_logfmt(line)) } else { Ok(object) }
}

/// Returns the index behind the closing quote of a text in quotes.
fn end_of_quotes(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(place + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_with_quotes_or_without() {
        let line = br#"at=info path="/a \"b\" ip=192.0.2.9" ip=192.0.2.1 ip=192.0.2.2 empty= done"#;
        let object = object(line).expect("pairs");
        let expected = serde_json::json!({
            "at": "info", "path": "/a \"b\" ip=192.0.2.9", "ip": "192.0.2.1", "empty": "", "done": true
        });
        assert_eq!(Value::Object(object), expected);
    }

    #[test]
    fn what_has_no_pairs_or_an_open_quote_is_refused() {
        for line in ["", "a b c", "a=\"b", "=b", "\"a\"=b"] {
            assert!(object(line.as_bytes()).is_err(), "{line}");
        }
    }
}
