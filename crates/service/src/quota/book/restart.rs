//! Saves and restores the assignments that Envoys hold. The service cannot know which Envoy a new stream belongs to. It
//! relies on the assumption in [`super::super::pool`].

use std::collections::HashMap;
use std::net::IpAddr;

use tollgate_rules::StateError;
use tonic::Status;

use super::{Entries, LimitKey, Pool, QuotaBook, QuotaStream, Quotas, bytes_of, bytes_of_limit};
use crate::quota::orphans::{Orphan, OrphansOf, Predecessor};
use crate::quota::reports::LimitParts;
use crate::quota::saved::{SavedHolder, SavedPool, SavedQuotas, damaged};

impl Quotas {
    /// Stops all assignments, and returns the state that the next service needs.
    pub(crate) fn end(&self) -> SavedQuotas {
        let (now, wall) = (self.now(), self.clock.wall().as_nanos());
        let mut book = self.book();
        book.has_ended = true;
        book.saved(now, wall)
    }

    /// Takes over the state that an earlier service has saved. Returns the number of buckets with assignments.
    ///
    /// # Errors
    /// The saved state does not fit this service. It is then ignored, and nothing is assigned until all assignments of
    /// the earlier service are over.
    pub(crate) fn restore(&self, saved: &SavedQuotas) -> Result<usize, StateError> {
        let (now, wall) = (self.now(), self.clock.wall().as_nanos());
        let at = wall.checked_sub(saved.head.wall_ns).and_then(|elapsed| now.checked_sub(elapsed));
        let at = at.ok_or_else(|| damaged("is of a later time than the system's clock shows"))?;
        let mut fresh = QuotaBook::default();
        fresh.restore(saved, at)?;
        *self.book() = fresh;
        Ok(saved.pools.iter().map(|pool| pool.holders.len()).sum())
    }
}

impl QuotaBook {
    /// # Errors
    /// The service stops.
    pub(super) fn goes_on(&self) -> Result<(), Status> {
        if self.has_ended { Err(Status::unavailable("the service stops")) } else { Ok(()) }
    }

    fn saved(&mut self, now: u64, wall: u64) -> SavedQuotas {
        let mut named = HashMap::new();
        for stream in self.streams.values() {
            let is_like = |other: &&QuotaStream| {
                let is_of_domain = other.domain == stream.domain || other.domain.is_empty();
                other.address == stream.address && is_of_domain
            };
            let is_alone = self.streams.values().filter(is_like).count() == 1;
            let had = stream.had.iter().flatten().map(|(entries, orphan)| (entries, &orphan.id));
            for (entries, id) in stream.buckets.iter().chain(had) {
                named.insert(*id, (stream.address, is_alone, entries));
            }
        }
        // These orphans belong to Envoys that have not come back since the previous restart.
        for ((address, _), OrphansOf { is_alone, buckets }) in &self.orphans {
            for (entries, orphan) in buckets {
                named.entry(orphan.id).or_insert((*address, *is_alone, entries));
            }
        }
        let holders = &self.holders;
        let pools = self.pools.iter_mut().map(|(limit, pool)| {
            let (mut saved, of_pool) = pool.saved(now, |id| holders.contains_key(&id));
            (saved.domain, saved.rule) = (limit.domain.to_string(), limit.rule.to_string());
            saved.key = limit.key.to_vec();
            let named = |(id, saved): (u64, SavedHolder)| {
                let Some((address, is_alone, entries)) = named.get(&id) else { return saved };
                let entries = entries.iter().flat_map(|(name, value)| [name, value]);
                let (address, entries) = (address.to_string(), entries.cloned().collect());
                SavedHolder { address, is_alone: *is_alone, entries, ..saved }
            };
            SavedPool { limit: saved, holders: of_pool.into_iter().map(named).collect() }
        });
        SavedQuotas::new(wall, self.from.saturating_sub(now), pools.collect())
    }

