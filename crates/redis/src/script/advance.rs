//! Advances states with time and charges them in this process, as the script does in the store.
//!
//! This is for decisions that do not ask the store. It computes the same as decide.lua, and a test on a real server
//! compares the two.

use crate::script::plan::{LARGEST, PlanKind, ScriptPlan};
use crate::script::state::State;

impl State {
    /// Advances a state from the time `from_us` to `to_us`, with no charge in between.
    pub(crate) fn advance(&mut self, plan: &ScriptPlan, from_us: u64, to_us: u64) {
        let (from, to) = (plan.tick(from_us), plan.tick(to_us));
        match (plan.kind, self) {
            (PlanKind::Gcra { per_tick, .. }, Self::Gcra { debt }) => {
                *debt = debt.saturating_sub(to.saturating_sub(from).saturating_mul(per_tick));
            }
            (PlanKind::Fixed { window }, Self::Fixed { ahead, count }) => {
                let is_over = passed(ahead, window, from, to) > 0;
                *count = if is_over { 0 } else { *count };
            }
            // This process cannot open the next window, since it does not know that window's end: see
            // `StateView::is_over`.
            (_, Self::Calendar { ends, count }) => *count = if to >= *ends { 0 } else { *count },
            (PlanKind::FromFirst { window }, Self::FromFirst { start, count }) => {
                let is_over = *count == 0 || to >= start.saturating_add(window);
                (*start, *count) = if is_over { (to, 0) } else { (*start, *count) };
            }
            (PlanKind::Sliding { window, .. }, Self::Sliding { ahead, previous, current }) => {
                match passed(ahead, window, from, to) {
                    0 => {}
                    1 => (*previous, *current) = (*current, 0),
                    _ => (*previous, *current) = (0, 0),
                }
            }
            (PlanKind::Segmented { segment, .. }, Self::Segmented { ahead, counts }) => {
                let passed = passed(ahead, segment, from, to);
                let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(counts.len());
                counts.rotate_right(passed);
                counts[..passed].fill(0);
            }
            _ => {} // not reached: the state always belongs to the plan
        }
    }

    /// Charges units whether they fit or not. The debt is cut at the largest number that a script can count.
    pub(crate) fn charge(&mut self, plan: &ScriptPlan, units: u64) {
        let (held, by) = match (plan.kind, self) {
            (PlanKind::Gcra { per_unit, .. }, Self::Gcra { debt }) => {
                (debt, units.saturating_mul(per_unit))
            }
            (
                _,
                Self::Fixed { count, .. }
                | Self::FromFirst { count, .. }
                | Self::Calendar { count, .. },
            ) => (count, units),
            (_, Self::Sliding { current, .. }) => (current, units),
            (_, Self::Segmented { counts, .. }) => match counts.first_mut() {
                Some(newest) => (newest, units),
                None => return,
            },
            _ => return,
        };
        *held = held.saturating_add(by).min(LARGEST);
    }
}

/// The number of windows from the window in force to the window that contains `to`. At first, `ahead` counts the
/// windows from the window that contains `from` to the window in force; afterwards it counts them from `to`.
fn passed(ahead: &mut u64, window: u64, from: u64, to: u64) -> u64 {
    let (in_force, now) = ((from / window).saturating_add(*ahead), to / window);
    *ahead = in_force.saturating_sub(now);
    now.saturating_sub(in_force)
}
