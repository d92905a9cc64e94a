//! [`RuleSizes`]: the number of clients that each rule's tables are built for. The numbers of all rules are decided
//! before any table is built.
//!
//! A rule with a `capacity` has that size, however much memory there is. A rule without one keeps the size that it had
//! before: a table does not store its keys, so a table of another size would have to start empty. New rules share half
//! of the memory that is free.
//!
//! A new rule gets at most its *share*: the size that it would have if all rules without a capacity were new. If a new
//! rule would get less than a quarter of its share, or if the rules do not all fit, the domains that are gone are given
//! up first ([`crate::set::reclaim`]). If that is not enough, all rules without a capacity begin [anew](Before::anew):
//! those that have more than their share get tables of their share, with nothing spent. This is reported like any
//! change of a capacity, and happens about once while the number of rules doubles.

use std::collections::HashMap;

use tollgate::Policy;

use crate::language::file::{DescriptorText, RuleSpec, TableClients};
use crate::language::identifier::{AddressBits, KeyPart, is_constant};
use crate::language::rule_id::{PathStep, RuleId};
use crate::set::before::Before;
use crate::set::carry::{CarriedTable, SizedBy, TableShape, pair};
use crate::set::debt;
use crate::set::narrowed::Narrowed;
use crate::set::settings::RuleSettings;
use crate::set::share::{self, OpenRule};
use crate::set::texts::ReadText;

/// A new rule gets at least one part in `LEAST_PART` of its share. If there is room for less, all rules without a
/// capacity begin anew.
const LEAST_PART: usize = 4;

/// The number of clients that a rule's tables are built for, and what decided it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleSize {
    pub(super) clients: usize,
    pub(super) sized_by: SizedBy,
}

#[derive(Debug, Default)]
pub(super) struct RuleSizes {
    of: HashMap<RuleId, RuleSize>,
    /// If the rules do not fit, a capacity with which they would fit if all rules without a capacity had it.
    pub(super) fitting: Option<usize>,
}

impl RuleSizes {
    pub(super) fn of(&self, id: &RuleId) -> RuleSize {
        // Only rules that are refused later are not in the plan, so their number has no effect.
        let number = RuleSize { clients: 1, sized_by: SizedBy::Number };
        self.of.get(id).copied().unwrap_or(number)
    }

    pub(super) fn narrowed(&self) -> Option<Narrowed> {
        let is_less = |size: &&RuleSize| match size.sized_by {
            SizedBy::Share(weight) => size.clients < share::usual(weight),
            SizedBy::Number => false,
        };
        let less: Vec<usize> = self.of.values().filter(is_less).map(|size| size.clients).collect();
        let least = less.iter().min().copied()?;
        Some(Narrowed { rules: less.len(), least })
    }
}

/// A rule of this load that has no capacity.
struct PlannedRule {
    id: RuleId,
    rule: OpenRule,
    /// The size of the previous table that the rule can keep, if there is such a table.
    before: Option<usize>,
    /// Whether the rule's domain is in no file any more.
    is_gone: bool,
}

/// Collects the sizes of the rules of all files.
struct Planner<'a> {
    settings: &'a RuleSettings,
    before: Before<'a>,
    /// Domains that are in no file any more, but whose last rules stay in force.
    gone: &'a [Box<str>],
    bits: AddressBits,
    is_elsewhere: bool,
    sizes: RuleSizes,
    /// The bytes of the tables of all rules that are not in `open`.
    fixed: u64,
    open: Vec<PlannedRule>,
    /// Rules without a capacity that get [`RuleSettings::default_capacity`].
    by_setting: Vec<OpenRule>,
}

