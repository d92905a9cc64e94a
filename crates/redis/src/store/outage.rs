//! Writes a line to the log when the store is lost, so that decisions are made without it, and another when it is back.
//!
//! The number of lines is bounded, whatever happens. If the store is lost and comes back many times, one pair of lines
//! (lost and back) is written in each period of [`HOLD`]. Each decision that was made without the store is counted in
//! exactly one line: the next line that says that the store is back, or late.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Fault, StoreError};

/// The least time between two lines of the same kind.
const HOLD: Duration = Duration::from_secs(5);
/// A new store that could not be reached for this time is reported as lost.
const START: Duration = Duration::from_secs(1);

/// An outage of a store: see [`Store::outage`](crate::Store::outage).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_redis::RedisBuildError> {
/// let store = tollgate_redis::Store::open("redis://limiter:secret@127.0.0.1:1/")?;
/// let outage = store.outage().expect("no server answers there");
/// assert_eq!(&*outage.store, "redis://127.0.0.1:1/");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// The address of the store, without user, password and options.
    pub store: Box<str>,
    /// The time for which the store has not answered.
    pub lasts: Duration,
    /// Why the store was lost, or why the last attempt to reach it failed; `None` while the first attempt is under way.
    pub fault: Option<Fault>,
    /// The error message of the server, the system or the client library.
    pub said: Option<Arc<str>>,
}

/// The limits of a store, counted by the way in which they decide while the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Without {
    pub(crate) local: usize,
    pub(crate) allow: usize,
    pub(crate) deny: usize,
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways = [
            (self.local, ["limit admits", "limits admit"], " this node's share"),
            (self.allow, ["limit allows", "limits allow"], ""),
            (self.deny, ["limit denies", "limits deny"], ""),
        ];
        let mut comma = "";
        for (count, [one, many], what) in ways.into_iter().filter(|(count, ..)| *count > 0) {
            write!(f, "{comma}{count} {}{what}", if count == 1 { one } else { many })?;
            comma = ", ";
        }
        if comma.is_empty() { f.write_str("there is no limit to decide") } else { Ok(()) }
    }
}

/// Totals since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutageTally {
    pub(crate) losses: u64,
    /// The time spent without the store.
    pub(crate) away: Duration,
    /// The requests that were admitted without the store. `denied` counts those that were denied.
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) in_line: u64,
    pub(crate) sent: u64,
}

impl OutageTally {
    fn since(self, before: Self) -> Self {
        Self {
            losses: self.losses - before.losses,
            away: self.away.saturating_sub(before.away),
            allowed: self.allowed - before.allowed,
            denied: self.denied - before.denied,
            in_line: self.in_line - before.in_line,
            sent: self.sent - before.sent,
        }
    }

    fn decisions(self) -> u64 {
        self.allowed + self.denied
    }
}

/// The figures of a store at the same moment.
#[derive(Clone, Debug)]
pub(crate) struct StoreReading {
    pub(crate) is_up: bool,
    /// Why the store was last lost.
    pub(crate) error: Option<StoreError>,
    pub(crate) tally: OutageTally,
}

/// An event for which a line is written to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutageLine {
    /// The store is lost, or it is still lost for another reason: for instance, a server that has come back may refuse
    /// requests.
    Lost(Option<StoreError>),
    /// The store is back. The figures count from the last line `Back` or `Late`.
    Back(OutageTally),
    /// The store answers, but not always in time.
    Late(OutageTally),
}

/// Remembers which lines were written, and when the next line of each kind may be written.
#[derive(Debug)]
pub(crate) struct OutageLog {
    is_lost: bool,
    /// The faults that were logged since the store was lost.
    told: Vec<Option<Fault>>,
    before: OutageTally,
    next_lost: Instant,
    next_late: Instant,
}

impl OutageLog {
    pub(crate) fn new(now: Instant) -> Self {
        let next_lost = now + START;
        let (told, before) = (Vec::new(), OutageTally::default());
        Self { is_lost: false, told, before, next_lost, next_late: now }
    }

