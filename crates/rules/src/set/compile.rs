//! Compiles rule files to a [`RuleSet`]. Tables of previous rules are kept ([`crate::set::carry`]), and rules that come
//! back take their lingering tables again ([`crate::set::linger`]). The rules in force do not change until all files
//! have been found to be good.

mod place;
mod sizes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Policy};

use crate::counts::series::SeriesTable;
use crate::language::error::{Problem, RuleError};
use crate::language::expression::Expressions;
use crate::language::file::{DescriptorText, LimitText, PoolText, RuleFile, RuleSpec};
use crate::language::identifier::{AddressBits, Identifier, KeyPart};
use crate::language::position::Position;
use crate::language::rule_id::{PathStep, RuleId};
use crate::language::source::RuleText;
use crate::language::stem::Stem;
use crate::set::before::Before;
use crate::set::carry::{CarriedTable, Fits, LimitChange, TableShape, WAYS, pair, places};
use crate::set::debt;
use crate::set::forwards;
use crate::set::hidden::hidden;
use crate::set::loss::Loss;
use crate::set::memory;
use crate::set::pool::DomainPool;
use crate::set::rule::{Attached, LocalLimit, Rule, RuleLimit};
use crate::set::rule_set::RuleSet;
use crate::set::settings::RuleSettings;
use crate::set::texts::{self, LoadedTexts, ReadText};
use crate::set::tree::{Level, Node};
use place::CompilerPlace;
use sizes::{RuleSizes, plan};

/// Returns the rules, or all errors of all files, or else all errors of `vet`. An empty list of errors means that the
/// rules fit only if the rules without a capacity begin [anew](Before::anew).
pub(crate) fn compile(
    texts: &[RuleText],
    settings: &RuleSettings,
    clock: &Clock,
    before: Before<'_>,
    vet: Option<impl FnOnce(&RuleSet) -> Vec<RuleError>>,
) -> Result<RuleSet, Vec<RuleError>> {
    let kept = before.rules.filter(|_| !settings.allow_empty);
    let LoadedTexts { files, kept_domains, mut errors } = texts::read(texts, kept, before.dropped);
    let bits = if settings.compat { AddressBits::default() } else { AddressBits::USUAL };
    let sizes = plan(&files, &kept_domains, settings, bits, vet.is_some(), before);
    let Some(sizes) = sizes else { return Err(errors) };
    let (narrowed, lowered) = (sizes.narrowed(), texts::lowered(&files));
    let set = RuleSet { bits, kept_domains, lowered, narrowed, ..RuleSet::default() };
    let mut compiler = Compiler {
        settings,
        clock,
        before,
        sizes,
        set,
        places: HashMap::new(),
        domain_files: HashMap::new(),
        requotas: Vec::new(),
        expressions: Expressions::default(),
        is_elsewhere: vet.is_some(),
    };
    errors.extend(compiler.add_pools(&files));
    for ReadText { text, file } in files {
        errors.extend(compiler.add_file(text, file).err());
    }
    if let Some(vet) = vet.filter(|_| errors.is_empty()) {
        errors = vet(&compiler.set);
    }
    if errors.is_empty() {
        errors.extend(compiler.put_in_force().err());
    }
    compiler.set.domains.values_mut().for_each(Level::finish);
    compiler.set.hidden = hidden(compiler.set.domains.values());
    compiler.set.hidden.extend(forwards::in_vain(&compiler.set));
    if errors.is_empty() { Ok(compiler.set) } else { Err(errors) }
}

struct Compiler<'a> {
    settings: &'a RuleSettings,
    clock: &'a Clock,
    before: Before<'a>,
    sizes: RuleSizes,
    set: RuleSet,
    /// The file and position of every descriptor, to report duplicates.
    places: HashMap<RuleId, (String, Position)>,
    domain_files: HashMap<String, String>,
    /// Tables that will continue under another quota.
    requotas: Vec<Requota>,
    expressions: Expressions,
    /// Whether counts are kept in a store outside this process, and not in the tables.
    is_elsewhere: bool,
}

/// A table that will continue under another quota, and the place of that quota in the files.
struct Requota {
    kept: CarriedTable,
    file: String,
    at: Position,
}

