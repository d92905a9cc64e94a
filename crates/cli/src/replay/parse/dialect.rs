//! Reads the languages in which servers' configurations describe their logs, as fields and texts.
//!
//! ```text
//! nginx     $remote_addr - $remote_user [$time_local] "$request"
//! Apache    %h %l %u %t "%r" %>s %{User-Agent}i
//! Envoy     [%START_TIME%] "%REQ(:METHOD)% %REQ(:PATH)%"
//! W3C       #Fields: date time c-ip cs-method
//! ```

use std::fmt;

use super::field::{FieldKind, FormatField};
use super::named::names;
use super::template::{FormatToken, Template, TemplateError};
use super::time_form::TimePart;

/// The reason why a text is no format. Positions are counted in bytes, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DialectError {
    /// The text is neither a name nor a format.
    Unknown,
    /// A directive has no end.
    Open { at: usize, close: char },
    /// A `%` or a `$` is not followed by a directive.
    NoDirective { at: usize },
    /// The directives do not form a format.
    Template(TemplateError),
}

impl fmt::Display for DialectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(
                f,
                "no format has this name, and no $name, %h or %NAME% is in it; write auto, a format as a server's \
                 configuration has it, or one of {}",
                names().join(", ")
            ),
            Self::Open { at, close } => {
                write!(f, "the directive at character {at} has no '{close}' at its end")
            }
            Self::NoDirective { at } => write!(
                f,
                "no directive at character {at}; write $name, %h, %{{Name}}i or %NAME%, and a percent sign as %%"
            ),
            Self::Template(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DialectError {}

/// Reads a format in any of the languages.
pub(super) fn template(name: &str, text: &str) -> Result<Template, DialectError> {
    let tokens = if let Some(columns) = text.strip_prefix("#Fields:") {
        columns_tokens(columns)
    } else if has_variable(text) {
        nginx(text)?
    } else if has_operator(text) {
        envoy(text)?
    } else if text.contains('%') {
        apache(text)?
    } else {
        return Err(DialectError::Unknown);
    };
    Template::new(name, tokens).map_err(DialectError::Template)
}

/// Returns whether nginx would see a variable in the text.
fn has_variable(text: &str) -> bool {
    let starts =
        |rest: &str| rest.starts_with(|c: char| c == '{' || c == '_' || c.is_ascii_alphabetic());
    text.split('$').skip(1).any(starts)
}

/// Returns whether the text has an operator of Envoy. Its name has several capitals, which no directive of Apache has.
fn has_operator(text: &str) -> bool {
    text.split('%').skip(1).any(|rest| upper(rest).len() > 1)
}

/// Returns the capitals, digits and underscores that a text starts with.
fn upper(text: &str) -> &str {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

fn field(name: &str, kind: FieldKind) -> FormatToken {
    FormatToken::Field(FormatField { name: name.to_ascii_lowercase(), kind })
}

fn nginx(text: &str) -> Result<Vec<FormatToken>, DialectError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        push_text(&mut tokens, &rest[..start]);
        let at = text.len() - rest.len() + start + 1;
        let behind = &rest[start + 1..];
        let name = if let Some(inner) = behind.strip_prefix('{') {
            let end = inner.find('}').ok_or(DialectError::Open { at, close: '}' })?;
            rest = &inner[end + 1..];
            &inner[..end]
        } else {
            let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
            let end = behind.find(|c| !is_name(c)).unwrap_or(behind.len());
            rest = &behind[end..];
            &behind[..end]
        };
        if name.is_empty() {
            return Err(DialectError::NoDirective { at });
        }
        tokens.push(field(name, variable(name)));
    }
    push_text(&mut tokens, rest);
    Ok(tokens)
}

