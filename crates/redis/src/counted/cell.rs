//! [`CountCell`]: one node's count of one key in mode `async`. The node may decide by this count for a limited time.
//!
//! A cell has the state from the store's last reply, plus the units that this node has admitted since. A background
//! task reports these units to the store, and learns from the replies which units other nodes have admitted. So the
//! count lacks only the units that other nodes admitted lately.
//!
//! A cell has no clock and no connection: all times are arguments, so that the simulation runs this very code.
//!
//! # How many units the count may lack
//! A cell decides only while it is *fresh*. It stops being fresh two intervals after it asked for its present state, or
//! two intervals after it admitted the oldest unit that is not reported yet, whichever comes first. A cell that is not
//! fresh asks the store. So node A cannot count two kinds of units of node B. First, the units that B has not reported:
//! B has admitted them within the last two intervals. Second, the units that B reported after A last asked, which was
//! at most two intervals ago. Together these are at most the units that B admits in six intervals. Without faults every
//! node reports and asks in every interval, and the uncounted units are half as many.
//!
//! A report whose outcome is unknown is repeated. So its units are charged once or twice, but never lost.
//!
//! A node computes the store's time from the last reply: it takes the time in that reply, and adds 999 thousandths of
//! the time since the reply came. The store wrote the reply before it came, and two steady clocks drift apart by less
//! than a thousandth. So the computed time is never ahead of the store's, and no unit drains here before it drains in
//! the store.

use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::view::StateView;
use crate::script::{ScriptReply, ScriptVerb, Units};
use crate::told::Told;

/// The number of intervals for which a cell may decide.
pub(crate) const FRESH: u64 = 2;

/// One of the policies that the limit has had so far, and its number in their order. While the policy changes, limiters
/// with different policies count in the same cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Era<'p> {
    pub(crate) plan: &'p ScriptPlan,
    pub(crate) number: u64,
}

/// When the store was asked and when its reply came, by the clock of this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTimes {
    pub(crate) asked_ns: u64,
    pub(crate) replied_ns: u64,
}

/// The count of one key.
#[derive(Clone, Debug)]
pub(crate) struct CountCell {
    state: State,
    at_us: u64,
    /// The store's time in its last reply.
    store_us: u64,
    /// When the last reply was asked for, and when it came.
    times: CallTimes,
    /// Units that this node admitted, and whose report the store has not answered yet.
    pending: u64,
    /// The time since which `pending` has not been 0.
    since_ns: u64,
    /// The part of `pending` that is in a report under way.
    sent: Option<u64>,
    /// The number of reports that were begun.
    reports: u32,
    /// Whether a request came since the last report.
    touched: bool,
    /// The number of the policy that `state` belongs to.
    era: u64,
}

/// A snapshot of the units that a cell still has to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unheard {
    units: u64,
    reports: u32,
    pub(crate) is_under_way: bool,
}

