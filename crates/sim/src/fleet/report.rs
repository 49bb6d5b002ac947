//! What a run came to, in figures that another machine gives to the byte.
//!
//! Times are milliseconds or seconds as the names say; a figure that nothing was measured for is
//! absent. Percentiles are at most 0.05 % off (see `histogram.rs`); everything else is exact.
use serde::Serialize;

use super::source::Drawn;
use crate::histogram::Histogram;
use crate::router::IndexCost;

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The router's label.
    pub router: String,
    /// Engines.
    pub workers: u32,
    /// The simulator's seed.
    pub seed: u64,
    /// Live sessions, if that was a setting.
    pub population: Option<u64>,
    /// Which sessions of the workload it was drawn from.
    pub drawn: Option<Drawn>,
    /// How turns came and went.
    pub turns: TurnCounts,
    /// What the fleet made of them.
    pub work: Work,
    /// How long clients waited.
    pub latency: Latency,
    /// How sessions fared.
    pub sessions: Sessions,
    /// What better places would have saved.
    pub regret: Regret,
    /// What the router believed of caches, beside what was there; absent where it believes nothing.
    pub promises: Option<Promises>,
    /// What engines told of their caches, where they do.
    pub events: Option<Events>,
    /// The fleet over time.
    pub series: Vec<Sample>,
    /// What the router's knowledge cost, if it has any.
    pub index: Option<IndexCost>,
}

/// How turns came and went; all that arrived are in one of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnCounts {
    /// Turns that clients sent.
    pub arrived: u64,
    /// Answered in full.
    pub completed: u64,
    /// Cut short because prompt and answer outgrew the cache.
    pub outgrown: u64,
    /// Too large for any worker.
    pub rejected: u64,
    /// Refused by the router.
    pub refused: u64,
    /// Their client gave up.
    pub given_up: u64,
    /// Still on their way when the run ended.
    pub unfinished: u64,
    /// Times that a turn was sent again because its worker had died.
    pub retried: u64,
}

/// What the fleet did in the time that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Work {
    /// That time.
    pub seconds: f64,
    /// Tokens made.
    pub output_tokens: u64,
    /// Tokens made a second.
    pub output_tokens_per_second: f64,
    /// Turns answered a minute.
    pub turns_per_minute: f64,
    /// Prompt tokens of turns that began to run.
    pub prompt_tokens: u64,
    /// Of these, found in the cache.
    pub cached_tokens: u64,
    /// Tokens that came back from a host tier; part of those found.
    pub loaded_tokens: u64,
    /// Share of the prompt tokens that was found, 0 to 1.
    pub hit_rate: Option<f64>,
    /// Prompt tokens computed, those computed again after a pre-emption included.
    pub prompt_tokens_computed: u64,
    /// Times that a request lost its room.
    pub preemptions: u64,
    /// Passes of all engines.
    pub passes: u64,
    /// Share of the time that engines were busy, 0 to 1.
    pub busy: f64,
}

/// How a duration is spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Durations.
    pub count: u64,
    /// Milliseconds.
    pub mean_ms: Option<f64>,
    /// Milliseconds that half of them do not exceed.
    pub p50_ms: Option<f64>,
    /// 95 %.
    pub p95_ms: Option<f64>,
    /// 99 %.
    pub p99_ms: Option<f64>,
    /// All of them.
    pub max_ms: Option<f64>,
}

/// How long clients waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// From arrival to first token, any hold included. A wait that ends without one, because its
    /// client leaves or the run ends, counts as long as it was.
    pub ttft: Spread,
    /// Between two tokens of a turn.
    pub itl: Spread,
    /// In the router's hands, turns that were held only.
    pub hold: Spread,
    /// From arrival to last token.
    pub e2e: Spread,
}

/// How sessions fared. Alone means: the same turns and pauses on an idle worker with room for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sessions {
    /// Sessions that were judged: they had a turn answered while it was measured.
    pub judged: u64,
    /// Of these, finished.
    pub finished: u64,
    /// From first arrival to last end of those that finished.
    pub completion: Spread,
    /// Time it took over time alone, mean.
    pub slowdown_mean: Option<f64>,
    /// 99 % do not exceed it.
    pub slowdown_p99: Option<f64>,
    /// Means of the quarter with the smallest prompts, the next two, and the largest.
    pub slowdown_by_size: [Option<f64>; 4],
    /// Jain's index of progress (time alone over time it took): 1 when all fare alike.
    pub jain: Option<f64>,
    /// Mean progress of the slowest 5 %.
    pub slowest_progress: Option<f64>,
    /// Mean progress.
    pub progress_mean: Option<f64>,
}

/// What better places would have saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Regret {
    /// Turns that were sent to a worker.
    pub placements: u64,
    /// Of these, where another worker had more of the prompt.
    pub not_best: u64,
    /// Prompt tokens that the best worker had, over all placements.
    pub offered_tokens: u64,
    /// Prompt tokens that the chosen one had.
    pub taken_tokens: u64,
}

/// What a router believed to be in the cache that it sent a turn to, beside what the engine found there
/// when it admitted the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Promises {
    /// Turns that were admitted.
    pub turns: u64,
    /// Prompt tokens that the router believed to be there.
    pub promised_tokens: u64,
    /// Of these, not there.
    pub missing_tokens: u64,
    /// Prompt tokens that were there, not believed to be.
    pub unforeseen_tokens: u64,
    /// Turns with tokens missing.
    pub broken: u64,
    /// Of these, where the engine had told something by the time of the decision that the router neither
    /// had nor knew to be missing.
    pub broken_behind: u64,
    /// Of the others, on the engine's own word: it gave the blocks up in the pass under way, or before
    /// it admitted the turn.
    pub broken_exact: u64,
}

/// What engines told of their caches, over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Messages; one is what a pass has changed.
    pub messages: u64,
    /// Of these, lost on their way.
    pub lost: u64,
    /// Times that the router had an engine tell again.
    pub replays: u64,
}

/// The fleet at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Since the run began.
    pub at_ms: u64,
    /// Turns that engines run.
    pub running: u64,
    /// Turns that wait in engines.
    pub queued: u64,
    /// Turns that wait in the router.
    pub held: u64,
    /// Sessions that the router has paused.
    pub paused: u64,
    /// Tokens of the contexts of all sessions that have begun and not finished.
    pub working_set_tokens: u64,
}

impl Spread {
    pub(crate) fn of(histogram: &Histogram) -> Self {
        let ms = |ns: f64| ns / 1e6;
        Self {
            count: histogram.count(),
            mean_ms: histogram.mean().map(ms),
            p50_ms: histogram.at(0.50).map(ms),
            p95_ms: histogram.at(0.95).map(ms),
            p99_ms: histogram.at(0.99).map(ms),
            max_ms: histogram.most().map(|most| ms(most as f64)),
        }
    }
}
