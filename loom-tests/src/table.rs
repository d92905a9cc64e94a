//! Keyed limiters of a few cells, and keys whose shards a model chooses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use tollgate::{KeyedLimiter, ManualClock, Policy, Quota, WhenFull, control};

/// The message of [`restored`] for a snapshot that cannot be restored.
pub const REFUSED_FILE: &str = "the snapshot is refused";

/// A key that chooses its own place: its first shard, and its tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModelKey {
    /// The first shard's number.
    pub first: u32,
    /// The tag by which cells tell keys apart. Never 0.
    pub tag: u32,
}

/// The keyed limiter of the models.
pub type ModelTable = KeyedLimiter<ModelKey, UnseededHash>;

/// A hasher without a seed. The first half of a [`ModelKey`] decides its place, and the second half is its tag.
#[derive(Clone, Copy, Debug)]
pub struct UnseededHash {
    shards: u32,
}

/// Collects the two halves of a [`ModelKey`].
#[derive(Clone, Copy, Debug)]
pub struct Halves {
    shards: u32,
    halves: u64,
    tier: u32,
}

impl UnseededHash {
    /// The hasher for a table of `shards` shards.
    #[must_use]
    pub fn of(shards: u32) -> Self {
        Self { shards }
    }
}

impl BuildHasher for UnseededHash {
    type Hasher = Halves;

    fn build_hasher(&self) -> Halves {
        Halves { shards: self.shards, halves: 0, tier: 0 }
    }
}

impl Halves {
    /// The tag of a key. A key has a different tag in each tier.
    fn tag(&self) -> u64 {
        (self.halves ^ u64::from(self.tier) << 16) & u64::from(u32::MAX)
    }
}

impl Hasher for Halves {
    fn finish(&self) -> u64 {
        // This is nearly the smallest hash of the shard, because the high half of `hash * shards` is the number of the
        // shard. The lowest bits of the hash, 49 at most, are the tag.
        let place = (self.halves >> 32).wrapping_mul((1 << 10) / u64::from(self.shards) + 1);
        place << 54 | self.tag()
    }

    /// Receives the tier of a key, or the byte that marks the end of a text.
    fn write_u8(&mut self, byte: u8) {
        if byte < 16 {
            self.tier = byte.into();
        } else {
            self.write(&[byte]);
        }
    }

    fn write_u32(&mut self, half: u32) {
        self.halves = (self.halves << 32) | u64::from(half);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.halves = self.halves.wrapping_mul(31).wrapping_add(u64::from(byte));
        }
    }
}

/// An empty table of 1 to 3 shards with 1 to 3 cells each. All floors are 0.
///
/// # Panics
/// Panics if the policy does not fit.
#[must_use]
pub fn table(policy: &str, shards: u32, cells: usize) -> Arc<ModelTable> {
    table_with_clock(policy, shards, cells, ManualClock::new())
}

/// Like [`table`], with a clock that the model sets.
///
/// # Panics
/// Panics if the policy does not fit.
#[must_use]
pub fn table_with_clock(
    policy: &str,
    shards: u32,
    cells: usize,
    clock: ManualClock,
) -> Arc<ModelTable> {
    let table = spilling_with_clock(policy, shards, cells, clock);
    Arc::new(table.when_full(WhenFull::Deny).expect("less memory"))
}

/// Like [`table`], with a spill of two rows with two cells each.
///
/// # Panics
/// Panics if the policy does not fit.
#[must_use]
pub fn spilling_table(policy: &str, shards: u32, cells: usize) -> Arc<ModelTable> {
    Arc::new(spilling_with_clock(policy, shards, cells, ManualClock::new()))
}

fn spilling_with_clock(policy: &str, shards: u32, cells: usize, clock: ManualClock) -> ModelTable {
    control::use_cells(cells);
    let capacity = capacity_of(shards);
    KeyedLimiter::builder(read(policy))
        .clock(clock)
        .hasher(UnseededHash::of(shards))
        .build(capacity)
        .expect("a table")
}

/// The capacity with which a table gets `shards` shards of three cells each. A table has 10 / 7 cells for each live
/// key, and one more.
fn capacity_of(shards: u32) -> usize {
    usize::try_from(2 * shards - 1).expect("few")
}

/// Like [`table`], for several quotas, or for quotas that may change. The last policy is the `headroom`: no tier has it
/// at first, but a tier may be changed to it.
///
/// # Panics
/// Panics if the policies do not fit.
#[must_use]
pub fn tiers(policies: &[&str], shards: u32, cells: usize) -> Arc<ModelTable> {
    tiers_when_full(WhenFull::Deny, policies, shards, cells)
}

