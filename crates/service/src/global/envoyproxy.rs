//! [`EnvoyproxyStore`]: the store of one request whose limits are counted in the keys of envoyproxy/ratelimit. Each
//! claim is decided by itself, as in envoyproxy/ratelimit.

use futures_util::future::join_all;
use tollgate_redis::{EnvoyproxyLimiter, RedisDecision, Source};
use tollgate_rules::{LimitStore, Rule, RuleClaim, RuleLimit, StoreAnswer};

use super::own_limits::OwnLimits;

/// The store of one request whose limits are counted in the keys of envoyproxy/ratelimit.
pub(super) struct EnvoyproxyStore<'a> {
    /// The limiters for limits that come with requests.
    pub(super) own: &'a OwnLimits<EnvoyproxyLimiter>,
}

/// The limit of a claim. It borrows nothing, so that the limits of several claims can be checked at the same time.
struct CountedClaim {
    limiter: EnvoyproxyLimiter,
    stem: Vec<u8>,
    cost: u64,
}

/// Returns the reason why a rule cannot be counted in these keys; `None` if it can.
pub(super) fn refusal(rule: &Rule) -> Option<String> {
    let why = if rule.is_usage() {
        "`usage: true`: there every cost is counted in full, so leave it out"
    } else if rule.is_of_envoyproxy() && rule.limits().iter().all(RuleLimit::drains_denied) {
        return None;
    } else {
        "its limits and values have to be such as envoyproxy/ratelimit reads: one `rate_limit` with a unit and no word of \
         Tollgate's, and values that are texts, with `*` at most"
    };
    Some(format!("cannot be counted in the keys of envoyproxy/ratelimit: {why}"))
}

impl LimitStore for EnvoyproxyStore<'_> {
    async fn look(&mut self, claims: &mut [RuleClaim<'_>]) {
        let asked = claims.iter().map(|claim| {
            let (counted, units) = (self.counted(claim), claim.units_to_look_for());
            async move { Some(counted?.look(units).await) }
        });
        let answers = join_all(asked).await;
        report(claims, answers, |claim, answers| claim.looked(answers));
    }

    /// `look` already looks at each claim by itself.
    async fn look_each(&mut self, claims: &mut [RuleClaim<'_>]) {
        self.look(claims).await;
    }

    /// With these keys each claim is always decided by itself, so this is the same as `charge_each`.
    async fn charge_together(&mut self, claims: &mut [RuleClaim<'_>]) {
        self.charge_each(claims).await;
    }

    async fn charge_each(&mut self, claims: &mut [RuleClaim<'_>]) {
        let decisions = self.check_all(claims).await;
        let answers = decisions.into_iter().map(|decision| decision.map(answer)).collect();
        report(claims, answers, |claim, answers| claim.charged(answers));
    }

    async fn charge_used(&mut self, claims: &mut [RuleClaim<'_>]) {
        let decisions = self.check_all(claims).await;
        for (claim, decision) in claims.iter_mut().zip(decisions) {
            let Some(decision) = decision else { continue };
            // The store counts every cost, even one that it denies. Without the store, a cost is charged only if this
            // node's share admits it.
            let is_charged = match decision.source() {
                Source::Share => decision.is_allowed(),
                source => !source.is_degraded(),
            };
            let uncharged = if is_charged { 0 } else { claim.cost() };
            claim.settled(&[answer(decision)], uncharged);
        }
    }

    /// Units that the store does not take back stay counted, which can only make the limit stricter.
    async fn give_back(&mut self, claim: &mut RuleClaim<'_>) {
        let Some(counted) = self.counted(claim) else { return claim.settled(&[], claim.cost()) };
        let back = counted.limiter.uncharge(&counted.stem, counted.cost).await.unwrap_or(0);
        let kept = counted.cost.saturating_sub(back);
        claim.settled(&[counted.look(1).await], kept);
    }

    /// The check that denied the cost has already counted it.
    async fn count_denied(&mut self, _: &RuleClaim<'_>) {}
}

impl EnvoyproxyStore<'_> {
    /// The limit of a claim; `None` if the claim is not open.
    fn counted(&self, claim: &RuleClaim<'_>) -> Option<CountedClaim> {
        let limiter = match claim.own_limit() {
            _ if !claim.is_open() => return None,
            None => claim.rule()?.limits().first()?.attached::<EnvoyproxyLimiter>()?.clone(),
            Some(limit) => self.own.of(limit, claim.rule())?,
        };
        Some(CountedClaim { limiter, stem: claim.envoyproxy_stem(), cost: claim.cost() })
    }

    /// Checks all open claims at the same time. The decision about a claim that is not open is `None`.
    async fn check_all(&self, claims: &[RuleClaim<'_>]) -> Vec<Option<RedisDecision>> {
        let asked = claims.iter().map(|claim| {
            let counted = self.counted(claim);
            async move {
                let CountedClaim { limiter, stem, cost } = counted?;
                Some(limiter.check_n(stem, cost).await)
            }
        });
        join_all(asked).await
    }

    /// The limits of these claims, with the names of their clients. A rule with a limit of 0 is not counted in Redis.
    pub(super) fn to_reset(&self, claims: &[RuleClaim<'_>]) -> Vec<(EnvoyproxyLimiter, Vec<u8>)> {
        let counted = claims.iter().filter(|claim| !claim.is_closed());
        let counted = counted.filter_map(|claim| self.counted(claim));
        counted.map(|CountedClaim { limiter, stem, .. }| (limiter, stem)).collect()
    }
}

impl CountedClaim {
    async fn look(&self, units: u64) -> StoreAnswer {
        answer(self.limiter.peek(&self.stem, units).await)
    }
}

/// Passes on the answer of each open claim.
fn report(
    claims: &mut [RuleClaim<'_>],
    answers: Vec<Option<StoreAnswer>>,
    pass: impl Fn(&mut RuleClaim<'_>, &[StoreAnswer]),
) {
    for (claim, answer) in claims.iter_mut().zip(answers).filter(|(claim, _)| claim.is_open()) {
        // An open claim always has an answer, because each limit got a limiter before its rule came into force. Without
        // a limiter the claim would be denied.
        pass(claim, answer.as_slice());
    }
}

fn answer(decision: RedisDecision) -> StoreAnswer {
    let is_without_store = decision.is_degraded();
    StoreAnswer { is_without_store, ..decision.into_decision().into() }
}
