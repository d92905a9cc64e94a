//! From what files say to a [`RuleSet`]. Tables of the rules of before go on: see [`crate::carry`].
//!
//! Nothing of what is in force changes until all files have turned out to be good.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Policy};

use crate::carry::{Kept, LimitChange, Loss, pair, places};
use crate::error::{Position, Problem, RuleError};
use crate::file::{self, DescriptorText, LimitText, RuleFile, RuleSpec};
use crate::full::OnFull;
use crate::identifier::{Part, is_constant};
use crate::memory;
use crate::rule::{Gate, Keeper, Limit, Rule};
use crate::rule_set::{RuleId, RuleSet, Step};
use crate::settings::Settings;
use crate::source::RuleText;
use crate::tree::{Level, Node, has_star};

/// All errors of all files, or what `vet` says of all rules together, or the rules.
pub(crate) fn compile(
    texts: &[RuleText],
    settings: &Settings,
    clock: &Clock,
    previous: Option<&RuleSet>,
    vet: Option<impl FnOnce(&RuleSet) -> Vec<RuleError>>,
) -> Result<RuleSet, Vec<RuleError>> {
    let mut errors = Vec::new();
    let mut compiler = Compiler {
        settings,
        clock,
        previous,
        set: RuleSet::default(),
        places: HashMap::new(),
        domain_files: HashMap::new(),
        requotas: Vec::new(),
        is_elsewhere: vet.is_some(),
    };
    for text in texts {
        let compiled = file::read(text.bytes())
            .map_err(|fault| fault.in_file(text.file()))
            .and_then(|file| compiler.add_file(text.file(), file));
        errors.extend(compiled.err());
    }
    if let Some(vet) = vet.filter(|_| errors.is_empty()) {
        errors = vet(&compiler.set);
    }
    if errors.is_empty() {
        errors.extend(compiler.put_in_force().err());
    }
    if errors.is_empty() { Ok(compiler.set) } else { Err(errors) }
}

struct Compiler<'a> {
    settings: &'a Settings,
    clock: &'a Clock,
    previous: Option<&'a RuleSet>,
    set: RuleSet,
    /// Where every descriptor stands: for whoever writes it twice.
    places: HashMap<RuleId, (String, Position)>,
    domain_files: HashMap<String, String>,
    /// Tables that are to go on under another quota, and where that stands.
    requotas: Vec<(Kept, String, Position)>,
    /// Whether what is spent is kept elsewhere, and not in the tables.
    is_elsewhere: bool,
}

/// Where the compiler is: the file, and the way down to the descriptor.
struct Place<'f> {
    file: &'f str,
    id: RuleId,
    path: String,
}

impl Place<'_> {
    fn error(&self, at: Position, problem: Problem) -> RuleError {
        RuleError { file: self.file.to_owned(), at: Some(at), problem }
    }
}

