//! Bytes that the service receives over Redis' protocol.

use std::collections::HashMap;
use std::fmt;

use arbitrary::Arbitrary;
use tollgate::ManualClock;
use tollgate_rules::RuleSettings;
use tollgate_service::offline::Offline;

use tollgate_model::Plant;

/// The target `resp_bytes`: any bytes either are requests, or end the connection with a reason. All answers are whole
/// frames, and the same bytes always get the same answers. While time stands still no key is admitted more than a
/// burst.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct RespCase<'b>(pub &'b [u8]);

impl fmt::Debug for RespCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RespCase(b\"{}\")", self.0.escape_ascii())
    }
}

const RULES: &str =
    "{domain: d, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 7}}]}";

fn service() -> Offline {
    let settings = RuleSettings {
        default_capacity: Some(64),
        override_capacity: 64,
        ..RuleSettings::default()
    };
    Offline::new(RULES, settings, ManualClock::new()).expect("good rules")
}

impl RespCase<'_> {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not as expected.
    pub fn run_against(&self, plant: Plant) {
        let (answers, ends) = service().resp(self.0);
        let mut rest = &answers[..];
        let mut last = None;
        while !rest.is_empty() {
            let (frame, behind) = frame(rest).expect("a whole frame");
            (last, rest) = (Some(frame), behind);
        }
        if plant == Plant::Answer {
            assert!(last.is_none(), "answered: {last:?}");
        }
        // If the bytes do not end the connection, they get the same answers when they are sent again.
        if !ends {
            let again = [self.0, b""].concat();
            assert_eq!(service().resp(&again), (answers.clone(), false), "not the same again");
        }
        self.never_above(&answers, plant);
    }

    /// Checks inputs that hold only plain requests of `CL.THROTTLE`, made one after the other at one time. In each
    /// table a key is admitted at most the burst of its limit.
    fn never_above(&self, answers: &[u8], plant: Plant) {
        let Ok(text) = std::str::from_utf8(self.0) else { return };
        let lines: Option<Vec<Throttle<'_>>> = text.lines().map(Throttle::read).collect();
        let Some(requests) = lines.filter(|_| text.ends_with('\n')) else { return };
        let mut spent: HashMap<(&str, u128), i64> = HashMap::new();
        let mut rest = answers;
        for request in requests {
            let Some((frame, behind)) = frame(rest) else { return };
            rest = behind;
            let Frame::Numbers(numbers) = frame else { continue };
            if numbers.first() != Some(&0) || request.cost == 0 {
                continue;
            }
            let Throttle { key, burst, cost, .. } = request;
            let all = spent.entry((key, request.table_s().expect("a table"))).or_default();
            *all += cost;
            let most = burst - i64::from(plant == Plant::Limit);
            assert!(*all <= most, "{key} was admitted {all} of {most}");
        }
    }
}

/// A request, as a line `CL.THROTTLE key burst count period cost`.
struct Throttle<'l> {
    key: &'l str,
    burst: i64,
    count: i64,
    period_s: i64,
    cost: i64,
}

impl<'l> Throttle<'l> {
    fn read(line: &'l str) -> Option<Self> {
        // As in the protocol, two spaces between words make no empty word.
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["CL.THROTTLE", key, burst, count, period, cost] = words[..] else { return None };
        let number = |word: &str| word.parse::<i64>().ok();
        let burst = number(burst)?.checked_add(1)?;
        Some(Self {
            key,
            burst,
            count: number(count)?,
            period_s: number(period)?,
            cost: number(cost)?,
        })
    }

    /// The table that counts the limit, named by the longest time of that table in seconds. It is the first table whose
    /// longest time is enough for the whole burst, and whose ticks are short enough for the rate. See `Pace`.
    fn table_s(&self) -> Option<u128> {
        const DAY_S: u128 = 86_400;
        let number = |number: i64| u128::try_from(number).ok();
        let (burst, count) = (number(self.burst)?, number(self.count)?);
        let period_s = number(self.period_s)?;
        let tables = [
            (3_600, 600_000),
            (DAY_S, 600_000),
            (31 * DAY_S, 600_000),
            (42 * 365 * DAY_S, 600_000),
            (60, 600_000),
            (1, 1_000_000),
        ];
        let fits = |&(longest_s, units): &(u128, u128)| {
            burst * period_s <= count * longest_s && count * longest_s <= units * period_s
        };
        tables.into_iter().find(fits).map(|(longest_s, _)| longest_s)
    }
}

/// The parts of an answer that are checked.
#[derive(Debug)]
enum Frame {
    /// An array of integers.
    Numbers(Vec<i64>),
    Other,
}

/// The first frame, and the bytes after it; `None` if the bytes begin with no valid frame.
fn frame(bytes: &[u8]) -> Option<(Frame, &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let number = || std::str::from_utf8(&line[1..]).ok()?.parse::<i64>().ok();
    match line.first()? {
        b'+' | b'-' => Some((Frame::Other, rest)),
        b':' => Some((Frame::Numbers(vec![number()?]), rest)),
        b'$' => {
            let size = usize::try_from(number()?).ok()?;
            (rest.get(size..size + 2)? == b"\r\n").then_some((Frame::Other, &rest[size + 2..]))
        }
        sign @ (b'*' | b'%') => {
            let each = if *sign == b'%' { 2 } else { 1 };
            let (mut rest, mut all) = (rest, Some(Vec::new()));
            for _ in 0..number()? * each {
                let (one, behind) = frame(rest)?;
                rest = behind;
                match (one, &mut all) {
                    (Frame::Numbers(numbers), Some(all)) => all.extend(numbers),
                    _ => all = None,
                }
            }
            Some((all.map_or(Frame::Other, Frame::Numbers), rest))
        }
        _ => None,
    }
}
