//! What was a scheduler told, in which order, so that its decisions can be made again?
//!
//! The core is a state machine without a clock: told the same calls with the same times it decides the
//! same. A [`Journal`] keeps each call that can change a decision as a [`Step`], under the scheduler's
//! lock and numbered there, so that the numbers are the order also of several threads. A trace takes the
//! steps along in its records; [`again`] makes the calls from them.
//!
//! There is no content in a step: a prompt is the hashes of its blocks, names and ids are digests, and
//! both are keyed where the trace has a key. What engines tell of their caches and what comes from a
//! snapshot is not kept: that it came is.
use hashbrown::HashMap;
use napi::bindgen_prelude::{External, Result};
use napi_derive::napi;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use warmpath_core::admission::Tool;
use warmpath_core::block::{Chain, Seed, TokenRate, hash_content, hash_text};
use warmpath_core::scheduler::{Completion, Ids, Scheduler};
use warmpath_core::session::Phase;
use warmpath_core::{Micros, ReservationId};
use warmpath_trace::{Key, keyed, keyed_text};

use crate::error::{Code, guard, invalid};
use crate::frame::{Frame, Parts, priority};
use crate::handle::Handle;

pub(crate) mod again;

/// Of the form of steps: another one is another number.
pub(crate) const FORM: u32 = 1;
/// Steps that wait for a record, in bytes of JSON; what comes beyond is left out, and the numbers tell.
const MOST_PENDING: usize = 16 << 20;
/// Blocks of earlier prompts that are kept so that only what is new is written.
const MOST_KNOWN: usize = 1 << 20;

/// One call, and when it was made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    /// From 0, without a gap.
    pub(crate) n: u64,
    /// Microseconds since 1970.
    pub(crate) at: u64,
    #[serde(flatten)]
    pub(crate) act: Act,
}

/// What was called. Turns, workers and targets by the core's numbers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Act {
    /// A scheduler began, with these options.
    Start {
        form: u32,
        options: Value,
    },
    Submit(Box<Submit>),
    /// Moves on from the worker that it is on.
    Reroute {
        turn: u64,
        lasts: bool,
    },
    FirstToken {
        turn: u64,
    },
    Complete {
        turn: u64,
        /// Prompt, cached and completion tokens.
        usage: [Option<u32>; 3],
        /// Whether the model has ended its turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finished: Option<bool>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        state: Vec<String>,
    },
    Cancel {
        turn: u64,
    },
    /// A timer was due.
    Wake,
    Health {
        worker: u32,
        health: u32,
    },
    /// Gives its sessions away; 0 are all.
    Depart {
        worker: u32,
        sessions: u32,
        /// Microseconds since 1970.
        until: u64,
    },
    Capacity {
        worker: u32,
        tokens: Option<u64>,
    },
    /// What others have it do.
    Untracked {
        worker: u32,
        requests: u32,
        tokens: u64,
    },
    AddWorker {
        options: Value,
    },
    ReplaceWorker {
        worker: u32,
        options: Value,
    },
    AddGroup {
        options: Value,
    },
    AddPool {
        options: Value,
    },
    RemovePool {
        pool: u32,
    },
    AddTarget {
        options: Value,
    },
    ReviseTarget {
        target: u32,
        options: Value,
    },
    RemoveTarget {
        target: u32,
    },
    SetModel {
        target: u32,
        model: Value,
    },
    ResetCache {
        worker: u32,
    },
    /// By name, or by a turn of it where it has none.
    EndSession {
        tenant: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u64>,
    },
    /// A tool of a session runs or has ended; the session as in the end of one.
    Tool {
        tenant: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u64>,
        /// For how long it should run, in microseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<u64>,
        ended: bool,
    },
    /// A snapshot was taken over, whose content is nowhere in the trace.
    Restored,
    /// A prompt came of which a part was known from an earlier body: that part is not in the trace.
    Recalled,
}

/// A turn as it was submitted. Texts are digests, or empty.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Submit {
    /// Its number; absent when it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<u64>,
    /// As in a frame: flags, prompt kind, most tokens of the answer, tokens, pin, base choice.
    pub(crate) head: [u32; 6],
    /// Its class in a queue.
    #[serde(default, skip_serializing_if = "is_ordinary")]
    pub(crate) priority: i16,
    /// Tenant, session, parent, route, cache salt.
    pub(crate) names: [String; 5],
    pub(crate) targets: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) state: Vec<String>,
    /// The turn whose prompt it goes on from, and how many segments and blocks are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) like: Option<(u64, usize, usize)>,
    /// The segments that follow, as in a frame: length and flags of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) segments: Vec<u32>,
    /// The blocks that follow, 16 hex digits each.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) blocks: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_ordinary(priority: &i16) -> bool {
    *priority == 0
}

/// What a journal is opened with, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JournalOptions {
    /// A name of this scheduler that no other one has.
    scheduler: String,
    /// 32 hex digits.
    key: Option<String>,
}

