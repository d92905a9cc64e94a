//! [`Series`]: the hits of a rule by the values of its requests (`detailed_metric`, `value_to_metric`). The number of
//! series is bounded.
//!
//! A rule without these keys has no table of series, and its decisions do not use this module. A rule with these keys
//! looks up the name of the series in an immutable map. If the name is new and there is room, the map is replaced with
//! a copy that has the name. So no thread waits for another. Copies are small, because names are spread over [`SHARDS`]
//! maps.
//!
//! There is room for [`RuleSettings::max_series`](crate::RuleSettings::max_series) series of all rules together, with
//! names of at most [`MAX_NAME_BYTES`]. Hits that find no room are counted in one more series of the rule, `other`. A
//! series is not removed before its rule, because monitoring treats a counter that falls as that of a restarted
//! process. So the values that come first get a series each, and keep it until the rule is gone, its keys change, or
//! the process ends.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ahash::RandomState;
use arc_swap::ArcSwap;

use crate::counts::room::Room;
use crate::counts::rule_counts::{HitCounters, RuleCounts};
use crate::language::rule_id::PathStep;
use crate::language::value::DescriptorEntry;

/// The longest name of a series. A name may contain text that a client sent.
const MAX_NAME_BYTES: usize = 256;

/// The number of maps of one rule. With the default maximum of series, a map has at most some 150 names.
const SHARDS: usize = 64;

/// The name of the series for hits that found no room.
const OTHER: &str = "other";

/// The hits of one rule in requests that have the same values.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
/// let cache = Arc::new(RuleCache::new(RuleSettings { max_series: 1, ..RuleSettings::default() }));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    detailed_metric: true\n    \
///             rate_limit: {unit: hour, requests_per_unit: 2}\n";
/// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// for user in ["alice", "bob", "alice", "carol"] {
///     maker.check(&Request::new("shop", &[Descriptor::new(&[("user", user)])]))?;
/// }
/// let series = rules.rules()[0].series();
/// let told: Vec<_> = series.iter().map(|one| (one.to_string(), one.counts().total())).collect();
/// assert_eq!(told, [("other".to_owned(), 2), ("user_alice".to_owned(), 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Series {
    /// Empty for the series of hits that found no room.
    levels: Box<[Box<str>]>,
    pub(crate) hits: HitCounters,
}

impl Series {
    /// The parts of the series' name: those of [`Rule::levels`](crate::Rule::levels), with values of requests. Empty
    /// for the series of hits that found no room.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().map(|level| &**level)
    }

    /// The decisions about the hits of this series. Hits of clients without a cell are counted only for the whole rule.
    #[must_use]
    pub fn counts(&self) -> RuleCounts {
        self.hits.read()
    }
}

/// The name of the series: the levels with dots between them, or `other` for hits that found no room.
impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.levels.is_empty() {
            f.write_str(OTHER)
        } else {
            f.write_str(&self.levels.join("."))
        }
    }
}

/// The form of one level in the names of its rule's series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LevelName {
    /// The name that the level has in the file, the same for all requests.
    Fixed(Box<str>),
    /// The key and the value of the request, with `_` between them; the key alone if the value is empty.
    Value,
    /// The key, `_`, and the value of the request, also if the value is empty.
    Joined,
}

impl LevelName {
    /// The level names of a rule, as in envoyproxy/ratelimit; `None` if all its requests have one name. `shown` says
    /// for each level whether it has `value_to_metric`.
    pub(crate) fn of(steps: &[PathStep], shown: &[bool], is_detailed: bool) -> Option<Box<[Self]>> {
        let is_shared = steps.iter().any(PathStep::is_shared);
        let open = match (is_detailed, is_shared) {
            (true, false) => Self::Joined,
            _ => Self::Value,
        };
        let name = |(step, shown): (&PathStep, &bool)| {
            let is_open = !step.is_one() && !step.is_shared() && (is_detailed || *shown);
            if is_open { open.clone() } else { Self::Fixed(step.name().into()) }
        };
        let names: Box<[Self]> = steps.iter().zip(shown).map(name).collect();
        names.iter().any(|name| !matches!(name, Self::Fixed(_))).then_some(names)
    }

