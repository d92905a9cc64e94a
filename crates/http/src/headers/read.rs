//! Reads headers, one style at a time.

use std::time::{Duration, SystemTime};

use http::header::{HeaderMap, HeaderName, RETRY_AFTER};
use sfv::{BareItem, Item, Parser};

use super::figure;
use super::names::FigureNames;
use super::style::HeaderStyle;
use super::{RATE_LIMIT, RATE_LIMIT_POLICY, X_RATE_LIMIT_OVER};

/// A field with more bytes than this is not read; no server needs that many.
const FIELD_MAX: usize = 16 * 1_024;

/// The names of `Retry-After` in milliseconds, which is more exact than `Retry-After`.
static RETRY_AFTER_MS: [HeaderName; 2] =
    [HeaderName::from_static("retry-after-ms"), HeaderName::from_static("x-ms-retry-after-ms")];

/// Fields whose names contain the name of one of several limits. Each row has three pairs, for the limit, the units
/// that remain, and the reset; each pair has the texts before and after the limit's name.
const NAMED: [[(&str, &str); 3]; 2] = [
    [("x-ratelimit-limit-", ""), ("x-ratelimit-remaining-", ""), ("x-ratelimit-reset-", "")],
    [
        ("anthropic-ratelimit-", "-limit"),
        ("anthropic-ratelimit-", "-remaining"),
        ("anthropic-ratelimit-", "-reset"),
    ],
];

/// One quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyAdvice {
    /// The name of the policy, if the style has names.
    pub name: Option<String>,
    /// The units of each window.
    pub quota: u64,
    /// The unit that is counted, if it is not requests: `content-bytes`, `concurrent-requests`.
    pub unit: Option<String>,
    /// The length of the window; at most [`Advice::MAX_WAIT`](super::Advice::MAX_WAIT).
    pub window: Option<Duration>,
    /// The partition that the quota is for, in a form that only the server understands.
    pub partition_key: Option<Vec<u8>>,
}

/// The units that are left of one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitAdvice {
    /// The name of the quota's policy, if the style has names.
    pub name: Option<String>,
    /// The limit itself, if the style repeats it here.
    pub limit: Option<u64>,
    /// Units left.
    pub remaining: u64,
    /// The time until more units are available; at most [`Advice::MAX_WAIT`](super::Advice::MAX_WAIT).
    pub reset: Option<Duration>,
    /// The partition that the quota is for, in a form that only the server understands.
    pub partition_key: Option<Vec<u8>>,
}

/// The headers of a response, the time when they came, and the fields that could not be read.
#[derive(Debug)]
pub(super) struct HeaderReader<'h> {
    headers: &'h HeaderMap,
    now: SystemTime,
    pub(super) unread: Vec<HeaderName>,
    /// Whether one of the unread fields says how long to wait.
    pub(super) is_wait_unread: bool,
}

impl<'h> HeaderReader<'h> {
    pub(super) fn new(headers: &'h HeaderMap, now: SystemTime) -> Self {
        Self { headers, now, unread: Vec::new(), is_wait_unread: false }
    }

    pub(super) fn is_over(&self) -> bool {
        self.headers.get(&X_RATE_LIMIT_OVER).is_some_and(|value| value == "true")
    }

    /// The policies of `RateLimit-Policy`, in any of its forms.
    pub(super) fn stated_policies(&mut self) -> Vec<PolicyAdvice> {
        let members = self.members(&RATE_LIMIT_POLICY);
        let mut policies = Vec::new();
        for member in &members {
            match self.named_policy(member).or_else(|| self.numbered_policy(member)) {
                Some(policy) => policies.push(policy),
                None => self.missed(&RATE_LIMIT_POLICY),
            }
        }
        policies
    }

    /// The wait of `Retry-After`; the longest, if there are several lines.
    pub(super) fn retry_after(&mut self) -> Option<Duration> {
        let ms = RETRY_AFTER_MS.iter().find_map(|name| self.longest(name, figure::wait_ms));
        ms.or_else(|| self.longest(&RETRY_AFTER, figure::wait))
    }

    /// The wait in the field that this style has for it.
    pub(super) fn wait(&mut self, style: &HeaderStyle) -> Option<Duration> {
        self.longest(style.figures()?.retry_after.as_ref()?, figure::wait)
    }

    fn longest(
        &mut self,
        name: &HeaderName,
        read: impl Fn(&str, SystemTime) -> Option<Duration>,
    ) -> Option<Duration> {
        let waits: Vec<_> = self.waits(name, read).collect();
        if waits.contains(&None) {
            self.missed(name);
            self.is_wait_unread = true;
        }
        waits.into_iter().flatten().max()
    }

