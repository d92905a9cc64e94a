//! Reads and writes the options at the limit in a policy's text: `soft 5%`, `count-denied 30s`, `penalty 10m after 3
//! extended`, `queue 50 wait 2s`, `debt 100x`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::read::{Words, is_length, is_word, read_duration, read_number};
use super::{AtLimit, CountDenied, Penalty, Policy};
use crate::error::PolicyError;
use crate::percent::Percent;
use crate::period::period;
use crate::wait::Wait;

/// The options that have been read so far.
#[derive(Default)]
pub(super) struct LimitWords {
    soft: Option<Percent>,
    /// The option `count-denied`, and its longest wait if one was given.
    count_denied: Option<Option<Duration>>,
    penalty: Option<Penalty>,
    places: Option<u64>,
    wait: Option<Duration>,
    debt: Option<u32>,
}

impl LimitWords {
    /// Reads the option that begins with `word`. Returns false if no option begins with it.
    pub(super) fn read(&mut self, word: &str, rest: &mut Words<'_>) -> Result<bool, PolicyError> {
        let twice = |given: bool| {
            if given { Err(PolicyError::new(format!("{word} is given twice"))) } else { Ok(()) }
        };
        match word {
            // Without a share, `soft` is the option of a leaky bucket.
            "soft" if rest.peek().is_some_and(is_share) => {
                twice(self.soft.is_some())?;
                self.soft = Some(rest.take().unwrap_or_default().parse()?);
            }
            "count-denied" => {
                twice(self.count_denied.is_some())?;
                // Without a wait, denied requests are charged up to the horizon.
                let is_there = rest.peek().is_some_and(is_length);
                let wait = is_there.then(|| read_duration("wait of count-denied", rest));
                self.count_denied = Some(wait.transpose()?);
            }
            "penalty" => {
                twice(self.penalty.is_some())?;
                self.penalty = Some(read_penalty(rest)?);
            }
            "queue" => {
                twice(self.places.is_some())?;
                self.places =
                    Some(read_number("places of queue", rest.take().unwrap_or_default())?);
            }
            "wait" => {
                twice(self.wait.is_some())?;
                self.wait = Some(read_duration("wait", rest)?);
            }
            "debt" => {
                twice(self.debt.is_some())?;
                self.debt = Some(read_times(rest.take().unwrap_or_default())?);
            }
            // These words belong to `penalty`, which was not read before them.
            "after" | "extended" => {
                return Err(PolicyError::new(format!(
                    "{word:?} belongs to a penalty, as in penalty 10m after 3 extended"
                )));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The policy with these options.
    pub(super) fn apply(&self, mut policy: Policy) -> Result<Policy, PolicyError> {
        if let Some(share) = self.soft {
            policy = policy.soft(share)?;
        }
        if let Some(most) = self.count_denied {
            policy = policy.count_denied(most)?;
        }
        // A queue needs only one of its two bounds. The other bound is then as large as possible.
        if self.places.is_some() || self.wait.is_some() {
            let max = self.wait.unwrap_or(Duration::MAX);
            policy = policy
                .queue(Wait { units: self.places.unwrap_or(u64::MAX), ..Wait::at_most(max) })?;
        }
        if let Some(times) = self.debt {
            policy = policy.debt(times)?;
        }
        // The penalty is applied last, since its shortest length depends on the other options.
        match self.penalty {
            Some(Penalty { length, after, extended: false }) => policy.penalty(length, after),
            Some(Penalty { length, after, extended: true }) => {
                policy.extended_penalty(length, after)
            }
            None => Ok(policy),
        }
    }
}

fn is_share(word: &str) -> bool {
    word.ends_with('%') || word.starts_with(|first: char| first.is_ascii_digit() || first == '.')
}

/// Reads `5%` or `0.25%`.
///
/// ```
/// use tollgate::Percent;
/// assert_eq!("12.5%".parse::<Percent>()?, Percent::from_hundredths(1_250));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
impl FromStr for Percent {
    type Err = PolicyError;

    fn from_str(share: &str) -> Result<Self, PolicyError> {
        let Some(percent) = share.strip_suffix('%') else {
            return Err(PolicyError::new(format!(
                "the share {share:?} after soft needs its percent sign, as in soft 5%"
            )));
        };
        let refuse = || {
            PolicyError::new(format!(
                "the share {share:?} after soft is not understood; \
                 write 0.01% to 100% with at most two decimals, as in soft 5% or soft 0.25%"
            ))
        };
        let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 2 {
            return Err(refuse());
        }
        // A percent with two decimals is a whole number of hundredths.
        let hundredths = format!("{whole}{part:0<2}");
        hundredths.parse().map(Self::from_hundredths).map_err(|_| refuse())
    }
}

/// Reads `100x`.
fn read_times(word: &str) -> Result<u32, PolicyError> {
    let times =
        word.strip_suffix(['x', 'X']).filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
    times.and_then(|times| times.parse().ok()).ok_or_else(|| {
        PolicyError::new(format!(
            "the debt {word:?} is not understood; write how many times the limit, as 1x to {}x, as in debt 100x",
            u32::MAX,
        ))
    })
}

/// Reads `<length> after <n> [extended]`.
fn read_penalty(rest: &mut Words<'_>) -> Result<Penalty, PolicyError> {
    let example = "as in penalty 10m after 3";
    if rest.peek().is_none() {
        return Err(PolicyError::new(format!(
            "penalty needs a length and a number of denials, {example}"
        )));
    }
    let place = rest.place();
    let read = read_duration("length of the penalty", rest)?;
    let length = rest.since(place);
    if rest.take_if(|word| is_word(word, "after")).is_none() {
        let found = rest.peek().map_or("the end".to_string(), |word| format!("{word:?}"));
        return Err(PolicyError::new(format!(
            "penalty {length} is followed by {found}, not by after, {example}"
        )));
    }
    let Some(after) = rest.take() else {
        return Err(PolicyError::new(format!(
            "penalty {length} after needs a number of denials, {example}"
        )));
    };
    let count = read_number("the number of denials", after)?;
    let after = u32::try_from(count).map_err(|_| {
        PolicyError::new(format!("penalty after {count} denials is above {}", u32::MAX))
    })?;
    let extended = rest.take_if(|word| is_word(word, "extended")).is_some();
    Ok(Penalty { length: read, after, extended })
}

/// Writes the options in the form in which they are read, each after a blank.
pub(super) fn write_words(f: &mut fmt::Formatter<'_>, at_limit: AtLimit) -> fmt::Result {
    let AtLimit { soft, count_denied, penalty, queue, debt } = at_limit;
    if !soft.is_zero() {
        write!(f, " soft {soft}")?;
    }
    match count_denied {
        CountDenied::No => {}
        CountDenied::Yes => f.write_str(" count-denied")?,
        CountDenied::UpTo(wait) => write!(f, " count-denied {}", span(wait))?,
    }
    if let Some(Penalty { length, after, extended }) = penalty {
        let extended = if extended { " extended" } else { "" };
        write!(f, " penalty {} after {after}{extended}", span(length))?;
    }
    if debt > 0 {
        write!(f, " debt {debt}x")?;
    }
    let Some(queue) = queue else { return Ok(()) };
    // The largest number of places means that only the wait bounds the queue.
    if queue.units < u64::MAX {
        let places = queue.units;
        write!(f, " queue {places}")?;
    }
    // The longest wait means that only the places bound the queue.
    if queue.max < Duration::MAX {
        write!(f, " wait {}", span(queue.max))?;
    }
    Ok(())
}

fn span(length: Duration) -> String {
    match u64::try_from(length.as_nanos()) {
        Ok(0) => "0s".to_string(),
        Ok(ns) => period(ns, "1"),
        Err(_) => format!("{}s", length.as_secs()), // longer than 584 years: refused, but for show
    }
}
