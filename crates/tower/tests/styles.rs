//! Every style of headers: a client reads what the layer writes, and a page of the documentation shows the lines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{ask, from, gate, keyed, served, text};
use http::{HeaderMap, HeaderValue};
use tollgate::ManualClock;
use tollgate_tower::gates::PolicyName;
use tollgate_tower::headers::{Advice, HeaderStyle, Headers, LimitReport};
use tollgate_tower::{ClientAddress, RateLimitLayer};

const OWN: [&str; 4] = [
    "my-limit:my-left:my-reset",
    "my-limit:my-left:my-reset=unix",
    "my-limit:my-left:my-reset:my-wait",
    "my-limit:my-left:my-reset=unix:my-wait",
];

fn styles() -> impl Iterator<Item = HeaderStyle> {
    HeaderStyle::known().chain(OWN.map(|text| text.parse().unwrap()))
}

fn is_unix(style: &HeaderStyle) -> bool {
    style.to_string().contains("unix")
}

#[test]
fn what_is_written_is_read_again_in_every_style() {
    for style in styles() {
        let clock = ManualClock::new();
        let layer = RateLimitLayer::new(keyed("fixed-window 3/m", &clock), ClientAddress::peer());
        let mut service = served(&layer.headers(style.clone()));
        for (left, wait) in [(2, None), (1, None), (0, None), (0, Some(60))] {
            let answer = ask(&mut service, from("203.0.113.7"));
            let now = SystemTime::now();
            let mut advice = Advice::read_as(answer.headers(), &style.clone().into(), now);
            if !matches!(style, HeaderStyle::Own(_)) {
                assert_eq!(Advice::read(answer.headers(), now).limits.len(), 1, "{style}");
            }
            assert_eq!(advice.wait().is_some(), left == 0 && has_reset(&style) || wait.is_some());
            let limit = advice.limits.pop().unwrap_or_else(|| panic!("{style} is not read"));
            let quota = advice.policies.first().map(|policy| policy.quota);
            assert_eq!((limit.limit.or(quota), limit.remaining), (Some(3), left), "{style}");
            assert_eq!(advice.retry_after, wait.map(Duration::from_secs), "{style}");
            match limit.reset {
                // The time of writing is rounded up to a second.
                Some(reset) if is_unix(&style) => assert!((58..=61).contains(&reset.as_secs())),
                reset => {
                    let expected = has_reset(&style).then(|| Duration::from_secs(60));
                    assert_eq!(reset, expected, "{style}");
                }
            }
            // The style's own field for the wait is read if the standard field is missing.
            let mut headers = answer.headers().clone();
            headers.remove("retry-after");
            let advice = Advice::read_as(&headers, &style.clone().into(), now);
            let has_field = style.to_string().contains("wait") || !has_reset(&style);
            let expected = wait.filter(|_| has_field).map(Duration::from_secs);
            assert_eq!(advice.retry_after, expected, "{style}");
        }
    }
}

fn has_reset(style: &HeaderStyle) -> bool {
    *style != HeaderStyle::XRateLimitRetryAfter
}

/// The lines of a denial.
fn lines(style: &HeaderStyle) -> String {
    let report = LimitReport {
        name: PolicyName::default(),
        quota: 60,
        window: Duration::from_secs(60),
        remaining: 0,
        reset_after: Duration::from_secs(60),
        retry_after: Some(Duration::from_secs(7)),
        is_over: false,
    };
    let mut headers = HeaderMap::new();
    report.put(&style.clone().into(), &mut headers);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let line = |(name, value): (&http::HeaderName, &HeaderValue)| {
        let mut value = value.to_str().unwrap().to_owned();
        if is_unix(style) && name.as_str().ends_with("-reset") {
            let seconds: u64 = value.parse().unwrap();
            assert!((now + 6..=now + 8).contains(&seconds), "{seconds} at {now}");
            value = "1790000007".to_owned();
        }
        format!("`{name}: {value}`")
    };
    headers.iter().map(line).collect::<Vec<_>>().join("<br>")
}

