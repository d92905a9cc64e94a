//! [`CountTable`]: the cells of many keys, in fixed memory.
//!
//! Like the table of leases, this table consists of sets of eight places. A decision locks the key's set for a lookup
//! and a subtraction, and never holds the lock while a request waits. The lock is needed because a cell has several
//! words that must change together. If a key's set is full of keys in use, the key has no cell, and the store decides.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use tokio::sync::Notify;

use crate::counted::cell::{CallTimes, CountAnswer, CountCell, Era, Unheard};
use crate::script::{ScriptReply, ScriptVerb, Units};

/// Places in a set.
const WAYS: usize = 8;

type CountSet = [Option<Box<KeyCell>>; WAYS];

#[derive(Debug)]
struct KeyCell {
    key: Box<[u8]>,
    cell: CountCell,
}

/// A report of the units of a key that this node has admitted. With 0 `units` it only asks what other nodes have
/// admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyReport {
    pub(crate) key: Box<[u8]>,
    pub(crate) units: u64,
}

/// The cells of all keys of one limit.
#[derive(Debug)]
pub(crate) struct CountTable {
    sets: Box<[Mutex<CountSet>]>,
    hashes: RandomState,
    interval_ns: u64,
    /// The indices of the sets with something to report. An index may occur several times.
    due: Mutex<Vec<usize>>,
    /// Notified when a report was answered or has failed.
    pub(crate) answered: Notify,
}

impl CountTable {
    /// Makes a table with room for one and a half times `keys`, the number of keys in use at the same time.
    pub(crate) fn new(keys: usize, interval_ns: u64) -> Self {
        let sets = (keys.saturating_add(keys / 2) / WAYS).max(1).next_power_of_two();
        Self {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            hashes: RandomState::new(),
            interval_ns,
            due: Mutex::default(),
            answered: Notify::new(),
        }
    }

    /// Decides by this node's count of the key, if it has one.
    pub(crate) fn decide(
        &self,
        era: Era<'_>,
        key: &[u8],
        verb: ScriptVerb,
        units: Units,
        now_ns: u64,
    ) -> CountAnswer {
        let index = self.index(key);
        let mut set = locked(&self.sets[index]);
        let Some(cell) = found(&mut set, key) else { return CountAnswer::Stale };
        if !cell.is_of(era.number) {
            return CountAnswer::Stale;
        }
        let counted = cell.decide(era.plan, verb, units, self.interval_ns, now_ns);
        drop(set);
        if matches!(counted, CountAnswer::Decided { is_due: true, .. }) {
            locked(&self.due).push(index);
        }
        counted
    }

    /// Enters the store's answer about a key.
    pub(crate) fn learn(&self, era: Era<'_>, key: &[u8], reply: &ScriptReply, times: CallTimes) {
        let mut set = locked(&self.sets[self.index(key)]);
        if let Some(cell) = found(&mut set, key) {
            return cell.learn(era, reply, times);
        }
        let vacant = set.iter_mut().find(|place| {
            place
                .as_ref()
                .is_none_or(|place| place.cell.is_idle(self.interval_ns, times.replied_ns))
        });
        if let (Some(vacant), Some(cell)) = (vacant, CountCell::new(era.number, reply, times)) {
            *vacant = Some(Box::new(KeyCell { key: key.into(), cell }));
        }
    }

    /// Begins the reports that are due.
    pub(crate) fn reports(&self) -> Vec<KeyReport> {
        let mut due = std::mem::take(&mut *locked(&self.due));
        due.sort_unstable();
        due.dedup();
        let mut reports = Vec::with_capacity(due.len());
        for index in due {
            let mut set = locked(&self.sets[index]);
            for KeyCell { key, cell } in set.iter_mut().flatten().map(|place| &mut **place) {
                reports.extend(cell.report().map(|units| KeyReport { key: key.clone(), units }));
            }
        }
        reports
    }

    /// Enters the reply to the report of a key.
    pub(crate) fn reported(&self, era: Era<'_>, key: &[u8], reply: &ScriptReply, times: CallTimes) {
        self.end_report(key, |cell| cell.reported(era, reply, times));
    }

