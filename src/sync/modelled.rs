//! Loom's atomic, or an atomic at which shuttle may switch threads. It can also return its newest value without a step
//! of the model, and fail spuriously on demand. If a test plants the fault, it leaves out the comparison of a
//! compare-and-swap.

use std::sync::atomic::AtomicU64 as Plain;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64 as Engine, Ordering, Ordering::Relaxed};
#[cfg(shuttle)]
use std::sync::atomic::{AtomicU64 as Engine, Ordering, Ordering::Relaxed};

use super::control::{Fault, fails_spuriously, planted};

#[derive(Debug)]
pub(crate) struct AtomicU64 {
    modelled: Engine,
    newest: Plain,
}

impl AtomicU64 {
    pub(crate) fn new(bits: u64) -> Self {
        let modelled = Engine::new(bits);
        Self { modelled, newest: Plain::new(bits) }
    }

    /// The newest value in the modification order, for assertions. Reading it adds no step to the model.
    pub(crate) fn newest(&self) -> u64 {
        // Relaxed: no model depends on its ordering.
        self.newest.load(Relaxed)
    }

    /// The atomic for the next step. Under shuttle another thread may run before this step.
    fn step(&self) -> &Engine {
        #[cfg(shuttle)]
        super::switched::step();
        &self.modelled
    }

    /// Records the bits that a step has written. Shuttle switches threads only before a step, so no other step can come
    /// between the write and its record.
    fn wrote(&self, bits: u64) {
        #[cfg(shuttle)]
        super::switched::wrote();
        // Relaxed: as in `newest`.
        self.newest.store(bits, Relaxed);
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.step().load(order)
    }

    pub(crate) fn store(&self, bits: u64, order: Ordering) {
        self.step().store(bits, order);
        self.wrote(bits);
    }

    pub(crate) fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
        let found = self.step().fetch_add(more, order);
        self.wrote(found.wrapping_add(more));
        found
    }

    pub(crate) fn fetch_max(&self, bits: u64, order: Ordering) -> u64 {
        let found = self.step().fetch_max(bits, order);
        self.wrote(found.max(bits));
        found
    }

    pub(crate) fn fetch_min(&self, bits: u64, order: Ordering) -> u64 {
        let found = self.step().fetch_min(bits, order);
        self.wrote(found.min(bits));
        found
    }

    pub(crate) fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        mut next: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let mut written = 0;
        let remember = |found| next(found).inspect(|&bits| written = bits);
        let found = self.step().fetch_update(set, fetch, remember)?;
        self.wrote(written);
        Ok(found)
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        next: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        let found = self.step().compare_exchange(current, next, success, failure)?;
        self.wrote(next);
        Ok(found)
    }

    pub(crate) fn compare_exchange_weak(
        &self,
        current: u64,
        next: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        if planted(Fault::PlainStoreForCas) {
            self.store(next, success);
            return Ok(current);
        }
        let outcome = if fails_spuriously() {
            Err(self.load(failure))
        } else {
            self.compare_exchange(current, next, success, failure)
        };
        if planted(Fault::FailureTakenForSuccess) { Ok(current) } else { outcome }
    }
}