    /// The line to write now, if there is one.
    pub(crate) fn look(&mut self, reading: StoreReading, now: Instant) -> Option<OutageLine> {
        let since = reading.tally.since(self.before);
        let line = match (self.is_lost, reading.is_up) {
            (true, true) => OutageLine::Back(since),
            (is_lost, is_up) if !is_up || since.losses > 0 => {
                let fault = reading.error.as_ref().map(|error| error.fault);
                if now < self.next_lost || (is_lost && self.told.contains(&fault)) {
                    return None;
                }
                self.next_lost = now + HOLD;
                self.is_lost = true;
                self.told.push(fault);
                // This line counts no decisions. The next line counts those made before it, too.
                return Some(OutageLine::Lost(reading.error));
            }
            _ if since.decisions() > 0 && now >= self.next_late => OutageLine::Late(since),
            _ => return None,
        };
        (self.is_lost, self.before, self.next_late) = (false, reading.tally, now + HOLD);
        self.told.clear();
        Some(line)
    }
}

/// Formats a line.
pub(crate) struct OutageText<'a> {
    pub(crate) line: &'a OutageLine,
    pub(crate) store: &'a str,
    pub(crate) without: Without,
}

impl fmt::Display for OutageText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = self.store;
        let decided = |tally: OutageTally| {
            let OutageTally { allowed, denied, .. } = tally;
            let (count, s) = counted(tally.decisions());
            format!("{count} decision{s} made without it, {allowed} allowed and {denied} denied")
        };
        match self.line {
            OutageLine::Lost(error) => {
                let error = error.clone().unwrap_or(Fault::Unreachable.into());
                write!(f, "store lost: {store}: {error}; until it is back {}", self.without)
            }
            OutageLine::Back(tally) => {
                let (losses, es) = (tally.losses.max(1), if tally.losses > 1 { "s" } else { "" });
                let away = tally.away.as_secs_f64();
                write!(
                    f,
                    "store back: {store}: away for {away:.3} s in {losses} outage{es}; {}",
                    decided(*tally)
                )
            }
            OutageLine::Late(tally) => write!(
                f,
                "store late: {store}: {}; deadlines missed: {} before the request was sent, {} while its \
                 reply was waited for",
                decided(*tally),
                tally.in_line,
                tally.sent,
            ),
        }
    }
}

