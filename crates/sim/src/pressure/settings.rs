//! Other engines, fleets and clients: does what was found on one setting hold on others?
use warmpath_core::admission::LeaseConfig;

use super::row::Row;
use super::runs::{Bench, SHARED, Setting, Which};
use crate::event::Nanos;
use crate::extents::StepCost;
use crate::fleet::FleetError;

const SECOND: Nanos = 1_000_000_000;

/// A setting and what it is called.
type Named = (&'static str, fn(&mut Setting));

/// Eleven, each at two pressures.
const SETTINGS: [Named; 11] = [
    ("base", |_| {}),
    ("gpu-half", |s| s.engine.step = scaled(s.engine.step, 2, 1)),
    ("gpu-twice", |s| s.engine.step = scaled(s.engine.step, 1, 2)),
    ("workers-1", |s| s.workers = 1),
    ("workers-8", |s| s.workers = 8),
    ("gaps-30", |s| s.people.longest_gap = 30 * SECOND),
    ("gaps-300", |s| s.people.longest_gap = 300 * SECOND),
    ("gaps-600", |s| s.people.longest_gap = 600 * SECOND),
    ("cache-half", |s| s.engine.capacity_tokens = 1_100_000),
    ("shared-16k", |s| {
        s.which = Which::Sharing;
        s.engine.shared_tokens = SHARED;
    }),
    ("turns-30", |s| s.people.turns = 30),
];
const PRESSURES: [f64; 2] = [1.5, 2.0];

fn scaled(step: StepCost, over: u64, under: u64) -> StepCost {
    let by = |part: u64| part * over / under;
    StepCost {
        base: by(step.base),
        decode: by(step.decode),
        context_ps: by(step.context_ps),
        prompt: by(step.prompt),
        prompt_context_ps: by(step.prompt_context_ps),
    }
}

pub(super) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>, FleetError> {
    let named: Vec<(String, Setting)> = SETTINGS
        .iter()
        .flat_map(|(name, change)| {
            PRESSURES.map(|pressure| {
                let mut setting = Setting::at(pressure);
                change(&mut setting);
                (format!("{name}.p{pressure}"), setting)
            })
        })
        .collect();
    let settings: Vec<Setting> = named.iter().map(|(_, setting)| setting.clone()).collect();
    let compared = bench.compare(&settings, &[LeaseConfig::BALANCED, LeaseConfig::TAIL])?;
    let (mut faster, mut shorter) = (0, 0);
    let mut rows = Vec::new();
    for ((name, _), found) in named.iter().zip(&compared) {
        let (balanced, tail) = (found.lease[0], found.lease[1]);
        faster += usize::from(balanced.rate > found.thunderagent.rate);
        shorter += usize::from(tail.ttft_p99 <= found.none.ttft_p99);
        rows.push(
            Row::new(
                format!("settings.{name}.throughput"),
                format!("{name}, `balanced`: throughput"),
                balanced.rate,
                "tokens/s",
            )
            .beside("thunderagent", found.thunderagent.rate),
        );
        rows.push(
            Row::new(
                format!("settings.{name}.ttft_p99"),
                format!("{name}, `tail`: p99 of the time to first token, holds included"),
                tail.ttft_p99,
                "s",
            )
            .beside("no gate", found.none.ttft_p99),
        );
    }
    let all = compared.len();
    let count = |name: &str, text: &str, count: usize, least: f64| {
        let text = format!("{text}, of {all} settings");
        Row::new(format!("settings.{name}"), text, count as f64, "settings").at_least(least)
    };
    rows.push(count(
        "throughput",
        "`balanced` makes more than ThunderAgent",
        faster,
        22.0,
    ));
    rows.push(count(
        "ttft_p99",
        "`tail` has a p99 no longer than without a gate",
        shorter,
        20.0,
    ));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_engine_is_slower_in_every_part() {
        let step = StepCost::default();
        assert_eq!(scaled(step, 2, 2), step);
        assert_eq!(scaled(scaled(step, 2, 1), 1, 2), step);
        assert_eq!(
            scaled(step, 2, 1).step(2, 1_000, 5),
            2 * step.step(2, 1_000, 0) + 5
        );
    }
}
