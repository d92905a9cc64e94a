//! [`WorstClients`]: finds the clients that a rule denies most, in a fixed amount of memory.
//!
//! A list has at most [`ENTRIES`] clients and works by the algorithm Space-Saving (Metwally et al.). If the list is
//! full, a client that is not in it takes the place of the client with the fewest hits, and continues from that
//! client's count. So after n hits, in any order, no count is more than n / [`ENTRIES`] too large, and every client
//! with more hits than n / [`ENTRIES`] is in the list. Two lists take turns, each for [`TURN`].
//!
//! The crate `heavykeeper` was considered and not chosen: the bounds of its counts hold only with a probability, it
//! decays counts in a loop over the hits, and it has 20 times as much code.
//!
//! Only denied hits are counted here, and a denial never waits for the lists. If another thread uses the lists, the
//! hits go into one counter, and are treated as if they could belong to any client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use ahash::RandomState;
use tollgate::Timestamp;

use crate::counts::room::Room;
use crate::language::identifier::readable;

/// The maximum number of clients in a list.
const ENTRIES: usize = 64;

/// The maximum number of clients that a report names.
const TOLD: usize = 10;

/// The time for which hits go into one list.
const TURN: Duration = Duration::from_secs(450);

/// The number of bytes of a client's key that are kept. The name of a client with a longer key is cut off, but clients
/// are told apart by a hash of the whole key.
const MAX_NAME_BYTES: usize = 128;

/// A client, and the number of its hits that were denied in the last 7.5 to 15 minutes.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::ManualClock;
/// use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleText, RuleSettings};
/// let settings = RuleSettings { worst_clients: true, ..RuleSettings::default() };
/// let cache = Arc::new(RuleCache::with_clock(settings, ManualClock::new()));
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    \
///             rate_limit: {unit: hour, requests_per_unit: 1}\n";
/// let rules = cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
/// let maker = DecisionMaker::new(Arc::clone(&cache))?;
/// for user in ["alice", "bob", "bob", "bob"] {
///     maker.check(&Request::new("shop", &[Descriptor::new(&[("user", user)])]))?;
/// }
/// let worst = cache.worst_clients(&rules.rules()[0]);
/// assert_eq!((worst.len(), &*worst[0].client, worst[0].at_least, worst[0].at_most), (1, "bob", 2, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorstClient {
    /// The values that identify the client among the clients of the rule, with commas between them, cut off after about
    /// 128 bytes. The text may contain anything that a request contained.
    pub client: String,
    /// A lower bound for the client's denied hits.
    pub at_least: u64,
    /// An upper bound for the client's denied hits. It is higher than `at_least` if another client was in this client's
    /// place of the list before, or if hits could not be assigned to a client.
    pub at_most: u64,
}

impl WorstClient {
    /// The maximum number of rules with lists. The first rules that deny a client get lists, and keep them until the
    /// rules are gone. All other rules report no clients. The lists of a rule take at most 32 KiB, and all lists
    /// together at most 8 MiB.
    pub const MAX_RULES: usize = 256;
}

/// The lists of one rule.
#[derive(Debug, Default)]
pub(crate) struct WorstClients {
    lists: Mutex<Lists>,
    /// Hits of denials that came while another thread used the lists.
    missed: AtomicU64,
    /// The hasher has random seeds, so that no client can choose a key whose hash is that of another key.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Lists {
    /// The number of the current turn since the origin of the clock.
    turn: u64,
    now: List,
    before: List,
    /// The rule's place among the rules with lists. Without a place the lists stay empty.
    place: Option<Place>,
}

/// A rule's place among the rules that have lists.
#[derive(Debug)]
struct Place(Arc<Room>);

