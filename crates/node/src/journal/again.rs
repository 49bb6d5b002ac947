//! The calls of a journal, made once more to a scheduler of its own.
//!
//! A prompt of text comes as the lengths of its segments and a hash a block. The text that is made of
//! these has the same lengths, and two of its blocks are equal where the recorded ones were; so all that
//! follows from a text, its cuts, its estimated tokens, what it shares with others, is as it was.
use hashbrown::{HashMap, HashSet};
use napi::bindgen_prelude::Result;
use serde_json::Value;

use warmpath_core::admission::Tool;
use warmpath_core::block::text_ends;
use warmpath_core::load::Untracked;
use warmpath_core::receipt::Reported;
use warmpath_core::scheduler::{Completion, Fault, Ids, Outcome, Verdict, derived_name};
use warmpath_core::session::Phase;
use warmpath_core::{Micros, ReservationId, TargetId, WorkerId};

use super::{Act, FORM, Prompt, Step, Submit};
use crate::error::{Code, invalid, refused};
use crate::fleet::{departure_of, health_of};
use crate::frame::{FrameBuffer, Parts};
use crate::handle::State;
use crate::models::NewModel;
use crate::options::{Group, NewTarget, NewWorker, Options};
use crate::pool::NewPool;
use crate::report::receipt_value;

/// The text of one prompt, whatever a trace says of it.
const MOST_BYTES: usize = 1 << 30;

/// What became of a turn, by its recorded number.
pub(crate) struct Decided {
    pub(crate) turn: u64,
    /// The receipt and its number; `None` when it could go nowhere.
    pub(crate) receipt: Option<(u64, Value)>,
}

/// A scheduler that is told what another one was told.
pub(crate) struct Again {
    state: State,
    /// Groups with a worker whose engine tells what it has, or with a store that does.
    told: HashSet<u32>,
    /// What later prompts may go on from, and what its session is called here.
    prompts: HashMap<u64, (Prompt, String)>,
    here: HashMap<u64, ReservationId>,
    there: HashMap<ReservationId, u64>,
    buffer: FrameBuffer,
    short: ShortBlocks,
    /// Turns whose decisions follow from what engines told.
    told_turns: HashSet<u64>,
    decided: Vec<Decided>,
}

/// Blocks that are too short for their hash: numbered among those of one length behind one parent.
#[derive(Default)]
struct ShortBlocks(HashMap<(u64, usize), HashMap<u64, u64>>);

impl Again {
    /// A scheduler with the options of a recorded one; `None` for steps of another form.
    pub(crate) fn start(first: &Step) -> Result<Option<Self>, Code> {
        let Act::Start { form, options } = &first.act else {
            return Err(invalid(
                "a recording begins with the start of its scheduler",
            ));
        };
        if *form != FORM {
            return Ok(None);
        }
        let mut options = Options::parse(&options.to_string())?;
        let mut told = HashSet::new();
        for worker in &mut options.workers {
            if worker.kv_events.take().is_some() {
                told.insert(worker.group);
            }
        }
        told.extend(options.pools.iter().map(|pool| pool.group));
        Ok(Some(Self {
            state: State::new(options)?,
            told,
            prompts: HashMap::new(),
            here: HashMap::new(),
            there: HashMap::new(),
            buffer: FrameBuffer::default(),
            short: ShortBlocks::default(),
            told_turns: HashSet::new(),
            decided: Vec::new(),
        }))
    }

    /// Whether what a turn was decided on is all here.
    pub(crate) fn is_told_of(&self, turn: u64) -> bool {
        self.told_turns.contains(&turn)
    }

