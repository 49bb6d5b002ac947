//! Which worker, when costs are only to weigh the dice?
//!
//! Costs are stretched to [0, 1] (cheapest 0, dearest 1) and each is as likely as exp(-cost/T). A low
//! temperature T nearly always takes the cheapest, a high one spreads. O(rows); the exponential comes
//! from `libm`, so that the bytes are equal on any machine.
use crate::{Error, Result};

/// How much chance there is in a choice: finite and above zero. No temperature is no chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature(f64);

impl Temperature {
    /// Checks a temperature.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when it is not a finite number above zero.
    pub fn new(temperature: f64) -> Result<Self> {
        if temperature.is_finite() && temperature > 0.0 {
            return Ok(Self(temperature));
        }
        let detail = format!("temperature is {temperature}; it must be finite and above 0");
        Err(Error::invalid_argument(detail))
    }
}

/// Replaces `out` by the probability of each cost. Costs without a finite range (all equal, or one not
/// a finite number) are all equally likely.
pub fn probabilities(costs: &[f64], temperature: Temperature, out: &mut Vec<f64>) {
    out.clear();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = most - least;
    let finite = costs.iter().all(|c| c.is_finite());
    if !(finite && range.is_finite() && range > 0.0) {
        out.resize(costs.len(), 1.0 / costs.len() as f64);
        return;
    }
    let weight = |cost: &f64| libm::exp(-((cost - least) / range) / temperature.0);
    out.extend(costs.iter().map(weight));
    let sum: f64 = out.iter().sum();
    for p in out {
        *p /= sum;
    }
}

/// The first index whose cumulated probability reaches `draw`, a number in [0, 1); the last one when
/// rounding keeps the sum below it. Absent when there is nothing to choose from.
#[must_use]
pub fn pick(probabilities: &[f64], draw: f64) -> Option<usize> {
    let mut cumulated = 0.0;
    let reached = probabilities.iter().position(|p| {
        cumulated += p;
        draw <= cumulated
    });
    reached.or_else(|| probabilities.len().checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_is_finite_and_above_zero() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = Temperature::new(bad).map_err(|e| e.code());
            assert_eq!(refused, Err("INVALID_ARGUMENT"));
        }
    }

    #[test]
    fn costs_without_a_finite_range_are_equally_likely() {
        let temperature = Temperature::new(1.0).expect("above zero");
        let mut out = Vec::new();
        for costs in [[3.0, 3.0], [f64::NAN, 1.0], [f64::INFINITY, 1.0]] {
            probabilities(&costs, temperature, &mut out);
            assert_eq!(out, [0.5, 0.5]);
        }
        probabilities(&[], temperature, &mut out);
        assert_eq!((out.len(), pick(&out, 0.5)), (0, None));
        assert_eq!(pick(&[0.5, 0.4], 0.95), Some(1));
    }
}
