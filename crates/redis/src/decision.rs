//! [`RedisDecision`]: the answer to one request, and its source.

use tollgate::{Decision, Denial, Permit};

use crate::error::Fault;
use crate::told::Told;

/// Where a decision was made.
///
/// ```
/// use tollgate_redis::Source;
/// assert!(!Source::Lease.is_degraded() && Source::Share.is_degraded());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store itself.
    Store,
    /// This process: within a lease, or because an earlier denial by the store still holds.
    Lease,
    /// This process, by its own count and the counts that other nodes have reported to the store.
    Count,
    /// This process, within its share of the limit, because the store failed.
    Share,
    /// The setting [`OnError`](crate::OnError) alone, without any count of units, because the store failed.
    Rule,
}

impl Source {
    /// Whether the store failed.
    ///
    /// ```
    /// assert!(tollgate_redis::Source::Rule.is_degraded());
    /// ```
    #[must_use]
    pub fn is_degraded(self) -> bool {
        matches!(self, Self::Share | Self::Rule)
    }
}

/// The answer to one request: a [`Decision`], and its [`Source`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate::Quota;
/// use tollgate_redis::{Fault, RedisLimiter, Settings, Source, Store};
/// // No server answers there: one of three nodes goes on with a third of the limit.
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = RedisLimiter::new(&store, Settings::new(Quota::per_hour(30).into()).nodes(3))?;
/// let decision = limiter.check_n("203.0.113.7", 3).await;
/// assert!(decision.is_allowed() && decision.is_degraded());
/// assert_eq!((decision.source(), decision.fault()), (Source::Share, Some(Fault::Unreachable)));
/// assert_eq!((decision.decision().limit(), decision.decision().remaining()), (30, 7));
/// assert_eq!(decision.into_result()?.permit().cost(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct RedisDecision {
    decision: Decision,
    source: Source,
    fault: Option<Fault>,
    stamp: u64,
    /// Whether the decision waited for the store's answer.
    waited: bool,
}

impl RedisDecision {
    pub(crate) fn new(told: Told, source: Source, stamp: u64) -> Self {
        Self { decision: told.into(), source, fault: None, stamp, waited: false }
    }

    pub(crate) fn degraded(told: Told, source: Source, fault: Fault) -> Self {
        Self { decision: told.into(), source, fault: Some(fault), stamp: 0, waited: false }
    }

    /// The same decision, marked as made after the store was asked.
    pub(crate) fn after_asking(self) -> Self {
        Self { waited: true, ..self }
    }

    /// Whether the request was denied by an earlier answer of the store, without asking the store again.
    pub(crate) fn is_remembered(&self) -> bool {
        self.source == Source::Lease && !self.waited && self.decision.is_denied()
    }

    /// Whether the request may go.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Whether the store failed, so that this process had to decide.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.source.is_degraded()
    }

    /// Where the decision was made.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Why the store did not decide, if it failed.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The [`Decision`] of the core, by reference. Its figures are those at the moment of the decision. For a decision
    /// within a lease, the wait is computed from the store's last answer, and the units left are this node's units plus
    /// those that were left in the store's last answer.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The [`Decision`] of the core, by value. It contains a permit of the core, which cannot be refunded to the store.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// The decision as a `Result`, for `?`.
    ///
    /// # Errors
    /// The [`Denial`], if denied.
    pub fn into_result(self) -> Result<RedisPermit, Denial> {
        let refundable = !self.is_degraded();
        self.decision
            .into_result()
            .map(|permit| RedisPermit { permit, stamp: refundable.then_some(self.stamp) })
    }
}

/// The permit of an admitted request. It cannot be copied, so it can be refunded only once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use tollgate_redis::{RedisLimiter, Settings, Store};
/// # let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
/// let permit = limiter.check_n("203.0.113.7", 3).await.into_result()?;
/// assert_eq!(permit.portion(1).permit().cost(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisPermit {
    permit: Permit,
    /// The time or window at which the store charged the permit. `None` if the store did not charge it.
    stamp: Option<u64>,
}

impl RedisPermit {
    /// The [`Permit`] of the core, by reference.
    #[must_use]
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// The [`Permit`] of the core, by value. It cannot be refunded to the store.
    #[must_use]
    pub fn into_permit(self) -> Permit {
        self.permit
    }

    /// This permit, reduced to at most `units` of its units: refund it if that many units were not used.
    #[must_use]
    pub fn portion(self, units: u64) -> Self {
        Self { permit: self.permit.portion(units), ..self }
    }

    /// Moves at most `units` units to a new permit, so that a part can be refunded now and another part later. This
    /// permit keeps the rest.
    #[must_use = "what is split off and not refunded stays charged"]
    pub fn split_off(&mut self, units: u64) -> Self {
        Self { permit: self.permit.split_off(units), stamp: self.stamp }
    }

    pub(crate) fn stamp(&self) -> Option<u64> {
        self.stamp
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(allowed: bool) -> Told {
        let (retry_after, reset_after) = (Duration::from_secs(1), Duration::from_secs(2));
        Told {
            allowed,
            cost: 3,
            limit: 10,
            soft_bp: 0,
            remaining: 4,
            retry_after,
            reset_after,
            penalty: false,
        }
    }

    #[test]
    fn only_what_the_store_was_charged_can_be_given_back_there() {
        for source in [Source::Store, Source::Lease, Source::Count] {
            let decision = RedisDecision::new(told(true), source, 7);
            assert_eq!((decision.source(), decision.is_degraded()), (source, false));
            assert_eq!((decision.fault(), decision.decision().remaining()), (None, 4));
            let mut permit = decision.into_result().unwrap();
            assert_eq!((permit.permit().cost(), permit.stamp()), (3, Some(7)));
            let one = permit.split_off(1);
            assert_eq!((one.permit().cost(), one.stamp()), (1, Some(7)));
            let permit = permit.portion(9).portion(1);
            assert_eq!((permit.permit().cost(), permit.stamp()), (1, Some(7)));
        }
        for source in [Source::Share, Source::Rule] {
            let decision = RedisDecision::degraded(told(true), source, Fault::ReadOnly);
            assert_eq!((decision.source(), decision.is_degraded()), (source, true));
            assert_eq!(decision.fault(), Some(Fault::ReadOnly));
            assert_eq!(decision.into_result().unwrap().stamp(), None);
        }
    }

    #[test]
    fn a_decision_says_whether_the_request_may_go() {
        let [admitted, denied] =
            [true, false].map(|allowed| RedisDecision::new(told(allowed), Source::Store, 0));
        assert_eq!([admitted.is_allowed(), denied.is_allowed()], [true, false]);
        let denial = denied.into_result().unwrap_err();
        assert_eq!((denial.cost(), denial.retry_after()), (3, Some(Duration::from_secs(1))));
    }

    #[test]
    fn a_denial_is_remembered_if_the_store_was_not_asked() {
        let of = |allowed, source| RedisDecision::new(told(allowed), source, 0);
        assert!(of(false, Source::Lease).is_remembered());
        assert!(!of(false, Source::Lease).after_asking().is_remembered());
        assert!(!of(true, Source::Lease).is_remembered());
        assert!(!of(false, Source::Store).is_remembered());
    }
}
