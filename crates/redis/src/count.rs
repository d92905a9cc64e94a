//! [`Cell`]: what one node knows of one key in mode `async`, and how long it may decide by that.
//!
//! A cell is a state as the store told it last, and on top of it what was admitted here since. In the
//! background it is reported what was admitted, and learnt what the others have. So a decision is made by a
//! count that lacks what other nodes admitted lately, and nothing else.
//!
//! No clock and no connection in here: all times are given, so that the simulation runs this very code.
//!
//! # How much it may lack
//! A cell decides only while it is *fresh*: for two intervals after it asked for what it knows, and for two
//! after the first unit that is admitted here and not reported. Otherwise the store is asked. So one node
//! does not know of another what that has not reported, which it admitted within two intervals, and what
//! was reported in the last two: together no more than what a node admits in six. Without faults every node
//! reports and learns every interval, and it is half of that.
//!
//! A report whose outcome is unknown is repeated: its units are charged once or twice, never not at all.
//!
//! The store's time is told by the time since the reply came, which was later than the store's, less a
//! thousandth, which is more than two steady clocks drift apart. So nothing drains here before it does there.

use crate::plan::Plan;
use crate::script::Reply;
use crate::state::{State, View};

/// Intervals for which a cell may decide.
pub(crate) const FRESH: u64 = 2;

/// What is known of one key.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    state: State,
    at_us: u64,
    /// The store's time in the last reply, and when that came.
    told: (u64, u64),
    /// When the last reply was asked for.
    asked_ns: u64,
    /// Admitted here and not known to be reported.
    pending: u64,
    /// Since when there has been something to report.
    since_ns: u64,
    /// Of them, under way.
    sent: Option<u64>,
    /// How many reports there were, that one included.
    reports: u32,
    /// Whether anybody asked since the last report.
    touched: bool,
    /// Which of the limit's policies `state` is of: while it changes, limiters of both count here.
    era: u64,
}

/// What a cell has to report, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unheard {
    units: u64,
    reports: u32,
    pub(crate) is_under_way: bool,
}

impl Unheard {
    /// The store was asked after `before`, and has answered: units that it had not heard of by then; and whether it is
    /// sure how many these are. While a report is under way, it may have heard of its units or not.
    pub(crate) fn since(self, before: Self) -> (u64, bool) {
        let is_sure = !before.is_under_way && before.reports == self.reports;
        (self.units.max(before.units), is_sure)
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Decided {
        told: tollgate::Told,
        stamp: u64,
        /// Whether the cell has something to report or to learn, and had not before.
        is_due: bool,
    },
    /// The store is to be asked.
    Stale,
}

impl Cell {
    /// Of a key that the store was asked about at `asked_ns`.
    pub(crate) fn new(era: u64, reply: &Reply, [asked_ns, now_ns]: [u64; 2]) -> Option<Self> {
        Some(Self {
            state: reply.parts.first()?.state.clone(),
            at_us: reply.now_us,
            told: (reply.now_us, now_ns),
            asked_ns,
            pending: 0,
            since_ns: 0,
            sent: None,
            reports: 0,
            touched: false,
            era,
        })
    }

    /// Whether what is known is of this policy.
    pub(crate) fn is_of(&self, era: u64) -> bool {
        self.era == era
    }

    /// Decides a request by what is known here.
    pub(crate) fn decide(
        &mut self,
        plan: &Plan,
        cost: u64,
        interval_ns: u64,
        now_ns: u64,
    ) -> Counted {
        let fresh_ns = FRESH * interval_ns;
        let is_unheard = self.pending > 0 && now_ns >= self.since_ns.saturating_add(fresh_ns);
        if is_unheard || now_ns >= self.asked_ns.saturating_add(fresh_ns) {
            return Counted::Stale;
        }
        let is_due = !std::mem::replace(&mut self.touched, true);
        self.go_on(plan, now_ns);
        let view = View { plan, state: &self.state, now_us: self.at_us };
        let is_admitted = cost <= view.remaining();
        if is_admitted {
            self.state.charge(plan, cost);
            if self.pending == 0 {
                self.since_ns = now_ns;
            }
            self.pending += cost;
        }
        let view = View { plan, state: &self.state, now_us: self.at_us };
        Counted::Decided { told: view.told(is_admitted, cost), stamp: view.stamp(), is_due }
    }

    /// What is to be reported now: units, or 0 to learn only. The outcome is waited for.
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

    /// The report was answered.
    pub(crate) fn reported(
        &mut self,
        era: (&Plan, u64),
        reply: &Reply,
        [asked_ns, now_ns]: [u64; 2],
    ) {
        let sent = self.sent.take().unwrap_or_default();
        self.pending -= sent.min(self.pending);
        // What is left came after the report was asked for.
        self.since_ns = asked_ns;
        self.learn(era, reply, [asked_ns, now_ns]);
    }

