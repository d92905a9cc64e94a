//! JSON lines: one object per line, with any fields.

use serde_json::{Map, Value};

use super::{LineKey, Reason, Wanted, time, wanted};

/// The usual names of the time; the first one present counts.
const TIME_FIELDS: [&str; 7] =
    ["time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "msec"];

/// The time of a line, and its key.
pub(super) fn read(
    line: &[u8],
    wanted: &Wanted,
    time_field: Option<&str>,
) -> Result<(u64, Vec<u8>), Reason> {
    let object: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| Reason::not_json(&error))?;
    let time = match time_field {
        Some(name) => plain(&object, &[name])?,
        None => plain(&object, &TIME_FIELDS)?,
    };
    let found = match wanted {
        Wanted::One(key) => part(&object, key)?.into_bytes(),
        Wanted::Row(keys) => {
            let mut row = Vec::new();
            for key in keys {
                wanted::push(&mut row, part(&object, key)?.as_bytes());
            }
            row
        }
    };
    Ok((time::from_text(time.as_bytes())?, found))
}

/// The part that a key names.
fn part(object: &Map<String, Value>, key: &LineKey) -> Result<String, Reason> {
    match key {
        LineKey::Ip(_) => plain(object, &["ip", "remote_addr", "remote_ip", "client_ip"]),
        LineKey::User => plain(object, &["user", "remote_user"]),
        LineKey::Method => plain(object, &["method", "request_method"]),
        LineKey::Path => plain(object, &["path", "uri", "request_uri"]),
        LineKey::Referer => plain(object, &["referer", "http_referer"]),
        LineKey::UserAgent => plain(object, &["user-agent", "user_agent", "http_user_agent"]),
        LineKey::Field(name) => plain(object, &[name]),
    }
}

/// The value of the first of these fields that exists, as text; null becomes an empty text.
fn plain(object: &Map<String, Value>, names: &[&str]) -> Result<String, Reason> {
    let (name, value) = names
        .iter()
        .find_map(|name| Some((name, field(object, name)?)))
        .ok_or_else(|| Reason::no_such_field(names, object.keys()))?;
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => Err(Reason::not_plain(name)),
    }
}

/// A field by its name, or by its path: `request.remote_ip`.
fn field<'o>(object: &'o Map<String, Value>, name: &str) -> Option<&'o Value> {
    object.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        field(object.get(outer)?.as_object()?, inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str, key: &str, time: Option<&str>) -> Result<(u64, String), String> {
        let key = Wanted::One(key.parse().expect("every name is a key"));
        read(line.as_bytes(), &key, time)
            .map(|(nanos, key)| (nanos, String::from_utf8(key).expect("JSON is text")))
            .map_err(|reason| reason.to_string())
    }

    #[test]
    fn fields_are_found_by_name_by_usual_name_and_by_way() {
        let nanos = 1_431_857_103_250_000_000;
        let named = r#"{"when":1431857103.25,"tenant":7}"#;
        assert_eq!(line(named, "tenant", Some("when")), Ok((nanos, "7".to_owned())));
        let usual = r#"{"ts":1431857103250,"remote_addr":"192.0.2.1"}"#;
        assert_eq!(line(usual, "ip", None), Ok((nanos, "192.0.2.1".to_owned())));
        let nested = r#"{"time":"2015-05-17T12:05:03.25+02:00","request":{"host":{"a":true}}}"#;
        assert_eq!(line(nested, "request.host.a", None), Ok((nanos, "true".to_owned())));
        let null = r#"{"time":"1431857103.25","user":null}"#;
        assert_eq!(line(null, "user", None), Ok((nanos, String::new())));
    }

    #[test]
    fn what_is_missing_is_said_with_what_is_there() {
        assert_eq!(
            line(r#"{"time":1,"b":2}"#, "tenant", None),
            Err(r#"no field "tenant"; the line has "b", "time""#.to_owned())
        );
        assert_eq!(
            line(r#"{"time":1,"tenant":[]}"#, "tenant", None),
            Err(r#"the field "tenant" is no text, number or boolean"#.to_owned())
        );
        let cut = line(r#"{"time":1,"tena"#, "tenant", None).expect_err("the line is cut");
        assert!(cut.starts_with("not a JSON object: EOF while parsing"), "{cut}");
    }
}
