//! Decides requests by [`OnError`] while the store fails, without waiting for it.
//!
//! Requests under several limits are decided by `fall_back` in `all.rs`, and requests for a place in a queue by
//! `without_store` in `reserve.rs`.

use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::inner::Inner;
use crate::script::Units;
use crate::settings::OnError;
use crate::share::RETRY;
use crate::told::Told;

impl Inner {
    /// Decides a request that the store did not decide.
    pub(crate) fn fall_back(&self, key: &[u8], units: Units, fault: Fault) -> RedisDecision {
        if self.on_error != OnError::Local {
            let told = self.ruled(units.least, units.want.min(self.plan.limit));
            return RedisDecision::degraded(told, Source::Rule, fault);
        }
        let told = self.share.take(key, units, self.link(key).isolated());
        RedisDecision::degraded(told, Source::Share, fault)
    }

    /// Decides a peek that the store did not decide. Charges nothing.
    pub(crate) fn peek_fallen_back(&self, key: &[u8], cost: u64, fault: Fault) -> RedisDecision {
        if self.on_error != OnError::Local {
            let told = self.ruled(cost, 0);
            return RedisDecision::degraded(told, Source::Rule, fault);
        }
        let told = self.share.peek(key, cost, self.link(key).isolated());
        RedisDecision::degraded(told, Source::Share, fault)
    }

    /// Allows or denies by [`OnError`] alone, but denies a cost that never fits.
    pub(crate) fn ruled(&self, cost: u64, charged: u64) -> Told {
        let limit = self.plan.limit;
        let allowed = self.on_error == OnError::Allow && cost <= limit;
        let cost = if allowed { charged } else { cost };
        // It is not known how many units are used. So the answer reports no units left, but does not mark the limit as
        // exceeded.
        let (soft_bp, remaining) = (self.plan.soft_bp, self.plan.beyond());
        let (retry_after, reset_after, penalty) = (RETRY, RETRY, false);
        Told { allowed, cost, limit, soft_bp, remaining, retry_after, reset_after, penalty }
    }
}