    /// Makes one call, and gives the decisions that came of it, in their order.
    pub(crate) fn step(&mut self, step: &Step) -> Result<Vec<Decided>, Code> {
        let now = Micros(step.at);
        match &step.act {
            Act::Start { .. } => return Err(invalid("a scheduler starts once")),
            Act::Submit(submit) => self.submit(now, submit)?,
            Act::Reroute { turn, lasts } => self.reroute(now, *turn, *lasts),
            Act::FirstToken { turn } => {
                if let Some(&id) = self.here.get(turn) {
                    self.state
                        .core
                        .first_token(now, id, &mut self.state.settled);
                }
            }
            Act::Complete { .. } => self.complete(now, &step.act),
            Act::Cancel { turn } => {
                if let Some(id) = self.here.remove(turn) {
                    self.state.core.cancel(now, id, &mut self.state.settled);
                }
            }
            Act::Wake | Act::Restored | Act::Recalled => {
                self.state.core.advance(now, &mut self.state.settled);
            }
            Act::ResetCache { worker } => {
                // What was refused then is refused now, and changes nothing.
                let _ = self.state.core.reset_cache(now, WorkerId(*worker));
            }
            Act::EndSession { tenant, name, of } => {
                let known = of.and_then(|turn| self.prompts.get(&turn));
                let name = known.map_or(name.as_str(), |(_, name)| name);
                let settled = &mut self.state.settled;
                self.state.core.end_session(now, tenant, name, settled);
            }
            Act::Tool {
                tenant,
                name,
                of,
                expected,
                ended,
            } => {
                let known = of.and_then(|turn| self.prompts.get(&turn));
                let name = known.map_or(name.as_str(), |(_, name)| name);
                let tool = match ended {
                    true => Tool::Ended,
                    false => Tool::Started {
                        expected: expected.map(Micros),
                    },
                };
                let settled = &mut self.state.settled;
                self.state.core.tool(now, (tenant, name), tool, settled);
            }
            fleet => self.change_fleet(now, fleet)?,
        }
        self.follow();
        Ok(std::mem::take(&mut self.decided))
    }

