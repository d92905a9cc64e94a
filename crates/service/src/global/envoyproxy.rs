//! Rules that are counted in the keys of envoyproxy/ratelimit: each by itself, as envoyproxy/ratelimit counts them.

use futures_util::future::join_all;
use tollgate_redis::{EnvoyproxyLimiter, Fault, RedisDecision};
use tollgate_rules::{Act, Claimed, FoundElsewhere, FoundLimit, Manner, Question, Rule};

use super::own_limits::OwnLimits;

/// A claim on one rule. It owns its parts, so that several rules can be asked at the same time.
struct CountedClaim {
    limiter: EnvoyproxyLimiter,
    stem: Vec<u8>,
    cost: u64,
    manner: Manner,
}

/// Returns why a rule cannot be counted in these keys; `None` if it can.
pub(super) fn refusal(rule: &Rule) -> Option<String> {
    let why = if rule.is_usage() {
        "`usage: true`: there every cost is counted in full, so leave it out"
    } else if rule.is_of_envoyproxy() {
        return None;
    } else {
        "its limits and values have to be such as envoyproxy/ratelimit reads: one `rate_limit` with a unit and no word of \
         Tollgate's, and values that are texts, with `*` at most"
    };
    Some(format!("cannot be counted in the keys of envoyproxy/ratelimit: {why}"))
}

/// Does what the question asks for. `None` if a limit has no limiter, which does not happen.
pub(super) async fn act(
    question: &Question,
    own: &OwnLimits<EnvoyproxyLimiter>,
) -> Option<FoundElsewhere> {
    let act = question.act();
    let claims: Vec<CountedClaim> =
        question.claims().map(|claim| CountedClaim::of(&claim, own)).collect::<Option<_>>()?;
    let mut limits: Vec<(usize, FoundLimit)> = Vec::with_capacity(claims.len());
    let (back, others): (Vec<_>, Vec<_>) =
        claims.into_iter().enumerate().partition(|(_, claim)| claim.manner == Manner::Back);
    // Rules that give units back go first, as with all limits.
    for claims in [back, others] {
        let asked = claims.into_iter().map(async |(n, claim)| (n, claim.act(act).await));
        limits.extend(join_all(asked).await);
    }
    limits.sort_unstable_by_key(|(n, _)| *n);
    Some(FoundElsewhere { admitted: true, limits: limits.into_iter().map(|(_, it)| it).collect() })
}

/// Forgets the counts of the clients of a question; returns the number of limits.
pub(super) async fn reset(
    question: &Question,
    own: &OwnLimits<EnvoyproxyLimiter>,
) -> Result<usize, Fault> {
    let mut done = 0;
    for claim in question.claims().filter_map(|claim| CountedClaim::of(&claim, own)) {
        claim.limiter.reset(&claim.stem).await?;
        done += 1;
    }
    Ok(done)
}

impl CountedClaim {
    fn of(claim: &tollgate_rules::Claim<'_>, own: &OwnLimits<EnvoyproxyLimiter>) -> Option<Self> {
        let limiter = match claim.of {
            Claimed::Limits(rule) => rule.limits().first()?.keeper::<EnvoyproxyLimiter>()?.clone(),
            Claimed::OwnLimit { limit, rule } => own.of(limit, rule)?,
        };
        let stem = claim.envoyproxy_stem?.to_vec();
        Some(Self { limiter, stem, cost: claim.cost, manner: claim.manner })
    }

    async fn act(self, act: Act) -> FoundLimit {
        let Self { limiter, stem, cost, manner } = self;
        let never_denied =
            |found: FoundLimit, uncharged| FoundLimit { uncharged: Some(uncharged), ..found };
        match (act, manner) {
            (Act::Peek, Manner::Back) => never_denied(found(limiter.peek(stem, 1).await), 0),
            (Act::Peek, _) => found(limiter.peek(stem, cost).await),
            (_, Manner::Back) => {
                // Units that the store does not take back stay counted, which can only make the limit stricter.
                let back = limiter.uncharge(&stem, cost).await.unwrap_or(0);
                never_denied(found(limiter.peek(stem, 1).await), cost.saturating_sub(back))
            }
            (Act::Charge, _) => never_denied(found(limiter.check_n(stem, cost).await), 0),
            _ => found(limiter.check_n(stem, cost).await),
        }
    }
}

fn found(decision: RedisDecision) -> FoundLimit {
    let is_without_store = decision.is_degraded();
    FoundLimit { is_without_store, ..decision.into_decision().into() }
}
