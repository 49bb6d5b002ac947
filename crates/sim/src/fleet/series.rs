//! How did the fleet look over time, in a list of bounded length?
//!
//! A sample is taken at the first event after each interval; when the list is full, every second one
//! goes and the interval doubles, so a run of any length ends with 256 to 512 samples. O(1) an event.
use super::report::Sample;
use crate::event::Nanos;

const MOST: usize = 512;
const FIRST_INTERVAL: Nanos = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Series {
    samples: Vec<Sample>,
    interval: Nanos,
    next: Nanos,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            interval: FIRST_INTERVAL,
            next: 0,
        }
    }
}

impl Series {
    /// Whether a sample is due.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// Takes the sample that is due.
    pub(crate) fn add(&mut self, now: Nanos, sample: Sample) {
        self.samples.push(sample);
        if self.samples.len() == MOST {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval *= 2;
        }
        self.next = (now / self.interval + 1) * self.interval;
    }

    pub(crate) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_thins_what_is_old() {
        let mut series = Series::default();
        for second in 0..10_000u64 {
            let now = second * FIRST_INTERVAL;
            if series.is_due(now) {
                let at_ms = second * 1_000;
                series.add(
                    now,
                    Sample {
                        at_ms,
                        ..Sample::default()
                    },
                );
            }
        }
        let samples = series.into_samples();
        assert!((256..=512).contains(&samples.len()), "{}", samples.len());
        assert!(samples.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms));
        assert_eq!(samples.first().map(|s| s.at_ms), Some(0));
        assert!(samples.last().is_some_and(|s| s.at_ms > 9_900_000));
    }
}
