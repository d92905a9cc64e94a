//! A sliding log whose count changes repeatedly, compared with a list of all units that count.
//!
//! By definition, a request is admitted if its units and those admitted in the window before it are together at most
//! the limit in force. It does not matter which limit was in force when those units were admitted. The list has no
//! slots, and a change only sets its limit. So units count after any number of changes, and no window ever holds more
//! than the largest limit that was in force in it.

use std::time::Duration;

use tollgate::{Changing, Decision, Limiter, ManualClock, Permit, Policy, Quota, Timestamp};

use super::charge::CheckResult;
use crate::draw::Draw;
use crate::step::nanos_of;

/// A fault of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// No fault.
    None,
    /// A change forgives the units that count.
    ChangeForgives,
    /// A lowered limit forgets the units above it, which shows when the limit is raised again.
    BeyondForgotten,
    /// A permit from before a change gives its units back.
    PermitOutlivesChange,
    /// A lowered limit admits one unit more.
    OneMore,
    /// A unit is reported as taken back, and still counts.
    NotTakenBack,
}

/// The units of one admitted request.
#[derive(Debug)]
struct SpentTogether {
    permit: Permit,
    /// The time from which these units no longer count.
    free_ns: u64,
    /// The number of changes of the limit before the admission.
    changes: u64,
}

struct LiveLog {
    log: Changing<Limiter>,
    fault: LogFault,
    built: u64,
    window_ns: u64,
    now_ns: u64,
    limit: u64,
    changes: u64,
    /// The time at which each unit stops counting, earliest first. Times only rise.
    units: Vec<u64>,
    spent: Vec<SpentTogether>,
}

/// Draws logs until one fails, for at most this many steps. Returns the number of steps that were compared, and the
/// failure.
#[must_use]
pub fn hunt_log_changes(seed: u64, steps: u64, fault: LogFault) -> (u64, Option<String>) {
    let mut draw = Draw::new(seed);
    let mut compared = 0;
    while compared < steps {
        let mut live = LiveLog::drawn(&mut draw, fault);
        let mut done = Vec::new();
        for _ in 0..64 {
            let (told, result) = live.step(&mut draw);
            done.push(told);
            compared += 1;
            match result.and_then(|goes_on| live.is_left().map(|()| goes_on)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(what) => {
                    let told = done.join("\n");
                    let (built, window_ns) = (live.built, live.window_ns);
                    let found = format!("{built} units in {window_ns} ns\n{told}\n{what}");
                    return (compared, Some(found));
                }
            }
        }
    }
    (compared, None)
}

fn log_of(count: u64, window_ns: u64) -> Policy {
    Policy::sliding_log(Quota::per(count, Duration::from_nanos(window_ns))).expect("a log")
}

fn changing_log(count: u64, window_ns: u64) -> Changing<Limiter> {
    let log = Limiter::builder(log_of(count, window_ns)).clock(ManualClock::new());
    log.changing().build().expect("a log")
}

impl LiveLog {
    fn drawn(draw: &mut Draw, fault: LogFault) -> Self {
        // The log has one row of slots, or several.
        let most = if draw.one_in(8) { 300 } else { 12 };
        let built = 1 + draw.below(most);
        // There are few instants, so that several requests share one.
        let window_ns = 1_000 + draw.below(50);
        Self {
            log: changing_log(built, window_ns),
            fault,
            built,
            window_ns,
            now_ns: draw.below(1 << 40),
            limit: built,
            changes: 0,
            units: Vec::new(),
            spent: Vec::new(),
        }
    }

