//! A descriptor of a rule file: a key, perhaps a value, perhaps a limit, and descriptors below it.

use ipnet::IpNet;

use super::fields::{MapFields, value as bad_value};
use super::limit::{self, LimitKind, LimitText};
use super::metadata::Metadata;
use crate::language::error::{LocatedProblem, Problem};
use crate::language::identifier::AddressBits;
use crate::language::lowered::LoweredRate;
use crate::language::on_full::OnFull;
use crate::language::position::Position;
use crate::language::value::{ValueMatch, canonical, looks_like_range};
use crate::language::yaml::YamlNode;

const KEYS: &[&str] = &[
    "key",
    "value",
    "cidr",
    "regex",
    "rate_limit",
    "limits",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "usage",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
    "capacity",
    "weight",
    "on_error",
    "accuracy",
    "on_full",
    "prefix_v4",
    "prefix_v6",
];

/// A descriptor as parsed.
#[derive(Clone, Debug)]
pub(crate) struct DescriptorText {
    pub(crate) at: Position,
    pub(crate) key: String,
    pub(crate) value: Option<ValueMatch>,
    /// The position of the value, or of the descriptor if it has none.
    pub(crate) value_at: Position,
    /// `None` if the descriptor has no limit: a request that ends there is admitted and not counted.
    pub(crate) rule: Option<RuleSpec>,
    pub(crate) share_threshold: bool,
    /// Whether the value is part of the names of series, for this descriptor and for those below it.
    pub(crate) value_to_metric: bool,
    pub(crate) children: Vec<DescriptorText>,
}

/// The settings of a descriptor with a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSpec {
    /// Empty if unlimited.
    pub(crate) limits: Vec<LimitText>,
    /// The name of an unlimited rule; limits have names of their own.
    pub(crate) name: Option<String>,
    pub(crate) replaces: Vec<String>,
    pub(crate) traits: Traits,
    pub(crate) clients: TableClients,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) bits: AddressBits,
}

/// The number of clients that a rule's tables are built for, if the rule leaves a value open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableClients {
    /// The rule's `capacity`.
    Number(usize),
    /// A share of the memory, in proportion to this `weight`: see [`crate::set::share`].
    Share(u32),
}

impl Default for TableClients {
    fn default() -> Self {
        Self::Share(1)
    }
}

/// The settings of a rule as a whole, besides its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) usage: Usage,
    pub(crate) detailed_metric: bool,
    /// `None` if the rule has no key `on_error`: then the service decides.
    pub(crate) on_error: Option<RuleOnError>,
    pub(crate) accuracy: Accuracy,
    pub(crate) on_full: OnFull,
}

/// The rule's key `usage`: whether costs are known only after they were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Usage {
    Always,
    Never,
    /// The file does not have the key. The rule decides as with `Never`, but the first cost that it denies is logged.
    #[default]
    Unsaid,
}

/// How a rule decides while the store that keeps its counts is unavailable. It applies only to rules whose counts are
/// kept outside this process.
///
/// ```
/// assert_eq!(tollgate_rules::RuleOnError::default(), tollgate_rules::RuleOnError::Local);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RuleOnError {
    /// Decide by this node's share of the limit.
    #[default]
    Local,
    /// Let every request through that costs no more than the limit.
    Allow,
    /// Let nothing through.
    Deny,
}

impl RuleOnError {
    /// All values, the default first.
    ///
    /// ```
    /// use tollgate_rules::RuleOnError;
    /// assert_eq!(RuleOnError::ALL[0], RuleOnError::default());
    /// ```
    pub const ALL: [Self; 3] = [Self::Local, Self::Allow, Self::Deny];

    /// The word for this value in rule files.
    ///
    /// ```
    /// use tollgate_rules::RuleOnError;
    /// assert_eq!(RuleOnError::ALL.map(RuleOnError::word), ["local", "allow", "deny"]);
    /// ```
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// The value that has this [word](RuleOnError::word).
    ///
    /// ```
    /// use tollgate_rules::RuleOnError;
    /// assert_eq!(RuleOnError::of_word("deny"), Some(RuleOnError::Deny));
    /// assert_eq!(RuleOnError::of_word("shrug"), None);
    /// ```
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|on_error| on_error.word() == word)
    }
}

/// The accuracy of a rule's counts across several nodes. In one process every decision is exact.
///
/// ```
/// assert_eq!(tollgate_rules::Accuracy::default(), tollgate_rules::Accuracy::Leased);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accuracy {
    /// Each decision asks the store.
    Exact,
    /// A node takes units from the store in batches, ahead of their use.
    #[default]
    Leased,
    /// A node decides by itself, and reports its decisions to the store afterwards.
    Async,
}