    /// The waits of a field: one for each line, or for each member of a line that is a list.
    fn waits<'r>(
        &'r self,
        name: &'r HeaderName,
        read: impl Fn(&str, SystemTime) -> Option<Duration> + 'r,
    ) -> impl Iterator<Item = Option<Duration>> + 'r {
        self.lines(name).flat_map(move |line| {
            let Some(line) = line else { return vec![None] };
            match read(line, self.now) {
                Some(wait) => vec![Some(wait)],
                None => members_of(line).map(|member| read(member.head, self.now)).collect(),
            }
        })
    }

    /// The policies and limits that a response reports in this style; both lists are empty if it does not use the
    /// style. The policies are those in the field of the limit.
    pub(super) fn limits(&mut self, style: &HeaderStyle) -> (Vec<PolicyAdvice>, Vec<LimitAdvice>) {
        match (style, style.figures()) {
            (HeaderStyle::Draft10, _) => (Vec::new(), self.draft_10()),
            (HeaderStyle::Draft7, _) => (Vec::new(), self.draft_07().into_iter().collect()),
            (_, Some(names)) => {
                let (policies, limit) = self.triple(names);
                (policies, limit.into_iter().collect())
            }
            (_, None) => (Vec::new(), Vec::new()),
        }
    }

    /// Records a field as not read, if the response has it.
    pub(super) fn missed_if_there(&mut self, name: &HeaderName) {
        if self.lines(name).next().is_some() {
            self.missed(name);
        }
    }

    /// Limits whose names are part of their fields' names, such as `x-ratelimit-remaining-tokens`.
    pub(super) fn named_limits(&mut self) -> Vec<LimitAdvice> {
        let mut limits = Vec::new();
        for field in self.headers.keys() {
            let found = NAMED.iter().find_map(|forms| {
                let name = field.as_str().strip_prefix(forms[1].0)?.strip_suffix(forms[1].1)?;
                Some((forms, name)).filter(|_| !name.is_empty())
            });
            let Some((forms, name)) = found else { continue };
            let [limit, remaining, reset] =
                forms.each_ref().map(|(before, after)| format!("{before}{name}{after}"));
            let names = [limit, remaining, reset].map(|name| name.parse::<HeaderName>().ok());
            let [Some(limit), Some(remaining), Some(reset)] = names else { continue };
            let names = FigureNames {
                limit,
                remaining,
                reset: Some(reset),
                retry_after: None,
                is_unix: false,
            };
            match self.triple(&names).1 {
                Some(limit) => limits.push(LimitAdvice { name: Some(name.to_owned()), ..limit }),
                None => self.missed(&names.remaining),
            }
        }
        limits
    }

    /// Reads `"default";r=50;t=30`. The working group's texts since draft 10 call the parameters `a` and `w`.
    fn draft_10(&mut self) -> Vec<LimitAdvice> {
        let members = self.members(&RATE_LIMIT);
        let mut limits = Vec::new();
        let mut missed = false;
        for member in &members {
            let remaining = member.either("r", "a").and_then(figure::count);
            let (Some(name), Some(remaining)) = (member.name(), remaining) else {
                missed = true;
                continue;
            };
            limits.push(LimitAdvice {
                name: Some(name),
                limit: None,
                remaining,
                reset: self.reset(member.either("t", "w"), remaining),
                partition_key: member.partition_key(),
            });
        }
        // If no member could be read, the field has the form of another draft.
        if missed && !limits.is_empty() {
            self.missed(&RATE_LIMIT);
        }
        limits
    }

    /// Reads `limit=100, remaining=50, reset=30`.
    fn draft_07(&mut self) -> Option<LimitAdvice> {
        let members = self.members(&RATE_LIMIT);
        let value = |name: &str| {
            let pairs = members.iter().filter_map(|member| member.head.split_once('='));
            pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value).next_back()
        };
        let remaining = figure::count(value("remaining")?)?;
        let limit = value("limit").map(figure::count);
        if limit == Some(None) {
            self.missed(&RATE_LIMIT);
        }
        let reset = self.reset(value("reset"), remaining);
        Some(LimitAdvice {
            name: None,
            limit: limit.flatten(),
            remaining,
            reset,
            partition_key: None,
        })
    }

    /// Reads a style that has one field for each figure. The field of the limit may continue with policies:
    /// `10, 10;w=1;name="per-ip", 1000;w=3600`.
    fn triple(
        &mut self,
        FigureNames { limit, remaining, reset, .. }: &FigureNames,
    ) -> (Vec<PolicyAdvice>, Option<LimitAdvice>) {
        // Takes the least of several figures: a window that has nothing left denies, whatever the others have.
        let left: Vec<_> =
            self.members(remaining).iter().map(|member| figure::count(member.head)).collect();
        let Some(least) = left.iter().flatten().min().copied() else { return (Vec::new(), None) };
        if left.contains(&None) {
            self.missed(remaining);
        }
        let limits = self.members(limit);
        let stated = limits.first().map(|member| figure::count(member.head));
        let mut policies = Vec::new();
        for member in limits.iter().skip(1) {
            policies.extend(self.numbered_policy(member));
        }
        if stated == Some(None) || policies.len() + 1 < limits.len() {
            self.missed(limit);
        }
        let reset = reset.as_ref().and_then(|name| {
            let waits: Vec<_> = self.waits(name, figure::wait).collect();
            self.missed_reset(name, waits.contains(&None), least);
            waits.into_iter().flatten().max()
        });
        let advice = LimitAdvice {
            name: None,
            limit: stated.flatten(),
            remaining: least,
            reset,
            partition_key: None,
        };
        (policies, Some(advice))
    }

    fn reset(&mut self, text: Option<&str>, left: u64) -> Option<Duration> {
        let reset = figure::wait(text?, self.now);
        self.missed_reset(&RATE_LIMIT, reset.is_none(), left);
        reset
    }

    /// Records a reset that could not be read. If no units are left, the reset is also a wait that could not be read.
    fn missed_reset(&mut self, name: &HeaderName, is_missed: bool, left: u64) {
        if is_missed {
            self.missed(name);
            self.is_wait_unread |= left == 0;
        }
    }

    fn named_policy(&mut self, member: &Member<'_>) -> Option<PolicyAdvice> {
        let quota = figure::count(member.parameter("q")?)?;
        Some(PolicyAdvice {
            name: Some(member.name()?),
            quota,
            unit: member.parameter("qu").and_then(text_of),
            window: self.window(member),
            partition_key: member.partition_key(),
        })
    }

    fn numbered_policy(&mut self, member: &Member<'_>) -> Option<PolicyAdvice> {
        Some(PolicyAdvice {
            quota: figure::count(member.head)?,
            name: member.parameter("name").and_then(text_of),
            unit: None,
            window: self.window(member),
            partition_key: None,
        })
    }

    /// The length of a policy's window. A length of 0 means that the policy has no window.
    fn window(&mut self, member: &Member<'_>) -> Option<Duration> {
        let text = member.parameter("w")?;
        let window = figure::wait(text, self.now);
        if window.is_none() {
            self.missed(&RATE_LIMIT_POLICY);
        }
        window.filter(|window| !window.is_zero())
    }

    fn missed(&mut self, name: &HeaderName) {
        if !self.unread.contains(name) {
            self.unread.push(name.clone());
        }
    }

    /// The lines of a field that are not blank; `None` for a line that is not text.
    fn lines<'n>(
        &self,
        name: &'n HeaderName,
    ) -> impl Iterator<Item = Option<&'h str>> + use<'h, 'n> {
        let lines = self.headers.get_all(name).iter();
        let texts = lines.map(|line| std::str::from_utf8(line.as_bytes()).ok().map(str::trim));
        texts.filter(|text| *text != Some(""))
    }

    /// The members of a list, line by line.
    fn members(&mut self, name: &HeaderName) -> Vec<Member<'h>> {
        let bytes: usize = self.headers.get_all(name).iter().map(|line| line.len()).sum();
        if bytes > FIELD_MAX || self.lines(name).any(|line| line.is_none()) {
            self.missed(name);
        }
        if bytes > FIELD_MAX {
            return Vec::new();
        }
        self.lines(name).flatten().flat_map(members_of).collect()
    }
}

