//! [`Local`]: the leases or counts of a limit in this process. They are kept when the policy of the limit changes.
//!
//! A new limiter takes over the leases and counts of the earlier limiter with the same name, even if the policies
//! differ and the earlier limiter was dropped. Units in leases are given back under the policy under which they were
//! charged. Units that were admitted and not reported are still reported. The store's answers under the old policy (the
//! units left, and the times when they come back) are forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::counted::table::CountTable;
use crate::leased::table::LeaseTable;
use crate::script::plan::ScriptPlan;
use crate::settings::{Mode, Settings};

/// The number of policies that are kept, so that units can be given back under the policy under which they were
/// charged. A key in the store keeps states for as many policies.
const PLANS: usize = 4;

#[derive(Debug)]
pub(crate) struct Local {
    /// The last policies, each with its number. The last of them is in force.
    plans: Mutex<Vec<(u64, ScriptPlan)>>,
    /// `None` except in mode `leased`.
    pub(crate) leases: Option<LeaseTable>,
    /// `None` except in mode `async`.
    pub(crate) counts: Option<CountTable>,
}

impl Local {
    fn new(form: SharedSettings) -> Self {
        let interval_ns = u64::try_from(form.interval.as_nanos()).unwrap_or(u64::MAX);
        Self {
            plans: Mutex::default(),
            leases: (form.mode == Mode::Leased).then(|| LeaseTable::new(form.keys)),
            counts: (form.mode == Mode::Async).then(|| CountTable::new(form.keys, interval_ns)),
        }
    }

    /// The policy with the number `era`, if it is still kept.
    pub(crate) fn plan_of(&self, era: u64) -> Option<ScriptPlan> {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.iter().find(|(number, _)| *number == era).map(|(_, plan)| *plan)
    }

    fn remember(&self, era: u64, plan: ScriptPlan) {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.push((era, plan));
        let older = plans.len().saturating_sub(PLANS);
        plans.drain(..older);
    }

    /// Whether this can be dropped without losing units. Counts need no check here, since the task that reports them
    /// holds a reference to this until they are reported.
    fn is_idle(&self, now_ns: u64) -> bool {
        self.leases.as_ref().is_none_or(|table| table.is_idle(now_ns))
    }
}

/// The settings that must be the same for a limiter to take over from an earlier limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedSettings {
    mode: Mode,
    keys: usize,
    interval: Duration,
}

impl SharedSettings {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self { mode: settings.mode, keys: settings.keys, interval: settings.interval }
    }
}

#[derive(Debug)]
struct KeptLocal {
    local: Arc<Local>,
    form: SharedSettings,
    plan: ScriptPlan,
    era: u64,
}

/// The [`Local`] of every limit of a store. The map's key is the beginning of the limit's keys in the store. Limits
/// that no longer exist are removed when the next limit is built.
#[derive(Debug, Default)]
pub(crate) struct Locals(Mutex<HashMap<Vec<u8>, KeptLocal>>);