    /// Marks the report of a key as unanswered.
    pub(crate) fn failed(&self, key: &[u8]) {
        self.end_report(key, CountCell::failed);
    }

    fn end_report(&self, key: &[u8], end: impl FnOnce(&mut CountCell)) {
        let index = self.index(key);
        let mut set = locked(&self.sets[index]);
        let Some(cell) = found(&mut set, key) else { return };
        end(cell);
        let is_due = cell.is_due();
        drop(set);
        if is_due {
            locked(&self.due).push(index);
        }
        self.answered.notify_waiters();
    }

    /// Begins a report that must reach the store before the next request for the key, and returns its units. Returns
    /// `None` if there are no unreported units, if they were admitted under the policy of `era`, or if a report is
    /// under way.
    pub(crate) fn report_first(&self, era: Option<u64>, key: &[u8]) -> Option<u64> {
        let mut set = locked(&self.sets[self.index(key)]);
        let cell = found(&mut set, key)?;
        // A report begins only if it will be sent. A report that began and was not sent would get no answer, and would
        // block all later reports of the key.
        let is_known = era.is_some_and(|era| cell.is_of(era));
        if is_known || cell.unreported() == 0 { None } else { cell.report() }
    }

    /// Forgets a key, and with it the units that this node has not reported.
    pub(crate) fn forget(&self, key: &[u8]) {
        let mut set = locked(&self.sets[self.index(key)]);
        for place in set.iter_mut() {
            if place.as_ref().is_some_and(|place| *place.key == *key) {
                *place = None;
            }
        }
    }

    /// The unreported units of a key at this moment.
    pub(crate) fn unheard(&self, key: &[u8]) -> Unheard {
        let mut set = locked(&self.sets[self.index(key)]);
        found(&mut set, key).map_or_else(Unheard::default, |cell| cell.unheard())
    }

    /// Makes the guard of reports that are being sent.
    pub(crate) fn under_way<'a>(&'a self, era: Era<'a>, reports: &'a [KeyReport]) -> UnderWay<'a> {
        UnderWay { counts: self, era, reports }
    }

    fn index(&self, key: &[u8]) -> usize {
        // The hash only chooses the set; the keys in it are compared.
        let hash = self.hashes.hash_one(key);
        usize::try_from(hash >> 32).unwrap_or_default() & (self.sets.len() - 1)
    }
}

/// The guard of reports that are being sent. If the call fails or its task is cancelled, the guard is dropped before an
/// answer has come. The reports then count as failed, and their units are reported again.
#[derive(Debug)]
pub(crate) struct UnderWay<'a> {
    counts: &'a CountTable,
    era: Era<'a>,
    reports: &'a [KeyReport],
}

impl UnderWay<'_> {
    /// Enters the store's reply to all reports. If the reply has no part for a key, the report of that key has failed.
    pub(crate) fn answered(mut self, reply: ScriptReply, times: CallTimes) {
        let mut parts = reply.parts.into_iter();
        for KeyReport { key, .. } in std::mem::take(&mut self.reports) {
            match parts.next() {
                Some(part) => {
                    let parts = vec![part];
                    let reply = ScriptReply { now_us: reply.now_us, admitted: true, parts };
                    self.counts.reported(self.era, key, &reply, times);
                }
                None => self.counts.failed(key),
            }
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        for KeyReport { key, .. } in self.reports {
            self.counts.failed(key);
        }
    }
}