/// Returns the kind of a variable of nginx, or of a variable that only the named formats have.
fn variable(name: &str) -> FieldKind {
    match name {
        "remote_addr" => FieldKind::Address,
        "client" => FieldKind::AddressAndPort,
        "remote_user" => FieldKind::User,
        "request" => FieldKind::Request,
        "request_method" => FieldKind::Method,
        "request_uri" | "uri" | "document_uri" => FieldKind::Path,
        "is_args" | "args" | "query_string" => FieldKind::Query,
        "host" | "http_host" | "server_name" => FieldKind::Host,
        "status" => FieldKind::Status,
        "time_local" | "time_iso8601" => FieldKind::Time(TimePart::Zoned),
        "msec" => FieldKind::Time(TimePart::Unix),
        "accept_date" => FieldKind::Time(TimePart::LocalPattern("%d/%b/%Y:%H:%M:%S%.f".to_owned())),
        "_" => FieldKind::Gap,
        "elapsed" => FieldKind::Padded,
        _ => match name.strip_prefix("http_") {
            Some(header) => FieldKind::of_header(&header.replace('_', "-")),
            None => FieldKind::Other,
        },
    }
}

fn apache(text: &str) -> Result<Vec<FormatToken>, DialectError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['%', '\\']) {
        push_text(&mut tokens, &rest[..start]);
        let at = text.len() - rest.len() + start + 1;
        let mut behind = &rest[start + 1..];
        if rest[start..].starts_with('\\') {
            // A backslash escapes the next character, as in a quoted string of the configuration.
            let escaped = behind.chars().next().ok_or(DialectError::NoDirective { at })?;
            let meant = match escaped {
                't' => "\t",
                'n' => "\n",
                _ => &behind[..escaped.len_utf8()],
            };
            push_text(&mut tokens, meant);
            rest = &behind[escaped.len_utf8()..];
            continue;
        }
        // Skips the statuses for which the directive is logged, and the marks for the original or the final request.
        // They do not change the kind of the field.
        behind = behind.trim_start_matches(|c: char| c.is_ascii_digit() || "!,<>".contains(c));
        let mut argument = None;
        if let Some(inner) = behind.strip_prefix('{') {
            let end = inner.find('}').ok_or(DialectError::Open { at, close: '}' })?;
            argument = Some(&inner[..end]);
            behind = inner[end + 1..].trim_start_matches('^');
        }
        let letter = behind.chars().next().filter(|c| c.is_ascii_alphabetic() || *c == '%');
        let letter = letter.ok_or(DialectError::NoDirective { at })?;
        rest = &behind[1..];
        directive(letter, argument, &mut tokens);
    }
    push_text(&mut tokens, rest);
    Ok(tokens)
}

/// Adds the tokens of a directive of Apache.
fn directive(letter: char, argument: Option<&str>, tokens: &mut Vec<FormatToken>) {
    let token = match (letter, argument) {
        ('%', _) => return push_text(tokens, "%"),
        ('t', None) => {
            push_text(tokens, "[");
            tokens.push(field("time", FieldKind::Time(TimePart::Zoned)));
            return push_text(tokens, "]");
        }
        ('t', Some(form)) => {
            let form = form.strip_prefix("begin:").or(form.strip_prefix("end:")).unwrap_or(form);
            let part = match form {
                "sec" | "msec" | "usec" => TimePart::Unix,
                "msec_frac" | "usec_frac" => TimePart::LocalPattern("%f".to_owned()),
                pattern => TimePart::LocalPattern(pattern.to_owned()),
            };
            field("time", FieldKind::Time(part))
        }
        ('i', Some(name)) => field(name, FieldKind::of_header(&name.to_ascii_lowercase())),
        (_, Some(name)) if letter != 'a' => field(name, FieldKind::Other),
        ('h', _) | ('a', None) => field("remote_addr", FieldKind::Address),
        ('a', Some(_)) => field("peer_addr", FieldKind::Other),
        ('u', _) => field("remote_user", FieldKind::User),
        ('r', _) => field("request", FieldKind::Request),
        ('m', _) => field("method", FieldKind::Method),
        ('U', _) => field("path", FieldKind::Path),
        ('q', _) => field("query", FieldKind::Query),
        ('v' | 'V', _) => field("host", FieldKind::Host),
        ('s', _) => field("status", FieldKind::Status),
        (letter, _) => field(&format!("%{letter}"), FieldKind::Other),
    };
    tokens.push(token);
}

