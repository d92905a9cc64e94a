//! `/v1/auth`: a proxy (nginx, Traefik, Caddy, HAProxy) asks whether a request that it holds may pass. The rules'
//! `forward_auth` says how descriptors are made from that request.

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Request as RequestOf, StatusCode};
use axum::response::Response;
use tollgate_http::keys::{ClientAddress, Head, NormalPath};
use tollgate_rules::{Forward, ForwardPart, Purpose, RequestError, RuleSet};

use super::check::{CheckRequest, Pairs, error_response, one, refused, reply};
use crate::metrics::{Protocol, RequestOutcome};
use crate::observe::{Caller, ServiceCall};
use crate::service::Service;

/// The parts of the question that stand in the URL, which the proxy's configuration sets. The other parts stand in the
/// headers.
struct AuthQuestion {
    domain: String,
    cost: u64,
    /// The status of a denial.
    denied: StatusCode,
}

pub(crate) async fn auth(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(query): Query<Vec<(String, String)>>,
    request: Request,
) -> Response {
    let mut call = ServiceCall::begin(&service.observers, Protocol::Auth, caller);
    // The body is dropped unread.
    let request = request.map(drop);
    let (mut response, denied) = match AuthQuestion::read(query) {
        Ok(asked) => (answer(&service, &asked, &request, &mut call).await, asked.denied),
        Err(reason) => (refused(reason), StatusCode::BAD_REQUEST),
    };
    let outcome = RequestOutcome::of(response.status());
    if outcome == RequestOutcome::OverLimit {
        *response.status_mut() = denied;
    }
    call.end(outcome, response.status().as_u16());
    response
}

impl AuthQuestion {
    fn read(query: Vec<(String, String)>) -> Result<Self, String> {
        let denied = StatusCode::TOO_MANY_REQUESTS;
        let mut asked = Self { domain: String::new(), cost: one(), denied };
        for (name, value) in query {
            let wrong = |accepted: &str| format!("{name} is {}; {accepted}", short(&value));
            match name.as_str() {
                "cost" => {
                    let cost = value.parse::<u64>();
                    asked.cost = cost.map_err(|_| wrong("write it in digits, as in cost=5"))?;
                }
                "deny" => {
                    let status = value.parse::<u16>().ok().filter(|code| (400..600).contains(code));
                    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
                    asked.denied = status
                        .ok_or_else(|| wrong("use a status from 400 to 599, as in deny=403"))?;
                }
                "domain" => asked.domain = value,
                _ => return Err(format!("unknown {}; use domain, cost or deny", short(&name))),
            }
        }
        Ok(asked)
    }
}