fn found<'a>(set: &'a mut CountSet, key: &[u8]) -> Option<&'a mut CountCell> {
    let mut places = set.iter_mut().flatten();
    places.find(|place| *place.key == *key).map(|place| &mut place.cell)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::plan::ScriptPlan;
    use crate::script::state::State;

    const AT_ONCE: CallTimes = CallTimes { asked_ns: 0, replied_ns: 0 };

    #[test]
    fn a_key_that_is_not_asked_for_takes_66_bytes_at_most() {
        // tollgate-service relies on the bound of 66 bytes. The bound holds from 8 keys on, and every rule has room for
        // more keys.
        for keys in (8..300).chain([43_691, 65_536, 100_000]) {
            let bytes = CountTable::new(keys, 1).sets.len() * size_of::<Mutex<CountSet>>();
            assert!(bytes <= 66 * keys, "{bytes} for {keys}");
        }
    }

    /// A reply at time 0 of the store's clock, with nothing owed.
    fn reply() -> ScriptReply {
        ScriptReply::told(0, State::Gcra { debt: 0 })
    }

    /// A policy of ten units a second, and a table with one key, none of whose units are used.
    fn of_one_key() -> (ScriptPlan, CountTable) {
        let plan = ScriptPlan::new("10/s".parse().unwrap()).unwrap();
        let counts = CountTable::new(8, 1_000);
        counts.learn(Era { plan: &plan, number: 0 }, b"key", &reply(), AT_ONCE);
        (plan, counts)
    }

    /// Asks for a cost under the policy of an era.
    fn decide((plan, counts): &(ScriptPlan, CountTable), number: u64, cost: u64) -> CountAnswer {
        counts.decide(Era { plan, number }, b"key", ScriptVerb::Check, Units::exactly(cost), 0)
    }

    #[test]
    fn while_a_policy_changes_a_key_is_decided_by_what_is_known_of_its_own() {
        let world = of_one_key();
        let (plan, counts) = &world;
        let decides = |number| matches!(decide(&world, number, 1), CountAnswer::Decided { .. });
        assert_eq!([decides(0), decides(1)], [true, false]);
        // The store must count the unit under the old policy before it decides under the new policy.
        assert_eq!(
            [counts.report_first(Some(0), b"key"), counts.report_first(Some(1), b"key")],
            [None, Some(1)]
        );
        counts.learn(Era { plan, number: 1 }, b"key", &reply(), AT_ONCE);
        assert_eq!([decides(0), decides(1)], [false, true]);
    }

    #[test]
    fn what_is_admitted_while_a_report_is_under_way_is_in_the_next() {
        let world = of_one_key();
        let (plan, counts) = &world;
        let of = |units| vec![KeyReport { key: b"key"[..].into(), units }];
        decide(&world, 0, 1);
        assert_eq!(counts.reports(), of(1));
        decide(&world, 0, 1);
        assert_eq!(counts.reports(), [], "one at a time");
        counts.reported(Era { plan, number: 0 }, b"key", &reply(), AT_ONCE);
        assert_eq!(counts.reports(), of(1));
        counts.failed(b"key");
        assert_eq!(counts.reports(), of(1), "the store may have heard of it or not");
        counts.reported(Era { plan, number: 0 }, b"key", &reply(), AT_ONCE);
        assert_eq!(counts.reports(), []);
    }

    /// If a key has no unreported units, nothing is reported first. Finding this out does not change the cell: units
    /// that are admitted later are reported.
    #[test]
    fn a_key_that_admitted_nothing_under_the_old_policy_is_reported_under_the_new() {
        let world = of_one_key();
        let (plan, counts) = &world;
        decide(&world, 0, 11);
        assert_eq!(counts.report_first(Some(1), b"key"), None);
        counts.learn(Era { plan, number: 1 }, b"key", &reply(), AT_ONCE);
        decide(&world, 1, 1);
        assert_eq!(counts.reports(), [KeyReport { key: b"key"[..].into(), units: 1 }]);
    }

    #[test]
    fn units_of_a_report_that_was_dropped_are_reported_again() {
        let world = of_one_key();
        let (plan, counts) = &world;
        decide(&world, 0, 1);
        let unreported = || counts.unheard(b"key").since(Unheard::default()).0;
        let keys = counts.reports();
        drop(counts.under_way(Era { plan, number: 0 }, &keys));
        assert_eq!((counts.reports(), unreported()), (keys.clone(), 1));
        counts.under_way(Era { plan, number: 0 }, &keys).answered(reply(), AT_ONCE);
        assert_eq!((counts.reports(), unreported()), (vec![], 0));
    }
}