#[test]
fn the_page_shows_the_lines_of_every_style() {
    let page = include_str!("../docs/headers.md");
    for style in styles() {
        let own = [style.to_string()];
        let words: Vec<String> = match style.words() {
            [] => own.iter().map(|word| format!("`{word}`")).collect(),
            words => words.iter().map(|word| format!("`{word}`")).collect(),
        };
        let row = format!("| {} | {} |", words.join(", "), lines(&style));
        // Of names of one's own, the page needs only the longest example.
        if style.words().is_empty() && style.to_string() != OWN[3] {
            continue;
        }
        assert!(page.lines().any(|line| line == row), "not on the page:\n{row}");
    }
}

#[test]
fn what_cannot_be_read_is_passed_over_in_every_style() {
    for style in styles() {
        let clock = ManualClock::new();
        let layer = RateLimitLayer::new(keyed("fixed-window 3/m", &clock), ClientAddress::peer());
        let mut service = served(&layer.headers(style.clone()));
        let headers = ask(&mut service, from("203.0.113.7")).headers().clone();
        let most = u64::MAX.to_string();
        for bad in ["", "-1", "1.5", "soon", "\"", &most, "99999999999999999999", "\u{e9}"] {
            for name in headers.keys() {
                let mut headers = headers.clone();
                headers.insert(name, HeaderValue::from_bytes(bad.as_bytes()).unwrap());
                let set = Headers::from(style.clone());
                for now in [UNIX_EPOCH, SystemTime::now()] {
                    let _ = Advice::read_as(&headers, &set, now);
                    let _ = Advice::read(&headers, now);
                }
            }
        }
    }
}

#[test]
fn an_admission_above_a_soft_limit_is_told_whichever_gate_is_reported() {
    let clock = ManualClock::new();
    let soft = || gate("soft", keyed("fixed-window 2/m soft 50%", &clock));
    let hard = || gate("hard", keyed("3/m", &clock));
    for gates in [vec![soft()], vec![soft(), hard()], vec![hard(), soft()]] {
        for styles in [HeaderStyle::Draft10, HeaderStyle::Draft7, HeaderStyle::XRateLimit] {
            let mut peers = served(&RateLimitLayer::all(gates.clone()).unwrap().headers(styles));
            let told: Vec<_> = (0..4)
                .map(|_| {
                    let answer = ask(&mut peers, from("203.0.113.7"));
                    let over = text(answer.headers(), "x-ratelimit-over").map(str::to_owned);
                    let advice = Advice::read(answer.headers(), SystemTime::now());
                    assert_eq!(advice.is_over, over.is_some());
                    (answer.status().as_u16(), over)
                })
                .collect();
            let over = Some("true".to_owned());
            assert_eq!(told, [(200, None), (200, None), (200, over), (429, None)]);
            clock.advance(Duration::from_secs(60));
        }
    }
    let mut silent = served(&RateLimitLayer::of(soft()).headers(Headers::NONE));
    for _ in 0..3 {
        assert!(ask(&mut silent, from("203.0.113.9")).headers().is_empty());
    }
}

#[test]
fn of_two_styles_that_share_a_field_the_first_is_told() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(keyed("fixed-window 3/m", &clock), ClientAddress::peer());
    let both = [HeaderStyle::XRateLimit, HeaderStyle::XRateLimitUnix, HeaderStyle::Draft3];
    let answer = ask(&mut served(&layer.headers(both)), from("203.0.113.7"));
    let mut lines: Vec<_> =
        answer.headers().iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "ratelimit-limit: \"3, 3;w=60\"",
            "ratelimit-remaining: \"2\"",
            "ratelimit-reset: \"60\"",
            "x-ratelimit-limit: \"3\"",
            "x-ratelimit-remaining: \"2\"",
            "x-ratelimit-reset: \"60\"",
        ]
    );
}