    fn submit(&mut self, now: Micros, submit: &Submit) -> Result<(), Code> {
        let prompt = self.prompt(submit)?;
        let text = match submit.head[1] {
            0 => self.short.text(&prompt)?,
            _ => bytemuck::cast_slice(&prompt.blocks).to_vec(),
        };
        let [flags, kind, most, tokens, pin, base] = submit.head;
        let fixed = [
            flags,
            kind,
            most,
            tokens,
            0,
            0,
            0,
            pin,
            0,
            0,
            0,
            0,
            base,
            0,
            0,
            i32::from(submit.priority).cast_unsigned(),
        ];
        let bytes = |ids: &'_ [String]| -> Vec<Vec<u8>> {
            ids.iter().map(|id| id.as_bytes().to_vec()).collect()
        };
        let (calls, state) = (bytes(&submit.calls), bytes(&submit.state));
        let parts = Parts {
            fixed: &fixed,
            names: submit.names.each_ref().map(|name| name.as_bytes()),
            targets: &submit.targets,
            tool_results: calls.iter().map(Vec::as_slice).collect(),
            state: state.iter().map(Vec::as_slice).collect(),
            segments: &prompt.segments,
        };
        self.buffer.fill(&parts);
        let frame = self.buffer.frame(&text);
        let State {
            core,
            lists,
            settled,
            ..
        } = &mut self.state;
        let turn = frame.read(lists, None)?;
        // What nobody could take then, nobody can take now.
        let submitted = core.submit(now, &turn, settled).ok();
        let is_told = submit.targets.iter().any(|&target| {
            let target = core.topology().target(TargetId(target));
            target.is_ok_and(|target| self.told.contains(&target.group.0))
        });
        let Some(recorded) = submit.turn else {
            return Ok(());
        };
        if is_told {
            self.told_turns.insert(recorded);
        }
        let derived = submitted.and_then(|submitted| submitted.derived);
        let name = derived.map_or_else(|| submit.names[1].clone(), derived_name);
        self.prompts.insert(recorded, (prompt, name));
        match submitted {
            None => self.decided.push(Decided {
                turn: recorded,
                receipt: None,
            }),
            Some(submitted) => {
                self.here.insert(recorded, submitted.reservation);
                self.there.insert(submitted.reservation, recorded);
                if let Verdict::Go(go) = submitted.verdict {
                    self.decide(recorded, Some(go.receipt));
                }
            }
        }
        Ok(())
    }

    /// The whole prompt of a turn; what it goes on from is no longer needed.
    fn prompt(&mut self, submit: &Submit) -> Result<Prompt, Code> {
        let before = submit.like.and_then(|(turn, segments, blocks)| {
            let (before, _) = match submit.turn {
                Some(_) => self.prompts.remove(&turn)?,
                None => {
                    let (before, name) = self.prompts.get(&turn)?;
                    (before.clone(), name.clone())
                }
            };
            Some((before, segments, blocks))
        });
        let mut prompt = Prompt {
            turn: submit.turn.unwrap_or_default(),
            segments: Vec::new(),
            blocks: Vec::new(),
        };
        if let Some((before, segments, blocks)) = before {
            prompt
                .segments
                .extend(before.segments.iter().take(segments));
            prompt.blocks.extend(before.blocks.iter().take(blocks));
        }
        prompt.segments.extend(&submit.segments);
        for digits in submit.blocks.as_bytes().chunks(16) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            let hash = u64::from_str_radix(digits, 16);
            prompt
                .blocks
                .push(hash.map_err(|_| invalid("a block has 16 hex digits"))?);
        }
        Ok(prompt)
    }

    fn reroute(&mut self, now: Micros, turn: u64, lasts: bool) {
        let Some(&id) = self.here.get(&turn) else {
            return;
        };
        let fault = match lasts {
            true => Fault::Lasting,
            false => Fault::Passing,
        };
        let State { core, settled, .. } = &mut self.state;
        if let Ok(go) = core.reroute(now, id, fault, settled) {
            self.decide(turn, Some(go.receipt));
        }
    }

    fn complete(&mut self, now: Micros, act: &Act) {
        let Act::Complete {
            turn,
            usage: [prompt_tokens, cached_tokens, completion_tokens],
            finished,
            calls,
            state,
        } = act
        else {
            return;
        };
        let Some(id) = self.here.remove(turn) else {
            return;
        };
        let (calls, state) = (Joined::of(calls), Joined::of(state));
        let completion = Completion {
            reported: Reported {
                prompt_tokens: *prompt_tokens,
                cached_tokens: *cached_tokens,
                completion_tokens: *completion_tokens,
            },
            phase: finished.map(|finished| match finished {
                true => Phase::Reasoning,
                false => Phase::Acting,
            }),
            tool_calls: calls.ids(),
            state: state.ids(),
        };
        let State { core, settled, .. } = &mut self.state;
        core.complete(now, id, &completion, settled);
    }

    /// What was refused then is refused now, and changes nothing.
    fn change_fleet(&mut self, now: Micros, act: &Act) -> Result<(), Code> {
        match act {
            Act::Health { worker, health } => {
                let health = health_of(*health)?;
                let State { core, settled, .. } = &mut self.state;
                let _ = core.set_health(now, WorkerId(*worker), health, settled);
            }
            Act::Depart {
                worker,
                sessions,
                until,
            } => {
                let (departure, until) = (departure_of(*sessions), Micros(*until));
                let State { core, settled, .. } = &mut self.state;
                let _ = core.depart(now, WorkerId(*worker), departure, until, settled);
            }
            Act::Capacity { worker, tokens } => {
                let State { core, settled, .. } = &mut self.state;
                let _ = core.set_capacity(now, WorkerId(*worker), *tokens, settled);
            }
            Act::Untracked {
                worker,
                requests,
                tokens,
            } => {
                let untracked = Untracked {
                    requests: *requests,
                    tokens: *tokens,
                };
                let State { core, settled, .. } = &mut self.state;
                let _ = core.set_untracked(now, WorkerId(*worker), untracked, settled);
            }
            Act::AddWorker { options } => {
                let worker = self.worker(options)?;
                let _ = self.state.add_worker(now, worker);
            }
            Act::ReplaceWorker { worker, options } => {
                let new = self.worker(options)?;
                let _ = self.state.replace_worker(now, WorkerId(*worker), new);
            }
            Act::AddGroup { options } => {
                let group = Group::parse(&options.to_string())?;
                let added = self.state.core.add_group(now, group.options());
                added.map_err(|error| refused(&error))?;
            }
            Act::AddPool { options } => {
                let pool = NewPool::parse(&options.to_string())?;
                self.told.insert(pool.group);
                let _ = self.state.add_pool(now, &pool);
            }
            Act::RemovePool { pool } => {
                self.state.remove_pool(now, *pool);
            }
            Act::AddTarget { options } => {
                let _ = self
                    .state
                    .add_target(NewTarget::parse(&options.to_string())?);
            }
            Act::ReviseTarget { target, options } => {
                let revised = NewTarget::parse(&options.to_string())?;
                let _ = self.state.revise_target(TargetId(*target), revised);
            }
            Act::RemoveTarget { target } => {
                let _ = self.state.core.remove_target(TargetId(*target));
            }
            Act::SetModel { target, model } => {
                let model = NewModel::parse(&model.to_string())?;
                let _ = self.state.core.set_model(TargetId(*target), model);
            }
            _ => {}
        }
        Ok(())
    }

    /// A worker to add, to whose engine nobody listens here.
    fn worker(&mut self, options: &Value) -> Result<NewWorker, Code> {
        let mut worker = NewWorker::parse(&options.to_string())?;
        if worker.kv_events.take().is_some() {
            self.told.insert(worker.group);
        }
        Ok(worker)
    }

    /// The decisions about held turns that the last call has made.
    fn follow(&mut self) {
        for settled in std::mem::take(&mut self.state.settled) {
            let Some(&turn) = self.there.get(&settled.reservation) else {
                continue;
            };
            match settled.outcome {
                Outcome::Go(go) => self.decide(turn, Some(go.receipt)),
                _ => self.decide(turn, None),
            }
        }
    }

    fn decide(&mut self, turn: u64, receipt: Option<u64>) {
        let core = &self.state.core;
        let value = |number| Some((number, receipt_value(core, core.receipt(number)?)));
        let receipt = receipt.and_then(value);
        self.decided.push(Decided { turn, receipt });
    }
}

