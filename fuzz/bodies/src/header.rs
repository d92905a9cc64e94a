//! Headers of HTTP: those that tell clients about limits, and those that name the address of a request.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use arbitrary::Arbitrary;
use http::Request;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate_http::headers::{Advice, Headers, LimitAdvice, PolicyAdvice};
use tollgate_http::headers::{RATE_LIMIT, RATE_LIMIT_POLICY};
use tollgate_http::keys::{ClientAddress, Extract, Head, Key, NormalPath, PeerAddress};

use tollgate_model::Plant;

/// The target `http_headers`: any header lines are read or ignored. Headers that were read are printed again, and then
/// read as the same. The address that a proxy gives for its client stays the same, whatever headers the client itself
/// sends.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct HeaderCase<'l>(pub &'l [u8]);

impl fmt::Debug for HeaderCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeaderCase(b\"{}\")", self.0.escape_ascii())
    }
}

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// Headers that proxies append on the right, with the address that each names.
const SAID: [(&str, &str, &str); 4] = [
    ("x-forwarded-for", "198.51.100.9", "198.51.100.9"),
    ("x-forwarded-for", "[2001:db8::17]:4711", "2001:db8::17"),
    ("forwarded", "for=198.51.100.9;proto=https", "198.51.100.9"),
    ("forwarded", "by=_x;for=\"[2001:db8::17]:4711\"", "2001:db8::17"),
];

impl HeaderCase<'_> {
    /// Panics if a header is read wrongly.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if a header is not read as expected.
    pub fn run_against(&self, plant: Plant) {
        let headers = self.headers();
        advice_is_read_again(&headers, plant);
        names_of_ones_own_are_read_as_they_say(&headers);
        a_set_of_styles_is_read_as_it_is_shown(self.0);
        for (name, said, client) in SAID {
            for joined in [false, true] {
                let headers = with_said(&headers, name, said, joined);
                is_the_client_that_the_proxy_named(headers, name, client, plant);
            }
        }
        normal_path_is_its_own(self.0);
    }

    /// The lines that have the form `name: value` and are valid headers.
    fn headers(&self) -> HeaderMap {
        let lines = self.0.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let name = HeaderName::from_bytes(&line[..colon]).ok()?;
            let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
            Some((name, value))
        });
        let mut headers = HeaderMap::new();
        // A map of headers has room for at most 32,768 names.
        for (name, value) in lines.take(4_096) {
            headers.append(name, value);
        }
        headers
    }
}

fn advice_is_read_again(headers: &HeaderMap, plant: Plant) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    let advice = Advice::read(headers, now);
    let late = u64::from(plant == Plant::Limit);
    let lines: Vec<_> = headers.get_all(RETRY_AFTER).iter().collect();
    let in_ms =
        ["retry-after-ms", "x-ms-retry-after-ms"].iter().any(|it| headers.contains_key(*it));
    if let ([line], false) = (&lines[..], in_ms)
        && let Some(seconds) = seconds_of(line)
    {
        let expected = Some(until(seconds) + Duration::from_secs(late));
        assert_eq!(advice.retry_after, expected, "seconds to wait");
        assert_eq!(advice.wait(), expected);
    }
    // Whatever a server writes, the wait that is read from it is one that a client can make.
    let resets = advice.limits.iter().filter_map(|limit| limit.reset).chain(advice.wait());
    let windows = advice.policies.iter().filter_map(|policy| policy.window);
    assert!(resets.chain(windows).all(|span| span <= Advice::MAX_WAIT), "{advice:?}");
    // Draft 10 is the only form in which every limit has a name.
    let Some(limits) = advice.limits.iter().map(limit).collect::<Option<Vec<_>>>() else { return };
    let policies = advice.policies.iter().map(policy).collect::<Option<Vec<_>>>();
    let (Some(policies), false) = (policies, limits.is_empty()) else { return };
    let mut printed = HeaderMap::new();
    insert(&mut printed, &RATE_LIMIT, &limits);
    insert(&mut printed, &RATE_LIMIT_POLICY, &policies);
    let again = Advice::read(&printed, now);
    assert_eq!((again.limits, again.policies), (advice.limits, advice.policies), "read again");
}

