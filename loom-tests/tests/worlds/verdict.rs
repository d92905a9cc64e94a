//! The verdict on a world: on its threads' answers, and on the state at the end.

use tollgate::{Algorithm, DenialReason, Rounding, Timestamp};

use crate::history::{ABOVE_BOUND, LOST_CHARGE};
use crate::history::{Bound, Change, Event, Forgotten, Kind, Phase, Rate, judge};
use crate::instant::judge_instant;
use crate::kinds::{Family, Time, Verb};
use crate::state::stamp;
use crate::subject::{LIVE, Shop, Subject};
use crate::world::{BASE_NS, World};

/// The message for a claim that outlived its install.
pub(crate) const LEFT_CLAIM: &str = "a claim was left behind";
/// The message for a snapshot that cannot be restored.
pub(crate) const REFUSED_FILE: &str = "the snapshot is refused";

fn latest(events: &[Event]) -> u64 {
    events.iter().map(|event| event.to_ns).max().unwrap_or(0)
}

/// The scope of a change of a key's quota: its tier.
pub(crate) fn scope(family: Family, key: u64) -> u64 {
    if family == Family::Tiers && key > LIVE { 2 + key % 2 } else { key }
}

/// The most units of a key's places that lowering a limit may forget. These are the units of the places that lie beyond
/// the old limit at that time. Until a place's turn, the key owes the whole limit and the units that drain until that
/// turn.
fn forgotten<'a>(
    old: Rate,
    lowering: &Change,
    of_key: impl Iterator<Item = &'a Event>,
) -> Forgotten {
    let (mut units, mut beyond_ns) = (0, 0);
    for event in of_key.filter(|event| event.begin < lowering.end) {
        let Kind::Place { ready_ns } = event.kind else { continue };
        let back = if event.back_end < lowering.begin { event.back } else { 0 };
        if back < event.units {
            units += event.units - back;
            // The time by which a call lies after the change is already contained in `astride_ns`.
            beyond_ns = beyond_ns.max(ready_ns.saturating_sub(lowering.at_ns.max(event.to_ns)));
        }
    }
    let beyond = (u128::from(beyond_ns) * u128::from(old.count)).div_ceil(old.period_ns.into());
    let units = units.min(u64::try_from(beyond).unwrap_or(u64::MAX));
    Forgotten { units, begin: lowering.begin }
}

impl World {
    /// The mistake in the world's answers, or `None`.
    pub(crate) fn verdict(
        &self,
        mut events: Vec<Event>,
        changes: &[(u64, Change)],
        files: &[(u64, u64, Vec<u8>)],
        tell: bool,
    ) -> Result<(), String> {
        self.settle(&mut events);
        if tell {
            self.describe(&events, changes);
            if let Some(shop) = self.subject.shop() {
                println!("{:?}", shop.stats());
            }
        }
        // Once a window of a later time has begun, it may also hold requests of earlier times.
        let latest_ns = if self.is_gcra() { 0 } else { latest(&events) };
        let mut keys: Vec<u64> = events.iter().map(|event| event.key).collect();
        keys.sort_unstable();
        keys.dedup();
        if let Some(shop) = self.subject.shop()
            && shop.claims() > 0
        {
            return Err(format!("{LEFT_CLAIM}: {}", shop.claims()));
        }
        self.judge_limits(&events, &self.limits())?;
        for (begin, end, file) in files {
            self.judge_snapshot(&keys, &events, changes, (*begin, *end, file))?;
        }
        for &key in &keys {
            let bound = self.bound(key, &events, changes);
            let mut of_key: Vec<Event> =
                events.iter().filter(|event| event.key == key).copied().collect();
            let told = |what| format!("key {key}: {what}");
            let own = scope(self.family, key);
            let is_changed = changes.iter().any(|(changed, _)| *changed == own);
            if self.time == Time::Still && self.is_exact(key) && !is_changed {
                let burst = Self::rate_of(self.policy_of(key)).burst;
                let look = self.subject.peek(key, 0, Some(Timestamp::from_nanos(BASE_NS)));
                let is_full =
                    look.denial().is_some_and(|denial| denial.reason() == DenialReason::TableFull);
                let is_told = self.family != Family::Striped && !look.is_spilled() && !is_full;
                let left = is_told.then(|| look.remaining());
                judge_instant(&of_key, burst, self.words, left).map_err(told)?;
            }
            // All units that are left now count as one more admission.
            self.probe(&self.subject, key, &mut of_key, latest_ns);
            judge(&bound, &of_key, self.time).map_err(told)?;
        }
        Ok(())
    }