/// A member of a list: its head and its parameters. Each member is read by itself, so that a wrong one spoils no other.
struct Member<'t> {
    head: &'t str,
    parameters: Vec<(&'t str, &'t str)>,
}

impl<'t> Member<'t> {
    fn of(text: &'t str) -> Self {
        let mut parts = outside_quotes(text, ';').into_iter();
        let head = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('='));
        Self { head, parameters: parameters.map(|(key, it)| (key.trim(), it.trim())).collect() }
    }

    /// The value of a parameter; if several have this name, that of the last one, as in structured fields.
    fn parameter(&self, name: &str) -> Option<&'t str> {
        self.parameters.iter().rfind(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The value of the parameter `name`, or of `later` if there is no `name`.
    fn either(&self, name: &str, later: &str) -> Option<&'t str> {
        self.parameter(name).or_else(|| self.parameter(later))
    }

    fn name(&self) -> Option<String> {
        text_of(self.head)
    }

    fn partition_key(&self) -> Option<Vec<u8>> {
        Some(bare(self.parameter("pk")?)?.as_byte_sequence()?.to_vec())
    }
}

fn members_of(line: &str) -> impl Iterator<Item = Member<'_>> {
    outside_quotes(line, ',').into_iter().filter(|part| !part.is_empty()).map(Member::of)
}

fn bare(text: &str) -> Option<BareItem> {
    Some(Parser::new(text).parse::<Item>().ok()?.bare_item)
}

/// The text of a string or a token.
fn text_of(text: &str) -> Option<String> {
    match bare(text)? {
        BareItem::String(text) => Some(text.as_str().to_owned()),
        BareItem::Token(text) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

/// The parts of a text between separators that do not stand in a string.
fn outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = text.split(|next: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        is_escaped = is_quoted && !was_escaped && next == '\\';
        is_quoted ^= next == '"' && !was_escaped;
        next == separator && !is_quoted
    });
    parts.map(str::trim).collect()
}
