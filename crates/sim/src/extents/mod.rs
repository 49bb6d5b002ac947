//! An engine for long contexts: what happens in each of its steps, and when.
//!
//! Continuous batching and chunked prefill like the block engine's, with a cache that keeps one
//! prefix a session (`contexts.rs`) instead of blocks, so a prompt of 100,000 tokens costs no more
//! than one of 100. A step gives each decoding request a token and computes at most `chunk_tokens` of
//! prompts; requests that only decode are not touched until one of them is done, so a step costs
//! O(prompts in it) and a request O(log of those that run).
//!
//! Admission asks for room for the whole prompt beside what runs, answers grow as they are made, and
//! who came last gives way when nothing idle is left to evict; it computes what it lost again.
mod config;
mod contexts;
mod queue;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;

pub use config::{Eviction, ExtentConfig, PrefillOrder, StepCost};
use contexts::Contexts;
use queue::{Task, Waiting};

use crate::event::{End, EngineEvent, EventKind, Nanos};
use crate::fleet::Content;
use crate::histogram::Histogram;

/// A request as a fleet hands it over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentRequest {
    pub(crate) id: u64,
    /// The session's key; equal for all its turns.
    pub(crate) session: u64,
    pub(crate) turn: u32,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
}

/// What it did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtentStats {
    pub(crate) output_tokens: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) loaded_tokens: u64,
    pub(crate) preemptions: u64,
    pub(crate) steps: u64,
    pub(crate) busy: Nanos,
}

/// The engine.
#[derive(Debug)]
pub(crate) struct ExtentEngine {
    config: ExtentConfig,
    now: Nanos,
    contexts: Contexts,
    waiting: Waiting,
    /// Prompts under way, in the order of their admission.
    prefilling: Vec<Task>,
    /// Requests that make tokens, by id.
    decoding: HashMap<u64, Task>,
    /// When each of them is done, by step and order of admission. Entries of those that left early
    /// stay until they come up.
    ends: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// Context that decoding requests read in the present step.
    context: u64,
    admissions: u64,
    step: Option<Step>,
    pub(crate) stats: ExtentStats,
    pub(crate) gaps: Histogram,
    /// Those that were given up; they leave at the end of the step.
    cancelled: Vec<u64>,
}

/// The step under way.
#[derive(Clone, Copy, Debug)]
struct Step {
    end: Nanos,
    cost: Nanos,
    /// Steps that only decode and follow this one without an event, it included, and when the one
    /// after them ends.
    plain: u64,
    milestone: Nanos,
}

/// See the block engine's streak: this bounds what an arrival in its middle can waste.
const MOST_PLAIN: u64 = 512;

impl ExtentEngine {
    pub(crate) fn new(config: ExtentConfig) -> Self {
        Self {
            contexts: Contexts::new(config.own_capacity(), config.eviction, config.host),
            waiting: Waiting::new(config.prefill),
            config,
            now: 0,
            prefilling: Vec::new(),
            decoding: HashMap::new(),
            ends: BinaryHeap::new(),
            context: 0,
            admissions: 0,
            step: None,
            stats: ExtentStats::default(),
            gaps: Histogram::default(),
            cancelled: Vec::new(),
        }
    }

    /// Requests in the batch and requests that wait.
    pub(crate) fn occupancy(&self) -> (usize, usize) {
        let running = self.prefilling.len() + self.decoding.len();
        (running, self.waiting.len())
    }

    /// Tokens of this prompt that the cache has now.
    pub(crate) fn overlap(&self, request: &ExtentRequest, content: &mut Content<'_>) -> u32 {
        let shared = self.config.shared_tokens;
        let found = match self.contexts.idle(request.session) {
            None => shared,
            Some((turn, tokens)) => {
                let common = content.common_tokens(turn, request.turn);
                (tokens + shared).min(common)
            }
        };
        found.min(request.prompt - 1)
    }

