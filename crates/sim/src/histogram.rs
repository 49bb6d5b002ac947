//! How are millions of durations spread, in fixed memory?
//!
//! Buckets are 1,024 to a power of two, so a percentile is at most 0.05 % off, whatever was recorded
//! and however much; mean, least and most are exact. Values are nanoseconds (or any whole number).
//! It does not keep what it was given, so it cannot be asked which turn was slow. O(1) to record,
//! 254 KiB for a thousand seconds; grows only as far as the largest value needs.

/// Buckets in a power of two.
const SUB: u32 = 1_024;
const SUB_BITS: u32 = SUB.trailing_zeros();

/// Counts of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    most: u64,
}

impl Histogram {
    /// Counts `value` `times` times.
    pub(crate) fn record(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.most = self.most.max(value);
    }

    /// Adds everything that `other` has.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.most = self.most.max(other.most);
    }

    /// Forgets all values, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum, self.most) = (0, 0, 0);
    }

    /// Values recorded.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Exact; `None` without values.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Exact; `None` without values.
    pub(crate) fn most(&self) -> Option<u64> {
        (self.count > 0).then_some(self.most)
    }

    /// The value that `share` (0 to 1) of all values do not exceed; `None` without values.
    pub(crate) fn at(&self, share: f64) -> Option<f64> {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (index, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return Some(middle(index).min(self.most as f64));
            }
        }
        self.most().map(|most| most as f64)
    }
}

/// Small values have a bucket each; above, the leading bits choose it.
fn bucket(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    let shift = bits.saturating_sub(SUB_BITS + 1);
    (u64::from(shift * SUB) + (value >> shift)) as usize
}

/// The middle of a bucket.
fn middle(index: usize) -> f64 {
    let (index, sub) = (index as u64, u64::from(SUB));
    let shift = (index / sub).saturating_sub(1);
    let low = (index - shift * sub) << shift;
    low as f64 + ((1u64 << shift) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_near_the_sorted_list(
            mut values in prop::collection::vec(0u64..10_000_000_000, 1..300),
            share in 0.0f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.record(value, 1);
            }
            values.sort_unstable();
            let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
            let exact = values[rank - 1] as f64;
            let found = histogram.at(share).unwrap();
            prop_assert!((found - exact).abs() <= 0.0005 * exact, "{found} {exact}");
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((histogram.mean().unwrap() - mean).abs() < 1e-6 * mean.max(1.0));
            prop_assert_eq!(histogram.most(), values.last().copied());
        }
    }

    #[test]
    fn the_largest_value_has_a_bucket_and_nothing_has_no_percentile() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.at(0.5), None);
        histogram.record(u64::MAX, 2);
        let found = histogram.at(0.5).unwrap();
        assert!((found / u64::MAX as f64 - 1.0).abs() < 0.0005);
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!(twice.count(), 4);
        twice.clear();
        assert_eq!(twice.mean(), None);
    }
}
