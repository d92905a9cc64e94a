//! Carries the counts of limits from one load to the next: a limit keeps its table, even if its quota has changed.
//!
//! # What is kept
//! The tables of a rule (the same domain, keys and values) are kept by the next load. If a rule has several limits,
//! each of them takes the previous table with the same quota. If there is none, the limit takes a table with the same
//! window, or else the next table that is left. If the quota differs,
//! [`KeyedLimiter::set_quota`](tollgate::KeyedLimiter::set_quota) changes it in place: units that a client has spent
//! stay spent, up to the new limit, within the bounds that `set_quota` documents.
//!
//! # What starts empty
//! A limit starts empty in three cases. First, its table's size, `prefix_v4` or `prefix_v6` has changed, or `on_full`
//! has changed to or from `deny`. Second, its quota does not fit in the table's words. Third, the core refuses the
//! change, such as a change from or to a sliding log. [`RuleSet::changes`](crate::RuleSet::changes) lists each such
//! limit with the reason. The table that is left behind lingers ([`crate::set::linger`]): a limit that is changed back
//! while its table lingers takes the table again.
//!
//! # Limits that are kept elsewhere
//! The store does not know the previous rules, and a node that has just been started does not know them either. So the
//! store identifies a limit by its rule and its [place](crate::RuleLimit::place) in the rule. The limit continues with
//! the counts found there, whatever its quota is now, and whatever the size of its local table. A limit with a place
//! that did not exist before starts empty. The store keeps sliding logs apart from all other limits. So a limit that
//! becomes a sliding log, or stops being one, finds the counts that it had when it last was in that form. What was
//! spent in between is not in them.
//!
//! # What it costs
//! A decision by a limit that can be changed reads ten more numbers than a decision by a fixed limit. That takes some
//! nanoseconds, whereas a request over the network takes microseconds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    BuildError, ChangeError, Changeable, Clock, KeyedBuilder, KeyedLimiter, ManualClock, Policy,
    Quota, WhenFull,
};

use crate::language::identifier::AddressBits;
use crate::language::on_full::OnFull;
use crate::set::loss::Loss;
use crate::set::rule::RuleTable;

/// A change that a load has made to a limit: see [`RuleSet::changes`](crate::RuleSet::changes). A limit that is gone,
/// and whose counts a load has dropped, is described in the same way: see
/// [`RuleSet::forgotten`](crate::RuleSet::forgotten).
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// let load = |requests: u32| {
///     let text = format!(
///         "domain: shop\ndescriptors:\n  - key: user\n    \
///          rate_limit: {{unit: hour, requests_per_unit: {requests}}}\n"
///     );
///     cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())
/// };
/// assert!(load(5)?.changes().is_empty());
/// let rules = load(9)?;
/// let change = &rules.changes()[0];
/// assert!(change.is_kept());
/// assert_eq!(
///     change.to_string(),
///     "shop.user: fixed-window 5/h is now fixed-window 9/h; what was spent stays spent"
/// );
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    pub(crate) domain: Box<str>,
    pub(crate) path: Box<str>,
    pub(crate) before: Policy,
    pub(crate) now: Policy,
    pub(crate) lost: Option<Loss>,
    /// Whether the limit took a lingering table, because its previous table was lost.
    pub(crate) resumes: bool,
}

impl LimitChange {
    /// The change of a domain's pool: a new pool with another quota has replaced it.
    pub(crate) fn of_pool(domain: &str, before: Quota, now: Quota) -> Self {
        Self {
            domain: domain.into(),
            path: "(pool)".into(),
            before: before.into(),
            now: now.into(),
            lost: Some(Loss::Pool),
            resumes: false,
        }
    }

    /// The loss of the counts of a limit that is gone.
    pub(crate) fn of_forgotten(domain: Box<str>, path: Box<str>, policy: Policy) -> Self {
        let lost = Some(Loss::Forgotten);
        Self { domain, path, before: policy, now: policy, lost, resumes: false }
    }

    /// The domain of the rule.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The path of the rule, as in [`Rule::path`](crate::Rule::path); `(pool)` for the pool of the domain.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The limit before the load, and the limit now. They are equal if only properties of the table have changed, such
    /// as its size. For a limit that is gone ([`Loss::Forgotten`]), both are the limit that it was.
    #[must_use]
    pub fn policies(&self) -> [Policy; 2] {
        [self.before, self.now]
    }

    /// Whether all units that were spent stay spent.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.lost.is_none()
    }

    /// The reason why the limit did not keep its previous table. The limit then started empty, or took a lingering
    /// table from when it last had this form. After [`Loss::Forgotten`] it is gone.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.lost
    }
}