    /// A request arrives now. One that can never run is refused at once.
    pub(crate) fn submit(
        &mut self,
        at: Nanos,
        request: ExtentRequest,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        debug_assert!(self.now <= at, "the fleet settles before it submits");
        if u64::from(request.prompt) + 1 > self.config.capacity_tokens {
            let kind = EventKind::Ended {
                id: request.id,
                end: End::Rejected,
                produced: 0,
            };
            events.push(EngineEvent { at, kind });
            return;
        }
        let uncached = request.prompt - self.overlap(&request, content);
        self.waiting.push(Task::new(request), uncached);
        self.look_again();
    }

    /// Gives a request up; one in the batch leaves with the end of the step.
    pub(crate) fn cancel(&mut self, id: u64, events: &mut Vec<EngineEvent>) {
        match self.waiting.take(id) {
            Some(task) => events.push(task_end(self.now, &task, End::Cancelled)),
            None => self.cancelled.push(id),
        }
        // Whoever waited behind it may have room now.
        self.look_again();
    }

    /// When something happens next; the present moment means that a step is due.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        match self.step {
            Some(step) => Some(step.milestone),
            None => self.has_work().then_some(self.now),
        }
    }

    /// Moves the clock to `until`; a step that is due then is not begun.
    pub(crate) fn settle(
        &mut self,
        until: Nanos,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        loop {
            self.skip(until);
            match self.step {
                Some(step) if step.end <= until => {
                    self.now = step.end;
                    self.end_step(step, events);
                }
                Some(_) => break,
                None if self.now < until && self.has_work() => {}
                None => break,
            }
            if self.now == until {
                break;
            }
            self.begin(content, events);
        }
        self.now = self.now.max(until);
    }

    /// Begins a step now if there is work for one and none is under way.
    pub(crate) fn begin(&mut self, content: &mut Content<'_>, events: &mut Vec<EngineEvent>) {
        while self.step.is_none() && self.has_work() {
            self.make_room(events);
            let loading = self.admit(content, events);
            let prefill = self.book_prefill() + loading;
            let decodes = self.decoding.len() as u64;
            if decodes == 0 && self.prefilling.is_empty() {
                debug_assert!(!self.has_work(), "a request that fits an idle engine runs");
                return;
            }
            let cost = self.config.step.step(decodes, self.context, prefill);
            let end = self.now.saturating_add(cost);
            self.stats.steps += 1;
            self.stats.busy += cost;
            let (plain, milestone) = self.foresee(end);
            self.step = Some(Step {
                end,
                cost,
                plain,
                milestone,
            });
        }
    }

    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.prefilling.is_empty() || !self.decoding.is_empty()
    }

    /// The step under way is no longer followed by plain ones for sure.
    fn look_again(&mut self) {
        if let Some(step) = &mut self.step {
            step.plain = 0;
            step.milestone = step.end;
        }
    }

    /// Sees to it that every decoding request can grow by a token in the coming step.
    fn make_room(&mut self, events: &mut Vec<EngineEvent>) {
        while !self.contexts.has_room(self.decoding.len() as u64) {
            let prefilling = self
                .prefilling
                .iter()
                .map(|task| (task.admitted, task.id()));
            let decoding = self
                .decoding
                .values()
                .map(|task| (task.admitted, task.id()));
            let Some((_, id)) = prefilling.chain(decoding).max() else {
                return;
            };
            let alone = self.prefilling.len() + self.decoding.len() == 1;
            let Some(mut task) = self.take(id) else {
                return;
            };
            if alone {
                self.leave(task, End::CacheFull, events);
                continue;
            }
            self.stop(&task);
            self.stats.preemptions += 1;
            let at = self.now;
            events.push(EngineEvent {
                at,
                kind: EventKind::Preempted { id },
            });
            task.computed = 0;
            self.waiting.push_front(task);
        }
        self.contexts.grow(self.decoding.len() as u64);
    }

    /// Lets in who waits, in order, while there are seats and room for the whole prompt. Says how
    /// long the host tier takes for what they have there.
    fn admit(&mut self, content: &mut Content<'_>, events: &mut Vec<EngineEvent>) -> Nanos {
        let mut loaded = 0;
        while self.prefilling.len() + self.decoding.len() < self.config.max_running as usize {
            let Some(task) = self.waiting.first() else {
                break;
            };
            let length = task.length();
            if u64::from(length) > self.config.capacity_tokens {
                let outgrown = self.waiting.pop();
                events.extend(outgrown.map(|task| task_end(self.now, &task, End::CacheFull)));
                continue;
            }
            let own = self.config.own(length);
            if !self.contexts.has_room(u64::from(own)) {
                break;
            }
            let Some(mut task) = self.waiting.pop() else {
                break;
            };
            let request = ExtentRequest {
                prompt: length,
                ..task.request
            };
            task.is_private = self.contexts.is_running(request.session);
            let cached = match (task.is_private, task.produced) {
                (true, _) => self.config.shared_tokens.min(length - 1),
                (false, 0) => self.overlap(&request, content),
                // What it had made before it gave way is in its own prefix too.
                (false, _) => self.own_prefix(&task, length),
            };
            let kept = self.config.own(cached);
            loaded += u64::from(self.contexts.start(task.owner(), own, kept));
            self.admissions += 1;
            task.admitted = self.admissions;
            task.computed = cached;
            task.held = own;
            let kind = EventKind::Admitted {
                id: request.id,
                cached_tokens: cached,
            };
            events.push(EngineEvent { at: self.now, kind });
            self.prefilling.push(task);
        }
        self.stats.loaded_tokens += loaded;
        self.config.host.map_or(0, |host| host.load_ns(loaded))
    }

    fn own_prefix(&self, task: &Task, length: u32) -> u32 {
        match self.contexts.idle(task.owner().session) {
            Some((turn, tokens)) if turn == task.request.turn => {
                (tokens + self.config.shared_tokens).min(length - 1)
            }
            Some(_) | None => self.config.shared_tokens.min(length - 1),
        }
    }

    /// Books this step's prompt tokens; says what they add to its cost.
    fn book_prefill(&mut self) -> Nanos {
        if self.config.prefill == PrefillOrder::Shortest {
            self.prefilling
                .sort_by_key(|task| (task.missing(), task.admitted));
        }
        let mut budget = self.config.chunk_tokens;
        let mut cost = 0;
        for task in &mut self.prefilling {
            let tokens = budget.min(task.missing());
            cost += self.config.step.prefill(tokens, task.computed);
            task.granted = tokens;
            budget -= tokens;
            self.stats.prompt_tokens += u64::from(tokens);
        }
        cost
    }

    /// How many steps, from the one under way on, end without an event and are followed by one that
    /// only decodes; and when the step after them ends.
    fn foresee(&self, end: Nanos) -> (u64, Nanos) {
        let decodes = self.decoding.len() as u64;
        if !self.prefilling.is_empty() || !self.cancelled.is_empty() || decodes == 0 {
            return (0, end);
        }
        let done = self.ends.peek().map_or(0, |Reverse((step, ..))| *step);
        let room = (self.config.own_capacity() - self.contexts.running()) / decodes;
        let plain = done
            .saturating_sub(self.stats.steps)
            .min(room)
            .min(MOST_PLAIN);
        let (mut context, mut milestone) = (self.context, end);
        for _ in 0..plain {
            context += decodes;
            milestone += self.config.step.step(decodes, context, 0);
        }
        (plain, milestone)
    }

    /// Takes the plain steps that end before `until`.
    fn skip(&mut self, until: Nanos) {
        let Some(mut step) = self.step else {
            return;
        };
        let decodes = self.decoding.len() as u64;
        while step.plain > 0 && step.end < until {
            self.now = step.end;
            self.gaps.record(step.cost, decodes);
            self.context += decodes;
            self.contexts.grow(decodes);
            step.cost = self.config.step.step(decodes, self.context, 0);
            step.end += step.cost;
            step.plain -= 1;
            self.stats.steps += 1;
            self.stats.busy += step.cost;
            self.stats.output_tokens += decodes;
        }
        self.step = Some(step);
    }

    /// Makes the results of the step visible.
    fn end_step(&mut self, step: Step, events: &mut Vec<EngineEvent>) {
        self.step = None;
        let decodes = self.decoding.len() as u64;
        self.gaps.record(step.cost, decodes);
        self.stats.output_tokens += decodes;
        self.context += decodes;
        while let Some(&Reverse((at, admitted, id))) = self.ends.peek() {
            if at > self.stats.steps {
                break;
            }
            self.ends.pop();
            if self
                .decoding
                .get(&id)
                .is_some_and(|task| task.admitted == admitted)
                && let Some(task) = self.take(id)
            {
                self.leave(task, End::Complete, events);
            }
        }
        let mut index = 0;
        while index < self.prefilling.len() {
            let task = &mut self.prefilling[index];
            task.computed += std::mem::take(&mut task.granted);
            if task.missing() > 0 {
                index += 1;
                continue;
            }
            let task = self.prefilling.remove(index);
            self.first_token(task, events);
        }
        for id in std::mem::take(&mut self.cancelled) {
            if let Some(task) = self.take(id) {
                self.leave(task, End::Cancelled, events);
            }
        }
    }

    /// A prompt is computed, which makes one token; the rest comes one a step.
    fn first_token(&mut self, mut task: Task, events: &mut Vec<EngineEvent>) {
        self.stats.output_tokens += 1;
        if task.produced == 0 {
            let kind = EventKind::FirstToken { id: task.id() };
            events.push(EngineEvent { at: self.now, kind });
        } else {
            self.gaps.record(self.now - task.last_token, 1);
        }
        task.produced += 1;
        // The token just made is computed, and takes room, in the next step.
        task.decoding_since = self.stats.steps;
        if task.produced == task.request.output {
            self.leave(task, End::Complete, events);
            return;
        }
        let last = self.stats.steps + u64::from(task.request.output - task.produced);
        self.ends.push(Reverse((last, task.admitted, task.id())));
        self.context += u64::from(task.length());
        self.decoding.insert(task.id(), task);
    }

    /// Takes a request out of the batch, with what it has made so far written down.
    fn take(&mut self, id: u64) -> Option<Task> {
        if let Some(index) = self.prefilling.iter().position(|task| task.id() == id) {
            return Some(self.prefilling.remove(index));
        }
        let mut task = self.decoding.remove(&id)?;
        debug_assert!(self.step.is_none(), "the batch changes between two steps");
        let made = (self.stats.steps - task.decoding_since) as u32;
        task.produced += made;
        task.computed += made;
        task.held += made;
        task.last_token = self.now;
        self.context -= u64::from(task.length());
        Some(task)
    }

    /// Gives the room of a request back; its session keeps what is computed.
    fn stop(&mut self, task: &Task) {
        let owner = task.owner();
        self.contexts
            .stop(self.now, owner, task.held, self.config.own(task.computed));
        if task.is_private {
            self.contexts.forget(owner.session);
        }
    }

    /// The session that has ended a turn keeps its place until then.
    pub(crate) fn lease(&mut self, session: u64, until: Nanos) {
        self.contexts.lease(session, until);
    }

    fn leave(&mut self, task: Task, end: End, events: &mut Vec<EngineEvent>) {
        self.stop(&task);
        events.push(task_end(self.now, &task, end));
    }
}

fn task_end(at: Nanos, task: &Task, end: End) -> EngineEvent {
    let kind = EventKind::Ended {
        id: task.id(),
        end,
        produced: task.produced,
    };
    EngineEvent { at, kind }
}

#[cfg(test)]
mod tests;