/// The previous limit and the previous table that a limit of this load continues.
struct PreviousLimit {
    before: Option<Policy>,
    /// The reason why its table cannot be kept.
    lost: Option<Loss>,
    table: Option<CarriedTable>,
}

impl Compiler<'_> {
    /// Adds the pool of each domain. If the quota has not changed, the previous pool is kept, with its loans and its
    /// headroom. If a domain has several pools, returns an error for each pool after the first.
    fn add_pools(&mut self, files: &[ReadText<'_>]) -> Vec<RuleError> {
        let mut errors = Vec::new();
        for ReadText { text, file } in files {
            let Some(PoolText { at, quota, .. }) = file.pool else { continue };
            let domain = file.domain.as_str();
            let before = self.before.rules.and_then(|rules| rules.pools.get(domain));
            if self.set.pools.contains_key(domain) {
                let (key, with) = ("pool", "that of the same domain in another file");
                let (file, problem) = (text.file().to_owned(), Problem::Together { key, with });
                errors.push(RuleError { file, at: Some(at), problem });
                continue;
            }
            let pool = match before {
                Some(before) if before.quota() == quota => Arc::clone(before),
                _ => Arc::new(DomainPool::new(domain, quota, self.clock)),
            };
            if let Some(before) = before.filter(|before| before.quota() != quota) {
                self.set.changes.push(LimitChange::of_pool(domain, before.quota(), quota));
            }
            self.set.pools.insert(domain.into(), pool);
        }
        errors
    }

    /// The pool that a limit borrows from, if its mode is elastic.
    fn lender(
        &self,
        limit: &LimitText,
        place: &CompilerPlace<'_>,
    ) -> Result<Option<Arc<DomainPool>>, RuleError> {
        let Some(at) = limit.elastic else { return Ok(None) };
        let domain = &place.id.domain;
        let pool =
            self.set.pools.get(domain).cloned().ok_or_else(|| {
                place.error(at, Problem::NoPool { domain: domain.as_ref().into() })
            })?;
        Ok(Some(pool))
    }

    fn add_file(&mut self, text: &RuleText, file: RuleFile) -> Result<(), RuleError> {
        let (name, domain) = (text.file(), file.domain);
        if let Some(first) = self.domain_files.get(&domain)
            && !self.settings.merge_domains
        {
            let problem = Problem::DuplicateDomain { domain, first: first.clone() };
            return Err(RuleError { file: name.to_owned(), at: Some(file.at), problem });
        }
        self.domain_files.entry(domain.clone()).or_insert_with(|| name.to_owned());
        forwards::add(&mut self.set, &domain, name, file.forwards, self.settings)?;
        let mut level = self.set.domains.remove(domain.as_str()).unwrap_or_default();
        let mut place = CompilerPlace::new(name, &domain);
        let added = self.add_level(&mut level, file.descriptors, &mut place);
        self.set.texts.entry(domain.as_str().into()).or_default().push(text.clone());
        self.set.domains.insert(domain.into(), level);
        added
    }

    fn add_level(
        &mut self,
        level: &mut Level,
        descriptors: Vec<DescriptorText>,
        place: &mut CompilerPlace<'_>,
    ) -> Result<(), RuleError> {
        for descriptor in descriptors {
            let step = PathStep::of(&descriptor);
            let origin = step.origin(place.file, descriptor.value_at);
            let outer = place.enter(&descriptor, step);
            self.claim(&descriptor, place)?;
            let refused = |problem| place.error(descriptor.value_at, problem);
            let expression = self.expressions.of(descriptor.value.as_ref()).map_err(refused)?;
            let mut node = Node { origin, ..Node::default() };
            if let Some(spec) = descriptor.rule {
                node.rule = Some(self.add_rule(spec, place)?);
            }
            self.add_level(&mut node.below, descriptor.children, place)?;
            let value = descriptor.value.as_ref();
            level.insert(&descriptor.key, value, expression, node);
            place.leave(outer);
        }
        Ok(())
    }

    /// Refuses a descriptor whose key and value another descriptor has already. Two descriptors that differ only in
    /// `share_threshold` match the same values, so they are refused as well.
    fn claim(
        &mut self,
        descriptor: &DescriptorText,
        place: &CompilerPlace<'_>,
    ) -> Result<(), RuleError> {
        let here = (place.file.to_owned(), descriptor.at);
        let Some((file, at)) = self.places.insert(place.id.of_matches(), here) else {
            return Ok(());
        };
        let path = format!("{}.{}", place.id.domain, place.path).escape_debug().to_string();
        let first = if file == place.file { at.to_string() } else { format!("{file}:{at}") };
        Err(place.error(descriptor.at, Problem::DuplicateDescriptor { path, first }))
    }

    fn add_rule(&mut self, spec: RuleSpec, place: &CompilerPlace<'_>) -> Result<usize, RuleError> {
        let parts: Box<[KeyPart]> = place.id.steps.iter().map(|step| step.part).collect();
        let capacity = self.sizes.of(&place.id).clients;
        let counts = self.before.rules.and_then(|before| before.counters.get(&place.id));
        let counts = counts.cloned().unwrap_or_default();
        self.set.counters.insert(place.id.clone(), Arc::clone(&counts));
        let series = self.series(spec.traits.detailed_metric, place);
        // A rule that gives no address bits uses the bits of the rule set. With the bits that `compat` sets, values are
        // counted as in envoyproxy/ratelimit.
        let bits = spec.bits.or(self.set.bits);
        let shape = TableShape { capacity, on_full: spec.traits.on_full, bits };
        let charges_denied = self.settings.compat && !self.is_elsewhere;
        let limits = debt::of_limits(spec.limits, spec.traits.usage, charges_denied, shape);
        let limits = self.add_limits(limits, shape, place)?;
        let mut traits = spec.traits;
        traits.quota_mode |= self.settings.global_quota_mode;
        self.set.identifiers.push(Identifier { parts, bits });
        self.set.rules.push(Rule {
            stem: Stem::of(&place.id.steps, bits, limits.len()),
            domain: place.id.domain.clone(),
            path: place.path.as_str().into(),
            levels: place.id.steps.iter().map(|step| step.name().into()).collect(),
            limits,
            name: spec.name.map(Into::into),
            replaces: spec.replaces.into_iter().map(Into::into).collect(),
            traits,
            metadata: spec.metadata,
            capacity,
            counts,
            series,
            identity: place.id.text().into(),
        });
        Ok(self.set.rules.len() - 1)
    }

    /// The series of the rule at this place: the previous ones, if the rule still names them in the same way.
    fn series(&mut self, is_detailed: bool, place: &CompilerPlace<'_>) -> Option<Arc<SeriesTable>> {
        let names = place.series(is_detailed)?;
        let before = self.before.rules.and_then(|before| before.series.get(&place.id));
        let kept = before.filter(|table| table.has(&names)).map(Arc::clone);
        let table = kept.unwrap_or_else(|| Arc::new(SeriesTable::new(names, self.before.room)));
        self.set.series.insert(place.id.clone(), Arc::clone(&table));
        Some(table)
    }

    fn add_limits(
        &mut self,
        limits: Vec<LimitText>,
        shape: TableShape,
        place: &CompilerPlace<'_>,
    ) -> Result<Box<[RuleLimit]>, RuleError> {
        let before = self.before.rules.and_then(|before| before.tables.get(&place.id));
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
                    if let Some(reason) = limit.only_here().filter(|_| self.is_elsewhere) {
                        return Err(place.error(limit.at, Problem::Elsewhere { reason }));
                    }
                    let pool = self.lender(&limit, place)?;
                    let paired = pairs.next().flatten().map(|n| &before[n]);
                    let found = self.find(paired, &kept, policy, shape, &place.id);
                    if self.is_elsewhere {
                        let same = before.iter().find(|kept| kept.place == own);
                        let lost = match same {
                            None => Some(Loss::Elsewhere { window: limit.window }),
                            Some(kept) => Loss::of_log(kept.policy, policy),
                        };
                        let before = same.or(paired).map(|kept| kept.policy);
                        self.note(&PreviousLimit { before, lost, table: None }, policy, place);
                    } else {
                        self.note(&found, policy, place);
                    }
                    let mut table = self.table(found.table, policy, shape, place, limit.at)?;
                    table.place.clone_from(&own);
                    table.sized_by = self.sizes.of(&place.id).sized_by;
                    kept.push(table.clone());
                    let has_queue = policy.at_limit().queue.is_some();
                    let (table, zone) = (table.table, limit.zone);
                    Some(LocalLimit { policy, table, has_queue, zone, pool })
                }
            };
            compiled.push(RuleLimit {
                requests: limit.requests,
                window: limit.window,
                unit: limit.unit,
                name: limit.name.map(Into::into),
                words: limit.words,
                gate,
                drains_denied: limit.is_plain,
                place: own,
                attached: Attached::default(),
            });
        }
        self.set.tables.insert(place.id.clone(), kept);
        Ok(compiled.into())
    }

    /// Records a limit that has changed.
    fn note(&mut self, found: &PreviousLimit, now: Policy, place: &CompilerPlace<'_>) {
        if let Some(before) = found.before
            && (before != now || found.lost.is_some())
        {
            let (domain, path) = (place.id.domain.clone(), place.path.as_str().into());
            let (lost, resumes) = (found.lost, found.table.is_some());
            self.set.changes.push(LimitChange { domain, path, before, now, lost, resumes });
        }
    }

    /// Finds the table that a limit continues with: its previous table if that fits, otherwise a lingering table that
    /// fits. If there is none, it returns the reason.
    fn find(
        &self,
        before: Option<&CarriedTable>,
        taken: &[CarriedTable],
        policy: Policy,
        shape: TableShape,
        id: &RuleId,
    ) -> PreviousLimit {
        let lost = before.and_then(|before| before.can_become(policy, shape).err());
        if let (Some(kept), None) = (before, lost) {
            return PreviousLimit {
                before: Some(kept.policy),
                lost: None,
                table: Some(kept.clone()),
            };
        }
        let is_free =
            |kept: &CarriedTable| !taken.iter().any(|one| Arc::ptr_eq(&one.table, &kept.table));
        let fits = |kept: &CarriedTable| is_free(kept) && kept.can_become(policy, shape).is_ok();
        let lingering = self.before.lingering;
        let find = |way: &Fits| lingering.find(id, |kept| way(kept, &policy) && fits(kept));
        let table = WAYS.iter().find_map(find).cloned();
        let before = before.or(table.as_ref()).map(|kept| kept.policy);
        PreviousLimit { before, lost, table }
    }

    /// The table that was found, or a new one.
    fn table(
        &mut self,
        found: Option<CarriedTable>,
        policy: Policy,
        shape: TableShape,
        place: &CompilerPlace<'_>,
        at: Position,
    ) -> Result<CarriedTable, RuleError> {
        let refused = |error| {
            let (policy, error) = (policy.to_string(), Box::new(error));
            place.error(at, Problem::Table { policy, error })
        };
        let own = match &found {
            Some(kept) => kept.bytes,
            None => memory::table_bytes(policy, shape).map_err(refused)?,
        };
        // This is checked before the table is built, because the system may grant an allocation, and kill the process
        // later if it cannot provide the memory.
        let more = (shape.capacity as u64).saturating_mul(self.settings.more_bytes_per_client);
        let bytes = self.set.table_bytes.saturating_add(own).saturating_add(more);
        let most = self.settings.max_table_bytes;
        if bytes > most {
            let fitting = self.sizes.fitting;
            return Err(place.error(at, Problem::TooMuchMemory { bytes, most, fitting }));
        }
        self.set.table_bytes = bytes;
        if let Some(found) = found {
            let kept = found.under(policy);
            if found.policy != policy {
                let (kept, file) = (kept.clone(), place.file.to_owned());
                self.requotas.push(Requota { kept, file, at });
            }
            return Ok(kept);
        }
        let mut kept = CarriedTable::build(policy, shape, self.clock).map_err(refused)?;
        kept.bytes = own;
        Ok(kept)
    }

    /// Changes the quotas of the tables that are kept. Loads are sequential and each change has been tried, so the core
    /// refuses none. If it refused one, the load would be refused, and quotas that were already changed would stay
    /// changed.
    fn put_in_force(&self) -> Result<(), RuleError> {
        for Requota { kept, file, at } in &self.requotas {
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
