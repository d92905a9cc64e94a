//! How headers are read: one style at a time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName, RETRY_AFTER};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parameters, Parser};

use super::names::FigureNames;
use super::style::HeaderStyle;
use super::{RATE_LIMIT, RATE_LIMIT_POLICY, X_RATE_LIMIT_OVER};

/// A field with more bytes than this is ignored: no server needs as many.
const FIELD_MAX: usize = 16 * 1_024;

/// From this value on (2001-09-09) `X-RateLimit-Reset` is a Unix time, and from the second one a Unix time in
/// milliseconds. No server announces a wait of 30 years.
const EPOCH_SECS_MIN: u64 = 1_000_000_000;
const EPOCH_MILLIS_MIN: u64 = 1_000_000_000_000;

/// One quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyAdvice {
    /// Its name, where the style has names.
    pub name: Option<String>,
    /// The units of each window.
    pub quota: u64,
    /// The unit that is counted, if it is not requests: `content-bytes`, `concurrent-requests`.
    pub unit: Option<String>,
    /// The length of the window.
    pub window: Option<Duration>,
    /// The partition that the quota is for, in a form that only the server understands.
    pub partition_key: Option<Vec<u8>>,
}

/// What is left of one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitAdvice {
    /// The name of its policy, where the style has names.
    pub name: Option<String>,
    /// The limit itself, where the style repeats it here.
    pub limit: Option<u64>,
    /// Units left.
    pub remaining: u64,
    /// How long until more units are available.
    pub reset: Option<Duration>,
    /// The partition that the quota is for, in a form that only the server understands.
    pub partition_key: Option<Vec<u8>>,
}

/// The policies of `RateLimit-Policy`, in whichever form.
pub(super) fn stated_policies(headers: &HeaderMap) -> Vec<PolicyAdvice> {
    joined(headers, &RATE_LIMIT_POLICY).map(|text| policies(&text)).unwrap_or_default()
}

/// Adds what this style tells, if the response speaks it.
pub(super) fn limits(
    headers: &HeaderMap,
    style: &HeaderStyle,
    now: SystemTime,
    policies: &mut Vec<PolicyAdvice>,
    limits: &mut Vec<LimitAdvice>,
) {
    match (style, style.figures()) {
        (HeaderStyle::Draft10, _) => {
            limits.extend(
                joined(headers, &RATE_LIMIT).and_then(|text| draft_10(&text)).into_iter().flatten(),
            );
        }
        (HeaderStyle::Draft7, _) => {
            limits.extend(joined(headers, &RATE_LIMIT).and_then(|text| draft_07(&text)));
        }
        (_, Some(names)) => {
            let until = |figure| match style {
                HeaderStyle::Own(_) if names.is_unix => {
                    since_unix(Duration::from_secs(figure), now)
                }
                HeaderStyle::Own(_) => Duration::from_secs(figure),
                _ => until(figure, now),
            };
            if let Some((more, limit)) = triple(headers, names, until) {
                limits.push(limit);
                if policies.is_empty() {
                    *policies = more;
                }
            }
        }
        (_, None) => {}
    }
}

/// The seconds of the field that this style has for them.
pub(super) fn wait(headers: &HeaderMap, style: &HeaderStyle) -> Option<Duration> {
    figure(headers, style.figures()?.retry_after.as_ref()?).map(Duration::from_secs)
}

pub(super) fn is_over(headers: &HeaderMap) -> bool {
    headers.get(&X_RATE_LIMIT_OVER).is_some_and(|value| value == "true")
}

pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The lines of a field, joined in order.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for line in headers.get_all(name) {
        if text.len() + line.len() > FIELD_MAX {
            return None;
        }
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line.as_bytes());
    }
    (!text.is_empty()).then_some(text)
}

/// Parses digits and nothing else.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

fn parameter<'p>(parameters: &'p Parameters, name: &str) -> Option<&'p BareItem> {
    parameters.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
}

fn count(value: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(value.as_integer()?)).ok()
}

/// A parameter that must be absent or a count.
fn optional_count(parameters: &Parameters, name: &str) -> Option<Option<u64>> {
    match parameter(parameters, name) {
        None => Some(None),
        Some(value) => count(value).map(Some),
    }
}

/// The length of a policy's window. A length of 0 means that the policy has no window.
fn window(parameters: &Parameters) -> Option<Option<Duration>> {
    let seconds = optional_count(parameters, "w")?.filter(|&seconds| seconds > 0);
    Some(seconds.map(Duration::from_secs))
}

fn partition_key(parameters: &Parameters) -> Option<Vec<u8>> {
    Some(parameter(parameters, "pk")?.as_byte_sequence()?.to_vec())
}

