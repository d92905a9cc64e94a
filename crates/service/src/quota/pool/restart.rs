//! Saves a pool at the end of a service, and restores it at the start of the next one.

use super::super::saved::{SavedHolder, SavedLimit};
use super::*;

impl Pool {
    /// Returns the state that the next service needs, with the holder of each lease. `is_open` says whether a holder's
    /// stream is open. The pool must assign nothing afterwards.
    pub(crate) fn saved(
        &mut self,
        now: u64,
        is_open: impl Fn(u64) -> bool,
    ) -> (SavedLimit, Vec<(u64, SavedHolder)>) {
        self.advance(now);
        let now = self.at;
        let tokens = u32::try_from(self.stored / self.scale()).unwrap_or(u32::MAX);
        let limit = SavedLimit::new(self.allowance, tokens, self.from.saturating_sub(now));
        let mut holders = Vec::new();
        for holder in &mut self.holders {
            let is_open = is_open(holder.id);
            if is_open {
                // An open stream proves, like a report, that messages sent two `DELAY`s ago have arrived.
                holder.acknowledge(now);
            }
            let Some(until) = holder.leases.iter().map(|lease| lease.until).max() else { continue };
            let sent = until.saturating_sub(IN_FORCE);
            let has_arrived = now >= sent.saturating_add(2 * DELAY);
            #[cfg(test)]
            let has_arrived = has_arrived || self.fault == Some(tests::Fault::TrustsTheLast);
            let is_sure = is_open && holder.is_sure && holder.leases.len() == 1 && has_arrived;
            let tokens = holder.leases.iter().map(|lease| lease.share.max_tokens);
            let saved = SavedHolder {
                per_fill: holder.rate(),
                max_tokens: tokens.fold(0, u32::saturating_add),
                left_ns: until - now,
                is_sure,
                demand: holder.demand,
                measured_ns: now.saturating_sub(holder.measured),
                ..SavedHolder::default()
            };
            holders.push((holder.id, saved));
        }
        (limit, holders)
    }

    /// The pool that was saved at the time `at`. Its holders are gone until they report.
    pub(crate) fn restored<'a>(
        limit: &SavedLimit,
        holders: impl IntoIterator<Item = (u64, &'a SavedHolder)>,
        at: u64,
    ) -> Self {
        let mut pool = Self::new(limit.allowance(), at, at.saturating_add(limit.from_ns));
        let holder = |(id, saved): (u64, &SavedHolder)| {
            let share = Share { per_fill: saved.per_fill, max_tokens: saved.max_tokens };
            let until = at.saturating_add(saved.left_ns);
            Holder {
                demand: saved.demand,
                measured: at.saturating_sub(saved.measured_ns),
                leases: vec![ShareLease { share, since: at, until }],
                is_gone: true,
                is_sure: saved.is_sure,
                ..Holder::new(id, at)
            }
        };
        pool.holders = holders.into_iter().map(holder).collect();
        pool.stored = pool.tokens(limit.tokens);
        // This reduces the saved tokens to the burst less the tokens that Envoys may hold.
        pool.advance(at);
        pool
    }

    /// Adds a holder that gets nothing before `from`. Until then its Envoy may have a lease from before the restart,
    /// and a new lease would replace that lease by a smaller share.
    pub(crate) fn hold_back(&mut self, now: u64, id: u64, from: u64) {
        self.advance(now);
        self.holders.push(Holder { from, ..Holder::new(id, self.at) });
    }
}
