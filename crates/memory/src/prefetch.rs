//! Prefetches a cache line.

/// Asks for the cache line in which `place` begins: a later read finds it in the first-level cache, or on its way. On
/// architectures without such an instruction here it does nothing.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    let place = std::ptr::from_ref(place);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see and never faults; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing that the program can see and never faults; it changes neither flags nor stack.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}
