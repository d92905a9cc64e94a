//! The answers of a world's threads, and the verdict on these answers.
//!
//! Threads run one at a time, so all events have one order, in which each call has two stamps: one for its beginning
//! and one for its end. A call that ended before another call began came before it. Nothing is assumed about calls that
//! overlap.
//!
//! # The bound of GCRA
//! In any interval of the callers' own times, take the units admitted, less those given back. They are at most the sum
//! of the burst, the units that the rate gives, and the documented ticks. A place counts at the instant at which its
//! turn comes. If the largest place exceeds the burst, its size replaces the burst in this sum. A charge into debt is
//! never denied, so it counts only against admissions that came after it. A reset forgives all charges, so the history
//! is split there. A call that overlaps the reset is in neither part. If units of a charge from before the reset are
//! given back after the reset, they reduce other charges, and may be admitted once more.
//!
//! Units that are given back have not drained, so they are subtracted from their charge. From then on the limit is as
//! if less had been charged. Until then the whole charge is in force.

use std::fmt;

use crate::kinds::{Time, Verb};

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Admitted.
    Firm,
    /// Admitted as a place, which may be used only from its turn on.
    Place { ready_ns: u64 },
    /// Charged, whether it fit or not.
    Loose,
    /// Charged, or first charged and then undone.
    Unsure,
    /// Refused.
    Denied,
    /// Peeked: only its time is used, whatever the answer was.
    Asked,
    /// A reset: all calls before this one are forgiven.
    Forgiven,
}

/// A call, or the part of a call that concerns one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) key: u64,
    pub(crate) verb: Verb,
    pub(crate) kind: Kind,
    /// The earliest and the latest time at which the call can have been decided.
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) units: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The number of units given back, and the stamps of the call that gave them back.
    pub(crate) back: u64,
    pub(crate) back_begin: u64,
    pub(crate) back_end: u64,
}

impl Event {
    /// A call between two stamps. Its times are set later.
    pub(crate) fn new(
        key: u64,
        verb: Verb,
        kind: Kind,
        units: u64,
        (begin, end): (u64, u64),
    ) -> Self {
        let (from_ns, to_ns) = (0, 0);
        let (back, back_begin, back_end) = (0, u64::MAX, u64::MAX);
        Self { key, verb, kind, from_ns, to_ns, units, begin, end, back, back_begin, back_end }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, verb, kind, from_ns, to_ns, units, begin, end, back, .. } = self;
        write!(
            f,
            "{begin:>4}..{end:<4} key {key} {verb:?} {units} at {from_ns}..{to_ns}: {kind:?}"
        )?;
        if *back > 0 {
            write!(f, ", back {back} in {}..{}", self.back_begin, self.back_end)
        } else {
            Ok(())
        }
    }
}

/// A change of quota at `at_ns`. The quota was `before` until then, and `after` from then on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) before: Rate,
    pub(crate) after: Rate,
    pub(crate) at_ns: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// A limit that was set by a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitSet {
    pub(crate) count: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// A rate: `count` units per period, and the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    pub(crate) period_ns: u64,
    pub(crate) burst: u64,
}

/// A quota that was certainly in force between two stamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) rate: Rate,
    pub(crate) after: u64,
    pub(crate) before: u64,
}

/// The most units that a lower limit may have forgotten from a stamp on. These are units of places that lie beyond the
/// old limit. See *a debt* in `docs/limiters.md`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    pub(crate) units: u64,
    pub(crate) begin: u64,
}

/// The bound of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// GCRA on `words` words, each of which may admit a tick too early. The quota may have been changed once.
    Gcra { rate: Rate, words: u64, change: Option<Change> },
    /// GCRA whose quota was changed and changed back. The bound is that of the larger quota, plus the units that this
    /// quota gives in `astride_ns`, plus the units that a lower limit forgot. `astride_ns` is the time by which
    /// decisions of one quota may lie on the other quota's side of a change. Calls that were certainly decided by one
    /// quota keep the bound of that quota.
    ToAndFro { rate: Rate, words: u64, astride_ns: u64, forgotten: Forgotten, phases: [Phase; 3] },
    /// At most `limit` units in each window of the clock.
    Fixed { window_ns: u64, limit: u64 },
    /// Pairs of the length of an interval, and the most units in any half-open interval of that length.
    Within([(u64, u64); 2]),
}