impl fmt::Display for LimitChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, path, before, now, lost, resumes } = self;
        write!(f, "{}.{}: ", domain.escape_debug(), path.escape_debug())?;
        if before == now {
            write!(f, "{now}")?;
        } else {
            write!(f, "{before} is now {now}")?;
        }
        match lost {
            None => f.write_str("; what was spent stays spent"),
            Some(loss @ Loss::Forgotten) => {
                write!(f, " is gone, and what was spent under it is forgotten: {loss}")
            }
            // Perhaps the store still has the counts from when the limit last had this form.
            Some(loss @ Loss::Log) => {
                write!(f, " and counts alone, with what it held if it was so before: {loss}")
            }
            Some(loss) if *resumes => {
                write!(f, " and goes on with what was spent when it was last so: {loss}")
            }
            Some(loss) => write!(f, " and begins anew: {loss}"),
        }
    }
}

/// The properties of a limit's table besides its quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableShape {
    pub(crate) capacity: usize,
    pub(crate) on_full: OnFull,
    pub(crate) bits: AddressBits,
}

/// What decided the number of clients that a table is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizedBy {
    /// The `capacity` of its rule, or the setting for all rules.
    Number,
    /// The share of the memory that a rule with this weight had.
    Share(u32),
}

impl TableShape {
    fn denies(self) -> bool {
        self.on_full == OnFull::Deny
    }
}

/// A limit's table, as one load passes it to the next.
#[derive(Clone, Debug)]
pub(crate) struct CarriedTable {
    pub(crate) table: Arc<RuleTable>,
    /// The quota of the table under the rules of this load.
    pub(crate) policy: Policy,
    pub(crate) capacity: usize,
    pub(crate) sized_by: SizedBy,
    /// See [`places`].
    pub(crate) place: Box<str>,
    /// Whether the table was built without a spill.
    pub(crate) denies: bool,
    /// The address bits that tell the table's clients apart.
    pub(crate) bits: AddressBits,
    /// The bytes of the table as computed before it was built; 0 if they were not computed.
    pub(crate) bytes: u64,
    /// The quota for which the table's words were laid out; `None` if the table's quota cannot be changed.
    pub(crate) planned_for: Option<Policy>,
}

impl CarriedTable {
    /// Builds a table whose quota can be changed later, if the core has such a table for this policy; otherwise a fixed
    /// table.
    pub(crate) fn build(
        policy: Policy,
        shape: TableShape,
        clock: &Clock,
    ) -> Result<Self, BuildError> {
        let (capacity, denies) = (shape.capacity, shape.denies());
        let changeable = tiers(policy, denies).clock(clock.clone()).build(capacity);
        let (table, planned_for) = match changeable {
            Ok(table) => (RuleTable::Changing(table), Some(policy)),
            Err(BuildError::Policy(_)) => {
                let table = KeyedLimiter::builder(policy).clock(clock.clone());
                let table = if denies { table.when_full(WhenFull::Deny) } else { table };
                (RuleTable::Fixed(table.build(capacity)?), None)
            }
            Err(error) => return Err(error),
        };
        let (table, place, bits) = (Arc::new(table), Box::default(), shape.bits);
        let sized_by = SizedBy::Number;
        Ok(Self { table, policy, capacity, sized_by, place, denies, bits, bytes: 0, planned_for })
    }

    /// Checks whether the table can be kept for this quota and shape, and changes nothing.
    pub(crate) fn can_become(&self, policy: Policy, shape: TableShape) -> Result<(), Loss> {
        if shape.capacity != self.capacity {
            return Err(Loss::Capacity { before: self.capacity, now: shape.capacity });
        }
        if shape.denies() != self.denies {
            return Err(Loss::OnFull);
        }
        if shape.bits != self.bits {
            return Err(Loss::Prefix);
        }
        if policy == self.policy {
            return Ok(());
        }
        let planned_for = self.planned_for.ok_or(Loss::Fixed)?;
        // The layout of the words alone decides whether a quota fits, and a table for one key has the same layout. So
        // the change is tried on a table for one key. The real table must not be touched yet, because the load may
        // still be refused because of another rule.
        let probe = tiers(planned_for, self.denies).clock(ManualClock::new()).build(1);
        let probe = probe.map_err(|_| Loss::Fixed)?;
        probe.set_quota(policy).map_err(Loss::Refused)
    }

    /// The same table under another quota, which takes effect with [`put_in_force`](CarriedTable::put_in_force).
    pub(crate) fn under(&self, policy: Policy) -> Self {
        Self { policy, ..self.clone() }
    }

    /// Changes the table to its new quota.
    pub(crate) fn put_in_force(&self) -> Result<(), ChangeError> {
        self.table.set_quota(self.policy)
    }
}

