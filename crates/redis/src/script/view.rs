//! [`StateView`]: a state at a certain time, and the answers that are computed from it.

use std::time::Duration;

use tollgate::Rounding;

use crate::script::plan::{LARGEST, PlanKind, ScriptPlan};
use crate::script::state::State;
use crate::told::Told;

/// A state, its policy, and the time of the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateView<'a> {
    pub(crate) plan: &'a ScriptPlan,
    pub(crate) state: &'a State,
    pub(crate) now_us: u64,
}

impl StateView<'_> {
    /// The largest cost that would be admitted.
    pub(crate) fn remaining(&self) -> u64 {
        let limit = self.plan.limit;
        match (self.plan.kind, self.state) {
            (PlanKind::Gcra { per_unit, capacity, .. }, State::Gcra { debt }) => {
                capacity.saturating_sub(*debt) / per_unit
            }
            (PlanKind::Sliding { window, rounding }, &State::Sliding { previous, current, .. }) => {
                let share = u128::from(previous) * u128::from(window - self.elapsed());
                let weighed = match rounding {
                    Rounding::Exact => share.div_ceil(u128::from(window)),
                    Rounding::Down => share / u128::from(window),
                    Rounding::Strict => u128::from(previous),
                };
                let used = u64::try_from(weighed).unwrap_or(u64::MAX).saturating_add(current);
                limit.saturating_sub(used)
            }
            (
                _,
                State::Fixed { count, .. }
                | State::FromFirst { count, .. }
                | State::Calendar { count, .. },
            ) => limit.saturating_sub(*count),
            (_, State::Segmented { counts, .. }) => limit.saturating_sub(sum(counts)),
            (_, State::Log { used, .. }) => limit.saturating_sub(*used),
            (_, State::Penalised { .. }) => 0,
            _ => 0, // not reached: a state is read for its plan
        }
    }

    /// The time until the units that were reserved last may be used, which is the time until the debt is at most the
    /// capacity. It is 0 for windows, whose units may be used at once.
    pub(crate) fn turn_us(&self) -> u64 {
        match self.state {
            State::Gcra { .. } => self.ready_us(0) - self.now_us,
            _ => 0,
        }
    }

    /// The count that a charge raises: the newest count of a window, or under GCRA the debt in parts.
    pub(crate) fn newest(&self) -> u64 {
        match self.state {
            State::Gcra { debt } => *debt,
            State::Fixed { count, .. }
            | State::FromFirst { count, .. }
            | State::Calendar { count, .. } => *count,
            State::Sliding { current, .. } => *current,
            State::Segmented { counts, .. } => counts.first().copied().unwrap_or_default(),
            State::Log { .. } | State::Penalised { .. } => 0,
        }
    }

    /// How many of `units`, which were used without asking, can be charged. Under GCRA the bound is the largest debt
    /// whose end the script can still count. A window takes as many units as fit.
    pub(crate) fn chargeable(&self, units: u64) -> u64 {
        match (self.plan.kind, self.state) {
            (PlanKind::Gcra { per_tick, per_unit, .. }, State::Gcra { debt }) => {
                let ticks = (LARGEST - 1).saturating_sub(self.plan.tick(self.now_us));
                let most = ticks.saturating_mul(per_tick).min(LARGEST);
                units.min(most.saturating_sub(*debt) / per_unit)
            }
            (PlanKind::Log { .. }, _) => units.min(self.plan.limit),
            _ => units.min(self.remaining()),
        }
    }

    /// The first instant, from now on, at which `cost` is admitted, in microseconds of the server's clock. `cost` must
    /// be at most the limit; for a log, it must be the limit or the cost that the request asked for.
    pub(crate) fn ready_us(&self, cost: u64) -> u64 {
        let now = self.plan.tick(self.now_us);
        let spare = self.plan.limit - cost;
        let tick = match (self.plan.kind, self.state) {
            (PlanKind::Gcra { per_tick, per_unit, capacity }, State::Gcra { debt }) => {
                let over = debt.saturating_sub(capacity - cost * per_unit);
                now.saturating_add(over.div_ceil(per_tick))
            }
            (PlanKind::Fixed { window }, &State::Fixed { ahead, count }) if count > spare => {
                start(now, window, ahead.saturating_add(1))
            }
            (PlanKind::FromFirst { window }, State::FromFirst { start, count })
                if *count > spare =>
            {
                start.saturating_add(window)
            }
            (_, State::Calendar { ends, count }) if *count > spare => *ends,
            (PlanKind::Sliding { window, .. }, &State::Sliding { ahead, previous, current }) => {
                self.sliding_ready(now, window, ahead, previous, current, spare)
            }
            (PlanKind::Segmented { segment, .. }, State::Segmented { ahead, counts }) => {
                let mut used = sum(counts);
                let oldest_first = counts.iter().rev();
                let passed = oldest_first.take_while(|count| {
                    let stays = used > spare;
                    used = used.saturating_sub(**count);
                    stays
                });
                match passed.count() {
                    0 => now,
                    passed => start(now, segment, ahead.saturating_add(passed as u64)),
                }
            }
            (_, State::Penalised { ticks }) => now.saturating_add(*ticks),
            (_, State::Log { used, .. }) if *used <= spare => now,
            // The reply for a log has the wait only for the cost that the request asked for. The only other cost for
            // which this is called is the whole limit.
            (PlanKind::Log { window }, State::Log { newest, .. }) if spare == 0 => {
                newest.saturating_add(window)
            }
            (_, State::Log { wait, .. }) => now.saturating_add(*wait),
            _ => now,
        };
        if tick <= now { self.now_us } else { self.plan.micros(tick) }
    }

    /// The first instant from `now` on, in ticks, at which the counts of a sliding window weigh `spare` at most.
    fn sliding_ready(
        &self,
        now: u64,
        window: u64,
        ahead: u64,
        previous: u64,
        current: u64,
        spare: u64,
    ) -> u64 {
        // There are three cases. If only the previous count is in the way, the cost fits within this window. Otherwise
        // it fits in the next window, where the current count has become the previous count, or after the next window.
        let here = spare.checked_sub(current).and_then(|spare| self.shrinks_in(previous, spare));
        match (here, self.shrinks_in(current, spare)) {
            (Some(0), _) => now,
            (Some(into), _) => start(now, window, ahead).saturating_add(into),
            (None, Some(into)) => start(now, window, ahead.saturating_add(1)).saturating_add(into),
            (None, None) => start(now, window, ahead.saturating_add(2)),
        }
    }

    /// How many ticks into a window the count of the previous window, `count`, weighs at most `spare`. `None` if it
    /// weighs more until the end of the window.
    fn shrinks_in(&self, count: u64, spare: u64) -> Option<u64> {
        let PlanKind::Sliding { window, rounding } = self.plan.kind else { return None };
        if count <= spare {
            return Some(0);
        }
        let allowed = match rounding {
            Rounding::Exact => u128::from(spare) * u128::from(window),
            Rounding::Down => (u128::from(spare) + 1) * u128::from(window) - 1,
            Rounding::Strict => return None,
        };
        let covered = u64::try_from(allowed / u128::from(count)).unwrap_or(u64::MAX).min(window);
        Some(window - covered)
    }

    /// The ticks since the window in force began.
    fn elapsed(&self) -> u64 {
        match (self.plan.kind, self.state) {
            (PlanKind::Sliding { window, .. }, State::Sliding { ahead: 0, .. }) => {
                self.plan.tick(self.now_us) % window
            }
            _ => 0,
        }
    }

    /// The stamp by which a refund names its charge: the tick or the window in which the units were charged.
    pub(crate) fn stamp(&self) -> u64 {
        let now = self.plan.tick(self.now_us);
        match (self.plan.kind, self.state) {
            (
                PlanKind::Fixed { window } | PlanKind::Sliding { window, .. },
                State::Fixed { ahead, .. } | State::Sliding { ahead, .. },
            )
            | (PlanKind::Segmented { segment: window, .. }, State::Segmented { ahead, .. }) => {
                now / window + ahead
            }
            (_, State::FromFirst { start, .. }) => *start,
            (_, State::Calendar { ends, .. }) => *ends,
            (_, State::Log { newest, .. }) => *newest,
            _ => now,
        }
    }

    /// Whether the state's calendar window is over. If so, the store has to be asked, since this process does not know
    /// the end of the next window.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Calendar { ends, .. } if self.now_us >= *ends)
    }

    /// The end of the window in force. From that time on, units that were charged in this window are no longer in the
    /// newest count. `None` for `gcra` and logs, which have no windows of this kind.
    pub(crate) fn turns_us(&self) -> Option<u64> {
        let now = self.plan.tick(self.now_us);
        let tick = match (self.plan.kind, self.state) {
            (PlanKind::Gcra { .. } | PlanKind::Log { .. }, _) => return None,
            (PlanKind::FromFirst { window }, State::FromFirst { start, .. }) => start + window,
            (_, State::Calendar { ends, .. }) => *ends,
            (PlanKind::Calendar { .. }, _) => return None, // not reached: a state is read for its plan
            (PlanKind::Fixed { window } | PlanKind::Sliding { window, .. }, _)
            | (PlanKind::Segmented { segment: window, .. }, _)
            | (PlanKind::FromFirst { window }, _) => start(now, window, 1),
        };
        Some(self.plan.micros(tick))
    }

    /// The answer to a peek for `cost`, if this node holds `held` units in leases, which the store counts as spent.
    /// `admits` is the store's answer without these units.
    pub(crate) fn told_beside(&self, held: u64, admits: bool, cost: u64) -> Told {
        let limit = self.plan.limit;
        let remaining = self.remaining().saturating_add(held).min(limit);
        let allowed = (admits || held > 0) && cost <= remaining;
        let told = self.told(allowed, if allowed { 0 } else { cost });
        let wait_us = self.ready_us(cost.saturating_sub(held).min(limit)) - self.now_us;
        let retry_after = if allowed || cost > limit { 0 } else { wait_us };
        Told { remaining, retry_after: Duration::from_micros(retry_after), ..told }
    }

    /// The figures of a decision. `cost` is the charged cost or, for a denial, the requested cost.
    pub(crate) fn told(&self, allowed: bool, cost: u64) -> Told {
        let until = |at_us: u64| Duration::from_micros(at_us.saturating_sub(self.now_us));
        let limit = self.plan.limit;
        let retry_after =
            if allowed || cost > limit { Duration::ZERO } else { until(self.ready_us(cost)) };
        Told {
            allowed,
            cost,
            limit,
            soft_bp: self.plan.soft_bp,
            remaining: self.remaining(),
            retry_after,
            reset_after: until(self.ready_us(limit)),
            penalty: !allowed && matches!(self.state, State::Penalised { .. }),
        }
    }
}