/// Like [`tiers`], with a spill of two rows, which the tiers share.
///
/// # Panics
/// Panics if the policies do not fit.
#[must_use]
pub fn spilling_tiers(policies: &[&str], shards: u32, cells: usize) -> Arc<ModelTable> {
    tiers_when_full(WhenFull::Spill, policies, shards, cells)
}

fn tiers_when_full(
    full: WhenFull,
    policies: &[&str],
    shards: u32,
    cells: usize,
) -> Arc<ModelTable> {
    control::use_cells(cells);
    let (headroom, tiers) = policies.split_last().expect("policies");
    let (first, others) = tiers.split_first().expect("a tier");
    let tiers = others
        .iter()
        .fold(KeyedLimiter::builder(read(first)).changing(), |tiers, text| tiers.tier(read(text)));
    let tiers = tiers.headroom(read(headroom)).when_full(full);
    let capacity = capacity_of(shards);
    let table = tiers.clock(ManualClock::new()).hasher(UnseededHash::of(shards)).build(capacity);
    Arc::new(table.expect("a table").into_limiter())
}

/// Like [`table`], for callers that bring up to `most` quotas with their requests. The quotas in `like` are examples of
/// these.
///
/// # Panics
/// Panics if the policies do not fit.
#[must_use]
pub fn own_table(
    default: Quota,
    most: usize,
    like: &[Quota],
    shards: u32,
    cells: usize,
    clock: ManualClock,
) -> Arc<ModelTable> {
    control::use_cells(cells);
    let table = KeyedLimiter::builder(default)
        .own_quotas(most, like)
        .clock(clock)
        .hasher(UnseededHash::of(shards))
        .build(capacity_of(shards));
    Arc::new(table.expect("a table"))
}

/// A table of `shards` shards that is restored from this snapshot.
///
/// # Panics
/// Panics if the table refuses the snapshot.
#[must_use]
pub fn restored(policy: &str, shards: u32, file: &[u8]) -> ModelTable {
    let clock = ManualClock::new();
    match KeyedLimiter::builder(read(policy))
        .clock(clock)
        .hasher(UnseededHash::of(shards))
        .restore(file)
    {
        Ok(table) => table,
        Err(error) => panic!("{REFUSED_FILE}: {error}"),
    }
}

fn read(policy: &str) -> Policy {
    policy.parse().expect("a policy")
}

/// The `nth` key, counted from 1, that has these two shards as its first and second shard.
///
/// # Panics
/// Panics if there are no such shards.
#[must_use]
pub fn key_in(table: &ModelTable, shards: [usize; 2], nth: usize) -> ModelKey {
    keys_in(|key| table.shards_of(key), shards, nth)
}

/// The `nth` key, counted from 1, of four keys for which `shards_of` returns these shards.
///
/// # Panics
/// Panics if there are no such shards, or if `nth` is above 4.
#[must_use]
pub fn keys_in(
    shards_of: impl Fn(&ModelKey) -> [usize; 2],
    shards: [usize; 2],
    nth: usize,
) -> ModelKey {
    let planted = control::fault();
    control::plant(None); // a fault must not change where a model puts its keys
    let keys = FOUND_KEYS.with_borrow_mut(|found| {
        let keys = found.entry(shards).or_insert_with(|| find_keys(&shards_of, shards));
        // A table of another shape has other keys in these shards.
        let are_here = keys.iter().all(|key| shards_of(key) == shards);
        if are_here { *keys } else { find_keys(&shards_of, shards) }
    });
    control::plant(planted);
    keys[nth - 1]
}

/// The number of keys that are found for the same two shards. No model asks for more.
const FOUND: usize = 4;

thread_local! {
    /// The keys that were found in earlier executions. The search took a third of the time of an execution.
    static FOUND_KEYS: RefCell<HashMap<[usize; 2], [ModelKey; FOUND]>> = RefCell::default();
}

fn find_keys(shards_of: impl Fn(&ModelKey) -> [usize; 2], shards: [usize; 2]) -> [ModelKey; FOUND] {
    let first = u32::try_from(shards[0]).expect("a shard");
    let mut keys = (1..)
        .map(|tag| ModelKey { first, tag })
        .take(100_000)
        .filter(|key| shards_of(key) == shards);
    [(); FOUND].map(|()| keys.next().expect("such shards"))
}