pub(super) fn read_all(nodes: &[YamlNode]) -> Result<Vec<DescriptorText>, LocatedProblem> {
    nodes.iter().map(read).collect()
}

fn read(node: &YamlNode) -> Result<DescriptorText, LocatedProblem> {
    let fields = MapFields::of(node, "descriptors", KEYS)?;
    let Some(key) = fields.text("key")?.filter(|key| !key.is_empty()) else {
        return Err(LocatedProblem { at: node.at, problem: Problem::EmptyKey });
    };
    let (value, value_at) = read_value(&fields, key)?.unzip();
    let share_threshold = fields.truth("share_threshold")?;
    if share_threshold && value.as_ref().is_none_or(ValueMatch::is_one) {
        return Err(LocatedProblem { at: node.at, problem: Problem::ShareWithoutWildcard });
    }
    Ok(DescriptorText {
        at: node.at,
        key: key.to_owned(),
        value,
        value_at: value_at.unwrap_or(node.at),
        rule: read_rule(&fields)?,
        share_threshold,
        value_to_metric: fields.truth("value_to_metric")?,
        children: read_all(fields.maps("descriptors")?)?,
    })
}

/// The content of `value`, `cidr` or `regex`, with its position.
fn read_value(
    fields: &MapFields<'_>,
    key: &str,
) -> Result<Option<(ValueMatch, Position)>, LocatedProblem> {
    const ACCEPTED: &str =
        "a network whose bits behind the prefix are 0, as in 10.0.0.0/8 or 2001:db8::/32";
    let value = fields.scalar("value")?.filter(|(scalar, _)| !scalar.text.is_empty());
    let (cidr, regex) = (fields.scalar("cidr")?, fields.scalar("regex")?);
    let given = [("value", value), ("cidr", cidr), ("regex", regex)];
    let mut given = given.into_iter().filter_map(|(name, found)| Some((name, found?)));
    let Some((name, (scalar, at))) = given.next() else { return Ok(None) };
    let text = scalar.text.as_str();
    let together = |key, at, with| LocatedProblem { at, problem: Problem::Together { key, with } };
    if let Some((other, (_, at))) = given.next() {
        return Err(together(other, at, name));
    }
    let matched = match name {
        "value" => {
            // Envoy writes networks as values of `masked_remote_address`.
            if looks_like_range(text) && key != "masked_remote_address" {
                let problem = Problem::LooksLikeRange { value: text.to_owned() };
                return Err(LocatedProblem { at, problem });
            }
            ValueMatch::Text(text.into())
        }
        // Networks and expressions are accepted only if `key` has no `*`, because under a pattern of keys it would be
        // unclear which entry is tried first.
        _ if key.contains('*') => return Err(together(name, at, "a * in key")),
        "cidr" => match text.parse::<IpNet>().map(canonical) {
            Ok(range) if range == range.trunc() => ValueMatch::Range(range),
            _ => return Err(bad_value(scalar, at, "cidr", ACCEPTED)),
        },
        _ => ValueMatch::Expression(text.into()),
    };
    Ok(Some((matched, at)))
}

fn read_rule(fields: &MapFields<'_>) -> Result<Option<RuleSpec>, LocatedProblem> {
    let mut rule = RuleSpec {
        traits: read_traits(fields)?,
        clients: read_clients(fields)?,
        bits: read_bits(fields)?,
        metadata: fields.get("metadata").map(Metadata::of).transpose()?,
        ..RuleSpec::default()
    };
    let stacked = fields.maps("limits")?;
    match (fields.get("rate_limit"), stacked) {
        (None, []) => return Ok(None),
        (Some(_), [first, ..]) => {
            let problem = Problem::Together { key: "limits", with: "rate_limit" };
            return Err(LocatedProblem { at: first.at, problem });
        }
        (Some(node), []) => match limit::read(node)? {
            LimitKind::Limited(limit) => rule.add(*limit),
            LimitKind::Unlimited { name, replaces } => {
                (rule.name, rule.replaces) = (name, replaces);
            }
        },
        (None, nodes) => {
            for node in nodes {
                match limit::read(node)? {
                    LimitKind::Limited(limit) => rule.add(*limit),
                    LimitKind::Unlimited { .. } => {
                        let problem = Problem::Together { key: "unlimited", with: "limits" };
                        return Err(LocatedProblem { at: node.at, problem });
                    }
                }
            }
        }
    }
    let queued = rule
        .limits
        .iter()
        .find(|limit| limit.policy.is_some_and(|policy| policy.at_limit().queue.is_some()));
    let with = match queued {
        _ if rule.traits.usage != Usage::Always => None,
        Some(_) => Some("queue or wait"),
        None => rule.limits.iter().any(|limit| limit.elastic.is_some()).then_some("mode: elastic"),
    };
    match (with, fields.scalar("usage")?) {
        // A cost that was used already cannot wait, and no pool can lend it.
        (Some(with), Some((_, at))) => {
            Err(LocatedProblem { at, problem: Problem::Together { key: "usage", with } })
        }
        _ => Ok(Some(rule)),
    }
}