fn envoy(text: &str) -> Result<Vec<FormatToken>, DialectError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('%') {
        push_text(&mut tokens, &rest[..start]);
        let at = text.len() - rest.len() + start + 1;
        let behind = &rest[start + 1..];
        if let Some(behind) = behind.strip_prefix('%') {
            push_text(&mut tokens, "%");
            rest = behind;
            continue;
        }
        let name = upper(behind);
        if name.is_empty() {
            return Err(DialectError::NoDirective { at });
        }
        let mut behind = &behind[name.len()..];
        let mut argument = "";
        if let Some(inner) = behind.strip_prefix('(') {
            let end = inner.find(')').ok_or(DialectError::Open { at, close: ')' })?;
            argument = &inner[..end];
            behind = &inner[end + 1..];
        }
        // Skips the maximum length of the text, which follows a colon.
        if let Some(length) = behind.strip_prefix(':') {
            behind = length.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        rest = behind.strip_prefix('%').ok_or(DialectError::Open { at, close: '%' })?;
        tokens.push(operator(name, argument));
    }
    push_text(&mut tokens, rest);
    Ok(tokens)
}

/// Returns the token of an operator of Envoy. Times are in UTC, except those of `START_TIME_LOCAL`.
fn operator(name: &str, argument: &str) -> FormatToken {
    let kind = match name {
        "START_TIME" if argument.is_empty() => FieldKind::Time(TimePart::Zoned),
        "START_TIME" => FieldKind::Time(TimePart::Pattern(without_precision(argument))),
        "START_TIME_LOCAL" if argument.is_empty() => FieldKind::Time(TimePart::Zoned),
        "START_TIME_LOCAL" => FieldKind::Time(TimePart::LocalPattern(without_precision(argument))),
        "DOWNSTREAM_REMOTE_ADDRESS" => FieldKind::AddressAndPort,
        "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" => FieldKind::Address,
        "RESPONSE_CODE" => FieldKind::Status,
        "REQ" => {
            // The name behind a `?` is that of another header, which is logged if the first one is missing.
            let header = argument.split('?').next().unwrap_or_default().to_ascii_lowercase();
            return field(&header, FieldKind::of_header(&header));
        }
        "RESP" | "TRAILER" => return field(&format!("{name}({argument})"), FieldKind::Other),
        _ => FieldKind::Other,
    };
    field(name, kind)
}

/// Replaces `%3f` by `%f`, which reads all digits that are there.
fn without_precision(pattern: &str) -> String {
    (1..=9).fold(pattern.to_owned(), |text, digits| text.replace(&format!("%{digits}f"), "%f"))
}

/// Returns the columns of the W3C's extended log format, as IIS and CloudFront name them. Their times are in UTC.
pub(super) fn columns_tokens(columns: &str) -> Vec<FormatToken> {
    let mut tokens = Vec::new();
    for name in columns.split_ascii_whitespace() {
        if !tokens.is_empty() {
            tokens.push(FormatToken::Blank);
        }
        let header = name.strip_prefix("cs(").and_then(|rest| rest.strip_suffix(')'));
        let kind = match (name, header) {
            ("date", _) => FieldKind::Time(TimePart::Pattern("%Y-%m-%d".to_owned())),
            ("time", _) => FieldKind::Time(TimePart::Pattern("%H:%M:%S%.f".to_owned())),
            ("c-ip", _) => FieldKind::Address,
            ("cs-username", _) => FieldKind::User,
            ("cs-method", _) => FieldKind::Method,
            ("cs-uri-stem" | "cs-uri", _) => FieldKind::Path,
            ("cs-host" | "x-host-header", _) => FieldKind::Host,
            ("sc-status", _) => FieldKind::Status,
            (_, Some(header)) => FieldKind::of_header(&header.to_ascii_lowercase()),
            (_, None) => FieldKind::Other,
        };
        tokens.push(field(name, kind));
    }
    tokens
}

/// Adds a text, unless it is empty.
fn push_text(tokens: &mut Vec<FormatToken>, text: &str) {
    if !text.is_empty() {
        tokens.push(FormatToken::Text(text.to_owned()));
    }
}
