//! The same sessions with other lengths, or with a beginning that all of them share.
use std::num::NonZeroU32;

use warmpath_core::Micros;
use warmpath_trace::{NewStart, NewTurn, Start, Turn, Wait, Workload, WorkloadBuilder};

/// A ratio of whole numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio(pub(super) u32, pub(super) u32);

impl Ratio {
    fn of(self, tokens: u32) -> u32 {
        let scaled = u64::from(tokens) * u64::from(self.0) / u64::from(self.1);
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    }
}

/// Prompts, answers and blocks are `ratio` times as long; a session ends before its first prompt of more
/// than `most` tokens.
pub(super) fn scaled(workload: &Workload, ratio: Ratio, most: u32) -> Workload {
    let block = NonZeroU32::new(ratio.of(workload.block_tokens().get()));
    let mut copy = Copy::new(workload, block.unwrap_or(NonZeroU32::MIN));
    for (index, turn) in workload.turns().iter().enumerate() {
        let input = ratio.of(turn.input_tokens);
        if input > most {
            copy.is_over[turn.session as usize] = true;
        }
        copy.add(index, turn, (input, ratio.of(turn.output_tokens)), |_| {});
    }
    copy.builder.finish()
}

/// All prompts begin with the same `tokens` tokens, in whole blocks, in place of their own.
pub(super) fn sharing(workload: &Workload, tokens: u32) -> Workload {
    let mut copy = Copy::new(workload, workload.block_tokens());
    let shared = tokens / workload.block_tokens().get();
    let sizes = |turn: &Turn| (turn.input_tokens, turn.output_tokens);
    for (index, turn) in workload.turns().iter().enumerate() {
        copy.add(index, turn, sizes(turn), |prompt| {
            for (at, block) in prompt.iter_mut().enumerate() {
                *block = match u32::try_from(at) {
                    Ok(at) if at < shared => at,
                    _ => block.saturating_add(shared),
                };
            }
        });
    }
    copy.builder.finish()
}

/// A workload while it is copied.
struct Copy<'a> {
    whole: &'a Workload,
    builder: WorkloadBuilder,
    /// Where each turn is in the copy.
    turns: Vec<Option<u32>>,
    /// Sessions that take no more turns.
    is_over: Vec<bool>,
    prompt: Vec<u32>,
}

impl<'a> Copy<'a> {
    fn new(whole: &'a Workload, block_tokens: NonZeroU32) -> Self {
        let mut builder = WorkloadBuilder::new(block_tokens);
        for session in whole.sessions() {
            let added = builder.add_session(&session.name, session.parent);
            debug_assert!(added.is_ok(), "it was a session of a workload");
        }
        Self {
            whole,
            builder,
            turns: vec![None; whole.turns().len()],
            is_over: vec![false; whole.sessions().len()],
            prompt: Vec::new(),
        }
    }

    fn add(
        &mut self,
        index: usize,
        turn: &Turn,
        (input_tokens, output_tokens): (u32, u32),
        change: impl FnOnce(&mut [u32]),
    ) {
        if self.is_over[turn.session as usize] {
            return;
        }
        let (waits, not_before) = self.waits(turn.start);
        self.whole.read_blocks(index, &mut self.prompt);
        change(&mut self.prompt);
        let start = match turn.start {
            Start::At(time) => NewStart::At(time),
            Start::After(_) if waits.is_empty() => NewStart::At(not_before),
            Start::After(_) => NewStart::AfterNotBefore(&waits, not_before),
        };
        let added = self.builder.add_turn(&NewTurn {
            session: turn.session,
            input_tokens,
            output_tokens,
            next: turn.next,
            blocks: &self.prompt,
            start,
        });
        debug_assert!(added.is_ok(), "it was a turn of a workload: {added:?}");
        self.turns[index] = added.ok();
    }

    /// What the turn waits for that is in the copy too.
    fn waits(&self, start: Start) -> (Vec<Wait>, Micros) {
        let waits = self.whole.waits(start).iter();
        let kept = waits.filter_map(|&wait| {
            let turn = self.turns[wait.turn as usize]?;
            Some(Wait { turn, ..wait })
        });
        (kept.collect(), self.whole.not_before(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{SessionShape, generate};

    fn workload() -> Workload {
        let shape = SessionShape {
            sessions: 5,
            block_tokens: 16,
            ..SessionShape::default()
        };
        generate(&shape, 3).unwrap()
    }

    #[test]
    fn a_session_grows_by_the_ratio_and_ends_before_it_is_too_large() {
        let workload = workload();
        let whole = scaled(&workload, Ratio(5, 2), u32::MAX);
        assert_eq!(whole.block_tokens().get(), 40);
        for (a, b) in workload.turns().iter().zip(whole.turns()) {
            assert_eq!(a.input_tokens * 5 / 2, b.input_tokens);
            assert_eq!(workload.waits(a.start), whole.waits(b.start));
        }
        let most = whole.turns().iter().map(|t| t.input_tokens).max().unwrap() - 1;
        let cut = scaled(&workload, Ratio(5, 2), most);
        assert!(cut.turns().len() < whole.turns().len());
        assert!(cut.turns().iter().all(|turn| turn.input_tokens <= most));
        assert_eq!(scaled(&workload, Ratio(1, 1), u32::MAX), workload);
    }

    #[test]
    fn all_prompts_begin_alike_and_go_on_as_before() {
        let workload = workload();
        let alike = sharing(&workload, 100);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for index in 0..workload.turns().len() {
            workload.read_blocks(index, &mut before);
            alike.read_blocks(index, &mut after);
            assert_eq!(before.len(), after.len());
            let shared = 6.min(after.len());
            assert_eq!(after[..shared], [0, 1, 2, 3, 4, 5][..shared]);
            assert!(after[shared..].iter().all(|&block| block >= 6));
        }
    }
}
