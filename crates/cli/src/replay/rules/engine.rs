//! The rules in use. They are read and compiled as in `serve`, and decide at the times of a log.

use std::path::Path;
use std::sync::Arc;

use tollgate::{ManualClock, Timestamp};
use tollgate_rules::{Answer, DecisionMaker, Request, RuleCache, RuleSet, RuleSettings};

use super::descriptors::DescriptorRow;
use crate::failure::Failure;

/// One set of rules, with tables of its own.
#[derive(Debug)]
pub(super) struct Engine {
    maker: DecisionMaker,
    pub(super) rules: Arc<RuleSet>,
}

impl Engine {
    /// Loads the rules of a directory, of one file, or of a hash in Redis.
    pub(super) fn load(path: &Path, settings: &RuleSettings) -> Result<Self, Failure> {
        let texts = crate::texts::texts(path)?;
        // The clock is never read, since every request has its own time. The origin of the clock is 1970, so windows
        // begin at the same times as in a service.
        let cache = RuleCache::with_clock(settings.clone(), ManualClock::new());
        let rules = cache.load(&texts).map_err(Failure::Rules)?;
        let maker = DecisionMaker::new(Arc::new(cache));
        let maker = maker.map_err(|error| Failure::Asking(error.to_string()))?;
        Ok(Self { maker, rules })
    }

    /// Decides one request.
    pub(super) fn decide(
        &self,
        domain: &str,
        row: &DescriptorRow<'_>,
        nanos: u64,
    ) -> Result<Answer, Failure> {
        let request = Request::new(domain, &row.descriptors);
        let answer = self.maker.check_at(&request, Timestamp::from_nanos(nanos));
        answer.map_err(|error| Failure::Asking(error.to_string()))
    }

    /// Returns the number of requests of clients that found no cell in a full table. They were denied, or decided in
    /// the spill: shared words for keys without a cell.
    pub(super) fn crowded_out(&self) -> u64 {
        let of = |stats: tollgate::Stats| stats.full.saturating_add(stats.spilled);
        let rules = self.rules.rules().iter();
        rules.flat_map(|rule| rule.table_stats()).map(of).fold(0, u64::saturating_add)
    }
}

/// Returns the domain of the requests: the one that was named, or the only one.
pub(super) fn domain(named: Option<&str>, engines: &[&Engine]) -> Result<String, Failure> {
    let mut known: Vec<&str> = engines.iter().flat_map(|engine| engine.rules.domains()).collect();
    known.sort_unstable();
    known.dedup();
    match (named, known.as_slice()) {
        (Some(named), _) if known.contains(&named) => Ok(named.to_owned()),
        (None, [only]) => Ok((*only).to_owned()),
        _ => Err(Failure::Domain {
            named: named.map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        }),
    }
}