/// Returns `None` if the rules fit only when those without a capacity begin anew, and [`Before::anew`] does not allow
/// that.
pub(super) fn plan(
    files: &[ReadText<'_>],
    gone: &[Box<str>],
    settings: &RuleSettings,
    bits: AddressBits,
    is_elsewhere: bool,
    before: Before<'_>,
) -> Option<RuleSizes> {
    let (sizes, open, by_setting) = (RuleSizes::default(), Vec::new(), Vec::new());
    let mut planner =
        Planner { settings, before, gone, bits, is_elsewhere, sizes, fixed: 0, open, by_setting };
    for ReadText { file, .. } in files {
        let mut id = RuleId { domain: file.domain.as_str().into(), steps: Vec::new() };
        planner.add_level(&mut id, &file.descriptors);
    }
    planner.planned()
}

impl Planner<'_> {
    fn add_level(&mut self, id: &mut RuleId, descriptors: &[DescriptorText]) {
        for descriptor in descriptors {
            id.steps.push(PathStep::of(descriptor));
            if let Some(spec) = &descriptor.rule {
                self.add_rule(id, spec);
            }
            self.add_level(id, &descriptor.children);
            id.steps.pop();
        }
    }

    fn add_rule(&mut self, id: &RuleId, spec: &RuleSpec) {
        let parts: Vec<KeyPart> = id.steps.iter().map(|step| step.part).collect();
        let weight = if let TableClients::Share(weight) = spec.clients { weight } else { 1 };
        let bits = spec.bits.or(self.bits);
        let shape = TableShape { capacity: 1, on_full: spec.traits.on_full, bits };
        let charges_denied = self.settings.compat && !self.is_elsewhere;
        let limits = debt::of_limits(spec.limits.clone(), spec.traits.usage, charges_denied, shape);
        let policies: Vec<Policy> = limits.iter().filter_map(|limit| limit.policy).collect();
        let more = self.settings.more_bytes_per_client;
        let open_rule = || OpenRule::new(weight, shape, policies.iter().copied(), more);
        // If no table can be built for a policy, the compiler reports the error later, with its position in the file.
        let Ok(rule) = open_rule() else { return };
        let clients = match (spec.clients, self.settings.default_capacity) {
            (TableClients::Number(clients), _) => clients,
            _ if is_constant(&parts) => 1,
            (TableClients::Share(_), Some(clients)) => {
                self.by_setting.extend(open_rule());
                rule.times(clients.max(1))
            }
            (TableClients::Share(weight), None) => {
                let before = self.before_as(id, weight, &policies, shape);
                let is_gone = self.gone.contains(&id.domain);
                self.open.push(PlannedRule { id: id.clone(), rule, before, is_gone });
                return;
            }
        };
        self.fixed = self.fixed.saturating_add(rule.bytes(clients));
        let size = RuleSize { clients, sized_by: SizedBy::Number };
        self.sizes.of.insert(id.clone(), size);
    }

    /// The size of the table that the rule can keep, in force or lingering, if that size came from a share with this
    /// weight.
    fn before_as(
        &self,
        id: &RuleId,
        weight: u32,
        policies: &[Policy],
        shape: TableShape,
    ) -> Option<usize> {
        let is_same = |kept: &&CarriedTable| kept.sized_by == SizedBy::Share(weight);
        let can_be = |kept: &CarriedTable, policy: Policy| {
            kept.can_become(policy, TableShape { capacity: kept.capacity, ..shape }).is_ok()
        };
        let in_force = self.before.rules.and_then(|rules| rules.tables.get(id));
        let in_force = in_force.map_or(&[][..], Vec::as_slice);
        // Limits and tables are paired as the compiler pairs them. A limit that is added to the rule gets a table of
        // the same size.
        let mut pairs = policies.iter().zip(pair(in_force, policies)).filter_map(|(policy, n)| {
            let kept = &in_force[n?];
            Some(can_be(kept, *policy))
        });
        match in_force.first().filter(is_same) {
            Some(first) => pairs.all(|can| can).then_some(first.capacity),
            None => {
                let fits = |kept: &CarriedTable| {
                    is_same(&kept) && policies.iter().any(|policy| can_be(kept, *policy))
                };
                self.before.lingering.find(id, fits).map(|kept| kept.capacity)
            }
        }
    }

    fn planned(mut self) -> Option<RuleSizes> {
        let most = self.settings.max_table_bytes;
        let free = most.saturating_sub(self.fixed);
        // The shares that the rules would have if all were new and no gone domain were kept: together half of the free
        // memory. The other half is for rules that come later, and for tables that linger.
        let here = self.open.iter().filter(|open| !open.is_gone).map(|open| &open.rule);
        let mut shares = share::shares(here, free / 2).into_iter();
        let anew: Vec<usize> = self
            .open
            .iter()
            .map(|open| if open.is_gone { 0 } else { shares.next().unwrap_or_default() })
            .collect();
        let kept = self.open.iter().filter_map(|open| Some(open.rule.bytes(open.before?)));
        let kept = kept.fold(0, u64::saturating_add);
        let is_new = |open: &&PlannedRule| open.before.is_none();
        let news = self.open.iter().filter(is_new).map(|open| &open.rule);
        let mut beside = share::shares(news, free.saturating_sub(kept) / 2).into_iter();
        // No new rule gets more than its share, so that rules that come later can get their shares, too.
        let as_before: Vec<usize> = (0..self.open.len())
            .filter_map(|n| {
                let own = || if self.open[n].is_gone { usize::MAX } else { anew[n] };
                self.open[n].before.or_else(|| Some(beside.next()?.min(own())))
            })
            .collect();
        let bytes = |clients: &[usize]| {
            let all =
                self.open.iter().zip(clients).map(|(open, clients)| open.rule.bytes(*clients));
            all.fold(0, u64::saturating_add)
        };
        let has_little = |n: usize| {
            self.open[n].before.is_none() && as_before[n].saturating_mul(LEAST_PART) < anew[n]
        };
        let begins_anew = bytes(&as_before) > free || (0..self.open.len()).any(has_little);
        if begins_anew && !self.before.anew {
            return None;
        }
        for (n, open) in self.open.into_iter().enumerate() {
            let clients = match open.before {
                // This rule has no more than its share, so it keeps its table.
                Some(before) if begins_anew && before <= anew[n] => before,
                _ if begins_anew => anew[n],
                _ => as_before[n],
            };
            let sized_by = SizedBy::Share(open.rule.weight);
            self.sizes.of.insert(open.id, RuleSize { clients, sized_by });
        }
        if self.fixed > most && !self.by_setting.is_empty() {
            let asked = self.settings.default_capacity.unwrap_or(1);
            let own = self.by_setting.iter().map(|rule| rule.bytes(rule.times(asked)));
            let others = self.fixed.saturating_sub(own.fold(0, u64::saturating_add));
            self.sizes.fitting = share::fitting_all(&self.by_setting, most.saturating_sub(others));
        }
        Some(self.sizes)
    }
}
