//! [`LimitStore`]: keeps what is charged to limits, and answers at once or later.

use std::future::Future;

use super::claim::RuleClaim;

/// Keeps the charges to the limits of rules outside the tables of this process: see
/// [`DecisionMaker::decide_in`](crate::DecisionMaker::decide_in). A store is made for one request.
///
/// Each call gets claims of the request. It decides the claims that are [open](RuleClaim::is_open), and passes the
/// answers of their limits to [`RuleClaim::looked`], [`RuleClaim::charged`] or [`RuleClaim::settled`]. An open claim to
/// which no answers are passed is denied. The claims that are not open have been decided before, and are there to be
/// read. No limit of an open claim is 0.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{Limiter, Quota};
/// use tollgate_rules::{
///     Purpose, RuleClaim, DecisionMaker, Descriptor, LimitStore, Request, RuleCache, RuleText, RuleSettings,
/// };
/// /// One limit for all claims.
/// struct OneLimit(Limiter);
/// impl LimitStore for OneLimit {
///     async fn look(&mut self, claims: &mut [RuleClaim<'_>]) {
///         for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
///             claim.looked(&[self.0.entry().peek(claim.units_to_look_for()).into()]);
///         }
///     }
///     async fn charge_together(&mut self, claims: &mut [RuleClaim<'_>]) {
///         // This is enough for requests with one descriptor.
///         for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
///             claim.charged(&[self.0.check_n(claim.cost()).into()]);
///         }
///     }
///     async fn charge_used(&mut self, claims: &mut [RuleClaim<'_>]) {
///         for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
///             let kept = self.0.entry().charge(claim.cost());
///             claim.settled(&[self.0.entry().peek(1).into()], kept);
///         }
///     }
///     async fn give_back(&mut self, claim: &mut RuleClaim<'_>) {
///         let kept = claim.cost() - self.0.entry().uncharge(claim.cost());
///         claim.settled(&[self.0.entry().peek(1).into()], kept);
///     }
///     async fn count_denied(&mut self, claim: &RuleClaim<'_>) {
///         let _ = self.0.entry().charge(claim.cost());
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = Arc::new(RuleCache::new(RuleSettings::default()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: hour, requests_per_unit: 2}\n";
/// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(cache)?;
/// let descriptors = [Descriptor::new(&[("user", "alice")])];
/// let request = Request::new("shop", &descriptors);
/// let mut store = OneLimit(Limiter::new(Quota::per_hour(2)));
/// for is_allowed in [true, true, false] {
///     let answer = maker.decide_in(&mut store, &request, Purpose::Check).await?;
///     assert_eq!(answer.is_allowed(), is_allowed);
/// }
/// # Ok(())
/// # }
/// ```
pub trait LimitStore: Send {
    /// Finds out whether [these units](RuleClaim::units_to_look_for) would fit under each open claim, and charges
    /// nothing.
    fn look(&mut self, claims: &mut [RuleClaim<'_>]) -> impl Future<Output = ()> + Send;

    /// Charges all open claims, or none of them.
    ///
    /// A claim in [shadow mode](RuleClaim::is_shadow) denies nothing, and is charged if the request is admitted and the
    /// cost fits. Claims in [quota mode](RuleClaim::is_quota) deny only if all claims of the request in quota mode are
    /// over, including those that were decided before. A claim in quota mode that is over its limit is not charged. If
    /// the request is denied, the store first calls [`RuleClaim::looked`] for every open claim, which records whether
    /// the claim is over its limit, and then [`RuleClaim::denied`]. Without that last call the request would be
    /// admitted if no claim was found to be over its limit.
    fn charge_together(&mut self, claims: &mut [RuleClaim<'_>]) -> impl Future<Output = ()> + Send;

    /// [Looks](LimitStore::look) at each open claim by itself, as if it were the only claim of the request. A store
    /// that can look at several claims in one call should implement this method.
    fn look_each(&mut self, claims: &mut [RuleClaim<'_>]) -> impl Future<Output = ()> + Send {
        async move {
            for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
                self.look(std::slice::from_mut(claim)).await;
            }
        }
    }

    /// Charges each open claim by itself. A cost that is denied is [counted](LimitStore::count_denied) nevertheless. A
    /// store that can charge several claims in one call should implement this method.
    fn charge_each(&mut self, claims: &mut [RuleClaim<'_>]) -> impl Future<Output = ()> + Send {
        async move {
            for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
                self.charge_together(std::slice::from_mut(claim)).await;
                if claim.is_over() {
                    self.count_denied(claim).await;
                }
            }
        }
    }

    /// Charges the cost of each open claim, whether it fits or not.
    fn charge_used(&mut self, claims: &mut [RuleClaim<'_>]) -> impl Future<Output = ()> + Send;

    /// Gives the cost of a claim back, except for units that are not charged any more.
    fn give_back(&mut self, claim: &mut RuleClaim<'_>) -> impl Future<Output = ()> + Send;

    /// Charges the cost of a denied claim to those of its limits that [drain what they
    /// deny](crate::RuleLimit::drains_denied), so that the cost uses up what was left of them.
    fn count_denied(&mut self, claim: &RuleClaim<'_>) -> impl Future<Output = ()> + Send;
}
