//! Reads reports: finds the rule that limits a bucket, or the reason to refuse a report.

use std::sync::Arc;

use tollgate_rules::{DecisionMaker, Descriptor, DescriptorEntry, Request, RequestError};
use tonic::Status;

use super::allowance::Allowance;
use crate::protocol::quota::BucketId;
use crate::protocol::quota::rate_limit_quota_usage_reports::BucketQuotaUsage;

/// The names and values of a bucket, sorted by name.
pub(super) type Entries = Arc<[(String, String)]>;

/// The identity of a limit.
pub(super) type LimitKey = Arc<LimitParts>;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct LimitParts {
    pub(super) domain: Box<str>,
    /// The identity of the rule in the domain.
    pub(super) rule: Box<str>,
    /// The key of the client under the rule.
    pub(super) key: Box<[u8]>,
}

/// The limit on a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Nothing limits the bucket: no rule matches, or the rule is unlimited or in shadow mode.
    Free,
    /// The rule admits nothing, because its limit is 0.
    Closed,
    /// The bucket shares a limit with buckets of other Envoys.
    Shared(LimitKey, Allowance),
}

/// The entries of the `n`th bucket of a message. `None` if a value is not UTF-8. Envoy itself sends whatever bytes a
/// header contains. But if a response contains such a value, Envoy treats the response as broken and ends the stream.
pub(super) fn entries(usage: &BucketQuotaUsage, n: usize) -> Result<Option<Entries>, Status> {
    let bad = |what: &str| {
        Status::invalid_argument(format!(
            "bucket_quota_usages[{n}].bucket_id {what}; send a map of names and values, none of them empty"
        ))
    };
    let Some(BucketId { bucket }) = &usage.bucket_id else { return Err(bad("is missing")) };
    if bucket.is_empty() {
        return Err(bad("is empty"));
    }
    if bucket.iter().any(|(name, value)| name.is_empty() || value.is_empty()) {
        return Err(bad("has an empty name or value"));
    }
    let text = |(name, value): (&String, &Vec<u8>)| {
        Some((name.clone(), String::from_utf8(value.clone()).ok()?))
    };
    let Some(mut entries) = bucket.iter().map(text).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    entries.sort_unstable();
    Ok(Some(entries.into()))
}

/// Finds the limit that the rules in force set on a bucket.
pub(super) fn judge(
    maker: &DecisionMaker,
    domain: &str,
    entries: &Entries,
    n: usize,
) -> Result<Judgement, Status> {
    let pairs: Vec<DescriptorEntry<'_>> =
        entries.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let descriptors = [Descriptor::new(&pairs)];
    // This charges nothing: the tokens of an assignment are taken from the pool when the assignment is given.
    let request = Request::new(domain, &descriptors);
    let judgement = maker.with_claims(&request, |claims| {
        let claim = claims.first()?;
        let rule = claim.rule().filter(|_| claim.is_open())?;
        if rule.is_shadow() || maker.cache().settings().global_shadow_mode {
            return None;
        }
        if claim.is_closed() {
            return Some(Judgement::Closed);
        }
        let allowance = Allowance::of_rule(rule)?;
        let (domain, rule) = (rule.domain().into(), rule.identity().into());
        let limit = LimitParts { domain, rule, key: claim.key().into() };
        Some(Judgement::Shared(Arc::new(limit), allowance))
    });
    let judgement = judgement.map_err(|error| {
        let told = format!("bucket_quota_usages[{n}]: {error}");
        match error {
            RequestError::NotLoaded => Status::unavailable(told),
            _ => Status::invalid_argument(told),
        }
    })?;
    Ok(judgement.unwrap_or(Judgement::Free))
}
