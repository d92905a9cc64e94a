//! [`State`]: the state of a limit, as the script's reply reports it.

use crate::error::Fault;
use crate::script::plan::{PlanKind, ScriptPlan};

/// The state of a limit at the time of a reply. `ahead` says how many windows the window in force is ahead of the
/// window that contains this time. The number is 0 unless the server's clock was set back. In that case it is mostly 1
/// (see decide.lua).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The debt in parts of a unit, cut at 2^53 - 1. The debt gets so large only if the clock was set back a little, or
    /// if units were admitted without asking the store. At such a debt nothing is admitted, and the reported waits are
    /// too short.
    Gcra {
        debt: u64,
    },
    Fixed {
        ahead: u64,
        count: u64,
    },
    /// The start of the window in ticks.
    FromFirst {
        start: u64,
        count: u64,
    },
    /// The end of the window, in microseconds.
    Calendar {
        ends: u64,
        count: u64,
    },
    Sliding {
        ahead: u64,
        previous: u64,
        current: u64,
    },
    /// The newest count is first.
    Segmented {
        ahead: u64,
        counts: Vec<u64>,
    },
    /// `used` units are in the window, the cost that was asked for fits after `wait` ticks, and `newest` is the tick of
    /// the newest unit.
    Log {
        used: u64,
        wait: u64,
        newest: u64,
    },
    /// All requests are denied for this many more ticks, whatever the limit's state.
    Penalised {
        ticks: u64,
    },
}

impl State {
    /// Reads a state under this policy from the numbers of a reply.
    pub(crate) fn read(
        plan: &ScriptPlan,
        mut next: impl FnMut() -> Result<u64, Fault>,
    ) -> Result<Self, Fault> {
        let state = match plan.kind {
            PlanKind::Gcra { .. } => Self::Gcra { debt: next()? },
            PlanKind::Fixed { .. } => Self::Fixed { ahead: next()?, count: next()? },
            PlanKind::FromFirst { .. } => Self::FromFirst { start: next()?, count: next()? },
            PlanKind::Calendar { .. } => Self::Calendar { ends: next()?, count: next()? },
            PlanKind::Sliding { .. } => {
                Self::Sliding { ahead: next()?, previous: next()?, current: next()? }
            }
            PlanKind::Segmented { segments, .. } => {
                let ahead = next()?;
                let counts = (0..segments).map(|_| next()).collect::<Result<_, _>>()?;
                Self::Segmented { ahead, counts }
            }
            PlanKind::Log { .. } => Self::Log { used: next()?, wait: next()?, newest: next()? },
        };
        Ok(match plan.rules {
            Some(_) => match next()? {
                0 => state,
                ticks => Self::Penalised { ticks },
            },
            None => state,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redis::Value;

    use super::*;
    use crate::script::view::StateView;
    use crate::script::{ScriptPart, ScriptRequest, ScriptVerb, Units, replies};

    fn numbers() -> impl Strategy<Value = Vec<f64>> {
        let number = prop_oneof![
            (0..3_u32).prop_map(f64::from),
            (0..100_000_000_u32).prop_map(f64::from),
            Just(9_007_199_254_740_991.0),
            any::<f64>(),
        ];
        prop::collection::vec(number, 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every answer of a server is either understood or refused, without a panic or an overflow.
        #[test]
        fn any_reply_is_refused_or_answered(
            numbers in numbers(),
            flags: u8,
            cut in 0..200_usize,
            policy in 0..9_usize,
        ) {
            let policy = [
                "7/s burst 20",
                "fixed-window 5/m",
                "fixed-window 5/m from-first",
                "sliding-window 5/m exact",
                "sliding-window 5/m",
                "segmented-window 10/m x6",
                "sliding-log 5/m",
                "5/m penalty 10m after 3",
                "calendar-month 5",
                "calendar-week 5 from-sunday",
            ][policy];
            let plan = ScriptPlan::new(policy.parse().unwrap()).unwrap();
            let parts = vec![ScriptPart::new(Vec::new(), plan, Units::exactly(1))];
            let ask = ScriptRequest { verb: ScriptVerb::Check, parts };
            // The replies are given the right length. Otherwise the check of the length would refuse most of them, and
            // nothing else would be tested.
            let held = match plan.kind {
                PlanKind::Gcra { .. } => 1 + usize::from(plan.rules.is_some()),
                PlanKind::Segmented { .. } => 7,
                PlanKind::Sliding { .. } | PlanKind::Log { .. } => 3,
                _ => 2,
            };
            let mut bytes = Vec::new();
            for (n, number) in numbers.iter().cycle().take(if numbers.is_empty() { 0 } else { 2 + held }).enumerate() {
                bytes.extend((n == 1).then_some(flags));
                bytes.extend(number.to_le_bytes());
            }
            for bytes in [bytes.clone(), bytes[..cut.min(bytes.len())].to_vec()] {
                let value = Value::BulkString(bytes);
                let Ok(replies) = replies(&value, std::iter::once(&ask)) else { continue };
                let now_us = replies[0].now_us;
                let view = StateView { plan: &plan, state: &replies[0].parts[0].state, now_us };
                for cost in [0, 1, plan.limit, plan.limit + 1] {
                    prop_assert_eq!(view.told(false, cost).limit, plan.limit);
                }
                prop_assert!(view.remaining() <= plan.limit);
                let _ = (view.stamp(), view.turns_us());
            }
        }
    }
}