/// The steps of one scheduler.
pub(crate) struct Journal {
    scheduler: String,
    key: Key,
    is_keyed: bool,
    next: u64,
    /// Steps as JSON, with commas between them.
    pending: String,
    /// The last prompt of each session.
    known: HashMap<u64, Prompt>,
    blocks: usize,
}

/// What a turn sent.
#[derive(Clone)]
pub(crate) struct Prompt {
    pub(crate) turn: u64,
    pub(crate) segments: Vec<u32>,
    pub(crate) blocks: Vec<u64>,
}

impl Journal {
    /// Begins with the options that the scheduler was opened with, without what only says where workers
    /// are and how they are called.
    pub(crate) fn open(options: &JournalOptions, text: &str) -> Result<Self, Code> {
        let mut journal = Self {
            scheduler: options.scheduler.clone(),
            key: Key::new([0; 16]),
            is_keyed: false,
            next: 0,
            pending: String::new(),
            known: HashMap::new(),
            blocks: 0,
        };
        if let Some(key) = &options.key {
            let bytes = u128::from_str_radix(key, 16).map(u128::to_be_bytes);
            journal.key = Key::new(bytes.map_err(|_| invalid("a key has 32 hex digits"))?);
            journal.is_keyed = true;
        }
        let mut options = bare(text)?;
        journal.hide_tenants(&mut options);
        journal.note(
            Micros(0),
            Act::Start {
                form: FORM,
                options,
            },
        );
        Ok(journal)
    }

    /// Tenants that have a weight are called as they are in turns.
    fn hide_tenants(&self, options: &mut Value) {
        let weights = options.pointer_mut("/admission/weights");
        if let Some(weights) = weights.and_then(Value::as_object_mut) {
            let named = std::mem::take(weights).into_iter();
            weights.extend(named.map(|(name, weight)| (self.digest(name.as_bytes()), weight)));
        }
    }

    /// Keeps a call.
    pub(crate) fn note(&mut self, now: Micros, act: Act) {
        let n = self.next;
        self.next += 1;
        if self.pending.len() >= MOST_PENDING {
            return;
        }
        let step = Step { n, at: now.0, act };
        // Numbers, texts and lists: there is nothing that JSON cannot say.
        if let Ok(text) = serde_json::to_string(&step) {
            if !self.pending.is_empty() {
                self.pending.push(',');
            }
            self.pending.push_str(&text);
        }
    }

    /// Keeps a turn that was submitted; `turn` is absent when it was refused. `derived`: the hash that
    /// its session is known by where it has no name.
    pub(crate) fn submitted(
        &mut self,
        now: Micros,
        frame: &Frame<'_>,
        (turn, derived): (Option<ReservationId>, Option<u64>),
        core: &Scheduler,
    ) {
        let Ok(parts) = frame.parts() else { return };
        if parts.is_recalled() {
            self.note(now, Act::Recalled);
            return;
        }
        let chain = turn.and_then(|turn| core.chain(turn));
        let blocks: Vec<u64> = match chain {
            Some(chain) => self.hidden(chain.common_hashes()),
            None => self.hidden(refused_blocks(frame, &parts).common_hashes()),
        };
        let tokens = chain.map_or(0, Chain::tokens);
        let mut submit = self.described(&parts, tokens, derived);
        submit.turn = turn.map(|turn| turn.0);
        let session = match derived {
            Some(hash) => hash,
            None => keyed_text(&submit.names[..2].concat(), &self.key),
        };
        let prompt = Prompt {
            turn: submit.turn.unwrap_or_default(),
            segments: parts.segments.to_vec(),
            blocks,
        };
        self.write_prompt(&mut submit, session, prompt);
        self.note(now, Act::Submit(Box::new(submit)));
    }

    /// The turn without its prompt.
    fn described(&self, parts: &Parts<'_>, tokens: u32, derived: Option<u64>) -> Submit {
        let fixed = parts.fixed;
        let is_text = fixed[1] == 0;
        let kind = if is_text { 0 } else { 2 };
        let tokens = match fixed[1] {
            0 => 0,
            1 => tokens,
            _ => fixed[3],
        };
        let mut names = parts.names.map(|name| self.digest(name));
        if let Some(hash) = derived.filter(|_| parts.has_volatile()) {
            // What identifies it leaves out a part that the blocks after it vouch for.
            names[1] = self.digest(&hash.to_le_bytes());
        }
        Submit {
            turn: None,
            head: [fixed[0], kind, fixed[2], tokens, fixed[7], fixed[12]],
            priority: priority(fixed),
            names,
            targets: parts.targets.to_vec(),
            calls: parts
                .tool_results
                .iter()
                .map(|id| self.digest(id))
                .collect(),
            state: parts.state.iter().map(|id| self.digest(id)).collect(),
            ..Submit::default()
        }
    }

