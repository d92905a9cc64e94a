//! JSON lines: one object per line. A format names the fields of the time and the keys.

use serde_json::{Map, Value};

use super::Reason;
use super::logfmt;
use super::mend::mended;
use super::time::ClfTimeReader;
use crate::replay::key::LineKey;

/// The names of the fields of a format. If there are several names, the first one that a line has is used. `a.b` is the
/// field `b` of the object `a`.
#[derive(Debug)]
pub(super) struct JsonFormat {
    /// Whether the lines are `name=value` pairs in place of JSON.
    is_logfmt: bool,
    /// The fields that every line of the format has.
    marks: &'static [&'static str],
    time: &'static [&'static str],
    ip: &'static [&'static str],
    /// The fields with forwarded addresses.
    forwarded: &'static [&'static str],
    user: &'static [&'static str],
    method: &'static [&'static str],
    path: &'static [&'static str],
    referer: &'static [&'static str],
    user_agent: &'static [&'static str],
    host: &'static [&'static str],
    status: &'static [&'static str],
}

impl JsonFormat {
    /// The format of other JSON lines, with the names that programs and nginx usually write.
    pub(super) const GENERAL: Self = Self {
        is_logfmt: false,
        marks: &[],
        time: &["time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "msec"],
        ip: &["ip", "remote_addr", "remote_ip", "client_ip"],
        forwarded: &["x_forwarded_for", "http_x_forwarded_for", "x-forwarded-for"],
        user: &["user", "remote_user"],
        method: &["method", "request_method"],
        path: &["path", "uri", "request_uri"],
        referer: &["referer", "http_referer"],
        user_agent: &["user-agent", "user_agent", "http_user_agent"],
        host: &["host", "http_host", "server_name"],
        status: &["status"],
    };

    /// Lines of `name=value` pairs, as programs in Go and others write them.
    pub(super) const LOGFMT: Self = Self {
        is_logfmt: true,
        ip: &["ip", "remote_addr", "remote_ip", "client_ip", "remote", "client", "fwd"],
        ..Self::GENERAL
    };

    /// The JSON lines of Envoy and Istio, with the field names of their documentation.
    pub(super) const ENVOY: Self = Self {
        is_logfmt: false,
        marks: &["start_time"],
        time: &["start_time"],
        ip: &["downstream_remote_address"],
        forwarded: &["x_forwarded_for"],
        user: &["user"],
        method: &["method"],
        path: &["x_envoy_original_path", "path"],
        referer: &["referer"],
        user_agent: &["user_agent"],
        host: &["authority"],
        status: &["response_code"],
    };

    pub(super) const TRAEFIK: Self = Self {
        is_logfmt: false,
        marks: &["RequestMethod"],
        time: &["StartUTC", "time"],
        ip: &["ClientHost", "ClientAddr"],
        forwarded: &["request_X-Forwarded-For"],
        user: &["ClientUsername"],
        method: &["RequestMethod"],
        path: &["RequestPath"],
        referer: &["request_Referer"],
        user_agent: &["request_User-Agent"],
        host: &["RequestHost", "RequestAddr"],
        status: &["DownstreamStatus", "OriginStatus"],
    };

    pub(super) const CADDY: Self = Self {
        is_logfmt: false,
        marks: &["request.uri"],
        time: &["ts"],
        ip: &["request.client_ip", "request.remote_ip", "request.remote_addr"],
        forwarded: &["request.headers.X-Forwarded-For"],
        user: &["user_id"],
        method: &["request.method"],
        path: &["request.uri"],
        referer: &["request.headers.Referer"],
        user_agent: &["request.headers.User-Agent"],
        host: &["request.host"],
        status: &["status"],
    };

    /// The log of Google Cloud's load balancers, as Google's logging exports it.
    pub(super) const GCP: Self = Self {
        is_logfmt: false,
        marks: &["httpRequest"],
        time: &["timestamp"],
        ip: &["httpRequest.remoteIp"],
        forwarded: &[],
        user: &["user"],
        method: &["httpRequest.requestMethod"],
        path: &["httpRequest.requestUrl"],
        referer: &["httpRequest.referer"],
        user_agent: &["httpRequest.userAgent"],
        host: &["host"],
        status: &["httpRequest.status"],
    };

    fn names<'k>(&self, key: &'k LineKey, own: &'k mut [&'k str; 1]) -> &'k [&'k str] {
        match key {
            LineKey::Ip(_) => self.ip,
            LineKey::User => self.user,
            LineKey::Method => self.method,
            LineKey::Path => self.path,
            LineKey::Referer => self.referer,
            LineKey::UserAgent => self.user_agent,
            LineKey::Host => self.host,
            LineKey::Status => self.status,
            LineKey::Field(name) | LineKey::AddressField(name, _) => {
                own[0] = name;
                own
            }
        }
    }
}

