//! Parses the pool of a domain.

use tollgate::Quota;

use super::fields::{MapFields, value};
use super::policy_parts::PolicyParts;
use super::rate::{read_period, refused};
use crate::language::error::{LocatedProblem, Problem};
use crate::language::lowered::LoweredRate;
use crate::language::position::Position;
use crate::language::yaml::YamlNode;

const KEYS: &[&str] = &["unit", "requests_per_unit", "window", "burst"];

/// The pool of a domain as parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolText {
    pub(crate) at: Position,
    pub(crate) quota: Quota,
    /// The lowered rate, if the file names a higher rate than can be counted.
    pub(crate) lowered: Option<LoweredRate>,
}

pub(super) fn read(node: &YamlNode) -> Result<PoolText, LocatedProblem> {
    const REQUESTS: &str = "a whole number from 1 to 4294967295 in digits, as in 100";
    let fields = MapFields::of(node, "pool", KEYS)?;
    let requests = fields.number::<u32>("requests_per_unit", REQUESTS)?;
    let requests = match (requests, fields.scalar("requests_per_unit")?) {
        (Some(0), Some((scalar, at))) => {
            return Err(value(scalar, at, "requests_per_unit", REQUESTS));
        }
        (Some(requests), _) => requests,
        (None, _) => {
            let problem = Problem::Missing { key: "requests_per_unit of pool" };
            return Err(LocatedProblem { at: node.at, problem });
        }
    };
    let (_, period) = read_period(&fields)?;
    let burst = fields.number("burst", "a whole number in digits, as in 20")?;
    let refused = |error| refused(node.at, error);
    let length = format!("1/{period}").parse::<Quota>().map_err(refused)?.period();
    let rate = format!("{requests}/{period}");
    let (policy, lowered) =
        PolicyParts::pool(&rate, burst).policy(requests, length).map_err(refused)?;
    Ok(PoolText { at: node.at, quota: policy.quota(), lowered })
}