/// The time until a reset that is written in digits alone, when Unix time is 1,790,000,000. The figure is a span or a
/// Unix time. Its size decides which, and in which unit.
fn until(figure: u64) -> Duration {
    let now_ns = 1_790_000_000_u128 * 1_000_000_000;
    let scale = match figure {
        0..1_000_000_000 => return Duration::from_secs(figure),
        1_000_000_000..1_000_000_000_000 => 1_000_000_000,
        1_000_000_000_000..1_000_000_000_000_000 => 1_000_000,
        1_000_000_000_000_000..1_000_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let left_ns = (u128::from(figure) * scale).saturating_sub(now_ns);
    u64::try_from(left_ns).map_or(Advice::MAX_WAIT, Duration::from_nanos).min(Advice::MAX_WAIT)
}

/// Checks that header fields with one figure each are read under whatever names the caller gives.
fn names_of_ones_own_are_read_as_they_say(headers: &HeaderMap) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    for text in ["x-ratelimit-limit:x-ratelimit-remaining:x-ratelimit-reset", "a:b:c=unix:d"] {
        let advice = Advice::read_as(headers, &text.parse().expect("names"), now);
        let names: Vec<&str> = text.split(':').collect();
        let only = |name: &str| {
            let mut lines = headers.get_all(name).iter();
            lines.next().filter(|_| lines.next().is_none()).and_then(seconds_of)
        };
        let limit = advice.limits.first();
        if let Some(left) = only(names[1]) {
            assert_eq!(limit.map(|limit| limit.remaining), Some(left), "{text}");
        }
        if let (Some(limit), Some(reset)) = (limit, only(names[2].trim_end_matches("=unix"))) {
            assert_eq!(limit.reset, Some(until(reset)), "{text}");
        }
    }
}

fn a_set_of_styles_is_read_as_it_is_shown(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(styles) = text.parse::<Headers>() {
        assert_eq!(styles.to_string().parse(), Ok(styles), "{text}");
    }
}

/// A number in digits, read in the simplest way.
fn seconds_of(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes().trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

fn insert(headers: &mut HeaderMap, name: &HeaderName, members: &[String]) {
    if !members.is_empty() {
        let value = members.join(", ").parse().expect("printable ASCII");
        headers.insert(name, value);
    }
}

/// A limit in the form of draft 10. `None` for limits in the form of other drafts, and for bytes that would need an
/// encoding.
fn limit(advice: &LimitAdvice) -> Option<String> {
    let mut text = quoted(advice.name.as_deref()?);
    text += &format!(";r={}", advice.remaining);
    if let Some(reset) = advice.reset {
        // Only whole seconds can be printed.
        if reset.subsec_nanos() > 0 {
            return None;
        }
        text += &format!(";t={}", reset.as_secs());
    }
    (advice.partition_key.is_none() && advice.limit.is_none()).then_some(text)
}

fn policy(advice: &PolicyAdvice) -> Option<String> {
    let mut text = quoted(advice.name.as_deref()?);
    text += &format!(";q={}", advice.quota);
    if let Some(unit) = &advice.unit {
        text += &format!(";qu={}", quoted(unit));
    }
    if let Some(window) =
        advice.window.filter(|window| window.subsec_nanos() == 0 && !window.is_zero())
    {
        text += &format!(";w={}", window.as_secs());
    } else if advice.window.is_some() {
        return None;
    }
    advice.partition_key.is_none().then_some(text)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The client's headers followed by the proxy's value, either on a line of its own or joined to the last line.
fn with_said(headers: &HeaderMap, name: &'static str, said: &str, joined: bool) -> HeaderMap {
    let mut headers = headers.clone();
    let last = headers.get_all(name).iter().next_back().cloned();
    match last.filter(|_| joined) {
        Some(last) => {
            let mut lines: Vec<_> = headers.get_all(name).iter().cloned().collect();
            let value = [last.as_bytes(), b", ", said.as_bytes()].concat();
            lines.pop();
            lines.push(HeaderValue::from_bytes(&value).expect("two values"));
            headers.remove(name);
            for line in lines {
                headers.append(name, line);
            }
        }
        None => {
            headers.append(name, said.parse().expect("a value"));
        }
    }
    headers
}

fn is_the_client_that_the_proxy_named(headers: HeaderMap, name: &str, client: &str, plant: Plant) {
    let client: IpAddr = client.parse().expect("an address");
    let expected = if plant == Plant::Answer { PROXY } else { client };
    let mut request = Request::new(());
    *request.headers_mut() = headers;
    request.extensions_mut().insert(PeerAddress(PROXY));
    let head = Head::of(&request);
    let network = "10.0.0.0/8".parse().expect("a network");
    for by in [ClientAddress::trusting_hops(1), ClientAddress::trusting([network])] {
        let by = if name == "forwarded" { by.in_forwarded() } else { by };
        assert_eq!(by.find(&head), Some(expected), "whom the proxy said");
    }
    assert_eq!(ClientAddress::peer().find(&head), Some(PROXY), "no proxy is trusted");
    // An address is found even if the caller trusts more proxies than there are.
    assert!(ClientAddress::trusting_hops(u8::MAX).find(&head).is_some());
}

/// Checks that normalising a path a second time changes nothing.
fn normal_path_is_its_own(bytes: &[u8]) {
    let path: String = bytes.iter().take(600).map(|&byte| char::from(byte)).collect();
    let key = |path: &str| {
        let request = Request::get(path).body(()).ok()?;
        let mut key = Key::new();
        NormalPath.extract(&Head::of(&request), &mut key).ok()?;
        Some(key)
    };
    let (Some(plain), Some(slashed)) = (key(&format!("/{path}")), key(&format!("//./{path}")))
    else {
        return;
    };
    if path.len() < 500 {
        assert_eq!(plain, slashed, "one page");
    }
}
