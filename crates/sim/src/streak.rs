//! Passes in which nothing happens but one more token for everybody, taken in one step.
//!
//! Most passes of a busy engine only lengthen answers: nobody comes, nobody is done, no block is
//! begun or completed, so the next pass is this one with a larger bill. A fleet does not ask for
//! single tokens, so its engines foresee how many such passes follow and when the first one ends
//! that matters; until then the batch is untouched, and each pass costs one evaluation of the timing
//! model. Whatever comes in between (an arrival, a cancellation) ends the streak, and what has passed
//! of it is booked first. The times are those of the single steps, bit for bit: a test compares them.
use crate::config::{Prefill, Work};
use crate::engine::Engine;
use crate::event::{EngineEvent, EventKind, Nanos};
use crate::histogram::Histogram;
use crate::sequence::{Fate, Sequence};

/// A streak is evaluated when it is foreseen and again when it happens; this bounds what an arrival
/// in its middle can waste.
const MOST_PASSES: u32 = 512;

/// What an engine reports.
#[derive(Debug)]
pub(crate) enum Detail {
    /// All of [`EventKind`].
    EveryToken,
    /// All but single tokens: only how far apart they were. Changes of the cache if asked for.
    Milestones {
        /// Time between two tokens of one request, nanoseconds.
        gaps: Box<Histogram>,
        blocks: BlockNews,
    },
}

/// Whether changes of the cache are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockNews {
    Reported,
    Dropped,
}

impl Detail {
    /// No single tokens, which is what allows to skip.
    pub(crate) fn milestones(blocks: BlockNews) -> Self {
        Self::Milestones {
            gaps: Box::default(),
            blocks,
        }
    }

    /// The time between tokens so far, if only milestones are reported.
    pub(crate) fn gaps(&mut self) -> Option<&mut Histogram> {
        match self {
            Self::EveryToken => None,
            Self::Milestones { gaps, .. } => Some(gaps),
        }
    }

    pub(crate) fn wants_blocks(&self) -> bool {
        !matches!(
            self,
            Self::Milestones {
                blocks: BlockNews::Dropped,
                ..
            }
        )
    }

    /// A token was made.
    pub(crate) fn token(
        &mut self,
        now: Nanos,
        sequence: &mut Sequence,
        events: &mut Vec<EngineEvent>,
    ) {
        let (id, produced) = (sequence.id, sequence.produced);
        let kind = match (produced, &mut *self) {
            (1, _) => EventKind::FirstToken { id },
            (_, Self::EveryToken) => EventKind::Token { id, produced },
            (_, Self::Milestones { gaps, .. }) => {
                gaps.record(now - sequence.last_token, 1);
                sequence.last_token = now;
                return;
            }
        };
        sequence.last_token = now;
        events.push(EngineEvent { at: now, kind });
    }
}

/// Passes that may be skipped, the one under way included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streak {
    passes: u32,
    /// When the pass after them ends.
    pub(crate) end: Nanos,
}

impl Engine {
    /// What follows on the pass that has just begun, if that is nothing for a while. Whoever waits
    /// was refused for want of room or of a seat, and neither changes in a streak.
    pub(crate) fn foresee(&self) -> Option<Streak> {
        let mut end = self.pass_end?;
        let is_news = self.pool.is_changed() && self.detail.wants_blocks();
        if is_news || matches!(self.detail, Detail::EveryToken) {
            return None;
        }
        let mut passes = MOST_PASSES;
        let mut tokens = 0;
        for sequence in &self.running {
            passes = passes.min(self.uneventful(sequence));
            if passes == 0 {
                return None;
            }
            tokens += u64::from(sequence.length());
        }
        let decodes = self.running.len() as u64;
        for _ in 0..passes {
            tokens += decodes;
            end = end.saturating_add(self.config.pass_ns(&Work::decode(decodes, tokens)));
        }
        Some(Streak { passes, end })
    }

    /// Passes, that under way included, which end without an event of `sequence` and are followed by
    /// one that neither begins nor completes a block of it.
    fn uneventful(&self, sequence: &Sequence) -> u32 {
        let decodes = sequence.granted == 1
            && sequence.produced > 0
            && sequence.computed + 1 == sequence.length()
            && sequence.fate == Fate::Wanted;
        if !decodes {
            return 0;
        }
        let within = (sequence.computed + 1) % self.config.block_size;
        let block = match within {
            0 => 0,
            _ => self.config.block_size - 1 - within,
        };
        let pass = match self.config.prefill {
            Prefill::Chunked => u32::MAX,
            Prefill::Whole => self
                .config
                .max_num_batched_tokens
                .saturating_sub(sequence.length()),
        };
        block.min(pass).min(sequence.output - sequence.produced - 1)
    }

