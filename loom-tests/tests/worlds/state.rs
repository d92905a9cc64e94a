//! The state that an operating system thread keeps while it runs one world after another.

use std::any::Any;
use std::cell::{Cell, RefCell};

use crate::kinds::{VERBS, Verb};

type Seeds = Box<dyn FnMut() -> Option<u64>>;

thread_local! {
    static SEEDS: RefCell<Option<Seeds>> = const { RefCell::new(None) };
    static SEED: Cell<u64> = const { Cell::new(0) };
    static POINTS: Cell<u64> = const { Cell::new(0) };
    static STAMP: Cell<u64> = const { Cell::new(0) };
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
    static PAIRS: RefCell<Pairs> = RefCell::default();
}

/// Sets the source of the next worlds' seeds.
pub(crate) fn seeds_from(seeds: impl FnMut() -> Option<u64> + 'static) {
    SEEDS.set(Some(Box::new(seeds)));
    FAILURE.take();
}

/// The next world's seed, or `None` if a world has failed.
pub(crate) fn next_seed() -> Option<u64> {
    if FAILURE.with_borrow(Option::is_some) {
        return None;
    }
    let seed = SEEDS.with_borrow_mut(|seeds| seeds.as_mut().and_then(|next| next()))?;
    SEED.set(seed);
    Some(seed)
}

/// The seed of the world that ran last.
pub(crate) fn seed() -> u64 {
    SEED.get()
}

pub(crate) fn count_point() {
    POINTS.set(POINTS.get() + 1);
}

/// The number of switch points since the last call of this function.
pub(crate) fn take_points() -> u64 {
    POINTS.take()
}

/// The failure of the world that ran last.
pub(crate) fn take_failure() -> Option<String> {
    FAILURE.take()
}

/// Reports a failure of the world that runs now. Only the first report is kept.
pub(crate) fn fail(what: String) {
    FAILURE.with_borrow_mut(|failure| {
        failure.get_or_insert(what);
    });
}

/// The next place in the order of all events of a world.
pub(crate) fn stamp() -> u64 {
    STAMP.set(STAMP.get() + 1);
    STAMP.get()
}

/// For each pair of verbs, how often two threads of one world have called them.
#[derive(Default)]
pub(crate) struct Pairs([[u64; VERBS.len()]; VERBS.len()]);

impl Pairs {
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *own += other;
        }
    }

    /// The pairs that have never met.
    pub(crate) fn missing(&self) -> Vec<(Verb, Verb)> {
        let all = (0..VERBS.len()).flat_map(|one| (one..VERBS.len()).map(move |two| (one, two)));
        let unseen = all.filter(|&(one, two)| self.0[one][two] + self.0[two][one] == 0);
        unseen.map(|(one, two)| (VERBS[one], VERBS[two])).collect()
    }

    pub(crate) fn count(&mut self, of_threads: &[Vec<Verb>]) {
        for (nth, one) in of_threads.iter().enumerate() {
            for (a, b) in of_threads[nth + 1..]
                .iter()
                .flatten()
                .flat_map(|&b| one.iter().map(move |&a| (a as usize, b as usize)))
            {
                self.0[a][b] += 1;
            }
        }
    }
}

/// The pairs of verbs that were counted since the last call of this function.
pub(crate) fn take_pairs() -> Pairs {
    PAIRS.take()
}

/// The text of a panic.
pub(crate) fn words_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.into()));
    text.unwrap_or_else(|| "a panic without words".into())
}

/// Begins a world in which nothing has happened yet.
pub(crate) fn begin() {
    STAMP.set(0);
}

pub(crate) fn has_failed() -> bool {
    FAILURE.with_borrow(Option::is_some)
}

/// Counts the pairs of verbs that the threads of a world have called.
pub(crate) fn count_pairs(of_threads: &[Vec<Verb>]) {
    PAIRS.with_borrow_mut(|pairs| pairs.count(of_threads));
}
