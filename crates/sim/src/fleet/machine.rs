//! One engine of a fleet, of whichever model.
//!
//! The fleet speaks of turns; an engine model speaks of block hashes or of session prefixes. This room
//! converts, and answers what the fleet asks of any engine: what it has of a prompt, when something
//! happens next, what happened. Turns keep their number as request id.
use super::config::EngineModel;
use super::content::{Content, TurnKey};
use super::error::FleetError;
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::event::{EngineEvent, Nanos};
use crate::extents::{ExtentConfig, ExtentEngine, ExtentRequest};
use crate::histogram::Histogram;
use crate::request::Request;
use crate::streak::{BlockNews, Detail};

/// A turn on its way to an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) id: u64,
    pub(crate) key: TurnKey,
    pub(crate) session: u64,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    /// Chain hashes of its complete blocks, those of its answer included; empty for an engine that
    /// keeps no blocks.
    pub(crate) names: &'a [u64],
}

impl Job<'_> {
    fn extent(&self) -> ExtentRequest {
        ExtentRequest {
            id: self.id,
            session: self.session,
            turn: self.key.turn,
            prompt: self.prompt,
            output: self.output,
        }
    }
}

/// Counts since an engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) output_tokens: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) loaded_tokens: u64,
    pub(crate) preemptions: u64,
    pub(crate) passes: u64,
    pub(crate) busy: Nanos,
}

impl Tally {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            output_tokens: self.output_tokens + other.output_tokens,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            loaded_tokens: self.loaded_tokens + other.loaded_tokens,
            preemptions: self.preemptions + other.preemptions,
            passes: self.passes + other.passes,
            busy: self.busy + other.busy,
        }
    }

    /// What was done since `earlier`.
    pub(crate) fn minus(&self, earlier: &Self) -> Self {
        Self {
            output_tokens: self.output_tokens - earlier.output_tokens,
            prompt_tokens: self.prompt_tokens - earlier.prompt_tokens,
            loaded_tokens: self.loaded_tokens - earlier.loaded_tokens,
            preemptions: self.preemptions - earlier.preemptions,
            passes: self.passes - earlier.passes,
            busy: self.busy - earlier.busy,
        }
    }
}

/// What an engine is doing now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub(crate) running: u64,
    pub(crate) waiting: u64,
}

/// An engine.
#[derive(Debug)]
pub(crate) enum Machine {
    Blocks(Box<Engine>),
    Extents(Box<ExtentEngine>),
}

impl Machine {
    /// An empty engine whose clock stands at 0.
    pub(crate) fn new(model: &EngineModel, blocks: BlockNews) -> Result<Self, FleetError> {
        Ok(match model {
            EngineModel::DynamoPoly(config) => {
                let mut engine = Engine::new(config.clone())?;
                engine.detail = Detail::milestones(blocks);
                Self::Blocks(Box::new(engine))
            }
            EngineModel::H100Class(config) => {
                Self::Extents(Box::new(ExtentEngine::new(config.clone())))
            }
        })
    }

    /// Tokens of each prompt block that the engine has now, from the first on.
    pub(crate) fn overlap(&self, job: &Job<'_>, content: &mut Content<'_>) -> u32 {
        match self {
            Self::Blocks(engine) => engine.overlap(job.names, job.prompt),
            Self::Extents(engine) => engine.overlap(&job.extent(), content),
        }
    }

    /// A turn arrives now.
    pub(crate) fn submit(
        &mut self,
        now: Nanos,
        job: &Job<'_>,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        match self {
            Self::Blocks(engine) => {
                let request =
                    Request::from_hashes(job.id, job.prompt, job.output, job.names.into());
                let taken = request.and_then(|request| engine.submit(now, request));
                debug_assert_eq!(taken, Ok(()), "a workload has no empty turns");
            }
            Self::Extents(engine) => engine.submit(now, job.extent(), content, events),
        }
    }

    /// A turn is given up.
    pub(crate) fn cancel(&mut self, id: u64, events: &mut Vec<EngineEvent>) {
        match self {
            Self::Blocks(engine) => {
                engine.cancel(id, events);
            }
            Self::Extents(engine) => engine.cancel(id, events),
        }
    }

    /// The session of this key keeps its cache until then.
    pub(crate) fn lease(&mut self, session: u64, until: Nanos) {
        if let Self::Extents(engine) = self {
            engine.lease(session, until);
        }
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        match self {
            Self::Blocks(engine) => engine.next_event(),
            Self::Extents(engine) => engine.next_event(),
        }
    }

    /// Moves the clock to `until`; a pass that is due then is not begun.
    pub(crate) fn settle(
        &mut self,
        until: Nanos,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        match self {
            Self::Blocks(engine) => engine.settle(until, events),
            Self::Extents(engine) => engine.settle(until, content, events),
        }
    }

    /// Begins a pass that is due.
    pub(crate) fn begin(&mut self, content: &mut Content<'_>, events: &mut Vec<EngineEvent>) {
        match self {
            Self::Blocks(engine) => engine.begin(events),
            Self::Extents(engine) => engine.begin(content, events),
        }
    }

    /// Time between tokens since the last `clear`.
    pub(crate) fn gaps(&mut self) -> Option<&mut Histogram> {
        match self {
            Self::Blocks(engine) => engine.detail.gaps(),
            Self::Extents(engine) => Some(&mut engine.gaps),
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        match self {
            Self::Blocks(engine) => {
                let stats = &engine.stats;
                Tally {
                    output_tokens: stats.output_tokens,
                    prompt_tokens: stats.prompt_tokens,
                    loaded_tokens: stats.loaded_tokens,
                    preemptions: stats.preemptions,
                    passes: stats.passes,
                    busy: stats.busy,
                }
            }
            Self::Extents(engine) => Tally {
                output_tokens: engine.stats.output_tokens,
                prompt_tokens: engine.stats.prompt_tokens,
                loaded_tokens: engine.stats.loaded_tokens,
                preemptions: engine.stats.preemptions,
                passes: engine.stats.steps,
                busy: engine.stats.busy,
            },
        }
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        let (running, waiting) = match self {
            Self::Blocks(engine) => (engine.running.len(), engine.waiting.len()),
            Self::Extents(engine) => engine.occupancy(),
        };
        Occupancy {
            running: running as u64,
            waiting: waiting as u64,
        }
    }
}

/// Time that a turn takes on an idle engine of this model which has `cached` tokens of its prompt.
pub(crate) fn alone_ns(model: &EngineModel, prompt: u32, cached: u32, output: u32) -> Nanos {
    match model {
        EngineModel::DynamoPoly(config) => EngineConfig::alone_ns(config, prompt, cached, output),
        EngineModel::H100Class(config) => ExtentConfig::alone_ns(config, prompt, cached, output),
    }
}