/// The messages for an execution that breaks its bound.
pub(crate) const ABOVE_BOUND: &str = "admitted above the bound";
pub(crate) const LOST_CHARGE: &str = "a charge was lost";
pub(crate) const REFUSED: &str = "refused without a reason";

/// One call of a key's history, as the bound sees it.
#[derive(Clone, Copy)]
struct Part {
    from_ns: u64,
    to_ns: u64,
    units: u64,
    begin: u64,
    end: u64,
}

/// Units that were given back after a reset had forgiven their charge. They reduce other charges, and may be admitted
/// again.
#[derive(Clone, Copy)]
struct Astray {
    units: u64,
    begin: u64,
    end: u64,
}

/// Checks that one key's calls keep its bound. `time` says whether clocks may run backward.
pub(crate) fn judge(bound: &Bound, of_key: &[Event], time: Time) -> Result<(), String> {
    let mut events = of_key.to_vec();
    let resets = events.iter().filter(|event| event.kind == Kind::Forgiven);
    let mut resets: Vec<_> = resets.map(|event| (event.begin, event.end)).collect();
    resets.sort_unstable();
    let astray = astray(&mut events, &resets, time);
    let mut after = 0;
    for (before, end) in resets.into_iter().chain([(u64::MAX, u64::MAX)]) {
        let inside = |event: &&Event| after <= event.begin && event.end <= before;
        let events: Vec<Event> = events.iter().filter(inside).copied().collect();
        let astray = astray.iter().filter(|back| back.begin < before && after < back.end);
        judge_stretch(bound, &events, astray.map(|back| back.units).sum())?;
        after = after.max(end);
    }
    Ok(())
}

/// The units that may be admitted again. They were given back from a charge that a reset had forgiven, so they are at
/// most the units of that charge. The charge itself still counts in full. They may also come from an undo whose clock
/// ran backward, so that it took drained units for undrained ones: see `src/all.rs`.
fn astray(events: &mut [Event], resets: &[(u64, u64)], time: Time) -> Vec<Astray> {
    let mut all = Vec::new();
    for event in events {
        // If one of several limits denied a request, the request was charged and undone within the call. A charge that
        // was admitted is given back by a later call.
        let is_undone = event.verb == Verb::All && event.kind == Kind::Unsure;
        let until = if is_undone { event.end } else { event.back_end };
        if !is_undone && event.back == 0 {
            continue;
        }
        if is_undone && time == Time::Backward {
            all.push(Astray { units: event.units, begin: event.begin, end: until });
            continue;
        }
        // The first reset that may lie between the charge and the call that gave its units back.
        let mut crossed = resets.iter().filter(|(begin, end)| *begin < until && event.begin < *end);
        let Some(&(reset, _)) = crossed.next() else { continue };
        all.push(if is_undone {
            Astray { units: event.units, begin: event.begin.max(reset), end: until }
        } else {
            Astray { units: event.back, begin: event.back_begin, end: until }
        });
        event.back = 0;
    }
    all
}

