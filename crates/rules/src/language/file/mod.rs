//! Parses a rule file. Nothing is compiled here.

mod descriptor;
mod fields;
mod forward;
mod limit;
mod metadata;
mod policy_parts;
mod pool;
mod rate;

use crate::language::error::{LocatedProblem, Problem};
use crate::language::lowered::LoweredRate;
use crate::language::position::Position;
use crate::language::source::RuleText;
use crate::language::yaml::{self, Data, YamlNode};

pub use descriptor::{Accuracy, RuleOnError};
pub(crate) use descriptor::{DescriptorText, RuleSpec, TableClients, Traits, Usage};
use fields::MapFields;
pub(crate) use forward::ForwardText;
pub(crate) use limit::LimitText;
pub use metadata::Metadata;
pub(crate) use pool::PoolText;

/// A rule file as parsed.
#[derive(Clone, Debug)]
pub(crate) struct RuleFile {
    pub(crate) at: Position,
    pub(crate) domain: String,
    pub(crate) pool: Option<PoolText>,
    pub(crate) forwards: Vec<ForwardText>,
    pub(crate) descriptors: Vec<DescriptorText>,
}

impl RuleFile {
    /// Calls `found` with the position and the numbers of each rate that is lowered.
    pub(crate) fn each_lowered(&self, found: &mut impl FnMut(Position, LoweredRate)) {
        if let Some(PoolText { at, lowered: Some(rate), .. }) = self.pool {
            found(at, rate);
        }
        self.descriptors.iter().for_each(|descriptor| descriptor.each_lowered(found));
    }
}

pub(crate) fn read(text: &[u8]) -> Result<RuleFile, LocatedProblem> {
    let start = Position { line: 1, column: 1 };
    if text.len() > RuleText::MAX_BYTES {
        let problem = Problem::TooLarge { most: RuleText::MAX_BYTES };
        return Err(LocatedProblem { at: start, problem });
    }
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(LocatedProblem { at: start, problem: Problem::NotUtf8 });
    };
    let node = yaml::parse(text)?;
    if let Data::Scalar(scalar) = &node.data
        && scalar.is_null()
    {
        return Err(LocatedProblem { at: start, problem: Problem::EmptyDomain });
    }
    if let Some(problem) = manifest(&node) {
        return Err(LocatedProblem { at: node.at, problem });
    }
    let fields =
        MapFields::of(&node, "the file", &["domain", "descriptors", "pool", "forward_auth"])?;
    let Some(domain) = fields.text("domain")?.filter(|domain| !domain.is_empty()) else {
        return Err(LocatedProblem { at: node.at, problem: Problem::EmptyDomain });
    };
    let descriptors = descriptor::read_all(fields.maps("descriptors")?)?;
    let pool = fields.get("pool").map(pool::read).transpose()?;
    let forwards = forward::read_all(fields.maps("forward_auth")?)?;
    Ok(RuleFile { at: node.at, domain: domain.to_owned(), pool, forwards, descriptors })
}

/// The problem to report if the file is an object of Kubernetes.
fn manifest(node: &YamlNode) -> Option<Problem> {
    let Data::Map(pairs) = &node.data else { return None };
    let get = |name: &str| pairs.iter().find(|(key, _)| key.text == name).map(|(_, value)| value);
    let (Data::Scalar(_), Data::Scalar(kind)) = (&get("apiVersion")?.data, &get("kind")?.data)
    else {
        return None;
    };
    let file = match get("data").map(|data| &data.data) {
        Some(Data::Map(files)) => files.first().map(|(name, _)| name.text.clone()),
        _ => None,
    };
    Some(Problem::Manifest { kind: kind.text.clone(), file })
}
