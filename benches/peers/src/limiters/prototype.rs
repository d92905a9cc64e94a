//! The prototype shows what a decision costs if it has to be right only for one thread, and only for a fixed set of
//! keys that fits in the table.
//!
//! Its table consists of cache lines. Each has a header and seven words, `[tag | time]`. A key has a word in its own
//! line, or in the next. Decisions are GCRA in ticks. The prototype leaves out the parts that make a table right for
//! many threads and many keys. Two concurrent installs may create two words for one key. No word is ever forgotten. The
//! time wraps around: if a word is read half a wrap later, its time is misread.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use ahash::RandomState;

use super::Boxed;
use super::policies::DESIGN_LOAD;
use crate::contender::{many, single};
use crate::machine::prefetch;

/// The number of bits of a word's time. In ticks of 2^10 ns they hold half an hour.
const TIME_BITS: u32 = 31;
const TIME: u64 = (1 << TIME_BITS) - 1;
const TICK_BITS: u32 = 10;
/// The cost of a request, and the most that a key may owe, which is more than any workload asks for.
const COST: u64 = 1;
const BURST: u64 = 1 << (TIME_BITS - 2);

#[repr(C, align(64))]
struct PrototypeLine {
    header: AtomicU64,
    words: [AtomicU64; 7],
}

struct PrototypeTable {
    lines: Box<[PrototypeLine]>,
    place: RandomState,
    tag: RandomState,
}

impl PrototypeTable {
    /// The table has as many words as Tollgate's table for `keys` keys.
    fn new(keys: u64) -> Self {
        let line =
            || PrototypeLine { header: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; 7] };
        let lines = (0..keys * 100 / DESIGN_LOAD / 7 + 2).map(|_| line()).collect();
        Self { lines, place: RandomState::new(), tag: RandomState::new() }
    }

    /// The line of a key, whose prefetch has begun, and the key's tag.
    #[inline(always)]
    fn find<K: Hash>(&self, key: &K) -> (usize, u64) {
        let hash = u128::from(self.place.hash_one(key));
        let line = ((hash * (self.lines.len() as u128 - 1)) >> 64) as usize;
        prefetch(&self.lines[line]);
        (line, (self.tag.hash_one(key) | 1 << TIME_BITS) & !TIME)
    }

    #[inline(always)]
    fn decide(&self, (line, tag): (usize, u64), now_ns: u64) -> bool {
        let now = now_ns >> TICK_BITS;
        match Self::hit(&self.lines[line], tag, now) {
            Some(allowed) => allowed,
            None => self.elsewhere(line, tag, now),
        }
    }

    #[inline(always)]
    fn hit(line: &PrototypeLine, tag: u64, now: u64) -> Option<bool> {
        let floor = line.header.load(Acquire);
        let mut found = 0_u32;
        for word in line.words.iter().rev() {
            found = found + found + u32::from((word.load(Relaxed) ^ tag) <= TIME);
        }
        let word = line.words.get(found.trailing_zeros() as usize)?;
        let held = word.load(Acquire);
        if (held ^ tag) > TIME || line.header.load(Acquire) != floor {
            return None;
        }
        // The number of ticks from half a wrap ago to the word's time. If the word's time is before now, nothing is
        // owed.
        let since = held.wrapping_sub(now).wrapping_add(1 << (TIME_BITS - 1)) & TIME;
        let owed = since.saturating_sub(1 << (TIME_BITS - 1));
        let next = tag | (now + owed + COST) & TIME;
        Some(owed + COST <= BURST && word.compare_exchange(held, next, Release, Relaxed).is_ok())
    }

    /// Decides in the next line, or creates a new word in the first vacant place of either line.
    #[cold]
    #[inline(never)]
    fn elsewhere(&self, line: usize, tag: u64, now: u64) -> bool {
        if let Some(allowed) = Self::hit(&self.lines[line + 1], tag, now) {
            return allowed;
        }
        let mut words = self.lines[line..=line + 1].iter().flat_map(|line| &line.words);
        let word = tag | (now + COST) & TIME;
        words.any(|vacant| vacant.compare_exchange(0, word, Release, Relaxed).is_ok())
    }
}

pub(crate) fn own_clock<K: Hash + 'static>(keys: u64) -> Boxed<K> {
    let (table, clock) = (PrototypeTable::new(keys), quanta::Clock::new());
    let start = clock.raw();
    single("prototype", move |key: &K| {
        let found = table.find(key);
        table.decide(found, clock.delta_as_nanos(start, clock.raw()))
    })
}

/// Decides at times that the caller gives.
pub(crate) fn callers_now<K: Hash + 'static>(keys: u64) -> Boxed<K> {
    let table = PrototypeTable::new(keys);
    many("prototype, caller's now", move |keys: &[K]| {
        let times = (1..).map(|step| step * 20);
        keys.iter().zip(times).map(|(key, now)| u64::from(table.decide(table.find(key), now))).sum()
    })
}

/// Batches of `size` keys.
pub(crate) fn many_of<K: Hash + 'static>(keys: u64, size: usize) -> Boxed<K> {
    let (table, clock) = (PrototypeTable::new(keys), quanta::Clock::new());
    let start = clock.raw();
    many(&format!("prototype, batch of {size}"), move |keys: &[K]| {
        let mut found = [(0, 0); 32];
        let mut admitted = 0;
        for batch in keys.chunks(size) {
            for (key, found) in batch.iter().zip(&mut found) {
                *found = table.find(key);
            }
            let now = clock.delta_as_nanos(start, clock.raw());
            for &found in &found[..batch.len()] {
                admitted += u64::from(table.decide(found, now));
            }
        }
        admitted
    })
}