/// A line of a format.
pub(super) struct JsonLine {
    format: &'static JsonFormat,
    object: Map<String, Value>,
}

impl JsonLine {
    pub(super) fn parse(line: &[u8], format: &'static JsonFormat) -> Result<Self, Reason> {
        let object = if format.is_logfmt { logfmt::object(line)? } else { object(line)? };
        let line = Self { format, object };
        match format.marks.iter().find(|mark| field(&line.object, mark).is_none()) {
            Some(mark) => Err(Reason::no_such_field(&[mark], line.object.keys())),
            None => Ok(line),
        }
    }

    /// Returns the time of the line, from `time_field` if it is given, else from the field of the format.
    pub(super) fn time(
        &self,
        time_field: Option<&str>,
        clock: &mut ClfTimeReader,
    ) -> Result<u64, Reason> {
        let time = match time_field {
            Some(name) => plain(&self.object, &[name])?,
            None => plain(&self.object, self.format.time)?,
        };
        clock.read_any(time.as_bytes())
    }

    /// Returns the part that a key names.
    pub(super) fn part(&self, key: &LineKey) -> Result<String, Reason> {
        let text = plain(&self.object, self.format.names(key, &mut [""]))?;
        if !(matches!(key, LineKey::Ip(_)) && key.follows_chains()) {
            return Ok(text);
        }
        match plain(&self.object, self.format.forwarded) {
            Ok(forwarded) => Ok(format!("{forwarded}, {text}")),
            Err(_) => Ok(text),
        }
    }
}

/// Returns the object of a line. An array becomes an object whose names are the indices of its values, from 0.
fn object(line: &[u8]) -> Result<Map<String, Value>, Reason> {
    let value = serde_json::from_slice(line).or_else(|error| {
        // Servers put values into a line that are not always valid JSON.
        let mended = mended(line).and_then(|mended| serde_json::from_slice(&mended).ok());
        mended.ok_or(error)
    });
    match value {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Array(values)) if !values.iter().any(Value::is_object) => {
            let named = (0_u32..).zip(values).map(|(place, value)| (place.to_string(), value));
            Ok(named.collect())
        }
        Ok(Value::Array(_)) => Err(Reason::many_objects()),
        Ok(_) => Err(Reason::no_object()),
        Err(_) if matches!(line.trim_ascii(), b"[" | b"{" | b"[{") => Err(Reason::many_lines()),
        Err(error) => Err(Reason::not_json(&error)),
    }
}

/// Returns the value of the first of these fields that exists, as text. Null becomes an empty text. A list of one
/// value, as some servers write headers, becomes that value.
fn plain(object: &Map<String, Value>, names: &[&str]) -> Result<String, Reason> {
    let (name, value) = names
        .iter()
        .find_map(|name| Some((name, field(object, name)?)))
        .ok_or_else(|| Reason::no_such_field(names, object.keys()))?;
    let value = match value {
        Value::Array(values) if values.len() == 1 => &values[0],
        other => other,
    };
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => Err(Reason::not_plain(name)),
    }
}

/// Finds a field by its name, or by its path: `request.remote_ip`.
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
        let key: LineKey = key.parse().expect("every name is a key");
        JsonLine::parse(line.as_bytes(), &JsonFormat::GENERAL)
            .and_then(|line| {
                Ok((line.time(time, &mut ClfTimeReader::default())?, line.part(&key)?))
            })
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

    #[test]
    fn a_line_that_is_an_array_has_places_as_names_and_one_of_objects_is_none() {
        let array = r#"["2015-05-17T10:05:03.25Z","192.0.2.1",200]"#;
        let nanos = 1_431_857_103_250_000_000;
        assert_eq!(line(array, "1", Some("0")), Ok((nanos, "192.0.2.1".to_owned())));
        for (text, told) in [
            (
                r#"[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}]"#,
                "this line is an array of objects; write each",
            ),
            (
                "[",
                "its JSON goes over several lines; write each object on a line of its own, as jq -c '.[]?",
            ),
            ("7", "not a JSON object"),
        ] {
            let refused = line(text, "ip", None).expect_err("no object");
            assert!(refused.starts_with(told), "{refused}");
        }
    }
}
