//! How long did that take?
//!
//! Two clocks. A single look-up or one turn's events are timed by the processor's time stamp (where
//! there is none, by the monotonic clock); reading it twice costs 20-30 ns, which is in every figure:
//! nothing is subtracted, for anybody. Bulk work is timed by the CPU time of the thread that does it,
//! so that other processes do not count. A sample during which the scheduler took the thread off the
//! processor is thrown away, for everybody alike ([`Preemption`]).
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A point in time, in ticks of whatever [`ticks`] reads.
pub(crate) type Ticks = u64;

#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> Ticks {
    let mut processor = 0;
    // SAFETY: RDTSCP has no precondition but the instruction itself, which every x86-64 processor
    // that can run the peers has.
    unsafe { std::arch::x86_64::__rdtscp(&mut processor) }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> Ticks {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Nanoseconds from `from` to `to`.
pub(crate) fn nanos(from: Ticks, to: Ticks) -> f64 {
    (to - from) as f64 * nanos_a_tick()
}

fn nanos_a_tick() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (begun, from) = (Instant::now(), ticks());
        while begun.elapsed() < Duration::from_millis(100) {}
        begun.elapsed().as_nanos() as f64 / (ticks() - from) as f64
    })
}

/// The CPU time of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// The calling thread's, whichever that is.
    pub(crate) const CALLER: Self = Self(libc::CLOCK_THREAD_CPUTIME_ID);

    /// That of a thread which has not been joined.
    pub(crate) fn of(thread: libc::pthread_t) -> Option<Self> {
        let mut clock = 0;
        // SAFETY: the id is of a thread that is not joined, as the doc asks, and `clock` is ours.
        let failed = unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) };
        (failed == 0).then_some(Self(clock))
    }

    /// Nanoseconds of CPU time so far.
    pub(crate) fn nanos(self) -> f64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is ours and of the right type.
        unsafe { libc::clock_gettime(self.0, &raw mut time) };
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }

    /// Nanoseconds of CPU time that `work` cost the clock's thread.
    pub(crate) fn time(self, work: impl FnOnce()) -> f64 {
        let before = self.nanos();
        work();
        self.nanos() - before
    }
}

/// Tells whether the calling thread was taken off the processor against its will since it was asked
/// last. Asked outside of what is timed; it is a system call.
#[derive(Debug)]
pub(crate) struct Preemption(i64);

impl Preemption {
    pub(crate) fn watch() -> Self {
        Self(switches())
    }

    pub(crate) fn happened(&mut self) -> bool {
        let before = std::mem::replace(&mut self.0, switches());
        self.0 != before
    }
}

fn switches() -> i64 {
    // SAFETY: all-zero bytes are a valid `rusage`, which is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours and of the right type.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
}

/// Times of single operations, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, nanos: f64) {
        self.0.push(nanos);
    }

    /// The value that a share `q` of them do not exceed; NaN of nothing.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = (q * sorted.len() as f64) as usize;
        let last = sorted.len().saturating_sub(1);
        sorted.get(at.min(last)).copied().unwrap_or(f64::NAN)
    }

    /// The mean of the middle half: as robust as a median, and finer than the ticks of a clock that
    /// counts in steps of 10 ns.
    pub(crate) fn middle(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let quarter = sorted.len() / 4;
        let middle = &sorted[quarter..sorted.len() - quarter];
        middle.iter().sum::<f64>() / middle.len() as f64
    }
}

/// The middle one of `values`; NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (half, 0) => f64::midpoint(sorted[half - 1], sorted[half]),
        (half, _) => sorted[half],
    }
}