/// Judges the calls between two resets. Up to `astray` units of other charges may have been given back meanwhile.
fn judge_stretch(bound: &Bound, events: &[Event], astray: u64) -> Result<(), String> {
    let is_place = |event: &Event| matches!(event.kind, Kind::Place { .. });
    // A request of cost 0 only peeks, and is allowed while the limit is in debt.
    let of_kind = |is_of: &dyn Fn(&Event) -> bool| -> Vec<&Event> {
        events.iter().filter(|event| event.units > 0 && is_of(event)).collect()
    };
    let firm = of_kind(&|event| event.kind == Kind::Firm || is_place(event));
    let loose = of_kind(&|event| event.kind == Kind::Loose);
    let net = |event: &Event| event.units - event.back;
    let largest = firm.iter().filter(|event| is_place(event)).map(|event| event.units).max();
    let largest = largest.unwrap_or(0);
    let parts = |events: &[&Event], units: &dyn Fn(&Event) -> u64| -> Vec<Part> {
        events.iter().map(|event| part(event, bound, units(event))).collect()
    };
    let told = |excess: Result<(), String>| excess.map_err(|what| format!("{ABOVE_BOUND}: {what}"));
    told(keeps(bound, &parts(&firm, &net), None, largest, astray))?;
    // Until units are given back, the whole charge counts.
    if events.iter().any(|event| event.back > 0) {
        for last in &firm {
            let known: Vec<_> =
                firm.iter().filter(|event| event.end <= last.end).copied().collect();
            let then = |event: &Event| {
                if event.back_begin > last.end { event.units } else { net(event) }
            };
            told(keeps(bound, &parts(&known, &then), None, largest, astray))?;
        }
    }
    // A change of quota may forgive a debt that is too large for a word, and a window has no debts. So debts are not
    // checked across a change, nor in windows.
    if loose.is_empty() || !matches!(bound, Bound::Gcra { change: None, .. }) {
        return Ok(());
    }
    // The admission that the limit decided last cannot have been decided before the admission whose call began last.
    for last in &firm {
        let mut known: Vec<_> =
            firm.iter().filter(|event| event.begin <= last.begin).copied().collect();
        known.extend(loose.iter().filter(|event| event.end < last.begin));
        let around = part(last, bound, 0);
        told(keeps(bound, &parts(&known, &net), Some(around), largest, astray))?;
    }
    Ok(())
}

fn part(event: &Event, bound: &Bound, units: u64) -> Part {
    let (from_ns, to_ns) = match (event.kind, bound) {
        (Kind::Place { ready_ns }, Bound::Gcra { .. } | Bound::ToAndFro { .. }) => {
            (ready_ns, ready_ns)
        }
        _ => (event.from_ns, event.to_ns),
    };
    Part { from_ns, to_ns, units, begin: event.begin, end: event.end }
}

