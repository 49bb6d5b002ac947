//! How many bytes are allocated right now?
//!
//! A global allocator that passes everything through and, only while it is told to, sums the sizes
//! that were asked for: what a structure holds, without the allocator's own rounding and without
//! pages that it keeps. Timed rows run with counting off, where it costs one predictable branch.
//! It trusts that what was allocated while counting is freed while counting; [`while_counting`] is
//! the way to see to that.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, counted.
pub(crate) struct Counting;

fn add(bytes: isize) {
    if COUNTING.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to `System` with the arguments it came with; the count changes no pointer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as above, and `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Bytes that are live among those allocated while counting.
pub(crate) fn live() -> f64 {
    LIVE.load(Ordering::Relaxed) as f64
}

/// Counts while `work` runs; what it allocates it must also free.
pub(crate) fn while_counting<T>(work: impl FnOnce() -> T) -> T {
    COUNTING.store(true, Ordering::Relaxed);
    let result = work();
    COUNTING.store(false, Ordering::Relaxed);
    result
}