    fn restore(&mut self, saved: &SavedQuotas, at: u64) -> Result<(), StateError> {
        self.from = at.saturating_add(saved.head.from_ns);
        for SavedPool { limit, holders } in &saved.pools {
            let key = LimitKey::new(LimitParts {
                domain: limit.domain.as_str().into(),
                rule: limit.rule.as_str().into(),
                key: limit.key.as_slice().into(),
            });
            self.bytes += bytes_of_limit(&key);
            let ids: Vec<u64> = holders.iter().map(|_| self.next_id()).collect();
            for (id, holder) in ids.iter().zip(holders) {
                self.add_orphan(*id, holder, &key, at)?;
            }
            let pool = Pool::restored(limit, ids.into_iter().zip(holders), at);
            if self.pools.insert(key, pool).is_some() {
                return Err(damaged("has a limit twice"));
            }
        }
        Ok(())
    }

    fn add_orphan(
        &mut self,
        id: u64,
        saved: &SavedHolder,
        limit: &LimitKey,
        at: u64,
    ) -> Result<(), StateError> {
        if saved.address.is_empty() {
            return Ok(());
        }
        let bad = || damaged(format!("has an address {:?}, which is none", saved.address));
        let address: IpAddr = saved.address.parse().map_err(|_| bad())?;
        let (pairs, odd) = saved.entries.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(damaged("has a name without a value"));
        }
        let entries: Entries = pairs.iter().cloned().map(<(String, String)>::from).collect();
        let of = self.orphans.entry((address, limit.domain.to_string()));
        let of = of.or_insert_with(|| OrphansOf { is_alone: true, buckets: HashMap::new() });
        let before = of.buckets.get(&entries).map(|orphan| orphan.until);
        of.is_alone &= saved.is_alone && before.is_none();
        self.bytes += if before.is_some() { 0 } else { bytes_of(&entries) };
        let until = at.saturating_add(saved.left_ns).max(before.unwrap_or(0));
        of.buckets.insert(entries, Orphan { id, limit: limit.clone(), until });
        Ok(())
    }

    /// Finds the holder that a bucket may have had before the restart. Called when the bucket is new in this stream.
    pub(super) fn predecessor(
        &mut self,
        stream: u64,
        entries: &Entries,
        limit: &LimitKey,
    ) -> Predecessor {
        let Some(stream) = self.streams.get_mut(&stream) else { return Predecessor::None };
        let from = (stream.address, stream.domain.clone());
        let had = stream.had.get_or_insert_with(|| {
            let is_alone = self.orphans.get(&from).is_some_and(|orphans| orphans.is_alone);
            let mine = if is_alone { self.orphans.remove(&from) } else { None };
            mine.unwrap_or_default().buckets
        });
        if let Some(orphan) = had.remove(entries) {
            self.bytes -= bytes_of(entries);
            let is_same = orphan.limit == *limit;
            return if is_same { Predecessor::Known(orphan.id) } else { Predecessor::None };
        }
        let one = self.orphans.get(&from).and_then(|orphans| orphans.buckets.get(entries));
        one.filter(|orphan| orphan.limit == *limit)
            .map_or(Predecessor::None, |orphan| Predecessor::OneOfSeveral { until: orphan.until })
    }

    /// Forgets orphans whose assignments are over.
    pub(super) fn forget_orphans(&mut self, now: u64) {
        let mut freed = 0;
        let mut keep = |buckets: &mut HashMap<Entries, Orphan>| {
            buckets.retain(|entries, orphan| {
                let is_over = orphan.until <= now;
                freed += if is_over { bytes_of(entries) } else { 0 };
                !is_over
            });
            !buckets.is_empty()
        };
        self.orphans.retain(|_, orphans| keep(&mut orphans.buckets));
        for had in self.streams.values_mut().filter_map(|stream| stream.had.as_mut()) {
            keep(had);
        }
        self.bytes -= freed;
    }
}