/// The part of a wrong text that an error message quotes.
fn short(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

/// Answers as `/v1/check` does for the descriptors that are made from the request.
async fn answer(
    service: &Service,
    asked: &AuthQuestion,
    request: &RequestOf<()>,
    call: &mut ServiceCall<'_>,
) -> Response {
    let Some(rules) = service.cache().rules() else {
        return error_response(RequestError::NotLoaded);
    };
    let descriptors = match descriptors(service, &rules, &asked.domain, &Head::of(request)) {
        Ok(descriptors) => descriptors,
        Err(response) => return response,
    };
    let (domain, cost) = (asked.domain.clone(), asked.cost);
    let question = CheckRequest { domain, descriptors, cost, rules: Some(rules) };
    // A proxy cannot wait: a request that would have to wait is denied, and takes no place in a queue.
    match question.decide(service, Purpose::CheckNow, Some(call)).await {
        Ok((answer, _)) => reply(&answer, &service.headers, None),
        Err(error) => error_response(error),
    }
}

#[expect(clippy::result_large_err, reason = "it is the response")]
fn descriptors(
    service: &Service,
    rules: &RuleSet,
    domain: &str,
    head: &Head<'_>,
) -> Result<Vec<Pairs>, Response> {
    // A descriptor without entries matches no rule, so the request passes, like every request in an unknown domain.
    let nothing = || vec![Pairs(Vec::new())];
    let forwards = match rules.forwards(domain) {
        None => return Ok(nothing()),
        Some([]) => {
            return Err(refused(format!(
                "domain '{}' has no forward_auth; write beside domain: which descriptors a request becomes, as in \
                 forward_auth: [{{remote_address: address}}]",
                domain.escape_debug()
            )));
        }
        Some(forwards) => forwards,
    };
    let found = forwards.iter().filter_map(|forward| pairs(forward, &service.client_address, head));
    let found: Vec<Pairs> = found.collect();
    if found.is_empty() {
        service.metrics.requests.unmapped.add(1);
        tracing::debug!("{}: no forward_auth applies, so it passes", domain.escape_debug());
        return Ok(nothing());
    }
    Ok(found)
}

/// A descriptor; `None` if the request lacks one of its parts.
fn pairs(forward: &Forward, client: &ClientAddress, head: &Head<'_>) -> Option<Pairs> {
    let entries = forward.entries().iter().map(|entry| {
        let otherwise = || entry.otherwise.as_deref().map(str::to_owned);
        let value = value(&entry.part, client, head).or_else(otherwise)?;
        Some((entry.key.to_string(), value))
    });
    entries.collect::<Option<_>>().map(Pairs)
}

fn value(part: &ForwardPart, client: &ClientAddress, head: &Head<'_>) -> Option<String> {
    let value = match part {
        ForwardPart::Address(header) => address(header, client, head)?,
        ForwardPart::Host(header) => host(&content(head.headers, header)?),
        ForwardPart::Path(header) => NormalPath::of(target(&content(head.headers, header)?)),
        ForwardPart::Header(header) => content(head.headers, header)?,
        ForwardPart::Text(text) => return Some(text.to_string()),
        // Later versions of the rules may have further kinds of entries.
        _ => return None,
    };
    Some(capped(value))
}

fn address(header: &str, client: &ClientAddress, head: &Head<'_>) -> Option<String> {
    let found = match header {
        "x-forwarded-for" => client.find(head),
        "forwarded" => client.clone().in_forwarded().find(head),
        other => client.clone().in_header(HeaderName::try_from(other).ok()?).find(head),
    };
    found.map(|address| address.to_string())
}

/// All lines of a header, joined. If the proxy adds a line, the value must contain it, and not only the line that the
/// client wrote. Bytes that are not UTF-8 become U+FFFD.
fn content(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut lines =
        headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes()));
    let mut content = lines.next()?.into_owned();
    for line in lines {
        content += ",";
        content += line.as_ref();
    }
    Some(content)
}

/// The host of a URL or of a host with a port, in lower case. Any other text is only put into lower case.
fn host(text: &str) -> String {
    let authority = after_scheme(text).map_or(text, |rest| &rest[..end_of_authority(rest)]);
    let host = authority.parse::<Authority>();
    let host = host.as_ref().map_or(authority, Authority::host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// The path and the query of a URL; the whole text if it is not a URL.
fn target(text: &str) -> &str {
    after_scheme(text).map_or(text, |rest| &rest[end_of_authority(rest)..])
}

fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme =
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(rest)
}

fn end_of_authority(rest: &str) -> usize {
    rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())
}

fn capped(mut value: String) -> String {
    let mut end = value.len().min(Forward::MAX_VALUE_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.truncate(end);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_the_same_in_all_its_spellings() {
        for (text, expected) in [
            ("Shop.example:8443", "shop.example"),
            ("shop.example.", "shop.example"),
            ("https://SHOP.example/a?b", "shop.example"),
            ("https://user@shop.example:443?b", "shop.example"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("a b", "a b"),
            ("", ""),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }

    #[test]
    fn a_target_is_that_of_a_url_or_the_whole_text() {
        for (text, expected) in [
            ("/a?b=http://c/d", "/a?b=http://c/d"),
            ("https://shop.example/a?b", "/a?b"),
            ("https://shop.example", ""),
            ("https://shop.example?/a", "?/a"),
            ("/to/http://c/d", "/to/http://c/d"),
            ("a", "a"),
        ] {
            assert_eq!(target(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_cut_between_two_letters() {
        assert_eq!(capped("x".repeat(8_192)), "x".repeat(8_192));
        assert_eq!(capped("x".repeat(8_193)), "x".repeat(8_192));
        assert_eq!(capped(format!("{}\u{20ac}", "x".repeat(8_190))), "x".repeat(8_190));
    }
}
