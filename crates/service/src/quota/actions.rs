//! The messages that are sent to Envoy.

use super::holder::{Share, TIME_TO_LIVE_S};
use super::reports::Entries;
use crate::protocol::kinds::rate_limit_strategy::Strategy;
use crate::protocol::kinds::{RateLimitStrategy, TokenBucket};
use crate::protocol::quota::BucketId;
use crate::protocol::quota::rate_limit_quota_response::BucketAction;
use crate::protocol::quota::rate_limit_quota_response::bucket_action::{
    AbandonAction, BucketAction as Act, QuotaAssignmentAction,
};

pub(super) fn token_bucket(share: Share, fill_s: u32) -> Strategy {
    let seconds = i64::from(fill_s);
    Strategy::TokenBucket(TokenBucket {
        max_tokens: share.max_tokens,
        tokens_per_fill: Some(share.per_fill),
        fill_interval: Some(prost_types::Duration { seconds, nanos: 0 }),
    })
}

pub(super) fn assignment(entries: &Entries, strategy: Strategy) -> BucketAction {
    let seconds = i64::try_from(TIME_TO_LIVE_S).unwrap_or(i64::MAX);
    let act = QuotaAssignmentAction {
        assignment_time_to_live: Some(prost_types::Duration { seconds, nanos: 0 }),
        rate_limit_strategy: Some(RateLimitStrategy { strategy: Some(strategy) }),
    };
    bucket_action(entries, Act::QuotaAssignmentAction(act))
}

/// Tells Envoy that the service has forgotten the bucket.
pub(super) fn abandonment(entries: &Entries) -> BucketAction {
    bucket_action(entries, Act::AbandonAction(AbandonAction {}))
}

fn bucket_action(entries: &Entries, act: Act) -> BucketAction {
    let bucket = entries.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    BucketAction { bucket_id: Some(BucketId { bucket }), bucket_action: Some(act) }
}
