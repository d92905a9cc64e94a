//! [`Service`]: what all listeners share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tollgate_rules::{DecisionMaker, RuleCache};

use crate::global::Keeper;
use crate::metrics::Metrics;
use crate::options::Answers;
use crate::protocol::rls::{RateLimitRequest, RateLimitResponse};
use crate::wire::{self, Refusal};

/// The decision maker, its metrics, and whether it is on its way out.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) maker: DecisionMaker,
    pub(crate) metrics: Metrics,
    /// If limits are kept elsewhere.
    pub(crate) keeper: Option<Keeper>,
    answers: Answers,
    draining: AtomicBool,
}

impl Service {
    pub(crate) fn new(maker: DecisionMaker, answers: Answers, keeper: Option<Keeper>) -> Self {
        let mut metrics = Metrics::new(Arc::clone(maker.cache()));
        if let Some(keeper) = &keeper {
            metrics.show(keeper.metrics());
        }
        Self { maker, metrics, keeper, answers, draining: AtomicBool::new(false) }
    }

    pub(crate) fn cache(&self) -> &Arc<RuleCache> {
        self.maker.cache()
    }

    pub(crate) async fn decide(
        &self,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Refusal> {
        let begun = Instant::now();
        let outcome = match &self.keeper {
            None => wire::decide(&self.maker, request, self.answers),
            Some(keeper) => match wire::question(&self.maker, request) {
                Ok(question) => {
                    let answer = keeper.answer(&self.maker, question).await;
                    Ok(wire::response(&answer, self.answers))
                }
                Err(refusal) => Err(refusal),
            },
        };
        self.metrics.answered(begun.elapsed(), outcome.is_err());
        outcome
    }

    /// From now on the health check fails, so that nobody sends anything new.
    pub(crate) fn drain(&self) {
        // Relaxed: a health check may see it one request later.
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether requests are decided: there are rules, and no end in sight.
    pub(crate) fn is_healthy(&self) -> bool {
        !self.draining.load(Ordering::Relaxed) && self.cache().rules().is_some()
    }
}