/// Names each of a rule's limits by its window. The limit with the longest window has an empty name (the first one, if
/// there are several). Every other limit has its window as its name; the second and third with the same window also
/// have a number.
pub(crate) fn places(windows: &[Duration]) -> Vec<Box<str>> {
    let longest = windows.iter().max();
    let own = windows.iter().position(|window| Some(window) == longest);
    let place = |n: usize| {
        let before = |m: &usize| Some(*m) != own && windows[*m] == windows[n];
        match (0..n).filter(before).count() {
            _ if Some(n) == own => String::new(),
            0 => format!("{:?}", windows[n]),
            before => format!("{:?} {before}", windows[n]),
        }
    };
    (0..windows.len()).map(|n| place(n).into()).collect()
}

/// A builder for a table whose quota can be changed.
pub(crate) fn tiers(policy: Policy, denies: bool) -> KeyedBuilder<[u8], Changeable> {
    let tiers = KeyedLimiter::builder(policy).changing();
    if denies { tiers.when_full(WhenFull::Deny) } else { tiers }
}

/// Whether a limit can keep a previous table.
pub(crate) type Fits = fn(&CarriedTable, &Policy) -> bool;

/// The kinds of tables that a limit may keep, tried in this order: a table with the same quota, which need not be
/// changed; one with the same window; any table that is left.
pub(crate) const WAYS: [Fits; 3] = [
    |kept, policy| kept.policy == *policy,
    |kept, policy| kept.policy.quota().period() == policy.quota().period(),
    |_, _| true,
];

/// For each limit of a rule, the index of the previous table that it keeps.
pub(crate) fn pair(before: &[CarriedTable], now: &[Policy]) -> Vec<Option<usize>> {
    let mut pairs = vec![None; now.len()];
    let mut is_taken = vec![false; before.len()];
    for fits in WAYS {
        for (pair, policy) in pairs.iter_mut().zip(now).filter(|(pair, _)| pair.is_none()) {
            let free = |n: &usize| !is_taken[*n] && fits(&before[*n], policy);
            *pair = (0..before.len()).find(free);
            if let Some(n) = *pair {
                is_taken[n] = true;
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TableShape = TableShape {
        capacity: 10,
        on_full: OnFull::Spill,
        bits: AddressBits { v4: None, v6: None },
    };

    fn policy(text: &str) -> Policy {
        text.parse().expect("a policy")
    }

    fn kept(text: &str) -> CarriedTable {
        CarriedTable::build(policy(text), SHAPE, &ManualClock::new().into()).expect("a table")
    }

    #[test]
    fn a_limit_finds_its_own_quota_then_its_own_window_then_what_is_left() {
        let before = ["fixed-window 5/s", "fixed-window 100/h", "fixed-window 900/d"].map(kept);
        for (now, expected) in [
            (vec!["fixed-window 100/h", "fixed-window 5/s"], vec![Some(1), Some(0)]),
            (vec!["fixed-window 200/h", "fixed-window 5/s"], vec![Some(1), Some(0)]),
            (vec!["fixed-window 7/m", "fixed-window 7/d"], vec![Some(0), Some(2)]),
            (
                vec!["fixed-window 7/m", "fixed-window 5/s", "gcra 1/d", "gcra 1/d"],
                vec![Some(1), Some(0), Some(2), None],
            ),
            (vec![], vec![]),
        ] {
            let policies: Vec<Policy> = now.iter().copied().map(policy).collect();
            assert_eq!(pair(&before, &policies), expected, "{now:?}");
        }
    }

    #[test]
    fn the_longest_of_stacked_limits_has_the_rules_own_place_and_the_others_those_of_their_windows()
    {
        for (windows, expected) in [
            (vec![60], vec![""]),
            (vec![60, 3_600], vec!["60s", ""]),
            (vec![3_600, 60], vec!["", "60s"]),
            (vec![1, 60, 1, 60], vec!["1s", "", "1s 1", "60s"]),
            (vec![60, 60, 60], vec!["", "60s", "60s 1"]),
        ] {
            let windows: Vec<_> = windows.into_iter().map(Duration::from_secs).collect();
            let places = places(&windows);
            assert_eq!(places.iter().map(|place| &**place).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn what_can_become_of_a_table_is_what_the_table_then_becomes() {
        // `can_become` tries the change on a table of one key. The result must equal that of the table itself.
        let texts = [
            "fixed-window 5/h",
            "fixed-window 1000000/h",
            "sliding-window 100/m exact",
            "gcra 60/m",
            "gcra 10000/s",
            "gcra 1000/d burst 5000",
            "gcra 60/m soft 5%",
            "fixed-window 2000000000/s",
        ];
        let mut outcomes = [0, 0];
        for (before, now) in texts.iter().flat_map(|before| texts.map(|now| (before, now))) {
            let kept = kept(before);
            let said = kept.can_become(policy(now), SHAPE);
            let found = kept.under(policy(now)).put_in_force();
            if *before != now {
                assert_eq!(said.is_ok(), found.is_ok(), "{before} to {now}");
                outcomes[usize::from(said.is_ok())] += 1;
            }
        }
        assert!(outcomes.iter().all(|n| *n > 5), "both happen: {outcomes:?}");
    }
}