impl Locals {
    /// The [`Local`] of a limit, and a number for its policy that no other policy in use has.
    pub(crate) fn of(
        &self,
        head: &[u8],
        form: SharedSettings,
        plan: ScriptPlan,
        now_ns: u64,
    ) -> (Arc<Local>, u64) {
        let mut locals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locals.retain(|other, kept| {
            other == head || Arc::strong_count(&kept.local) > 1 || !kept.local.is_idle(now_ns)
        });
        let last = locals.get_mut(head).filter(|kept| kept.form == form);
        if let Some(kept) = last {
            if kept.plan != plan {
                (kept.plan, kept.era) = (plan, kept.era + 1);
                kept.local.remember(kept.era, plan);
            }
            return (Arc::clone(&kept.local), kept.era);
        }
        let local = Arc::new(Local::new(form));
        local.remember(0, plan);
        let kept = KeptLocal { local: Arc::clone(&local), form, plan, era: 0 };
        locals.insert(head.to_vec(), kept);
        (local, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leased::holding::{Beyond, Grant, Spend, Terms};

    fn settings(policy: &str) -> Settings {
        Settings::new(policy.parse().unwrap()).keys(10)
    }

    fn of(locals: &Locals, head: &str, settings: &Settings, now_ns: u64) -> (Arc<Local>, u64) {
        locals.of(head.as_bytes(), SharedSettings::of(settings), settings.plan().unwrap(), now_ns)
    }

    fn grant(units: u64, stamp: u64) -> Grant {
        let beyond = Beyond { remaining: 90, reset_ns: 0 };
        Grant { units, asked_ns: 0, turns_ns: None, stamp, charged_us: 0, beyond }
    }

    #[test]
    fn a_limit_of_another_policy_gives_back_what_it_holds_and_asks_the_store_again() {
        let (locals, terms) = (Locals::default(), Terms { most: 100, poll_ns: 0, era: 0 });
        let (local, era) = of(&locals, "a", &settings("100/h"), 0);
        assert_eq!(era, 0);
        let take = |local: &Local, terms: Terms, cost| {
            let set = local.leases.as_ref().unwrap().set(b"key");
            set.with(b"key", 0, |holding| holding.spend(terms, cost, 0, 0)).unwrap()
        };
        let settle = |local: &Local, turn: &dyn Fn(&mut crate::leased::holding::Holding)| {
            let set = local.leases.as_ref().unwrap().set(b"key");
            set.with(b"key", 0, turn).unwrap();
        };
        assert!(matches!(take(&local, terms, 5), Spend::Ask(_)));
        settle(&local, &|holding| holding.granted(terms, grant(10, 7), 0));
        drop(local);
        // The old limiter was dropped, but its units are still there.
        let (local, era) = of(&locals, "a", &settings("110/h"), 0);
        let new = Terms { era, ..terms };
        assert_eq!(era, 1);
        let set = local.leases.as_ref().unwrap().set(b"key");
        assert!(set.spend(b"key", 1, 0, era).is_none());
        let Spend::Ask(want) = take(&local, new, 5) else { panic!("it asks") };
        assert_eq!((want.want, want.least), (5, 5));
        let [ended, _] = set.look(b"key", |holding| holding.take_expired()).unwrap();
        assert_eq!((ended.units, ended.stamp.at, ended.stamp.era), (10, 7, 0));
        assert_eq!(local.plan_of(0), Some(settings("100/h").plan().unwrap()));
        assert_eq!(local.plan_of(1), Some(settings("110/h").plan().unwrap()));
        // A limiter that still has the old policy also asks the store before it spends units that were charged under
        // the new policy.
        settle(&local, &|holding| holding.granted(new, grant(8, 9), 0));
        let known = |terms| set.look(b"key", |holding| holding.known(terms).remaining);
        assert_eq!([known(new), known(terms)], [Some(98), Some(8)]);
        let Spend::Ask(look) = take(&local, terms, 2) else { panic!("it looks") };
        assert_eq!((look.want, look.least), (0, 0));
        assert!(matches!(take(&local, new, 5), Spend::Spent { stamp: 9, .. }));
    }

    #[test]
    fn of_four_policies_it_is_known_what_their_leases_mean() {
        let locals = Locals::default();
        let policies = [1, 2, 3, 4, 5].map(|count| format!("{count}/h"));
        let (local, _) = of(&locals, "a", &settings(&policies[0]), 0);
        for policy in &policies[1..] {
            of(&locals, "a", &settings(policy), 0);
        }
        let known = [0, 1, 2, 3, 4].map(|era| local.plan_of(era).map(|plan| plan.limit));
        assert_eq!(known, [None, Some(2), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn what_a_limit_holds_is_kept_until_it_has_expired_and_no_longer() {
        let (locals, second) = (Locals::default(), crate::leased::terms::LIFE_NS);
        let terms = Terms { most: 100, poll_ns: 0, era: 0 };
        let (local, _) = of(&locals, "a", &settings("100/h"), 0);
        let set = local.leases.as_ref().unwrap().set(b"key");
        set.with(b"key", 0, |holding| {
            assert!(matches!(holding.spend(terms, 1, 0, 0), Spend::Ask(_)));
            holding.granted(terms, grant(10, 7), 0);
        });
        drop(local);
        let kept = |locals: &Locals| locals.0.lock().unwrap().len();
        of(&locals, "b", &settings("100/h"), second / 2);
        assert_eq!(kept(&locals), 2);
        of(&locals, "c", &settings("100/h"), second);
        assert_eq!(kept(&locals), 1, "of neither anything is left");
        // A limiter with another mode or table size does not take over, and starts without leases.
        let (first, _) = of(&locals, "c", &settings("100/h"), second);
        let (other, _) = of(&locals, "c", &settings("100/h").keys(11), second);
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn a_limit_that_is_in_use_is_kept_though_it_holds_nothing() {
        let locals = Locals::default();
        let (used, _) = of(&locals, "a", &settings("100/h"), 0);
        drop(of(&locals, "b", &settings("100/h"), 0));
        drop(of(&locals, "c", &settings("100/h"), 0));
        assert!(Arc::ptr_eq(&used, &of(&locals, "a", &settings("100/h"), 0).0));
        assert_eq!(locals.0.lock().unwrap().len(), 1);
    }
}