impl Compiler<'_> {
    fn add_file(&mut self, name: &str, file: RuleFile) -> Result<(), RuleError> {
        let domain = file.domain;
        if let Some(first) = self.domain_files.get(&domain)
            && !self.settings.merge_domains
        {
            let problem = Problem::DuplicateDomain { domain, first: first.clone() };
            return Err(RuleError { file: name.to_owned(), at: Some(file.at), problem });
        }
        self.domain_files.entry(domain.clone()).or_insert_with(|| name.to_owned());
        let mut level = self.set.domains.remove(domain.as_str()).unwrap_or_default();
        let id = RuleId { domain: domain.clone().into(), steps: Vec::new() };
        let mut place = Place { file: name, id, path: String::new() };
        let added = self.add_level(&mut level, file.descriptors, &mut place);
        self.set.domains.insert(domain.into(), level);
        added
    }

    fn add_level(
        &mut self,
        level: &mut Level,
        descriptors: Vec<DescriptorText>,
        place: &mut Place<'_>,
    ) -> Result<(), RuleError> {
        for descriptor in descriptors {
            let outer = place.path.len();
            if outer > 0 {
                place.path.push('.');
            }
            place.path += &descriptor.key;
            if let Some(value) = &descriptor.value {
                place.path = format!("{}_{value}", place.path);
            }
            place.id.steps.push(step(&descriptor));
            self.claim(&descriptor, place)?;
            let mut node = Node::default();
            if let Some(spec) = descriptor.rule {
                node.rule = Some(self.add_rule(spec, place)?);
            }
            self.add_level(&mut node.below, descriptor.children, place)?;
            level.insert(&descriptor.key, descriptor.value.as_deref(), node);
            place.id.steps.pop();
            place.path.truncate(outer);
        }
        Ok(())
    }

    /// Each key and value once; whether values are shared makes no difference to what they match.
    fn claim(&mut self, descriptor: &DescriptorText, place: &Place<'_>) -> Result<(), RuleError> {
        let mut id = place.id.clone();
        id.steps.iter_mut().for_each(|(_, _, part)| *part = Part::Fixed);
        let here = (place.file.to_owned(), descriptor.at);
        let Some((file, at)) = self.places.insert(id, here) else { return Ok(()) };
        let path = format!("{}.{}", place.id.domain, place.path).escape_debug().to_string();
        let first = if file == place.file { at.to_string() } else { format!("{file}:{at}") };
        Err(place.error(descriptor.at, Problem::DuplicateDescriptor { path, first }))
    }

    fn add_rule(&mut self, spec: RuleSpec, place: &Place<'_>) -> Result<usize, RuleError> {
        let parts: Box<[Part]> = place.id.steps.iter().map(|(_, _, part)| *part).collect();
        let open = if is_constant(&parts) { 1 } else { self.settings.default_capacity.max(1) };
        let capacity = spec.capacity.unwrap_or(open);
        let counts = self.previous.and_then(|previous| previous.counters.get(&place.id));
        let counts = counts.cloned().unwrap_or_default();
        self.set.counters.insert(place.id.clone(), Arc::clone(&counts));
        let limits = self.add_limits(spec.limits, (capacity, spec.traits.on_full), place)?;
        let mut traits = spec.traits;
        traits.quota_mode |= self.settings.global_quota_mode;
        self.set.identifiers.push(parts);
        self.set.rules.push(Rule {
            domain: place.id.domain.clone(),
            path: place.path.as_str().into(),
            levels: place.id.steps.iter().map(level).collect(),
            limits,
            name: spec.name.map(Into::into),
            replaces: spec.replaces.into_iter().map(Into::into).collect(),
            traits,
            metadata: spec.metadata,
            capacity,
            counts,
            identity: place.id.text().into(),
        });
        Ok(self.set.rules.len() - 1)
    }

    fn add_limits(
        &mut self,
        limits: Vec<LimitText>,
        size: (usize, OnFull),
        place: &Place<'_>,
    ) -> Result<Box<[Limit]>, RuleError> {
        let before = self.previous.and_then(|previous| previous.tables.get(&place.id));
        let before = before.map_or(&[][..], Vec::as_slice);
        let policies: Vec<Policy> = limits.iter().filter_map(|limit| limit.policy).collect();
        let mut pairs = pair(before, &policies).into_iter();
        let windows: Vec<Duration> = limits.iter().map(|limit| limit.window).collect();
        let mut kept = Vec::with_capacity(policies.len());
        let mut compiled = Vec::with_capacity(limits.len());
        for (limit, own) in limits.into_iter().zip(places(&windows)) {
            let gate = match limit.policy {
                None => None,
                Some(policy) => {
                    let paired = pairs.next().flatten().map(|n| &before[n]);
                    let (mut table, lost) = self.table(paired, policy, size, (place, limit.at))?;
                    if self.is_elsewhere {
                        let same = before.iter().find(|kept| kept.place == own);
                        let lost = Loss::Elsewhere { window: limit.window };
                        let lost = if same.is_some() { None } else { Some(lost) };
                        self.note(same.or(paired), policy, lost, place);
                    } else {
                        self.note(paired, policy, lost, place);
                    }
                    table.place.clone_from(&own);
                    kept.push(table.clone());
                    Some(Gate { policy, table: table.table })
                }
            };
            compiled.push(Limit {
                requests: limit.requests,
                window: limit.window,
                unit: limit.unit,
                name: limit.name.map(Into::into),
                gate,
                drains_denied: self.settings.compat && limit.is_plain,
                place: own,
                keeper: Keeper::default(),
            });
        }
        self.set.tables.insert(place.id.clone(), kept);
        Ok(compiled.into())
    }

    /// Tells a limit that is not as it was.
    fn note(&mut self, before: Option<&Kept>, now: Policy, lost: Option<Loss>, place: &Place<'_>) {
        if let Some(Kept { policy: before, .. }) = before
            && (*before != now || lost.is_some())
        {
            let (domain, path) = (place.id.domain.clone(), place.path.as_str().into());
            self.set.changes.push(LimitChange { domain, path, before: *before, now, lost });
        }
    }

    /// The table of before, or a new one, and why the one of before does not go on.
    fn table(
        &mut self,
        before: Option<&Kept>,
        policy: Policy,
        size: (usize, OnFull),
        (place, at): (&Place<'_>, Position),
    ) -> Result<(Kept, Option<Loss>), RuleError> {
        let refused = |error| {
            let (policy, error) = (policy.to_string(), Box::new(error));
            place.error(at, Problem::Table { policy, error })
        };
        let lost = before.map(|before| (before, before.can_become(policy, size).err()));
        let own = match lost {
            Some((before, None)) => before.bytes,
            _ => memory::table_bytes(policy, size).map_err(refused)?,
        };
        // Before it is built: an allocation that the system grants and cannot keep ends the process.
        let more = (size.0 as u64).saturating_mul(self.settings.more_bytes_per_client);
        let bytes = self.set.table_bytes.saturating_add(own).saturating_add(more);
        let most = self.settings.most_table_bytes;
        if bytes > most {
            return Err(place.error(at, Problem::TooMuchMemory { bytes, most }));
        }
        self.set.table_bytes = bytes;
        if let Some((before, None)) = lost {
            let kept = before.under(policy);
            if before.policy != policy {
                self.requotas.push((kept.clone(), place.file.to_owned(), at));
            }
            return Ok((kept, None));
        }
        let mut kept = Kept::build(policy, size, self.clock).map_err(refused)?;
        kept.bytes = own;
        Ok((kept, lost.and_then(|(_, lost)| lost)))
    }

    /// Changes the quotas of the tables that go on. Loads come one after the other and each change has been
    /// tried, so none is refused; were one, the load would be, with the quotas before it changed.
    fn put_in_force(&self) -> Result<(), RuleError> {
        for (kept, file, at) in &self.requotas {
            kept.put_in_force().map_err(|error| RuleError {
                file: file.clone(),
                at: Some(*at),
                problem: Problem::Change {
                    policy: kept.policy.to_string(),
                    error: Box::new(error),
                },
            })?;
        }
        Ok(())
    }
}

/// What a rule is called by, of one of its steps.
fn level((key, value, _): &Step) -> Box<str> {
    value.as_ref().map_or_else(|| key.clone(), |value| format!("{key}_{value}").into())
}

fn step(descriptor: &DescriptorText) -> Step {
    let (key, value) = (descriptor.key.as_str(), descriptor.value.as_deref());
    let part = match value {
        _ if descriptor.share_threshold => Part::Fixed,
        _ if key.contains('*') => Part::KeyAndValue,
        Some(_) if !has_star(key, value) => Part::Fixed,
        _ => Part::Value,
    };
    (key.into(), value.map(Into::into), part)
}
