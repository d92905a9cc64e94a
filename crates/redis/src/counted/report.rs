//! Mode `async`: decides by the counts of this node, and reports the admitted units in the background.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::counted::cell::{CallTimes, CountAnswer};
use crate::counted::table::{CountTable, KeyReport};
use crate::decision::{RedisDecision, Source};
use crate::inner::Inner;
use crate::script::{ScriptRequest, ScriptVerb, Units};

/// The maximum number of keys in one report. It equals the maximum number of limits in a call (`LIMITS_IN_A_CALL`).
const KEYS_IN_A_REPORT: usize = 16;
/// The maximum number of keys in all reports under way. It is small, so that requests do not wait behind reports.
const KEYS_UNDER_WAY: usize = 256;

impl Inner {
    /// Decides by the counts of this node, if these are fresh.
    pub(crate) fn count(
        &self,
        counts: &CountTable,
        key: &[u8],
        verb: ScriptVerb,
        units: Units,
    ) -> Option<RedisDecision> {
        match counts.decide(self.era(), key, verb, units, self.now_ns()) {
            CountAnswer::Decided { told, stamp, .. } => {
                Some(RedisDecision::new(told, Source::Count, stamp))
            }
            CountAnswer::Stale => None,
        }
    }

    /// Reports the units that were admitted here, and learns which units other nodes have admitted.
    pub(crate) async fn report(self: &Arc<Self>) {
        let Some(counts) = &self.local.counts else { return };
        let mut reports = counts.reports();
        // In a cluster all keys of a call must be in one slot.
        reports.sort_by_cached_key(|report| self.slot(&report.key));
        let of_slots = reports.chunk_by(|one, other| self.slot(&one.key) == self.slot(&other.key));
        let (mut under_way, mut count) = (JoinSet::new(), 0);
        for reports in of_slots.flat_map(|reports| reports.chunks(KEYS_IN_A_REPORT)) {
            while count + reports.len() > KEYS_UNDER_WAY
                && let Some(ended) = under_way.join_next().await
            {
                count -= ended.unwrap_or_default();
            }
            count += reports.len();
            let (this, reports) = (Arc::clone(self), reports.to_vec());
            under_way.spawn(async move {
                this.report_some(&reports).await;
                reports.len()
            });
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Reports the units of a key that this node has admitted, so that the store counts them before the caller's
    /// request. With an `era`, nothing is reported if the units were admitted under the policy of that era. A report
    /// that is already under way is not repeated, since it reaches the store before the request.
    pub(crate) async fn report_before_asking(&self, key: &[u8], era: Option<u64>) {
        let Some(counts) = &self.local.counts else { return };
        if let Some(units) = counts.report_first(era, key) {
            self.report_some(&[KeyReport { key: key.into(), units }]).await;
        }
    }

    /// Sends one report. All its keys are in one slot.
    async fn report_some(&self, reports: &[KeyReport]) {
        let (Some(counts), Some(first)) = (&self.local.counts, reports.first()) else { return };
        let part = |report: &KeyReport| self.part(&report.key, Units::exactly(report.units));
        let parts = reports.iter().map(part).collect();
        let under_way = counts.under_way(self.era(), reports);
        let asked_ns = self.now_ns();
        let ask = ScriptRequest { verb: ScriptVerb::Add, parts };
        if let Ok(reply) = self.link(&first.key).call(ask, self.due()).await {
            under_way.answered(reply, CallTimes { asked_ns, replied_ns: self.now_ns() });
        }
    }
}

/// Reports in every interval. When the limiter is dropped, which completes `gone`, it reports a last time, so that no
/// admitted units are lost.
pub(crate) async fn report_regularly(
    limiter: Arc<Inner>,
    mut gone: oneshot::Receiver<()>,
    interval: Duration,
) {
    while timeout(interval, &mut gone).await.is_err() {
        limiter.report().await;
    }
    limiter.report().await;
}