    /// True if a key shares its limit with no other key, so that its calls imply what is left.
    fn is_exact(&self, key: u64) -> bool {
        match &self.subject {
            Subject::Shop(shop) => key <= LIVE || !shop.was_crowded(),
            Subject::Striped(_) | Subject::Log(_) => true,
            // `judge_limits` judges this log.
            Subject::LiveLog(_) => false,
            Subject::Sketch(_) | Subject::Logs(_) => false,
        }
    }

    /// Corrects those events for which the whole history is needed.
    fn settle(&self, events: &mut [Event]) {
        // If several threads charge one cell of the spill at once, the cell may remember a little less.
        if self.subject.shop().is_some_and(Shop::was_crowded) {
            let is_charge = |event: &&mut Event| {
                event.key > LIVE
                    && (event.kind == Kind::Loose
                        || (event.verb == Verb::Charge && event.kind == Kind::Firm))
            };
            events.iter_mut().filter(is_charge).for_each(|event| event.kind = Kind::Unsure);
        }
        // A word holds at most twice the burst. If a key that moves owes more, the rest is forgotten.
        for n in 0..events.len() {
            if events[n].verb == Verb::MoveKey && events[n].kind == Kind::Loose {
                let key = events[n].key;
                let charged = |event: &&Event| event.key == key && event.kind != Kind::Denied;
                // If time passes, the arrival of a moved key is recorded with one unit less than was charged.
                let is_cut = |event: &Event| {
                    let is_arrival = matches!(event.kind, Kind::Loose | Kind::Unsure);
                    event.verb == Verb::MoveKey && is_arrival && self.time != Time::Still
                };
                let of_key = events.iter().filter(charged);
                let all: u64 = of_key.map(|event| event.units + u64::from(is_cut(event))).sum();
                if all > 2 * Self::rate_of(self.policy_of(key)).burst {
                    events[n].kind = Kind::Unsure;
                }
            }
        }
        // A request with a time before the current window is decided as if it came at the window's start. That may be
        // as late as the latest time of any request.
        if !self.is_gcra() {
            let latest: Vec<u64> = events
                .iter()
                .map(|event| {
                    let begun = events.iter().filter(|other| other.begin < event.end);
                    begun.map(|other| other.to_ns).max().unwrap_or(0)
                })
                .collect();
            for (event, latest) in events.iter_mut().zip(latest) {
                event.to_ns = event.to_ns.max(latest);
            }
        }
    }

    /// Takes all units that are still left for a key, and records them.
    fn probe(&self, subject: &Subject, key: u64, of_key: &mut Vec<Event>, latest_ns: u64) {
        let times = of_key.iter().filter(|event| !matches!(event.kind, Kind::Denied | Kind::Asked));
        let Some(now_ns) = times.map(|event| event.to_ns).max() else { return };
        let now = Some(Timestamp::from_nanos(now_ns));
        let units = match subject {
            Subject::Shop(shop) => {
                shop.take_up_to(key, 1_000, now).into_result().map_or(0, |permit| permit.cost())
            }
            _ => (0..64).take_while(|_| subject.check(key, 1, now).is_allowed()).count() as u64,
        };
        let (begin, end) = (stamp(), stamp());
        of_key.push(Event {
            from_ns: now_ns,
            to_ns: now_ns.max(latest_ns),
            ..Event::new(key, Verb::UpTo, Kind::Firm, units, (begin, end))
        });
    }