    /// The report was not answered: nobody knows whether it was heard.
    pub(crate) fn failed(&mut self) {
        self.sent = None;
    }

    /// Whether there is something left to report.
    pub(crate) fn is_due(&self) -> bool {
        self.touched || self.pending > 0
    }

    /// Admitted here, and not known to be reported.
    pub(crate) fn unreported(&self) -> u64 {
        self.pending
    }

    pub(crate) fn unheard(&self) -> Unheard {
        let Self { pending, sent, reports, .. } = self;
        Unheard { units: *pending, reports: *reports, is_under_way: sent.is_some() }
    }

    /// The store has said what it holds.
    pub(crate) fn learn(
        &mut self,
        (plan, era): (&Plan, u64),
        reply: &Reply,
        [asked_ns, now_ns]: [u64; 2],
    ) {
        let Some(seen) = reply.parts.first().filter(|_| asked_ns >= self.asked_ns) else { return };
        self.era = era;
        self.state.clone_from(&seen.state);
        self.at_us = reply.now_us;
        (self.told, self.asked_ns) = ((reply.now_us, now_ns), asked_ns);
        self.state.charge(plan, self.pending);
    }

    /// Whether nothing would be missed if the key were forgotten.
    pub(crate) fn is_idle(&self, interval_ns: u64, now_ns: u64) -> bool {
        let is_fresh = now_ns < self.asked_ns.saturating_add(FRESH * interval_ns);
        self.pending == 0 && self.sent.is_none() && !is_fresh
    }