/// The start of the window that is `ahead` windows after the window that contains `now`.
fn start(now: u64, window: u64, ahead: u64) -> u64 {
    (now / window).saturating_add(ahead).saturating_mul(window)
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    #[test]
    fn a_window_turns_when_its_units_are_no_longer_those_that_were_charged() {
        let turns_s = |policy: &str, state: State, now_s: u64| {
            let plan = ScriptPlan::new(policy.parse().unwrap()).unwrap();
            let view = StateView { plan: &plan, state: &state, now_us: now_s * SECOND_US };
            view.turns_us().map(|turns_us| turns_us / SECOND_US)
        };
        assert_eq!(turns_s("10/m", State::Gcra { debt: 0 }, 90), None);
        assert_eq!(
            turns_s("fixed-window 10/m", State::Fixed { ahead: 0, count: 1 }, 90),
            Some(120)
        );
        let state = State::FromFirst { start: 50 * SECOND_US, count: 1 };
        assert_eq!(turns_s("fixed-window 10/m from-first", state, 90), Some(110));
        let state = State::Sliding { ahead: 0, previous: 1, current: 1 };
        assert_eq!(turns_s("sliding-window 10/m exact", state, 90), Some(120));
        let state = State::Segmented { ahead: 0, counts: [1; 4].into() };
        assert_eq!(turns_s("segmented-window 10/m x4", state, 80), Some(90));
    }

    #[test]
    fn units_that_are_held_count_as_left_and_the_store_has_its_say_without() {
        let plan = ScriptPlan::new("fixed-window 10/m".parse().unwrap()).unwrap();
        let state = State::Fixed { ahead: 0, count: 8 };
        let view = StateView { plan: &plan, state: &state, now_us: 90 * SECOND_US };
        let told = |held, admits, cost| {
            let told = view.told_beside(held, admits, cost);
            (told.allowed, told.cost, told.remaining, told.retry_after.as_secs())
        };
        assert_eq!(told(0, true, 2), (true, 0, 2, 0));
        assert_eq!(told(0, true, 3), (false, 3, 2, 30));
        assert_eq!(told(0, false, 2), (false, 2, 2, 0));
        assert_eq!(told(1, false, 3), (true, 0, 3, 0));
        assert_eq!(told(1, false, 4), (false, 4, 3, 30));
        assert_eq!(told(12, true, 11), (false, 11, 10, 0));
        // A cost above the limit never fits, so the wait is 0.
        assert_eq!([told(0, true, 10), told(0, true, 11)], [(false, 10, 2, 30), (false, 11, 2, 0)]);
        let retry_s = |allowed, cost| view.told(allowed, cost).retry_after.as_secs();
        assert_eq!([retry_s(true, 3), retry_s(false, 10), retry_s(false, 11)], [0, 30, 0]);
        // The cost is 3 units. One is in a lease of this node, so the store must have 2. The store has 1, and the next
        // comes back after a tenth of a second.
        let plan = ScriptPlan::new("10/s".parse().unwrap()).unwrap();
        let state = State::Gcra { debt: 900_000 };
        let view = StateView { plan: &plan, state: &state, now_us: 0 };
        assert_eq!(view.told_beside(1, false, 3).retry_after, Duration::from_millis(100));
    }
}
