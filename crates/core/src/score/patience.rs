//! How much does a long cold prompt mind the prompts that wait before it?
//!
//! Where contexts outgrow the caches, a few prompts take most of the computing, and who comes behind them
//! waits. Spread by load alone they are in front of everybody; behind each other they are in front of few. So
//! a prompt that has room on no worker, beside what the sessions there need, counts what waits before it the
//! less, the more of a cache it has to fill itself:
//!
//! ```text
//! relief = patience · waiting · min(1, uncached / capacity)        tokens; uncached: on the best worker
//! cost   = cost − prefill_scale · relief / block
//! ```
//! At a patience of 2 a prompt that fills half a cache does not mind, and a larger one goes where most waits. A
//! prompt that is warm somewhere, or small, or has room somewhere, decides as without. Not in the published
//! cost (0). Found by simulation: `npm run evidence -- --only score`; tried and lost there were patience also
//! where there is room, the working set of a worker as a price or a bar, a worker set apart for long prompts,
//! and what runs there as a bar.
use crate::{Error, Result};

/// Checks a patience: finite and at least 0.
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub fn validate(patience: f64) -> Result<()> {
    match patience.is_finite() && patience >= 0.0 {
        true => Ok(()),
        false => Err(Error::invalid_argument(
            "patience must be a finite number of at least 0",
        )),
    }
}

/// Tokens that wait at a worker of `capacity` tokens and that a prompt does not mind which has to compute
/// `uncached` tokens on the best worker. To the nearest.
#[must_use]
pub fn relief(patience: f64, waiting: u64, uncached: u32, capacity: u64) -> u64 {
    let share = (f64::from(uncached) / capacity.max(1) as f64).min(1.0);
    libm::round(patience * waiting as f64 * share) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relief_grows_with_what_a_prompt_fills_and_ends_with_the_cache() {
        assert_eq!(relief(2.0, 10_000, 0, 100_000), 0);
        assert_eq!(relief(2.0, 10_000, 25_000, 100_000), 5_000);
        assert_eq!(relief(2.0, 10_000, 50_000, 100_000), 10_000);
        assert_eq!(relief(2.0, 10_000, 400_000, 100_000), 20_000);
        assert_eq!(relief(0.0, 10_000, 400_000, 100_000), 0);
        assert_eq!(relief(1.0, u64::MAX, u32::MAX, 0), u64::MAX);
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(validate(bad).map_err(|e| e.code()), Err("INVALID_ARGUMENT"));
        }
    }
}