    /// Checks that the snapshot contains every charge from before it began.
    fn judge_snapshot(
        &self,
        keys: &[u64],
        events: &[Event],
        changes: &[(u64, Change)],
        (begin, end, file): (u64, u64, &[u8]),
    ) -> Result<(), String> {
        let Some(shop) = self.subject.shop() else { return Ok(()) };
        let restored = match shop.restored(file) {
            Ok(restored) => Subject::Shop(Box::new(restored)),
            // The file gives another quota than the one with which it is to be restored.
            Err(_) if changes.iter().any(|(scope, _)| *scope != LIVE) => return Ok(()),
            Err(error) => return Err(format!("{REFUSED_FILE}: {error}")),
        };
        // The restored table has the quotas that the world began with.
        let is_changed = |key: u64| {
            let of_key = |change: &&(u64, Change)| change.0 == scope(self.family, key);
            changes.iter().filter(of_key).any(|(_, change)| change.begin < end)
        };
        for &key in keys.iter().filter(|&&key| key > LIVE && !is_changed(key)) {
            let known = |event: &&Event| {
                event.key == key
                    && (event.end < begin || (event.kind == Kind::Forgiven && event.begin < end))
            };
            let mut of_key: Vec<Event> = events.iter().filter(known).copied().collect();
            // Units that were given back after the snapshot began may or may not be in it.
            let late = of_key.iter().filter(|event| event.back > 0 && event.back_begin > end);
            // The charges of a batch all begin at its start, but each ends at a different time.
            let whole: Vec<_> = late.map(|event| (event.begin, event.end)).collect();
            for event in &mut of_key {
                if whole.contains(&(event.begin, event.end)) {
                    event.back = 0;
                }
            }
            let latest_ns = if self.is_gcra() { 0 } else { latest(events) };
            self.probe(&restored, key, &mut of_key, latest_ns);
            let told = |what: String| {
                let what = what.replace(ABOVE_BOUND, LOST_CHARGE);
                format!("key {key} in a snapshot: {what}")
            };
            judge(&self.bound(key, events, &[]), &of_key, self.time).map_err(told)?;
        }
        Ok(())
    }

    fn describe(&self, events: &[Event], changes: &[(u64, Change)]) {
        println!(
            "{:?}, {:?}, {}; tier {}; other {}",
            self.family, self.time, self.policy, self.second, self.other
        );
        let mut events = events.to_vec();
        events.sort_unstable_by_key(|event| event.begin);
        for event in events {
            println!("  {event}");
        }
        for (scope, change) in changes {
            println!("  {}..{}: change of {scope} at {}", change.begin, change.end, change.at_ns);
        }
    }

    /// The bound of a key whose quota was changed and changed back.
    fn to_and_fro(
        &self,
        rate: Rate,
        (own, key): (u64, u64),
        events: &[Event],
        changes: &[(u64, Change)],
    ) -> Bound {
        let other = Self::rate_of(self.other);
        let is_larger = |one: Rate, two: Rate| {
            let faster = u128::from(one.count) * u128::from(two.period_ns)
                >= u128::from(two.count) * u128::from(one.period_ns);
            one.burst >= two.burst && faster
        };
        let candidates = [(rate, other), (other, rate)];
        let Some((largest, _)) = candidates.into_iter().find(|(one, two)| is_larger(*one, *two))
        else {
            // Neither quota is at least as large as the other in every respect, so neither is the larger one.
            return Bound::Within([(1, u64::MAX); 2]);
        };
        // In a table a change takes effect no earlier than the previous change, whichever tier that change was for.
        let of_table = changes.iter().filter(|(scope, _)| own > LIVE && *scope > LIVE);
        let latest_ns = of_table.map(|(_, change)| change.at_ns).max().unwrap_or(0);
        let of_key = || events.iter().filter(|event| event.key == key);
        let of_own = || {
            let of_own = changes.iter().filter(move |(changed, _)| *changed == own);
            of_own.map(|(_, change)| change)
        };
        let astride = of_own().map(|change| {
            let before = of_key().filter(|event| event.begin <= change.end);
            let late = before.map(|event| event.to_ns.saturating_sub(change.at_ns)).max();
            let after = of_key().filter(|event| event.end >= change.begin);
            let at_ns = change.at_ns.max(latest_ns);
            let early = after.map(|event| at_ns.saturating_sub(event.from_ns)).max();
            late.unwrap_or(0) + early.unwrap_or(0)
        });
        let mut own: Vec<Change> = of_own().copied().collect();
        own.sort_unstable_by_key(|change| change.begin);
        // If two changes overlap, either may have come first.
        let (first, last) = (own[0], own[own.len() - 1]);
        let is_ordered = own.len() == 2 && first.end < last.begin;
        let end = if is_ordered { last.begin } else { 0 };
        let after = if is_ordered { last.end } else { u64::MAX };
        let phases = [
            Phase { rate, after: 0, before: first.begin },
            Phase { rate: other, after: first.end, before: end },
            Phase { rate, after, before: u64::MAX },
        ];
        // The change to the smaller quota, if the two differ.
        let lowering = own.iter().find(|change| change.after != largest);
        let forgotten = lowering.map(|lowering| forgotten(largest, lowering, of_key()));
        let forgotten = forgotten.unwrap_or(Forgotten { units: 0, begin: 0 });
        let (words, astride_ns) = (self.words, astride.sum());
        Bound::ToAndFro { rate: largest, words, astride_ns, forgotten, phases }
    }

