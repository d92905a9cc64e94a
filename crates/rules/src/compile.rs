//! From what files say to a [`RuleSet`]. Tables whose rule and quota are as before are taken over.
//!
//! # What a reload keeps
//! A table is kept if its rule's domain, keys and values, its quota and algorithm, and its capacity are
//! what they were: then everything that was spent stays spent, and counters go on. A limit that changes
//! any of these begins anew, with nothing spent: a table does not store keys, so they cannot be carried
//! to another one.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::Clock;

use crate::error::{Position, Problem, RuleError};
use crate::file::{self, DescriptorText, LimitText, RuleFile, RuleSpec};
use crate::identifier::{Part, is_constant};
use crate::rule::{Gate, Limit, Rule, Table};
use crate::rule_set::{RuleId, RuleSet, Step, TableId};
use crate::settings::Settings;
use crate::source::RuleText;
use crate::tree::{Level, Node, has_star};

/// Two shards at least, and 14.1 bytes a key: what a table of so many keys takes, a little more.
fn expected_bytes(capacity: usize) -> u64 {
    (capacity as u64).saturating_mul(15).saturating_add(256)
}

/// All errors of all files, or the rules.
pub(crate) fn compile(
    texts: &[RuleText],
    settings: &Settings,
    clock: &Clock,
    previous: Option<&RuleSet>,
) -> Result<RuleSet, Vec<RuleError>> {
    let mut errors = Vec::new();
    let mut compiler = Compiler {
        settings,
        clock,
        previous,
        set: RuleSet::default(),
        places: HashMap::new(),
        domain_files: HashMap::new(),
        expected_bytes: 0,
    };
    for text in texts {
        let compiled = file::read(text.bytes())
            .map_err(|fault| fault.in_file(text.file()))
            .and_then(|file| compiler.add_file(text.file(), file));
        errors.extend(compiled.err());
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
    expected_bytes: u64,
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
        let limits = spec
            .limits
            .into_iter()
            .enumerate()
            .map(|(number, limit)| self.add_limit(limit, number, capacity, place))
            .collect::<Result<_, RuleError>>()?;
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
        });
        Ok(self.set.rules.len() - 1)
    }

    fn add_limit(
        &mut self,
        limit: LimitText,
        number: usize,
        capacity: usize,
        place: &Place<'_>,
    ) -> Result<Limit, RuleError> {
        let gate = match limit.policy {
            None => None,
            Some(policy) => {
                let id = TableId { rule: place.id.clone(), number, policy, capacity };
                let table = self.table(id).map_err(|problem| place.error(limit.at, problem))?;
                Some(Gate { policy, table })
            }
        };
        Ok(Limit {
            requests: limit.requests,
            window: limit.window,
            unit: limit.unit,
            name: limit.name.map(Into::into),
            gate,
            drains_denied: self.settings.compat && limit.is_plain,
        })
    }

    /// The table of before, or a new one.
    fn table(&mut self, id: TableId) -> Result<Arc<Table>, Problem> {
        // Before it is built: an allocation that the system grants and cannot keep ends the process.
        self.expected_bytes = self.expected_bytes.saturating_add(expected_bytes(id.capacity));
        let (bytes, most) = (self.expected_bytes, self.settings.most_table_bytes);
        if bytes > most {
            return Err(Problem::TooMuchMemory { bytes, most });
        }
        let kept = self.previous.and_then(|previous| previous.tables.get(&id));
        let table = match kept {
            Some(table) => Arc::clone(table),
            None => {
                let built = Table::with_clock(id.policy, id.capacity, self.clock.clone());
                let policy = id.policy.to_string();
                let refused = |error| Problem::Table { policy, error: Box::new(error) };
                Arc::new(built.map_err(refused)?)
            }
        };
        self.set.table_bytes += expected_bytes(id.capacity);
        self.set.tables.insert(id, Arc::clone(&table));
        Ok(table)
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