fn name(item: &Item) -> Option<String> {
    Some(item.bare_item.as_string()?.as_str().to_owned())
}

/// The items of a list that contains only items.
fn items(text: &[u8]) -> Option<Vec<Item>> {
    let list: List = Parser::new(text).parse().ok()?;
    list.into_iter()
        .map(|entry| match entry {
            ListEntry::Item(item) => Some(item),
            ListEntry::InnerList(_) => None,
        })
        .collect()
}

/// `"burst";q=100;w=60, "daily";q=1000;w=86400`, or in older drafts `100;w=60, 1000;w=86400`. Empty unless all of it
/// is valid.
fn policies(text: &[u8]) -> Vec<PolicyAdvice> {
    let read = |item: &Item| named_policy(item).or_else(|| numbered_policy(item));
    let items = items(text).unwrap_or_default();
    items.iter().map(read).collect::<Option<Vec<_>>>().unwrap_or_default()
}

fn named_policy(item: &Item) -> Option<PolicyAdvice> {
    let parameters = &item.params;
    Some(PolicyAdvice {
        name: Some(name(item)?),
        quota: count(parameter(parameters, "q")?)?,
        unit: parameter(parameters, "qu")
            .and_then(BareItem::as_string)
            .map(|unit| unit.as_str().to_owned()),
        window: window(parameters)?,
        partition_key: partition_key(parameters),
    })
}

fn numbered_policy(item: &Item) -> Option<PolicyAdvice> {
    let named = parameter(&item.params, "name").and_then(BareItem::as_string);
    Some(PolicyAdvice {
        name: named.map(|name| name.as_str().to_owned()),
        quota: count(&item.bare_item)?,
        unit: None,
        window: window(&item.params)?,
        partition_key: None,
    })
}

/// `"default";r=50;t=30`. What the working group has written since draft 10 calls them `a` and `w`.
fn draft_10(text: &[u8]) -> Option<Vec<LimitAdvice>> {
    fn of<'i>(item: &'i Item, [name, later]: [&str; 2]) -> Option<&'i BareItem> {
        parameter(&item.params, name).or_else(|| parameter(&item.params, later))
    }
    let read = |item: &Item| {
        Some(LimitAdvice {
            name: Some(name(item)?),
            limit: None,
            remaining: count(of(item, ["r", "a"])?)?,
            reset: of(item, ["t", "w"])
                .map_or(Some(None), |it| count(it).map(Some))?
                .map(Duration::from_secs),
            partition_key: partition_key(&item.params),
        })
    };
    items(text)?.iter().map(read).collect()
}

/// `limit=100, remaining=50, reset=30`
fn draft_07(text: &[u8]) -> Option<LimitAdvice> {
    let fields: Dictionary = Parser::new(text).parse().ok()?;
    let figure = |name: &str| {
        let (_, entry) = fields.iter().find(|(key, _)| key.as_str() == name)?;
        match entry {
            ListEntry::Item(item) => count(&item.bare_item),
            ListEntry::InnerList(_) => None,
        }
    };
    Some(LimitAdvice {
        name: None,
        limit: figure("limit"),
        remaining: figure("remaining")?,
        reset: figure("reset").map(Duration::from_secs),
        partition_key: None,
    })
}

fn figure(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    number(headers.get(name)?.to_str().ok()?.trim())
}

/// A field for each figure. The first may continue with policies: `10, 10;w=1;name="per-ip", 1000;w=3600`.
fn triple(
    headers: &HeaderMap,
    FigureNames { limit, remaining, reset, .. }: &FigureNames,
    until: impl Fn(u64) -> Duration,
) -> Option<(Vec<PolicyAdvice>, LimitAdvice)> {
    let listed = joined(headers, limit).and_then(|text| items(&text)).unwrap_or_default();
    let policies = listed.iter().skip(1).map(numbered_policy).collect::<Option<Vec<_>>>();
    let advice = LimitAdvice {
        name: None,
        limit: figure(headers, limit).or_else(|| count(&listed.first()?.bare_item)),
        remaining: figure(headers, remaining)?,
        reset: reset.as_ref().and_then(|reset| figure(headers, reset)).map(until),
        partition_key: None,
    };
    Some((policies.unwrap_or_default(), advice))
}

/// Seconds from now, or a Unix time in seconds or milliseconds: only its size tells which.
fn until(figure: u64, now: SystemTime) -> Duration {
    match figure {
        EPOCH_MILLIS_MIN.. => since_unix(Duration::from_millis(figure), now),
        EPOCH_SECS_MIN.. => since_unix(Duration::from_secs(figure), now),
        _ => Duration::from_secs(figure),
    }
}

fn since_unix(instant: Duration, now: SystemTime) -> Duration {
    instant.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default())
}