impl Unheard {
    /// The most units that may be missing from a reply, if the store was asked after the snapshot `before` and replied
    /// before the snapshot `self`. Also returns whether that number is certain. It is not certain if a report was under
    /// way meanwhile, since the store may or may not have counted that report.
    pub(crate) fn since(self, before: Self) -> (u64, bool) {
        let is_sure = !before.is_under_way && before.reports == self.reports;
        (self.units.max(before.units), is_sure)
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountAnswer {
    Decided {
        told: Told,
        stamp: u64,
        /// Whether this request was the first since the last report, so that a report is now due.
        is_due: bool,
    },
    /// The cell is not fresh: the store has to be asked.
    Stale,
}

impl CountCell {
    /// Makes a cell from a reply of the store. `era` is the number of the policy that the state in the reply belongs
    /// to.
    pub(crate) fn new(era: u64, reply: &ScriptReply, times: CallTimes) -> Option<Self> {
        Some(Self {
            state: reply.parts.first()?.state.clone(),
            at_us: reply.now_us,
            store_us: reply.now_us,
            times,
            pending: 0,
            since_ns: 0,
            sent: None,
            reports: 0,
            touched: false,
            era,
        })
    }

    /// Whether the state is of this policy.
    pub(crate) fn is_of(&self, era: u64) -> bool {
        self.era == era
    }

    /// Decides a request by this node's count. The verb `Charge` is never denied.
    pub(crate) fn decide(
        &mut self,
        plan: &ScriptPlan,
        verb: ScriptVerb,
        units: Units,
        interval_ns: u64,
        now_ns: u64,
    ) -> CountAnswer {
        let fresh_ns = FRESH * interval_ns;
        let is_unheard = self.pending > 0 && now_ns >= self.since_ns.saturating_add(fresh_ns);
        if is_unheard || now_ns >= self.times.asked_ns.saturating_add(fresh_ns) {
            return CountAnswer::Stale;
        }
        self.go_on(plan, now_ns);
        if (StateView { plan, state: &self.state, now_us: self.at_us }).is_over() {
            return CountAnswer::Stale;
        }
        let is_due = !std::mem::replace(&mut self.touched, true);
        let view = StateView { plan, state: &self.state, now_us: self.at_us };
        let charged = match verb {
            ScriptVerb::Charge => Some(view.chargeable(units.want)),
            _ => {
                let room = view.remaining();
                (units.least <= room).then(|| units.want.min(room.max(units.least)))
            }
        };
        if let Some(units @ 1..) = charged {
            self.state.charge(plan, units);
            if self.pending == 0 {
                self.since_ns = now_ns;
            }
            self.pending = self.pending.saturating_add(units);
        }
        let (is_admitted, cost) = (charged.is_some(), charged.unwrap_or(units.least));
        let view = StateView { plan, state: &self.state, now_us: self.at_us };
        CountAnswer::Decided { told: view.told(is_admitted, cost), stamp: view.stamp(), is_due }
    }

    /// Begins a report, if one is due and none is under way. Returns the units to report. With 0 units the report only
    /// asks what other nodes have admitted.
    pub(crate) fn report(&mut self) -> Option<u64> {
        let is_due = self.touched || self.pending > 0;
        if self.sent.is_some() || !is_due {
            return None;
        }
        self.touched = false;
        self.reports = self.reports.wrapping_add(1);
        self.sent = Some(self.pending);
        self.sent
    }

    /// Enters the answer to a report.
    pub(crate) fn reported(&mut self, era: Era<'_>, reply: &ScriptReply, times: CallTimes) {
        let sent = self.sent.take().unwrap_or_default();
        self.pending -= sent.min(self.pending);
        // The units that are still pending were admitted after the report began.
        self.since_ns = times.asked_ns;
        self.learn(era, reply, times);
    }

    /// Notes that a report was not answered. The store may or may not have counted it, so its units are reported again.
    pub(crate) fn failed(&mut self) {
        self.sent = None;
    }

    /// Whether there is something to report or to learn.
    pub(crate) fn is_due(&self) -> bool {
        self.touched || self.pending > 0
    }

    /// Units that this node admitted, and whose report the store has not answered yet.
    pub(crate) fn unreported(&self) -> u64 {
        self.pending
    }

    pub(crate) fn unheard(&self) -> Unheard {
        let Self { pending, sent, reports, .. } = self;
        Unheard { units: *pending, reports: *reports, is_under_way: sent.is_some() }
    }

    /// Enters a state from the store's reply.
    pub(crate) fn learn(&mut self, era: Era<'_>, reply: &ScriptReply, times: CallTimes) {
        let is_newer = times.asked_ns >= self.times.asked_ns;
        let Some(seen) = reply.parts.first().filter(|_| is_newer) else { return };
        self.era = era.number;
        self.state.clone_from(&seen.state);
        self.at_us = reply.now_us;
        (self.store_us, self.times) = (reply.now_us, times);
        self.state.charge(era.plan, self.pending);
    }

    /// Whether the key can be forgotten without loss.
    pub(crate) fn is_idle(&self, interval_ns: u64, now_ns: u64) -> bool {
        let is_fresh = now_ns < self.times.asked_ns.saturating_add(FRESH * interval_ns);
        self.pending == 0 && self.sent.is_none() && !is_fresh
    }

    /// Advances the state to the store's time, which this node computes from its own time `now_ns`.
    fn go_on(&mut self, plan: &ScriptPlan, now_ns: u64) {
        let since_ns = now_ns.saturating_sub(self.times.replied_ns);
        let now_us = self.store_us.saturating_add((since_ns - since_ns / 1_000) / 1_000);
        let now_us = now_us.max(self.at_us);
        self.state.advance(plan, self.at_us, now_us);
        self.at_us = now_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const INTERVAL: u64 = 100 * MS;

    fn plan() -> ScriptPlan {
        ScriptPlan::new("10/s".parse().unwrap()).unwrap()
    }

    /// A reply that the store wrote at `now_us` by its clock, with this many units owed.
    fn reply(units: u64, now_us: u64) -> ScriptReply {
        ScriptReply::told(now_us, State::Gcra { debt: units * 100_000 })
    }

    fn era(plan: &ScriptPlan) -> Era<'_> {
        Era { plan, number: 0 }
    }

    fn times(asked_ns: u64, replied_ns: u64) -> CallTimes {
        CallTimes { asked_ns, replied_ns }
    }

    fn decide(cell: &mut CountCell, plan: &ScriptPlan, cost: u64, now_ns: u64) -> CountAnswer {
        cell.decide(plan, ScriptVerb::Check, Units::exactly(cost), INTERVAL, now_ns)
    }

    fn admits_under(cell: &mut CountCell, plan: &ScriptPlan, now_ns: u64) -> Option<bool> {
        match decide(cell, plan, 1, now_ns) {
            CountAnswer::Decided { told, .. } => Some(told.allowed),
            CountAnswer::Stale => None,
        }
    }

    fn admits(cell: &mut CountCell, now_ns: u64) -> Option<bool> {
        admits_under(cell, &plan(), now_ns)
    }

    /// A cell that learned at time 0 that no units are owed.
    fn unused() -> CountCell {
        CountCell::new(0, &reply(0, 0), times(0, 0)).unwrap()
    }

    #[test]
    fn a_cell_decides_while_it_is_fresh_and_no_longer() {
        let mut cell = CountCell::new(0, &reply(8, 0), times(0, 0)).unwrap();
        assert_eq!([admits(&mut cell, 0), admits(&mut cell, 0)], [Some(true); 2]);
        assert_eq!(admits(&mut cell, 0), Some(false));
        // The unit is back a thousandth later than a tenth of a second, since clocks may drift.
        assert_eq!(admits(&mut cell, 100 * MS), Some(false));
        assert_eq!(admits(&mut cell, 101 * MS), Some(true));
        assert_eq!(admits(&mut cell, 200 * MS), None);
        // A unit that is not reported in time makes the cell stale, too, even if the cell has a new reply.
        cell.learn(era(&plan()), &reply(0, 200_000), times(200 * MS, 201 * MS));
        assert_eq!(admits(&mut cell, 201 * MS), None);
    }

    /// The store's answer lacks the units that other nodes admitted after it was written, and it may come late.
    #[test]
    fn a_cell_is_fresh_from_when_the_store_was_asked_and_not_from_when_it_answered() {
        let late = |cell: &mut CountCell| {
            [admits(cell, 199 * MS).is_some(), admits(cell, 200 * MS).is_some()]
        };
        let mut cell = CountCell::new(0, &reply(0, 0), times(0, 150 * MS)).unwrap();
        assert_eq!(late(&mut cell), [true, false], "of a check");
        // The same holds for later answers to checks and reports. The next answer comes at 150 ms, and was asked for at
        // 0.
        let mut cell = unused();
        cell.learn(era(&plan()), &reply(0, 0), times(0, 150 * MS));
        assert_eq!(late(&mut cell), [true, false], "of another check");
        let mut cell = unused();
        assert_eq!(admits(&mut cell, 0), Some(true));
        assert_eq!(cell.report(), Some(1));
        // Two units are admitted during the report. The cell stays fresh for two intervals from the time at which that
        // report was sent, 10 ms.
        assert_eq!(admits(&mut cell, 20 * MS), Some(true));
        cell.reported(era(&plan()), &reply(1, 10_000), times(10 * MS, 150 * MS));
        assert_eq!([209, 210].map(|ms| admits(&mut cell, ms * MS).is_some()), [true, false]);
    }

    #[test]
    fn a_cell_asks_again_when_its_month_is_over() {
        let month = ScriptPlan::new("calendar-month 2".parse().unwrap()).unwrap();
        let reply = ScriptReply::told(0, State::Calendar { ends: 50_000, count: 1 });
        let mut cell = CountCell::new(0, &reply, times(0, 0)).unwrap();
        // The unit is back a thousandth later, since clocks may drift.
        let admits = [0, 50, 51].map(|ms| admits_under(&mut cell, &month, ms * MS));
        assert_eq!(admits, [Some(true), Some(false), None]);
    }

    #[test]
    fn what_is_admitted_during_a_report_is_reported_next() {
        let mut cell = unused();
        (0..3).for_each(|_| assert_eq!(admits(&mut cell, 0), Some(true)));
        assert_eq!((cell.report(), cell.report()), (Some(3), None));
        assert_eq!(admits(&mut cell, 10 * MS), Some(true));
        // Other nodes have admitted five units meanwhile. With three reported units and one pending unit, nine of the
        // ten units are used.
        cell.reported(era(&plan()), &reply(8, 10_000), times(0, 11 * MS));
        assert_eq!(admits(&mut cell, 11 * MS), Some(true));
        assert_eq!(admits(&mut cell, 11 * MS), Some(false));
        assert_eq!(cell.report(), Some(2));
    }

    /// While a report is under way, it is not known which of its units the store had counted when it answered another
    /// request. So a unit that was admitted here is never answered as left.
    #[test]
    fn units_of_a_report_that_is_under_way_may_have_been_heard_of_or_not() {
        let mut cell = unused();
        let at_first = cell.unheard();
        assert_eq!(at_first.since(at_first), (0, true));
        assert_eq!([admits(&mut cell, 0), admits(&mut cell, 0)], [Some(true); 2]);
        assert_eq!(cell.unheard().since(at_first), (2, true), "admitted meanwhile");
        let before = cell.unheard();
        assert_eq!(cell.report(), Some(2));
        assert_eq!(cell.unheard().since(before), (2, false), "a report has begun");
        let under_way = cell.unheard();
        assert_eq!(cell.unheard().since(under_way), (2, false));
        cell.reported(era(&plan()), &reply(2, 0), times(0, MS));
        assert_eq!(cell.unheard().since(before), (2, false), "it came and went");
        assert_eq!(cell.unheard().since(under_way), (2, false), "it was answered");
        assert_eq!(cell.unheard().since(cell.unheard()), (0, true));
    }

    #[test]
    fn bad_input_113_a_report_whose_outcome_is_unknown_is_repeated() {
        let mut cell = unused();
        assert_eq!(admits(&mut cell, 0), Some(true));
        assert_eq!(cell.report(), Some(1));
        cell.failed();
        assert!(!cell.is_idle(INTERVAL, 900 * MS));
        assert_eq!(cell.report(), Some(1));
        cell.reported(era(&plan()), &reply(2, 0), times(0, MS));
        assert_eq!(cell.report(), None);
        assert!(cell.is_idle(INTERVAL, 900 * MS));
    }

    #[test]
    fn a_cell_is_due_once_it_is_asked_and_until_all_is_reported() {
        let is_due = |cell: &mut CountCell| match decide(cell, &plan(), 1, 0) {
            CountAnswer::Decided { is_due, .. } => is_due,
            CountAnswer::Stale => panic!("it is fresh"),
        };
        let mut cell = unused();
        assert!(!cell.is_due());
        assert_eq!([is_due(&mut cell), is_due(&mut cell)], [true, false], "anew");
        assert!(cell.is_due());
        assert_eq!(cell.report(), Some(2));
        cell.failed();
        assert!(cell.is_due(), "although no request came since");
        assert_eq!(cell.report(), Some(2));
        cell.reported(era(&plan()), &reply(2, 0), times(0, MS));
        assert!(!cell.is_due());
        // A cost of 0 leaves no units to report, but the cell still has to learn what other nodes admit.
        assert!(matches!(decide(&mut cell, &plan(), 0, MS), CountAnswer::Decided { .. }));
        assert_eq!((cell.unreported(), cell.is_due(), cell.report()), (0, true, Some(0)));
    }

    #[test]
    fn a_cell_is_kept_while_it_may_decide() {
        let cell = unused();
        let at = [102, 150, 199, 200, 201].map(|ms| cell.is_idle(INTERVAL, ms * MS));
        assert_eq!(at, [false, false, false, true, true]);
    }
}
