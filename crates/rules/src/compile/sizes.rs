//! [`RuleSizes`]: for how many clients the tables of each rule are built, decided for all rules before any is built.

use std::collections::HashMap;

use crate::before::Before;
use crate::carry::{SizedBy, TableShape};
use crate::file::{DescriptorText, RuleSpec, TableClients};
use crate::identifier::{AddressBits, KeyPart, is_constant};
use crate::narrowed::Narrowed;
use crate::rule_id::{PathStep, RuleId};
use crate::settings::Settings;
use crate::share::{self, OpenRule};
use crate::texts::ReadText;

/// For how many clients the tables of a rule are built, and what says so.
pub(super) type Size = (usize, SizedBy);

#[derive(Debug, Default)]
pub(super) struct RuleSizes {
    of: HashMap<RuleId, Size>,
    /// The number for rules without a `capacity` with which all rules would fit, if they do not as it is.
    pub(super) fitting: Option<usize>,
}

impl RuleSizes {
    pub(super) fn of(&self, id: &RuleId) -> Size {
        // All rules of all files are here.
        self.of.get(id).copied().unwrap_or((1, SizedBy::Number))
    }

    pub(super) fn narrowed(&self) -> Option<Narrowed> {
        let shared = self.of.values().filter_map(|(clients, by)| match by {
            SizedBy::Share(weight) => Some((*clients, share::usual(*weight))),
            _ => None,
        });
        let less: Vec<usize> =
            shared.filter(|(clients, usual)| clients < usual).map(|(clients, _)| clients).collect();
        let least = less.iter().min().copied()?;
        Some(Narrowed { rules: less.len(), least })
    }
}

/// What the rules of all files are, as far as their sizes go.
struct Planner<'a> {
    settings: &'a Settings,
    before: Before<'a>,
    bits: AddressBits,
    sizes: RuleSizes,
    /// Bytes of the tables whose size is known.
    known: u64,
    open: Vec<(RuleId, OpenRule)>,
    /// Those that the setting for all rules gives their size.
    by_setting: Vec<OpenRule>,
}

pub(super) fn plan(
    files: &[ReadText<'_>],
    settings: &Settings,
    bits: AddressBits,
    before: Before<'_>,
) -> RuleSizes {
    let (sizes, open, by_setting) = (RuleSizes::default(), Vec::new(), Vec::new());
    let mut planner = Planner { settings, before, bits, sizes, known: 0, open, by_setting };
    for (_, file) in files {
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
        let size = match (spec.clients, self.settings.default_capacity) {
            (TableClients::Number(clients), _) => Some((clients, SizedBy::Number)),
            _ if is_constant(&parts) => Some((1, SizedBy::Number)),
            (TableClients::Share(weight), Some(clients)) => {
                self.by_setting.extend(self.open_rule(weight, spec));
                Some((clients.max(1).saturating_mul(weight as usize), SizedBy::Number))
            }
            (TableClients::Share(weight), None) => {
                self.before_as(id, weight).map(|clients| (clients, SizedBy::Share(weight)))
            }
        };
        let weight = if let TableClients::Share(weight) = spec.clients { weight } else { 1 };
        // A policy for which no table can be built is refused where it is.
        let Some(rule) = self.open_rule(weight, spec) else { return };
        match size {
            Some((clients, by)) => {
                self.known = self.known.saturating_add(rule.bytes(clients));
                self.sizes.of.insert(id.clone(), (clients, by));
            }
            None => self.open.push((id.clone(), rule)),
        }
    }

    fn open_rule(&self, weight: u32, spec: &RuleSpec) -> Option<OpenRule> {
        let bits = spec.bits.or(self.bits);
        let shape = TableShape { capacity: 1, on_full: spec.traits.on_full, bits };
        let policies = spec.limits.iter().filter_map(|limit| limit.policy);
        OpenRule::new(weight, shape, policies, self.settings.more_bytes_per_client).ok()
    }

    /// The size that the rule had by a share of this weight: in force, or lingering.
    fn before_as(&self, id: &RuleId, weight: u32) -> Option<usize> {
        let in_force = self.before.rules.and_then(|rules| rules.tables.get(id)?.first());
        let is_any = |_: &_| true;
        let table = in_force.or_else(|| self.before.lingering.find(id, is_any))?;
        let is_same = match table.sized_by {
            SizedBy::Number => false,
            SizedBy::Share(before) => before == weight,
            SizedBy::State => table.capacity <= share::usual(weight),
        };
        is_same.then_some(table.capacity)
    }

    fn planned(self) -> RuleSizes {
        let Self { settings, mut sizes, known, open, by_setting, .. } = self;
        let most = settings.max_table_bytes;
        let (ids, rules): (Vec<RuleId>, Vec<OpenRule>) = open.into_iter().unzip();
        // Half of what is free: the rest is for rules that come later, and for tables that linger.
        let clients = share::shares(&rules, most.saturating_sub(known) / 2);
        for ((id, rule), clients) in ids.into_iter().zip(&rules).zip(clients) {
            sizes.of.insert(id, (clients, SizedBy::Share(rule.weight)));
        }
        if known > most && !by_setting.is_empty() {
            let asked = settings.default_capacity.unwrap_or(1);
            let own = by_setting.iter().map(|rule| rule.bytes(rule.times(asked)));
            let others = known.saturating_sub(own.fold(0, u64::saturating_add));
            sizes.fitting = share::fitting_all(&by_setting, most.saturating_sub(others));
        }
        sizes
    }
}