impl Place {
    fn of(room: &Arc<Room>) -> Option<Self> {
        room.take().then(|| Self(Arc::clone(room)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    missed: u64,
}

#[derive(Debug)]
struct Entry {
    /// The hash of the client's key.
    id: u64,
    hits: u64,
    /// The part of `hits` that was taken over from another client.
    others: u64,
    /// The beginning of the client's key.
    key: Box<[u8]>,
    is_cut: bool,
}

impl WorstClients {
    /// Counts denied hits of a client, if there is room for the lists.
    pub(crate) fn add(&self, key: &[u8], hits: u64, now: Timestamp, room: &Arc<Room>) {
        let mut lists = match self.lists.try_lock() {
            Ok(lists) => lists,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Relaxed: no other memory is read or published with the count. A later denial moves it into the list.
                self.missed.fetch_add(hits, Ordering::Relaxed);
                return;
            }
        };
        if lists.place.is_none() {
            lists.place = Place::of(room);
        }
        if lists.place.is_none() {
            return room.refused.add(hits);
        }
        // Relaxed, for the load and the swap, for the same reason as above. Most denials find 0, and do not write.
        let missed = match self.missed.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.missed.swap(0, Ordering::Relaxed),
        };
        let list = lists.at(now);
        list.missed = list.missed.saturating_add(missed);
        list.add(self.hasher.hash_one(key), key, hits);
    }

    /// The clients with the most denied hits, the worst first.
    pub(crate) fn read(&self, now: Timestamp) -> Vec<WorstClient> {
        let mut lists: MutexGuard<'_, Lists> =
            self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: no other memory is read or published with the count.
        let waiting = self.missed.load(Ordering::Relaxed);
        lists.at(now);
        lists.worst(waiting)
    }
}

impl Lists {
    /// The list that counts the hits of this time. A time before the current turn gets the list of the current turn.
    fn at(&mut self, now: Timestamp) -> &mut List {
        let turn = now.as_nanos() / u64::try_from(TURN.as_nanos()).unwrap_or(u64::MAX);
        if turn > self.turn {
            let last = std::mem::take(&mut self.now);
            self.before = if turn - self.turn == 1 { last } else { List::default() };
            self.turn = turn;
        }
        &mut self.now
    }

    fn worst(&self, waiting: u64) -> Vec<WorstClient> {
        let missed = waiting.saturating_add(self.now.missed).saturating_add(self.before.missed);
        let mut found: Vec<(HitBounds, &Entry)> = Vec::with_capacity(2 * ENTRIES);
        for entry in &self.now.entries {
            let before = self.before.find(entry.id);
            let before = before.map_or_else(|| self.before.unlisted(), Entry::own);
            found.push((entry.own().plus(before), entry));
        }
        for entry in &self.before.entries {
            if self.now.find(entry.id).is_none() {
                found.push((entry.own().plus(self.now.unlisted()), entry));
            }
        }
        // Clients are sorted by their lower bounds. A client that has just taken another client's place continues from
        // that client's count, but few of these hits are certainly its own.
        found.sort_by(|(one, _), (other, _)| other.cmp(one));
        found.truncate(TOLD);
        let clients = found.into_iter().map(|(bounds, entry)| WorstClient {
            client: entry.name(),
            at_least: bounds.at_least,
            at_most: bounds.at_most.saturating_add(missed),
        });
        clients.collect()
    }
}

impl List {
    fn add(&mut self, id: u64, key: &[u8], hits: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.hits = entry.hits.saturating_add(hits);
            return;
        }
        let is_cut = key.len() > MAX_NAME_BYTES;
        let key = key[..key.len().min(MAX_NAME_BYTES)].into();
        let new = Entry { id, hits, others: 0, key, is_cut };
        if self.entries.len() < ENTRIES {
            self.entries.push(new);
        } else if let Some(least) = self.entries.iter_mut().min_by_key(|entry| entry.hits) {
            let others = least.hits;
            *least = Entry { hits: others.saturating_add(hits), others, ..new };
        }
    }

    fn find(&self, id: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The bounds for a client that is not in the list.
    fn unlisted(&self) -> HitBounds {
        let is_full = self.entries.len() == ENTRIES;
        let least = self.entries.iter().map(|entry| entry.hits).min();
        HitBounds { at_least: 0, at_most: least.filter(|_| is_full).unwrap_or(0) }
    }
}

/// Bounds of a client's number of hits. Clients are compared by `at_least` first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HitBounds {
    at_least: u64,
    at_most: u64,
}

impl HitBounds {
    fn plus(self, other: Self) -> Self {
        Self {
            at_least: self.at_least.saturating_add(other.at_least),
            at_most: self.at_most.saturating_add(other.at_most),
        }
    }
}

impl Entry {
    /// The bounds for the client of this entry, without the hits of other clients.
    fn own(&self) -> HitBounds {
        HitBounds { at_least: self.hits - self.others, at_most: self.hits }
    }

