//! The prefetch instruction. Beside it there is one more `unsafe` in the crate: the loads of `hint`.
//!
//! Reading the time stamp counter waits for earlier loads on common x86-64 CPUs. Asking for the shard's
//! line first and reading the clock second lets the two overlap, which halves the cost of a decision
//! on tables larger than the cache.
#![allow(unsafe_code)]

/// Asks for the cache line of `target`. Changes nothing, on any target.
#[inline(always)]
pub(crate) fn prefetch<T>(target: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of a reference's address reads nothing into the program and cannot fault.
        unsafe { _mm_prefetch(std::ptr::from_ref(target).cast(), _MM_HINT_T0) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = target;
}