/// Formats a count with its noun, in the singular or plural, and its verb.
fn counted(count: u64) -> (u64, &'static str) {
    (count, if count == 1 { " was" } else { "s were" })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OutageWorld {
        log: OutageLog,
        start: Instant,
        reading: StoreReading,
    }

    impl OutageWorld {
        fn new() -> Self {
            let start = Instant::now();
            let reading = StoreReading { is_up: true, error: None, tally: OutageTally::default() };
            Self { log: OutageLog::new(start), start, reading }
        }

        fn lose(&mut self) {
            self.reading.is_up = false;
            self.reading.error = Some(Fault::Disconnected.into());
            self.reading.tally.losses += 1;
        }

        fn look(&mut self, ms: u64) -> Vec<OutageLine> {
            let now = self.start + Duration::from_millis(ms);
            std::iter::from_fn(|| self.log.look(self.reading.clone(), now)).collect()
        }
    }

    #[test]
    fn an_outage_is_a_pair_of_lines_with_what_was_decided_in_between() {
        let mut world = OutageWorld::new();
        assert_eq!(world.look(2_000), []);
        world.lose();
        assert_eq!(world.look(3_000), [OutageLine::Lost(Some(Fault::Disconnected.into()))]);
        assert_eq!(world.look(60_000), []);
        world.reading.is_up = true;
        let away = Duration::from_secs(58);
        world.reading.tally = OutageTally { allowed: 7, denied: 2, away, ..world.reading.tally };
        let tally =
            OutageTally { losses: 1, away, allowed: 7, denied: 2, ..OutageTally::default() };
        assert_eq!(world.look(61_000), [OutageLine::Back(tally)]);
        assert_eq!(world.look(62_000), []);
    }

    /// The store is lost and back ten times a second for a minute. There is a pair of lines every five seconds, and
    /// together the lines count all decisions.
    #[test]
    fn a_store_that_flaps_is_told_of_every_five_seconds_and_no_decision_is_lost() {
        let mut world = OutageWorld::new();
        let mut lines = Vec::new();
        for n in 0..600 {
            world.lose();
            lines.extend(world.look(1_000 + n * 100));
            world.reading.is_up = true;
            world.reading.tally.allowed += 3;
            lines.extend(world.look(1_050 + n * 100));
        }
        lines.extend(world.look(100_000));
        let count = |of: fn(&OutageLine) -> bool| lines.iter().filter(|line| of(line)).count();
        assert_eq!(count(|line| matches!(line, OutageLine::Lost(_))), 13);
        assert_eq!(count(|line| matches!(line, OutageLine::Back(_))), 13);
        let told = lines.iter().map(|line| match line {
            OutageLine::Back(tally) | OutageLine::Late(tally) => [tally.allowed, tally.losses],
            OutageLine::Lost(_) => [0; 2],
        });
        let [allowed, losses] = told.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        assert_eq!([allowed, losses], [1_800, 600]);
    }

    #[test]
    fn a_store_that_is_not_reached_within_a_second_of_the_start_is_missed() {
        let mut world = OutageWorld::new();
        world.reading = StoreReading { is_up: false, error: None, ..world.reading };
        assert_eq!(world.look(999), []);
        assert_eq!(world.look(1_000), [OutageLine::Lost(None)]);
    }

    #[test]
    fn a_store_that_is_away_for_another_reason_is_told_of_once_for_each() {
        let mut world = OutageWorld::new();
        world.lose();
        assert_eq!(world.look(3_000).len(), 1);
        let said = Some("WRONGPASS: invalid username-password pair".into());
        let error = StoreError { fault: Fault::Unauthenticated, said };
        world.reading.error = Some(error.clone());
        assert_eq!(world.look(7_999), []);
        assert_eq!(world.look(8_000), [OutageLine::Lost(Some(error))]);
        for n in 0..100 {
            let fault = if n % 2 == 0 { Fault::Disconnected } else { Fault::Unauthenticated };
            world.reading.error = Some(fault.into());
            assert_eq!(world.look(20_000 + n * 10_000), []);
        }
    }

    #[test]
    fn missed_deadlines_are_told_of_every_five_seconds_though_the_store_is_never_lost() {
        let mut world = OutageWorld::new();
        let mut lines = Vec::new();
        for n in 0..100 {
            world.reading.tally.denied += 1;
            world.reading.tally.sent += 1;
            lines.extend(world.look(n * 100));
        }
        let late = |count| {
            OutageLine::Late(OutageTally { denied: count, sent: count, ..OutageTally::default() })
        };
        assert_eq!(lines, [late(1), late(50)]);
    }

    #[test]
    fn lines_say_what_happens_meanwhile_and_what_has_happened() {
        let without = Without { local: 2, allow: 0, deny: 1 };
        let tally = OutageTally {
            losses: 2,
            away: Duration::from_millis(1_500),
            allowed: 1,
            in_line: 4,
            ..OutageTally::default()
        };
        let told = |line: OutageLine| {
            OutageText { line: &line, store: "redis://host/", without }.to_string()
        };
        assert_eq!(
            told(OutageLine::Lost(Some(Fault::Disconnected.into()))),
            "store lost: redis://host/: the connection to the store broke; until it is back 2 limits admit \
             this node's share, 1 limit denies"
        );
        let said = Some("ERR DB index is out of range".into());
        assert_eq!(
            told(OutageLine::Lost(Some(StoreError { fault: Fault::Script, said }))),
            "store lost: redis://host/: the server refused the call, or stopped the script: ERR DB index is out of \
             range; until it is back 2 limits admit this node's share, 1 limit denies"
        );
        assert_eq!(
            told(OutageLine::Back(tally)),
            "store back: redis://host/: away for 1.500 s in 2 outages; 1 decision was made without it, 1 \
             allowed and 0 denied"
        );
        assert_eq!(
            told(OutageLine::Late(OutageTally { allowed: 3, sent: 1, ..tally })),
            "store late: redis://host/: 3 decisions were made without it, 3 allowed and 0 denied; deadlines \
             missed: 4 before the request was sent, 1 while its reply was waited for"
        );
    }
}