    fn name(&self) -> String {
        let name = readable(&self.key);
        if self.is_cut { name + "…" } else { name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(client: &str) -> Vec<u8> {
        [&(client.len() as u64).to_le_bytes()[..], client.as_bytes()].concat()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    fn add(worst: &WorstClients, key: &[u8], hits: u64, now: Timestamp) {
        worst.add(key, hits, now, &Arc::new(Room::new(1)));
    }

    fn told(worst: &WorstClients, seconds: u64) -> Vec<(String, u64, u64)> {
        let told = worst.read(at(seconds)).into_iter();
        told.map(|one| (one.client, one.at_least, one.at_most)).collect()
    }

    /// 10,000 clients with one denied hit each, and a denied hit of the heavy client after every `heavy_every` of
    /// these.
    fn heavy_among_light(heavy_every: Option<usize>) -> WorstClients {
        let worst = WorstClients::default();
        for light in 0..10_000 {
            add(&worst, &key(&format!("light {light}")), 1, at(1));
            if heavy_every.is_some_and(|every| light % every == 0) {
                add(&worst, &key("heavy"), 1, at(1));
            }
        }
        worst
    }

    #[test]
    fn a_heavy_client_among_ten_thousand_light_ones_is_named_first_within_the_bound() {
        let worst = heavy_among_light(Some(10));
        let told = told(&worst, 2);
        let (name, at_least, at_most) = &told[0];
        assert_eq!((told.len(), &**name), (10, "heavy"));
        // There were 11,000 hits, and the list has 64 entries.
        let bound = 11_000 / ENTRIES as u64;
        assert!((*at_least..=*at_most).contains(&1_000), "{at_least} to {at_most}");
        assert!(at_most - at_least <= bound, "{at_least} to {at_most}, bound {bound}");
        // Each of the other clients had one hit, so no lower bound is higher than 1.
        assert!(
            told[1..].iter().all(|(_, least, most)| *least == 1 && *most <= bound + 1),
            "{told:?}"
        );
    }

    #[test]
    fn a_list_of_ten_thousand_light_clients_that_names_a_heavy_one_is_caught() {
        let told = told(&heavy_among_light(None), 2);
        assert!(told.iter().all(|(name, least, _)| name != "heavy" && *least == 1), "{told:?}");
    }

    #[test]
    fn memory_is_the_same_after_a_hundred_thousand_clients() {
        let worst = WorstClients::default();
        for client in 0..100_000_u64 {
            add(&worst, &client.to_le_bytes().repeat(100), 1, at(client / 100));
        }
        let lists = worst.lists.lock().unwrap();
        for list in [&lists.now, &lists.before] {
            assert_eq!((list.entries.len(), list.entries.capacity()), (ENTRIES, ENTRIES));
            assert!(list.entries.iter().all(|entry| entry.key.len() == MAX_NAME_BYTES));
        }
    }

    #[test]
    fn hits_are_told_for_half_to_a_whole_quarter_of_an_hour() {
        let worst = WorstClients::default();
        add(&worst, &key("a"), 3, at(449));
        add(&worst, &key("b"), 2, at(450));
        add(&worst, &key("a"), 4, at(451));
        // A time before the current turn is counted in the current turn.
        add(&worst, &key("b"), 1, at(3));
        assert_eq!(told(&worst, 899), [("a".into(), 7, 7), ("b".into(), 3, 3)]);
        assert_eq!(told(&worst, 900), [("a".into(), 4, 4), ("b".into(), 3, 3)]);
        assert_eq!(told(&worst, 1_350), []);
        add(&worst, &key("a"), 1, at(9_000));
        assert_eq!(told(&worst, 9_000), [("a".into(), 1, 1)]);
    }

    #[test]
    fn a_denial_that_finds_the_lists_in_use_does_not_wait_and_widens_what_is_told() {
        let worst = WorstClients::default();
        add(&worst, &key("a"), 2, at(1));
        {
            let _in_use = worst.lists.lock().unwrap();
            add(&worst, &key("b"), 5, at(1));
        }
        assert_eq!(told(&worst, 1), [("a".into(), 2, 7)]);
        add(&worst, &key("a"), 1, at(1));
        assert_eq!(told(&worst, 1), [("a".into(), 3, 8)]);
        assert_eq!(told(&worst, 451), [("a".into(), 3, 8)]);
    }

    #[test]
    fn a_long_name_is_cut_and_clients_with_one_beginning_are_two() {
        let worst = WorstClients::default();
        let long = "x".repeat(1_000);
        add(&worst, &key(&format!("{long}1")), 2, at(1));
        add(&worst, &key(&format!("{long}2")), u64::MAX, at(1));
        add(&worst, &key(&format!("{long}2")), 1, at(1));
        let cut = format!("{}…", "x".repeat(120));
        assert_eq!(told(&worst, 1), [(cut.clone(), u64::MAX, u64::MAX), (cut, 2, 2)]);
    }
}