/// Checks that every interval keeps the bound. If `around` is given, only intervals that contain it are checked.
fn keeps(
    bound: &Bound,
    parts: &[Part],
    around: Option<Part>,
    largest: u64,
    astray: u64,
) -> Result<(), String> {
    match *bound {
        Bound::Gcra { rate, words, change } => {
            let unit = i128::from(rate.period_ns);
            let ticks = i128::from(words) * unit / 256;
            let burst = i128::from(rate.burst.max(largest) + astray) * unit;
            let count = i128::from(rate.count);
            let Some(change) = change else {
                let flow = |from_ns: u64, to_ns: u64| i128::from(to_ns - from_ns) * count;
                return intervals(parts, around, flow, (unit, burst + ticks));
            };
            // See `src/algorithm/rebase.rs`. Calls that were certainly decided by one quota keep the bound of that
            // quota.
            let old = change.before;
            let of = |rate, is_of: &dyn Fn(&Part) -> bool| {
                let own: Vec<Part> = parts.iter().filter(|part| is_of(part)).copied().collect();
                keeps(&Bound::Gcra { rate, words, change: None }, &own, None, largest, astray)
            };
            of(old, &|part| part.end < change.begin)?;
            of(rate, &|part| part.begin > change.end)?;
            // For calls of both quotas together, each interval is extended by the time by which decisions of one quota
            // may lie on the other quota's side of the change.
            let before = parts.iter().filter(|part| part.begin <= change.end);
            let late = before.map(|part| part.to_ns.saturating_sub(change.at_ns)).max();
            let after = parts.iter().filter(|part| part.end >= change.begin);
            let early = after.map(|part| change.at_ns.saturating_sub(part.from_ns)).max();
            let [late, early] = [late, early].map(|ns| i128::from(ns.unwrap_or(0)));
            let old_count = i128::from(old.count);
            let old_burst = i128::from(old.burst.max(largest) + astray) * unit;
            let most = (old_burst + old_count * late).max(burst) + count * early;
            let flow = |from_ns: u64, to_ns: u64| {
                let before_ns = change.at_ns.saturating_sub(from_ns);
                let after_ns = to_ns.saturating_sub(change.at_ns);
                old_count * i128::from(before_ns) + count * i128::from(after_ns)
            };
            intervals(parts, around, flow, (unit, most + 2 * ticks))
        }
        Bound::ToAndFro { rate, words, astride_ns, forgotten, phases } => {
            for Phase { rate, after, before } in phases {
                let is_own = |part: &&Part| after < part.begin && part.end < before;
                let own: Vec<Part> = parts.iter().filter(is_own).copied().collect();
                let astray = astray + if forgotten.begin < after { forgotten.units } else { 0 };
                let bound = Bound::Gcra { rate, words, change: None };
                keeps(&bound, &own, None, largest, astray)?;
            }
            let (unit, count) = (i128::from(rate.period_ns), i128::from(rate.count));
            // One tick for each of the three quotas.
            let ticks = 3 * i128::from(words) * unit / 256;
            let burst = i128::from(rate.burst.max(largest) + astray + forgotten.units) * unit;
            let burst = burst + count * i128::from(astride_ns);
            let flow = |from_ns: u64, to_ns: u64| i128::from(to_ns - from_ns) * count;
            intervals(parts, around, flow, (unit, burst + ticks))
        }
        Bound::Fixed { window_ns, limit } => {
            let index = |part: &Part| (part.from_ns / window_ns, part.to_ns / window_ns);
            for first in parts.iter().map(|part| index(part).0) {
                for last in parts.iter().map(|part| index(part).1).filter(|&last| first <= last) {
                    let inside =
                        parts.iter().filter(|part| first <= index(part).0 && index(part).1 <= last);
                    let units: u64 = inside.map(|part| part.units).sum();
                    let most = limit * (last - first + 1) + astray;
                    if units > most {
                        return Err(format!("{units} of {most} in windows {first}..={last}"));
                    }
                }
            }
            Ok(())
        }
        Bound::Within(lengths) => {
            for (length_ns, most) in lengths {
                for from_ns in parts.iter().map(|part| part.from_ns) {
                    let inside = parts
                        .iter()
                        .filter(|part| from_ns <= part.from_ns && part.to_ns - from_ns < length_ns);
                    let units: u64 = inside.map(|part| part.units).sum();
                    let most = most.saturating_add(astray);
                    if units > most {
                        return Err(format!("{units} of {most} in {length_ns} ns from {from_ns}"));
                    }
                }
            }
            Ok(())
        }
    }
}

/// Checks that in every interval the units admitted are at most the burst plus the units that the rate gives in that
/// interval. All amounts are in fractions of a unit; `unit` of them make one unit.
fn intervals(
    parts: &[Part],
    around: Option<Part>,
    flow: impl Fn(u64, u64) -> i128,
    (unit, burst): (i128, i128),
) -> Result<(), String> {
    let mut by_end = parts.to_vec();
    by_end.sort_unstable_by_key(|part| part.to_ns);
    let (latest_from, earliest_to) =
        around.map_or((u64::MAX, 0), |part| (part.from_ns, part.to_ns));
    for from_ns in parts.iter().map(|part| part.from_ns).filter(|&from| from <= latest_from) {
        let mut units = 0;
        for part in by_end.iter().filter(|part| from_ns <= part.from_ns) {
            units += part.units;
            if part.to_ns < earliest_to {
                continue;
            }
            let above = i128::from(units) * unit - flow(from_ns, part.to_ns) - burst;
            if above > 0 {
                let to_ns = part.to_ns;
                return Err(format!(
                    "{units} units in {from_ns}..={to_ns} ns, {above} of {unit} of a unit too many"
                ));
            }
        }
    }
    Ok(())
}
