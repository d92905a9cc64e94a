//! Two CPU instructions for which safe Rust has no function. This is the only `unsafe` code in the benchmarks.
#![allow(unsafe_code)]

/// Waits until all instructions before it are done, so that no later instruction overlaps them.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this instruction belongs to SSE2, which every x86-64 CPU has. It has no other conditions.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Asks for the cache line of `target` in order to write to it: `prefetchw`, on machines that have it.
#[allow(dead_code, reason = "not every benchmark writes")]
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: as in `prefetch`, this reads nothing into the program and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(target).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}

/// Asks for the cache line of `target`.
#[inline(always)]
pub(crate) fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of a reference's address reads nothing into the program and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}