impl DescriptorText {
    /// Calls `found` with the position and the numbers of each rate that is lowered.
    pub(super) fn each_lowered(&self, found: &mut impl FnMut(Position, LoweredRate)) {
        for limit in self.rule.iter().flat_map(|rule| &rule.limits) {
            if let Some(rate) = limit.lowered() {
                found(limit.at, rate);
            }
        }
        self.children.iter().for_each(|child| child.each_lowered(found));
    }

    /// Whether this descriptor, or a descriptor below it, has a rule.
    pub(crate) fn has_rule(&self) -> bool {
        self.rule.is_some() || self.children.iter().any(Self::has_rule)
    }
}

impl RuleSpec {
    fn add(&mut self, mut limit: LimitText) {
        self.replaces.append(&mut limit.replaces);
        self.limits.push(limit);
    }
}

fn read_traits(fields: &MapFields<'_>) -> Result<Traits, LocatedProblem> {
    let usage = match (fields.scalar("usage")?, fields.truth("usage")?) {
        (None, _) => Usage::Unsaid,
        (Some(_), true) => Usage::Always,
        (Some(_), false) => Usage::Never,
    };
    let on_error = match fields.scalar("on_error")? {
        None => None,
        Some((scalar, at)) => match RuleOnError::of_word(&scalar.text) {
            None => return Err(bad_value(scalar, at, "on_error", "local, allow or deny")),
            known => known,
        },
    };
    let accuracy = match fields.scalar("accuracy")? {
        None => Accuracy::default(),
        Some((scalar, at)) => match scalar.text.as_str() {
            "exact" => Accuracy::Exact,
            "leased" => Accuracy::Leased,
            "async" => Accuracy::Async,
            _ => return Err(bad_value(scalar, at, "accuracy", "exact, leased or async")),
        },
    };
    let on_full = match fields.scalar("on_full")? {
        None => OnFull::default(),
        Some((scalar, at)) => match scalar.text.as_str() {
            "spill" => OnFull::Spill,
            "deny" => OnFull::Deny,
            "allow" => OnFull::Allow,
            _ => return Err(bad_value(scalar, at, "on_full", "spill, deny or allow")),
        },
    };
    Ok(Traits {
        shadow_mode: fields.truth("shadow_mode")?,
        quota_mode: fields.truth("quota_mode")?,
        usage,
        detailed_metric: fields.truth("detailed_metric")?,
        on_error,
        accuracy,
        on_full,
    })
}

fn read_clients(fields: &MapFields<'_>) -> Result<TableClients, LocatedProblem> {
    const CAPACITY: &str =
        "the number of clients that are limited at one time, from 1, as in 100000";
    const WEIGHT: &str = "how many shares of the memory for tables it has, 1 to 1000, as in 4";
    let capacity = match (fields.number("capacity", CAPACITY)?, fields.scalar("capacity")?) {
        (Some(0), Some((scalar, at))) => return Err(bad_value(scalar, at, "capacity", CAPACITY)),
        (capacity, _) => capacity,
    };
    let weight = match (fields.number::<u32>("weight", WEIGHT)?, fields.scalar("weight")?) {
        (Some(weight), Some((scalar, at))) if !(1..=1000).contains(&weight) => {
            return Err(bad_value(scalar, at, "weight", WEIGHT));
        }
        (weight, _) => weight,
    };
    match (capacity, weight, fields.scalar("weight")?) {
        (Some(_), Some(_), Some((_, at))) => {
            let problem = Problem::Together { key: "weight", with: "capacity" };
            Err(LocatedProblem { at, problem })
        }
        (Some(number), ..) => Ok(TableClients::Number(number)),
        (None, weight, _) => Ok(TableClients::Share(weight.unwrap_or(1))),
    }
}

fn read_bits(fields: &MapFields<'_>) -> Result<AddressBits, LocatedProblem> {
    const V4: &str = "the bits that tell IPv4 clients apart, 1 to 32, as in 24";
    const V6: &str = "the bits that tell IPv6 clients apart, 1 to 128, as in 64";
    let read = |key, most: u8, accepted| match (fields.number(key, accepted)?, fields.scalar(key)?)
    {
        (Some(bits), Some((scalar, at))) if bits == 0 || bits > most => {
            Err(bad_value(scalar, at, key, accepted))
        }
        (bits, _) => Ok(bits),
    };
    Ok(AddressBits { v4: read("prefix_v4", 32, V4)?, v6: read("prefix_v6", 128, V6)? })
}