    /// The pieces that make up the text of this level.
    fn text<'a>(&'a self, key: &'a str, value: &'a str) -> [&'a str; 3] {
        match self {
            Self::Fixed(name) => [name, "", ""],
            Self::Value if value.is_empty() => [key, "", ""],
            Self::Value | Self::Joined => [key, "_", value],
        }
    }
}

type SeriesByName = HashMap<Arc<str>, Arc<Series>, RandomState>;

/// The series of one rule.
#[derive(Debug)]
pub(crate) struct SeriesTable {
    names: Box<[LevelName]>,
    shards: [ArcSwap<SeriesByName>; SHARDS],
    hasher: RandomState,
    other: Arc<Series>,
    room: Arc<Room>,
}

impl SeriesTable {
    pub(crate) fn new(names: Box<[LevelName]>, room: &Arc<Room>) -> Self {
        let other = Series { levels: Box::default(), hits: HitCounters::default() };
        let shards = std::array::from_fn(|_| ArcSwap::default());
        let (hasher, other, room) = (RandomState::new(), Arc::new(other), Arc::clone(room));
        Self { names, shards, hasher, other, room }
    }

    /// Whether the next load, in which the rule's levels have these forms, can keep the table.
    pub(crate) fn has(&self, names: &[LevelName]) -> bool {
        *self.names == *names
    }

    /// The series of a descriptor.
    pub(crate) fn of(&self, entries: &[DescriptorEntry<'_>]) -> Arc<Series> {
        self.find(entries).unwrap_or_else(|| {
            self.room.refused.add(1);
            Arc::clone(&self.other)
        })
    }

    fn find(&self, entries: &[DescriptorEntry<'_>]) -> Option<Arc<Series>> {
        let named = || self.names.iter().zip(entries);
        let levels = || named().map(|(name, (key, value))| name.text(key, value));
        // This sum has one dot too many, because no dot follows the last level.
        let bytes = levels().flatten().map(str::len).sum::<usize>() + self.names.len();
        if bytes > MAX_NAME_BYTES + 1 {
            return None;
        }
        let mut name = String::with_capacity(bytes);
        for (n, level) in levels().enumerate() {
            name.push_str(if n > 0 { "." } else { "" });
            level.into_iter().for_each(|part| name.push_str(part));
        }
        let shard = usize::try_from(self.hasher.hash_one(name.as_str()) % SHARDS as u64);
        let shard = self.shards.get(shard.ok()?)?;
        if let Some(found) = shard.load().get(name.as_str()) {
            return Some(Arc::clone(found));
        }
        // Hits with the name `other` are counted in the series for hits that found no room.
        if name == OTHER || !self.room.take() {
            return None;
        }
        let levels = levels().map(|level| level.concat().into()).collect();
        let new = Arc::new(Series { levels, hits: HitCounters::default() });
        let name: Arc<str> = name.into();
        let before = shard.rcu(|named| {
            let mut named = SeriesByName::clone(named);
            named.entry(Arc::clone(&name)).or_insert_with(|| Arc::clone(&new));
            named
        });
        let Some(there) = before.get(&name) else { return Some(new) };
        // Another thread has added this series in the meantime, so it needs no second place.
        self.room.give_back(1);
        Some(Arc::clone(there))
    }

    /// All series, by their names.
    pub(crate) fn all(&self) -> Vec<Arc<Series>> {
        let shards: Vec<_> = self.shards.iter().map(ArcSwap::load).collect();
        let of_values = shards.iter().flat_map(|named| named.iter());
        let of_values = of_values.map(|(name, series)| (&**name, series));
        let mut named: Vec<(&str, &Arc<Series>)> =
            of_values.chain([(OTHER, &self.other)]).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named.into_iter().map(|(_, series)| Arc::clone(series)).collect()
    }
}

impl Drop for SeriesTable {
    fn drop(&mut self) {
        self.room.give_back(self.shards.iter().map(|named| named.load().len()).sum());
    }
}
