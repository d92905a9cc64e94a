//! Parses the pool of a domain.

use tollgate::{Policy, Quota};

use super::fields::{MapFields, value};
use super::limit::PolicyParts;
use super::rate::read_period;
use crate::error::{LocatedProblem, Problem};
use crate::position::Position;
use crate::yaml::YamlNode;

const KEYS: &[&str] = &["unit", "requests_per_unit", "window", "burst"];

/// The pool of a domain as parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolText {
    pub(crate) at: Position,
    pub(crate) quota: Quota,
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
    let policy: Policy = PolicyParts::gcra(&format!("{requests}/{period}"), burst)
        .text()
        .parse()
        .map_err(|error| {
        let problem = Problem::Policy { error: Box::new(error) };
        LocatedProblem { at: node.at, problem }
    })?;
    Ok(PoolText { at: node.at, quota: policy.quota() })
}