    /// As it is at `now_ns`, by what is known of the store's time.
    fn go_on(&mut self, plan: &Plan, now_ns: u64) {
        let (told_us, came_ns) = self.told;
        let since_ns = now_ns.saturating_sub(came_ns);
        let now_us = told_us.saturating_add((since_ns - since_ns / 1_000) / 1_000);
        let now_us = now_us.max(self.at_us);
        self.state.advance(plan, [self.at_us, now_us]);
        self.at_us = now_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Seen;

    const MS: u64 = 1_000_000;
    const INTERVAL: u64 = 100 * MS;

    fn plan() -> Plan {
        Plan::new("10/s".parse().unwrap()).unwrap()
    }

    /// The store owes so many units at this time of its own.
    fn reply(units: u64, now_us: u64) -> Reply {
        let state = State::Gcra { debt: units * 100_000 };
        let seen = Seen { admits: true, broken: false, units: 0, state };
        Reply { now_us, admitted: true, parts: vec![seen] }
    }

    fn admits(cell: &mut Cell, now_ns: u64) -> Option<bool> {
        match cell.decide(&plan(), 1, INTERVAL, now_ns) {
            Counted::Decided { told, .. } => Some(told.allowed),
            Counted::Stale => None,
        }
    }

    #[test]
    fn a_cell_decides_while_it_is_fresh_and_no_longer() {
        let mut cell = Cell::new(0, &reply(8, 0), [0, 0]).unwrap();
        assert_eq!([admits(&mut cell, 0), admits(&mut cell, 0)], [Some(true); 2]);
        assert_eq!(admits(&mut cell, 0), Some(false));
        // A tenth of a second, and a thousandth for clocks that drift.
        assert_eq!(admits(&mut cell, 100 * MS), Some(false));
        assert_eq!(admits(&mut cell, 101 * MS), Some(true));
        assert_eq!(admits(&mut cell, 200 * MS), None);
        // What is not reported makes it stale, too, whatever it has learnt.
        cell.learn((&plan(), 0), &reply(0, 200_000), [200 * MS, 201 * MS]);
        assert_eq!(admits(&mut cell, 201 * MS), None);
    }

    /// What others admitted after the store answered is not in the answer, however late that comes.
    #[test]
    fn a_cell_is_fresh_from_when_the_store_was_asked_and_not_from_when_it_answered() {
        let late =
            |cell: &mut Cell| [admits(cell, 199 * MS).is_some(), admits(cell, 200 * MS).is_some()];
        let mut cell = Cell::new(0, &reply(0, 0), [0, 150 * MS]).unwrap();
        assert_eq!(late(&mut cell), [true, false], "of a check");
        // The same of what was learnt later, by a check or a report: asked for at 0, answered at 150.
        let mut cell = Cell::new(0, &reply(0, 0), [0, 0]).unwrap();
        cell.learn((&plan(), 0), &reply(0, 0), [0, 150 * MS]);
        assert_eq!(late(&mut cell), [true, false], "of another check");
        let mut cell = Cell::new(0, &reply(0, 0), [0, 0]).unwrap();
        assert_eq!(admits(&mut cell, 0), Some(true));
        assert_eq!(cell.report(), Some(1));
        // Two during the report: what they wait for to be heard is counted from the request, too.
        assert_eq!(admits(&mut cell, 20 * MS), Some(true));
        cell.reported((&plan(), 0), &reply(1, 10_000), [10 * MS, 150 * MS]);
        assert_eq!([209, 210].map(|ms| admits(&mut cell, ms * MS).is_some()), [true, false]);
    }

    #[test]
    fn what_is_admitted_during_a_report_is_reported_next() {
        let mut cell = Cell::new(0, &reply(0, 0), [0, 0]).unwrap();
        (0..3).for_each(|_| assert_eq!(admits(&mut cell, 0), Some(true)));
        assert_eq!((cell.report(), cell.report()), (Some(3), None));
        assert_eq!(admits(&mut cell, 10 * MS), Some(true));
        // The others have admitted five meanwhile: three, five and one of ten.
        cell.reported((&plan(), 0), &reply(8, 10_000), [0, 11 * MS]);
        assert_eq!(admits(&mut cell, 11 * MS), Some(true));
        assert_eq!(admits(&mut cell, 11 * MS), Some(false));
        assert_eq!(cell.report(), Some(2));
    }

    /// Whatever the store had heard of when it answered, no unit is told as left that was admitted here.
    #[test]
    fn units_of_a_report_that_is_under_way_may_have_been_heard_of_or_not() {
        let mut cell = Cell::new(0, &reply(0, 0), [0, 0]).unwrap();
        let at_first = cell.unheard();
        assert_eq!(at_first.since(at_first), (0, true));
        assert_eq!([admits(&mut cell, 0), admits(&mut cell, 0)], [Some(true); 2]);
        assert_eq!(cell.unheard().since(at_first), (2, true), "admitted meanwhile");
        let before = cell.unheard();
        assert_eq!(cell.report(), Some(2));
        assert_eq!(cell.unheard().since(before), (2, false), "a report has begun");
        let under_way = cell.unheard();
        assert_eq!(cell.unheard().since(under_way), (2, false));
        cell.reported((&plan(), 0), &reply(2, 0), [0, MS]);
        assert_eq!(cell.unheard().since(before), (2, false), "it came and went");
        assert_eq!(cell.unheard().since(under_way), (2, false), "it was answered");
        assert_eq!(cell.unheard().since(cell.unheard()), (0, true));
    }

    #[test]
    fn bad_input_113_a_report_whose_outcome_is_unknown_is_repeated() {
        let mut cell = Cell::new(0, &reply(0, 0), [0, 0]).unwrap();
        assert_eq!(admits(&mut cell, 0), Some(true));
        assert_eq!(cell.report(), Some(1));
        cell.failed();
        assert!(!cell.is_idle(INTERVAL, 900 * MS));
        assert_eq!(cell.report(), Some(1));
        cell.reported((&plan(), 0), &reply(2, 0), [0, MS]);
        assert_eq!(cell.report(), None);
        assert!(cell.is_idle(INTERVAL, 900 * MS));
    }

    #[test]
    fn a_cell_is_due_once_it_is_asked_and_until_all_is_reported() {
        let is_due = |cell: &mut Cell| match cell.decide(&plan(), 1, INTERVAL, 0) {
            Counted::Decided { is_due, .. } => is_due,
            Counted::Stale => panic!("it is fresh"),
        };
        let mut cell = Cell::new(0, &reply(0, 0), [0, 0]).unwrap();
        assert!(!cell.is_due());
        assert_eq!([is_due(&mut cell), is_due(&mut cell)], [true, false], "anew");
        assert!(cell.is_due());
        assert_eq!(cell.report(), Some(2));
        cell.failed();
        assert!(cell.is_due(), "although nobody has asked since");
        assert_eq!(cell.report(), Some(2));
        cell.reported((&plan(), 0), &reply(2, 0), [0, MS]);
        assert!(!cell.is_due());
        // What costs nothing leaves nothing to report; what others admit is to be learnt.
        assert!(matches!(cell.decide(&plan(), 0, INTERVAL, MS), Counted::Decided { .. }));
        assert_eq!((cell.unreported(), cell.is_due(), cell.report()), (0, true, Some(0)));
    }

    #[test]
    fn a_cell_is_kept_while_it_may_decide() {
        let cell = Cell::new(0, &reply(0, 0), [0, 0]).unwrap();
        let at = [102, 150, 199, 200, 201].map(|ms| cell.is_idle(INTERVAL, ms * MS));
        assert_eq!(at, [false, false, false, true, true]);
    }
}