impl ShortBlocks {
    /// A text with these segments whose blocks are equal where the hashes are.
    fn text(&mut self, prompt: &Prompt) -> Result<Vec<u8>, Code> {
        let lengths: Vec<u32> = prompt.segments.iter().step_by(2).copied().collect();
        let total: usize = lengths.iter().map(|&length| length as usize).sum();
        if total > MOST_BYTES {
            return Err(invalid("a prompt is longer than any body may be"));
        }
        let mut text = vec![0; total];
        let (mut from, mut parent) = (0, 0);
        for (&hash, end) in prompt.blocks.iter().zip(text_ends(&lengths)) {
            let end = usize::try_from(end).unwrap_or(total).min(total);
            let block = &mut text[from..end];
            let mark = match block.len() {
                0..8 => self.number(parent, block.len(), hash),
                _ => hash,
            };
            for (byte, mark) in block.iter_mut().zip(mark.to_le_bytes()) {
                *byte = mark;
            }
            (from, parent) = (end, hash);
        }
        Ok(text)
    }

    /// Fewer than a text of that length can tell apart, since each stands for another one.
    fn number(&mut self, parent: u64, length: usize, hash: u64) -> u64 {
        let siblings = self.0.entry((parent, length)).or_default();
        let next = siblings.len() as u64;
        *siblings.entry(hash).or_insert(next)
    }
}

/// Ids back to back.
struct Joined {
    bytes: Vec<u8>,
    lengths: Vec<u32>,
}

impl Joined {
    fn of(ids: &[String]) -> Self {
        Self {
            bytes: ids.concat().into_bytes(),
            lengths: ids.iter().map(|id| id.len() as u32).collect(),
        }
    }

    fn ids(&self) -> Ids<'_> {
        Ids {
            bytes: &self.bytes,
            lengths: &self.lengths,
        }
    }
}