    /// Takes the passes of the streak that end before `until`; the next one is then under way.
    pub(crate) fn skip(&mut self, until: Nanos) {
        let (Some(streak), Some(mut end)) = (self.streak, self.pass_end) else {
            return;
        };
        let Detail::Milestones { gaps, .. } = &mut self.detail else {
            return;
        };
        let decodes = self.running.len() as u64;
        let mut tokens: u64 = self.running.iter().map(|s| u64::from(s.length())).sum();
        let mut done = 0;
        let mut cost = 0;
        while done < streak.passes && end < until {
            if done == 0 {
                for sequence in &self.running {
                    gaps.record(end - sequence.last_token, 1);
                }
            } else {
                gaps.record(cost, decodes);
            }
            self.now = end;
            done += 1;
            tokens += decodes;
            cost = self.config.pass_ns(&Work::decode(decodes, tokens));
            self.stats.passes += 1;
            self.stats.busy = self.stats.busy.saturating_add(cost);
            end = end.saturating_add(cost);
        }
        if done == 0 {
            return;
        }
        for sequence in &mut self.running {
            sequence.computed += done;
            sequence.produced += done;
            sequence.last_token = self.now;
        }
        self.stats.output_tokens += decodes * u64::from(done);
        self.pass_end = Some(end);
        self.streak = (done < streak.passes).then_some(Streak {
            passes: streak.passes - done,
            end: streak.end,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineConfig, Request};
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;

    #[derive(Clone, Debug)]
    enum Call {
        Submit { prompt: u32, output: u32 },
        Cancel { id: u64 },
    }

    fn calls() -> impl Strategy<Value = Vec<(Nanos, Call)>> {
        let submit =
            (1..300u32, 1..200u32).prop_map(|(prompt, output)| Call::Submit { prompt, output });
        let cancel = (0..8u64).prop_map(|id| Call::Cancel { id });
        let call = prop_oneof![5 => submit, 1 => cancel];
        proptest::collection::vec((0..60 * MS, call), 1..12)
    }

    /// What is reported, token by token or not, with the sum of all gaps between tokens.
    fn run(
        config: &EngineConfig,
        calls: &[(Nanos, Call)],
        every_token: bool,
    ) -> (Vec<EngineEvent>, u128, u64) {
        let mut engine = Engine::new(config.clone()).unwrap();
        if !every_token {
            engine.detail = Detail::milestones(BlockNews::Reported);
        }
        let (mut events, mut at) = (Vec::new(), 0);
        for (id, (wait, call)) in calls.iter().enumerate() {
            at += wait;
            engine.settle(at, &mut events);
            match *call {
                Call::Submit { prompt, output } => {
                    let tokens: Vec<u32> = (0..prompt).map(|i| i / 70 + id as u32 % 2).collect();
                    let size = config.block_size;
                    let request = Request::drawn(id as u64, &tokens, output, id as u64, size);
                    engine.submit(at, request.unwrap()).unwrap();
                }
                Call::Cancel { id } => {
                    engine.cancel(id, &mut events);
                }
            }
            engine.begin(&mut events);
        }
        while let Some(next) = engine.next_event() {
            engine.advance(next, &mut events);
        }
        let busy = u128::from(engine.stats().busy);
        (events, busy, engine.stats().passes)
    }

    proptest! {
        #[test]
        fn a_skipped_pass_is_the_pass(
            calls in calls(),
            shape in (prop_oneof![Just(4u32), Just(16)], 20..120u32, 1..6u32, 8..400u32),
            whole in any::<bool>(),
        ) {
            let config = EngineConfig {
                block_size: shape.0,
                num_gpu_blocks: shape.1,
                max_num_seqs: shape.2,
                max_num_batched_tokens: shape.3,
                prefill: if whole { Prefill::Whole } else { Prefill::Chunked },
                ..EngineConfig::default()
            };
            let (mut each, busy, passes) = run(&config, &calls, true);
            let (skipped, skipped_busy, skipped_passes) = run(&config, &calls, false);
            each.retain(|e| !matches!(e.kind, EventKind::Token { .. }));
            prop_assert_eq!(each, skipped);
            prop_assert_eq!((busy, passes), (skipped_busy, skipped_passes));
        }
    }

    #[test]
    fn gaps_are_those_of_the_tokens() {
        let mut engine = Engine::new(EngineConfig::default()).unwrap();
        engine.detail = Detail::milestones(BlockNews::Dropped);
        let tokens = vec![1; 1_000];
        engine
            .submit(0, Request::drawn(1, &tokens, 500, 1, 64).unwrap())
            .unwrap();
        let mut events = Vec::new();
        engine.advance(3_600_000 * MS, &mut events);
        let first = events.iter().find_map(|e| match e.kind {
            EventKind::FirstToken { .. } => Some(e.at),
            _ => None,
        });
        let last = events.last().unwrap().at;
        let gaps = engine.detail.gaps().unwrap();
        assert_eq!(gaps.count(), 499);
        let mean = (last - first.unwrap()) as f64 / 499.0;
        assert!((gaps.mean().unwrap() - mean).abs() < 1e-3);
    }
}