    /// The bound of a key.
    fn bound(&self, key: u64, events: &[Event], changes: &[(u64, Change)]) -> Bound {
        let policy = self.policy_of(key);
        let rate = Self::rate_of(policy);
        let (window_ns, limit) = (rate.period_ns, rate.count);
        if matches!(self.family, Family::Log | Family::Logs | Family::LiveLog) {
            return Bound::Within([(window_ns, limit); 2]);
        }
        // These are the bounds for a half-open window in the column "most in W" of `docs/which-algorithm.md`.
        match policy.algorithm() {
            Algorithm::SlidingWindow { rounding: Rounding::Strict } => {
                return Bound::Within([(window_ns, limit); 2]);
            }
            Algorithm::SlidingWindow { rounding: Rounding::Down } => {
                return Bound::Within([(window_ns, 2 * limit); 2]);
            }
            Algorithm::SlidingWindow { rounding: Rounding::Exact } => {
                return Bound::Within([(window_ns, 2 * limit - 1); 2]);
            }
            Algorithm::FixedWindowFromFirst => {
                // The units of the request that opened a window may have been given back.
                let is_opener_gone = events.iter().any(|event| event.key == key && event.back > 0);
                let most = 2 * limit - u64::from(!is_opener_gone);
                return Bound::Within([(window_ns, most); 2]);
            }
            Algorithm::SegmentedWindow { segments } => {
                let but_one_ns = window_ns / u64::from(segments) * u64::from(segments - 1);
                return Bound::Within([(window_ns, 2 * limit), (but_one_ns, limit)]);
            }
            Algorithm::FixedWindow => return Bound::Fixed { window_ns, limit },
            _ => {}
        }
        let own = scope(self.family, key);
        if changes.iter().filter(|(changed, _)| *changed == own).count() > 1 {
            return self.to_and_fro(rate, (own, key), events, changes);
        }
        let change = changes.iter().find(|(changed, _)| *changed == own);
        match change {
            Some((_, change)) => {
                // In a table a change takes effect no earlier than the previous change.
                let others = changes.iter().filter(|(other, _)| own > LIVE && *other > LIVE);
                let before = others.filter(|(_, other)| other.begin < change.end);
                let overlaps = before
                    .clone()
                    .any(|(other, before)| *other != own && change.begin < before.end);
                if overlaps {
                    return Bound::Within([(1, u64::MAX); 2]); // either change may have come first
                }
                let at_ns = before.map(|(_, other)| other.at_ns).max().unwrap_or(change.at_ns);
                let change = Change { before: rate, at_ns, ..*change };
                let rate = change.after;
                Bound::Gcra { rate, words: self.words, change: Some(change) }
            }
            None => Bound::Gcra { rate, words: self.words, change: None },
        }
    }
}