    fn of(&self, count: u64) -> Policy {
        log_of(count, self.window_ns)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now_ns)
    }

    fn counting(&self) -> u64 {
        self.units.len() as u64
    }

    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.counting())
    }

    /// Takes one step. Returns its description, and, if the answer is right, whether the list still describes the log
    /// exactly.
    fn step(&mut self, draw: &mut Draw) -> (String, CheckResult<bool>) {
        let cost = 1 + draw.below(self.limit);
        match draw.below(16) {
            0..5 => (format!("check {cost} at {}", self.now_ns), self.check(cost)),
            5..7 => (format!("up to {cost} at {}", self.now_ns), self.up_to(cost)),
            7..10 => {
                let count = if draw.one_in(4) { self.built } else { 1 + draw.below(self.built) };
                (format!("limit {count}"), self.change(count))
            }
            10..12 => (format!("a refund at {}", self.now_ns), self.refund(draw)),
            12 if draw.one_in(6) => (format!("a reset at {}", self.now_ns), self.reset()),
            13 if draw.one_in(3) => {
                let units = 1 + draw.below(self.counting() + 2);
                (format!("{units} taken back at {}", self.now_ns), self.uncharge(units))
            }
            _ => {
                self.now_ns += draw.below(8) * self.window_ns / 12;
                let now_ns = self.now_ns;
                self.units.retain(|&free_ns| free_ns > now_ns);
                (format!("now {now_ns}"), Ok(true))
            }
        }
    }

    fn admitted(&mut self, permit: Permit) {
        let free_ns = self.now_ns + self.window_ns;
        self.units.extend((0..permit.cost()).map(|_| free_ns));
        self.spent.push(SpentTogether { permit, free_ns, changes: self.changes });
    }

    fn check(&mut self, cost: u64) -> CheckResult<bool> {
        let fits = cost <= self.left();
        let decision = self.log.entry().at(self.now()).check_n(cost);
        ensure!(decision.is_allowed() == fits, "{} are left: {decision:?}", self.left());
        match decision {
            Decision::Allowed(permit) => self.admitted(permit),
            Decision::Denied(denial) => {
                // The wait ends when enough of the earliest units have left the window.
                let leave = usize::try_from(self.counting() + cost - self.limit).expect("few");
                let wait = self.units.get(leave - 1).map(|free_ns| free_ns - self.now_ns);
                let told = denial.retry_after().map(nanos_of);
                ensure!(told == wait, "a wait of {wait:?} ns: {denial:?}");
            }
        }
        Ok(true)
    }

    fn up_to(&mut self, cost: u64) -> CheckResult<bool> {
        let fits = cost.min(self.left());
        let permit = self.log.entry().at(self.now()).take_up_to(cost).into_result().ok();
        let units = permit.as_ref().map_or(0, Permit::cost);
        ensure!(units == fits, "{units} of {cost} are admitted, {} are left", self.left());
        if let Some(permit) = permit {
            self.admitted(permit);
        }
        Ok(true)
    }

    fn change(&mut self, count: u64) -> CheckResult<bool> {
        let beyond = self.counting().saturating_sub(count);
        match self.fault {
            LogFault::ChangeForgives => self.log.entry().at(self.now()).reset(),
            LogFault::BeyondForgotten => {
                let _ = self.log.entry().at(self.now()).uncharge(beyond);
            }
            _ => {}
        }
        let is_more = self.fault == LogFault::OneMore && count < self.built;
        let changed = self.log.set_quota(self.of(count + u64::from(is_more)));
        ensure!(changed.is_ok(), "{changed:?}");
        self.changes += u64::from(count != self.limit);
        self.limit = count;
        Ok(true)
    }

    fn refund(&mut self, draw: &mut Draw) -> CheckResult<bool> {
        if self.spent.is_empty() {
            return Ok(true);
        }
        let nth = usize::try_from(draw.below(self.spent.len() as u64)).expect("few");
        let &SpentTogether { ref permit, free_ns, changes } = &self.spent[nth];
        let part = permit.twin().portion(1 + draw.below(permit.cost()));
        let cost = part.cost();
        let told = self.log.entry().at(self.now()).refund(part);
        if self.fault == LogFault::PermitOutlivesChange && changes != self.changes {
            let _ = self.log.entry().at(self.now()).uncharge(cost);
        }
        // Units of the same instant are interchangeable.
        let same = self.units.iter().filter(|&&unit| unit == free_ns).count() as u64;
        let back = if changes == self.changes { same.min(cost) } else { 0 };
        ensure!(told == back, "{told} of {cost} came back, and {back} count");
        self.take_off(back, |unit| unit == free_ns);
        Ok(true)
    }

    fn take_off(&mut self, units: u64, is_one: impl Fn(u64) -> bool) {
        let mut missing = units;
        self.units.retain(|&unit| {
            let goes = missing > 0 && is_one(unit);
            missing -= u64::from(goes);
            !goes
        });
    }

    fn reset(&mut self) -> CheckResult<bool> {
        self.log.entry().at(self.now()).reset();
        self.units.clear();
        Ok(true)
    }

    /// The log does not promise which units it takes back. It promises how many count afterwards, under the limit in
    /// force and under the first one.
    fn uncharge(&mut self, units: u64) -> CheckResult<bool> {
        let back = units.min(self.counting());
        let told = match self.fault {
            LogFault::NotTakenBack => back,
            _ => self.log.entry().at(self.now()).uncharge(units),
        };
        ensure!(told == back, "{told} of {units} were taken back, and {back} count");
        let is_all = back == self.counting();
        self.take_off(back, |_| true);
        self.is_left()?;
        let limit = self.limit;
        for count in [self.built, limit] {
            self.change(count)?;
            self.is_left()?;
        }
        Ok(is_all)
    }

    /// Checks that a peek agrees with the list and the limit in force.
    fn is_left(&self) -> CheckResult {
        let look = self.log.entry().at(self.now()).peek(0);
        let (left, limit) = (self.left(), self.limit);
        ensure!(look.remaining() == left, "{left} of {limit} should be left: {look:?}");
        ensure!(look.limit() == limit, "{limit} is in force: {look:?}");
        Ok(())
    }
}