    /// Writes what the session has not sent before, and remembers the prompt for its next turn.
    fn write_prompt(&mut self, submit: &mut Submit, session: u64, prompt: Prompt) {
        let (mut segments, mut blocks) = (0, 0);
        if let Some(before) = self.known.remove(&session) {
            self.blocks -= before.blocks.len();
            segments = same(&before.segments, &prompt.segments) / 2 * 2;
            blocks = same(&before.blocks, &prompt.blocks);
            submit.like = Some((before.turn, segments, blocks));
        }
        submit.segments = prompt.segments[segments..].to_vec();
        for hash in &prompt.blocks[blocks..] {
            submit.blocks.push_str(&format!("{hash:016x}"));
        }
        if submit.turn.is_none() {
            return;
        }
        self.blocks += prompt.blocks.len();
        if self.blocks > MOST_KNOWN {
            self.known.clear();
            self.blocks = prompt.blocks.len();
        }
        self.known.insert(session, prompt);
    }

    /// Keeps an end that was told of.
    pub(crate) fn completed(&mut self, now: Micros, turn: ReservationId, told: &Completion<'_>) {
        let act = Act::Complete {
            turn: turn.0,
            usage: [
                told.reported.prompt_tokens,
                told.reported.cached_tokens,
                told.reported.completion_tokens,
            ],
            finished: told.phase.map(|phase| phase == Phase::Reasoning),
            calls: self.digests(told.tool_calls),
            state: self.digests(told.state),
        };
        self.note(now, act);
    }

    /// Keeps the end of a session; `derived`: the hash that its name stands for, if it does.
    pub(crate) fn session_ended(
        &mut self,
        now: Micros,
        (tenant, name): (&str, &str),
        derived: Option<u64>,
    ) {
        let act = Act::EndSession {
            tenant: self.digest(tenant.as_bytes()),
            name: self.digest(name.as_bytes()),
            of: self.turn_of(derived),
        };
        self.note(now, act);
    }

    /// Keeps what was told of a tool of a session, which is named as its end is.
    pub(crate) fn tool_told(
        &mut self,
        now: Micros,
        (tenant, name): (&str, &str),
        derived: Option<u64>,
        tool: Tool,
    ) {
        let (expected, ended) = match tool {
            Tool::Started { expected } => (expected.map(|time| time.0), false),
            Tool::Ended => (None, true),
        };
        let act = Act::Tool {
            tenant: self.digest(tenant.as_bytes()),
            name: self.digest(name.as_bytes()),
            of: self.turn_of(derived),
            expected,
            ended,
        };
        self.note(now, act);
    }

    /// A turn of the session that is known by this hash.
    fn turn_of(&self, derived: Option<u64>) -> Option<u64> {
        let prompt = self.known.get(&derived?)?;
        Some(prompt.turn)
    }

    /// What has gathered, as JSON, with the scheduler's name.
    fn take(&mut self) -> String {
        let scheduler = json!(self.scheduler);
        let steps = std::mem::take(&mut self.pending);
        format!(r#"{{"scheduler":{scheduler},"steps":[{steps}]}}"#)
    }

    fn hidden(&self, hashes: impl Iterator<Item = u64>) -> Vec<u64> {
        let hide = |hash| match self.is_keyed {
            true => keyed(hash, &self.key),
            false => hash,
        };
        hashes.map(hide).collect()
    }

    fn digest(&self, text: &[u8]) -> String {
        if text.is_empty() {
            return String::new();
        }
        format!("{:016x}", keyed_text(text, &self.key))
    }

    fn digests(&self, ids: Ids<'_>) -> Vec<String> {
        ids.iter().map(|id| self.digest(id)).collect()
    }
}

/// The options without addresses and credentials.
pub(crate) fn bare(text: &str) -> Result<Value, Code> {
    let mut options: Value =
        serde_json::from_str(text).map_err(|error| invalid(format!("options: {error}")))?;
    let strip = |entry: &mut Value| {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("detail");
            entry.remove("steps");
            entry.remove("events");
            if let Some(events) = entry.get_mut("kvEvents") {
                *events = json!({ "endpoint": "" });
            }
        }
    };
    strip(&mut options);
    for list in ["workers", "targets", "pools"] {
        let entries = options.get_mut(list).and_then(Value::as_array_mut);
        entries.into_iter().flatten().for_each(strip);
    }
    Ok(options)
}

/// The blocks of a turn that the core has not kept.
fn refused_blocks(frame: &Frame<'_>, parts: &Parts<'_>) -> Chain {
    let mut chain = Chain::new();
    let lengths: Vec<u32> = parts.segments.iter().step_by(2).copied().collect();
    match parts.fixed[1] {
        0 => hash_text(
            frame.prompt,
            &lengths,
            TokenRate::default(),
            Seed::default(),
            &mut chain,
        ),
        2 => {
            if let Ok(hashes) = bytemuck::try_cast_slice(frame.prompt) {
                let one = std::num::NonZeroU32::MIN;
                hash_content(hashes, one, None, Seed::default(), &mut chain);
            }
        }
        _ => {}
    }
    chain
}

/// How many items two lists have in common from their starts.
fn same<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What the scheduler was told since the last call, as JSON: its name and the steps. Null where nothing is
/// kept.
#[napi]
pub(crate) fn take_steps(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
) -> Result<Option<String>, Code> {
    guard(|| Ok(handle.change(|state| state.journal.as_mut().map(|journal| journal.take()))))
}
