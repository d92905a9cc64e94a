//! The default bound of the debt that a limit remembers. It applies to limits of a rule with `usage: true` if the file
//! gives no bound and, under [`compat`](crate::RuleSettings::compat), to limits that charge what they deny.

use tollgate::{Clock, ManualClock, Policy};

use crate::language::file::{LimitText, Usage};
use crate::set::carry::{CarriedTable, TableShape};

/// The debts to try, as multiples of the limit. The largest debt for which a word has room is taken. With a debt of 100
/// times the limit, no charge is lost if a hundred requests are under way at once and each uses up a whole limit.
const TIMES: [u32; 7] = [100, 50, 20, 10, 5, 2, 1];

/// Gives the limits of a rule a debt if the rule says `usage: true` and the limits name no debt. Limits that charge
/// what they deny get the same debt, so that their tables can tell whether more was charged than the limit. The text of
/// these limits does not show the debt.
pub(crate) fn of_limits(
    mut limits: Vec<LimitText>,
    usage: Usage,
    charges_denied: bool,
    shape: TableShape,
) -> Vec<LimitText> {
    let is_usage = usage == Usage::Always;
    let owes =
        |limit: &&mut LimitText| is_usage && !limit.says_debt || charges_denied && limit.is_plain;
    for limit in limits.iter_mut().filter(owes) {
        let Some(policy) = limit.policy else { continue };
        let owing = by_default(policy, shape);
        if is_usage && owing != policy {
            limit.words = format!("{} debt {}x", limit.words, owing.at_limit().debt).into();
        }
        limit.policy = Some(owing);
    }
    limits
}

/// The policy with the largest of the debts in [`TIMES`] that fits in a table's words and leaves the table changeable.
/// If none of them does, the policy is returned unchanged.
fn by_default(policy: Policy, shape: TableShape) -> Policy {
    let clock = Clock::from(ManualClock::new());
    let one = TableShape { capacity: 1, ..shape };
    let is_changeable = |policy: &Policy| {
        let built = CarriedTable::build(*policy, one, &clock);
        built.is_ok_and(|built| built.planned_for.is_some())
    };
    let owing = TIMES.into_iter().filter_map(|times| policy.debt(times).ok());
    let mut fitting = owing.filter(|owing| is_changeable(owing));
    fitting.next().unwrap_or(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::identifier::AddressBits;
    use crate::language::on_full::OnFull;

    #[test]
    fn a_limit_of_usage_remembers_a_hundred_times_itself_or_as_much_as_fits() {
        let shape =
            TableShape { capacity: 9, on_full: OnFull::default(), bits: AddressBits::default() };
        for (text, owing) in [
            ("gcra 1000/h", "gcra 1000/h debt 100x"),
            ("gcra 10000/s burst 1000000", "gcra 10000/s burst 1000000 debt 100x"),
            ("gcra 1000000/h burst 50000000", "gcra 1000000/h burst 50000000 debt 2x"),
            ("fixed-window 1000/h", "fixed-window 1000/h debt 100x"),
            ("fixed-window 1000000/h", "fixed-window 1000000/h debt 100x"),
            ("sliding-window 1000/h", "sliding-window 1000/h debt 50x"),
            ("calendar-month 10000", "calendar-month 10000 debt 100x"),
            ("calendar-year 10000", "calendar-year 10000 debt 100x"),
            ("calendar-week 10000", "calendar-week 10000 debt 100x"),
            ("segmented-window 60/m x6", "segmented-window 60/m x6"),
            ("sliding-log 100/h", "sliding-log 100/h"),
        ] {
            let policy = text.parse().expect("a policy");
            assert_eq!(by_default(policy, shape).to_string(), owing);
        }
    }
}
