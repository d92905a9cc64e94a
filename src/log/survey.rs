//! Counts the free slots, row by row, and finds out when more slots become free.
//!
//! A row is skipped if its bounds show that all of its slots are free, or that none of them is free and none changes
//! the answer. In a log whose callers' times rise, slots are taken in the order of their times. So only one or two rows
//! are read, and for the other rows only their two bounds.

use super::slots::{Slots, is_free, is_marked, load, time};
use crate::algorithm::Answers;

/// The state of the slots at one instant. Marked slots count as taken, but their times are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The number of free slots.
    pub(crate) free: u64,
    /// The instant at which the first taken slot becomes free; `u64::MAX` if there is none.
    least_ns: u64,
    /// The instant from which all slots are free. It is not before the instant of the survey.
    latest_ns: u64,
}

impl Survey {
    /// The first instant at which `units` slots are free. It is not before `now_ns`, the instant of the survey.
    pub(crate) fn ready_ns(&self, slots: &impl Slots, now_ns: u64, units: u64) -> u64 {
        match units.saturating_sub(self.free) {
            0 => now_ns,
            // One more slot is needed: the first taken slot that becomes free.
            1 => self.least_ns.min(self.latest_ns),
            _ => nth_ns(slots, now_ns, units, self.latest_ns),
        }
    }
}

/// Reads the state of the slots at `at_ns`.
pub(crate) fn survey(slots: &impl Slots, at_ns: u64) -> Survey {
    let base_ns = slots.base_ns();
    let mut seen = Survey { free: 0, least_ns: u64::MAX, latest_ns: at_ns };
    // If times rise, the row of the cursor and the row before it contain the latest times. So only one other row is
    // read: the row with the next slot that becomes free.
    let (rows, here) = (slots.rows(), slots.oldest());
    let before = if here == 0 { rows - 1 } else { here - 1 };
    // The other rows follow, each once. The rows after the cursor come first, since their slots become free soonest.
    let others = (here + 1..rows).chain(0..here).filter(|&row| row != before);
    let latest = if before == here { 0..0 } else { before..before + 1 };
    for row in std::iter::once(here).chain(latest).chain(others) {
        // All slots of the row are free, so the row is not read.
        if at_ns >= base_ns && slots.high_ns(row) <= at_ns {
            seen.free += slots.row_len(row) as u64;
            continue;
        }
        let low_ns = slots.low_ns(row);
        // No slot of the row is free, and none would change `least_ns` or `latest_ns`, so the row is not read.
        if low_ns > at_ns && low_ns >= seen.least_ns && slots.high_ns(row) <= seen.latest_ns {
            continue;
        }
        let mut low_ns = u64::MAX;
        for slot in slots.row(row) {
            let word = load(slot);
            low_ns = low_ns.min(time(word));
            let free_ns = word.max(base_ns);
            if free_ns <= at_ns {
                seen.free += 1;
            } else if !is_marked(word) {
                // A marked slot is taken, too, but it does not say when it becomes free.
                seen.least_ns = seen.least_ns.min(free_ns);
                seen.latest_ns = seen.latest_ns.max(free_ns);
            }
        }
        // The bound may be raised, since all slots of the row were read, and since each slot that is given back lowers
        // the bound again.
        slots.raise_low(row, low_ns);
    }
    seen
}

/// The number of slots that are free at an instant.
pub(crate) fn count_free(slots: &impl Slots, at_ns: u64) -> u64 {
    // No slot is free before the log begins.
    if at_ns < slots.base_ns() {
        return 0;
    }
    let in_row = |row: usize| {
        // The row is read only if its bounds leave open how many of its slots are free.
        if slots.high_ns(row) <= at_ns {
            slots.row_len(row)
        } else if slots.low_ns(row) > at_ns {
            0
        } else {
            slots.row(row).iter().filter(|slot| is_free(load(slot), at_ns)).count()
        }
    };
    (0..slots.rows()).map(|row| in_row(row) as u64).sum()
}

/// The answers for a request that was decided at `now_ns`.
pub(crate) fn answers(slots: &impl Slots, limit: u64, now_ns: u64, cost: u64) -> Answers {
    let seen = survey(slots, now_ns);
    // A cost above the limit never fits, so its wait is never reported.
    let ready_ns = if cost > limit { now_ns } else { seen.ready_ns(slots, now_ns, cost) };
    // At most the limit is left. More slots may be free if the limit has been raised since it was read.
    let (remaining, idle_ns) = (seen.free.min(limit), seen.latest_ns);
    Answers { limit, remaining, ready_ns, idle_ns, spilled: false, slots: None }
}

/// The first instant after `now_ns` at which `units` slots are free, but at most `latest_ns`.
fn nth_ns(slots: &impl Slots, now_ns: u64, units: u64, latest_ns: u64) -> u64 {
    let is_enough = |at_ns| count_free(slots, at_ns) >= units;
    // If times rise, the guess is right. Counting the free slots twice proves this.
    if let Some(guess_ns) = slots.guess_ns(units)
        && (now_ns + 1..=latest_ns).contains(&guess_ns)
        && is_enough(guess_ns)
        && !is_enough(guess_ns - 1)
    {
        return guess_ns;
    }
    let (mut too_early_ns, mut enough_ns) = (now_ns, latest_ns);
    // If the guess is wrong, the instant is found by bisection. Each step counts the free slots again.
    while enough_ns - too_early_ns > 1 {
        let middle_ns = too_early_ns + (enough_ns - too_early_ns) / 2;
        if is_enough(middle_ns) {
            enough_ns = middle_ns;
        } else {
            too_early_ns = middle_ns;
        }
    }
    enough_ns
}
