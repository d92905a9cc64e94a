//! What the service is sent over Redis' protocol: any bytes.

use std::collections::HashMap;
use std::fmt;

use arbitrary::Arbitrary;
use tollgate::ManualClock;
use tollgate_rules::Settings;
use tollgate_service::offline::Offline;

use tollgate_model::Plant;

/// Target `resp_bytes`: any bytes are requests, or end the connection with a reason; all answers are whole frames, the
/// same each time, and no key is admitted above its burst while time stands still.
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
    let settings =
        Settings { default_capacity: Some(64), override_capacity: 64, ..Settings::default() };
    Offline::new(RULES, settings, ManualClock::new()).expect("good rules")
}

impl RespCase<'_> {
    /// Panics if an answer is not as it must be.
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
        // A connection that goes on has an answer to the next request.
        if !ends {
            let again = [self.0, b""].concat();
            assert_eq!(service().resp(&again), (answers.clone(), false), "not the same again");
        }
        self.never_above(&answers, plant);
    }

    /// What of the input are plain requests of `CL.THROTTLE` for one key, asked one after the other.
    fn never_above(&self, answers: &[u8], plant: Plant) {
        let Ok(text) = std::str::from_utf8(self.0) else { return };
        let lines: Option<Vec<(String, i64, i64)>> = text.lines().map(request).collect();
        let Some(requests) = lines.filter(|_| text.ends_with('\n')) else { return };
        let mut spent: HashMap<String, i64> = HashMap::new();
        let mut rest = answers;
        for (key, burst, cost) in requests {
            let Some((frame, behind)) = frame(rest) else { return };
            rest = behind;
            let Frame::Numbers(numbers) = frame else { continue };
            let all = spent.entry(key.clone()).or_default();
            *all += if numbers.first() == Some(&0) { cost } else { 0 };
            let most = burst - i64::from(plant == Plant::Limit);
            assert!(*all <= most || cost == 0, "{key} was admitted {all} of {most}");
        }
    }
}

/// A line `CL.THROTTLE key burst 1 3600 cost`, all of whose keys have one rate: the key, its limit and the cost.
fn request(line: &str) -> Option<(String, i64, i64)> {
    // As the protocol splits a line: two spaces make no empty word between them.
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let ["CL.THROTTLE", key, burst, "1", "3600", cost] = words[..] else { return None };
    Some((format!("{key} {burst}"), burst.parse::<i64>().ok()?.checked_add(1)?, cost.parse().ok()?))
}

/// An answer, as far as it is looked at.
#[derive(Debug)]
enum Frame {
    /// An array of integers.
    Numbers(Vec<i64>),
    Other,
}

/// The first frame, and what is behind it; `None` if it is none.
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
