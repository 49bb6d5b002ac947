//! Weka's recordings of coding sessions: one JSON value a file, one session each, with sub-agents.
//!
//! Requests have a start and the time that the answer took; both are measured times of a session
//! that begins with the replay. Sub-agents are entries among them with requests of their own, whose
//! times count from the sub-agent's start if any is smaller than that: child sessions.
//!
//! A recording also holds side chains that it does not mark. A request continues a chain if the
//! chain's last prompt is a whole prefix of it, or if it shares a prefix with it, the same model,
//! not after more than an hour with less than half of the prompt in common, and if no later request
//! has more in common with it. What continues none begins a chain, unless [`SideChains`] says
//! otherwise: a child of the chain that it has most in common with, or a session of its own if it has
//! nothing in common with any.
//!
//! The value is parsed as it comes; of a file the prompts' blocks stay until its end, nothing more.
//! Block ids mean the same within a file.
use std::num::NonZeroU32;

use serde::Deserialize;
use warmpath_core::Micros;

use super::whole::{self, Whole};
use super::{Context, SideChains};
use crate::error::{ErrorKind, Fault, Place, TraceError};
use crate::input::Bytes;
use crate::leaf::{self, Any, Ids, Num, SECONDS, Text};
use crate::traced::{Clock, Scope, Timing, TracedTurn};
use crate::turn::Next;

/// After this long a chain goes on only with at least half of its prompt.
const SEAM: Micros = Micros::from_secs(3_600);

/// An entry: a request, or a sub-agent with requests.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<Text>,
    t: Option<Num>,
    model: Option<Text>,
    #[serde(rename = "in")]
    input: Option<Num>,
    #[serde(rename = "out")]
    output: Option<Num>,
    hash_ids: Option<Ids>,
    stop: Option<Text>,
    api_time: Option<Num>,
    agent_id: Option<Text>,
    requests: Option<Vec<Entry>>,
}

/// A request with its place.
struct Request {
    place: Place,
    model: String,
    start: Micros,
    end: Micros,
    input_tokens: u32,
    output_tokens: u32,
    blocks: Vec<u64>,
    next: Next,
}

/// The fields before and after the requests, and the requests of the main session.
#[derive(Default)]
struct File {
    name: Option<String>,
    block_tokens: Option<NonZeroU32>,
    main: Vec<Request>,
    agents: Vec<Agent>,
    any_requests: bool,
}

/// A sub-agent, perhaps one of a sub-agent.
struct Agent {
    name: String,
    /// Index of the agent that spawned it; `None` is the main session.
    parent: Option<usize>,
    requests: Vec<Request>,
}

pub(super) fn read(context: &mut Context<'_>, bytes: Bytes) -> Result<(), TraceError> {
    let mut file = File::default();
    whole::read(context, bytes, &mut file)?;
    file.emit(context)
}

impl Whole for File {
    type Item = Entry;

    const LIST: &'static str = "requests";

    fn field(&mut self, name: &str, value: Any) -> Result<(), Fault> {
        match name {
            "id" => self.name = Some(leaf::some_text("id", value.text())?),
            "block_size" => {
                let tokens = leaf::some_tokens("block_size", value.num())?;
                self.block_tokens = NonZeroU32::new(tokens);
            }
            "hash_id_scope" if value != Any::Text("local".to_owned()) => {
                return Err(Fault::invalid("hash_id_scope is not \"local\""));
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.any_requests = true;
    }

    fn item(&mut self, _: &mut Context<'_>, number: u64, entry: Entry) -> Result<(), Fault> {
        self.entry(entry, Place::Record(number), None, Micros(0))
    }
}

impl File {
    /// Takes an entry of an agent, or of the main session.
    fn entry(
        &mut self,
        entry: Entry,
        place: Place,
        agent: Option<usize>,
        base: Micros,
    ) -> Result<(), Fault> {
        let kind = leaf::some_text("type", entry.kind.clone())?;
        match kind.as_str() {
            "n" | "s" => {
                let before = match agent {
                    None => self.main.last(),
                    Some(_) => None,
                };
                let request = request(entry, place, base)?;
                if before.is_some_and(|before| request.start < before.start) {
                    let detail = "it starts before the request before it";
                    return Err(Fault::new(ErrorKind::OutOfOrder, detail));
                }
                match agent {
                    None => self.main.push(request),
                    Some(agent) => self.agents[agent].requests.push(request),
                }
                Ok(())
            }
            "subagent" => self.agent(entry, place, agent, base),
            other => Err(Fault::invalid(format!("type is {other:?}"))),
        }
    }

    fn agent(
        &mut self,
        entry: Entry,
        place: Place,
        parent: Option<usize>,
        base: Micros,
    ) -> Result<(), Fault> {
        let start = start(entry.t, base)?;
        let name = leaf::some_text("agent_id", entry.agent_id)?;
        let index = self.agents.len();
        self.agents.push(Agent {
            name: format!("{name}.{}", self.agents.len()),
            parent,
            requests: Vec::new(),
        });
        let inner = entry.requests.unwrap_or_default();
        let base = base_of(&inner, start)?;
        for inner in inner {
            self.entry(inner, place, Some(index), base)?;
        }
        self.agents[index]
            .requests
            .sort_by_key(|request| request.start);
        Ok(())
    }

    /// Hands the requests on: those of the main session, its side chains, then those of agents.
    fn emit(self, context: &mut Context<'_>) -> Result<(), TraceError> {
        if !self.any_requests {
            return context.fault(Place::File, Fault::missing("requests"));
        }
        let Some(block_tokens) = self.block_tokens else {
            return context.fault(Place::File, Fault::missing("block_size"));
        };
        let Some(name) = self.name else {
            return context.fault(Place::File, Fault::missing("id"));
        };
        let names: Vec<String> = self
            .agents
            .iter()
            .map(|agent| format!("{name}/{}", agent.name))
            .collect();
        let mut stream = Stream {
            name: &name,
            parent: None,
            block_tokens,
        };
        stream.emit(context, self.main)?;
        for (index, agent) in self.agents.into_iter().enumerate() {
            stream.name = &names[index];
            stream.parent = Some(agent.parent.map_or(&name, |parent| &names[parent]));
            stream.emit(context, agent.requests)?;
        }
        Ok(())
    }
}

/// When an entry starts, if its time counts from `base`.
fn start(t: Option<Num>, base: Micros) -> Result<Micros, Fault> {
    let time = leaf::time("t", t, SECONDS)?;
    Ok(time.ok_or_else(|| Fault::missing("t"))?.plus(base))
}

/// From when on the times of a sub-agent's entries count: from its start, unless all are later.
fn base_of(entries: &[Entry], start: Micros) -> Result<Micros, Fault> {
    for entry in entries {
        if leaf::time("t", entry.t, SECONDS)?.is_some_and(|time| time < start) {
            return Ok(start);
        }
    }
    Ok(Micros(0))
}

fn request(entry: Entry, place: Place, base: Micros) -> Result<Request, Fault> {
    let start = start(entry.t, base)?;
    let took = leaf::time("api_time", entry.api_time, SECONDS)?;
    Ok(Request {
        place,
        model: leaf::text("model", entry.model)?.unwrap_or_default(),
        start,
        end: start.plus(took.unwrap_or_default()),
        input_tokens: leaf::some_tokens("in", entry.input)?,
        output_tokens: leaf::tokens("out", entry.output)?.max(1),
        blocks: entry.hash_ids.unwrap_or_default().checked("hash_ids")?,
        next: match leaf::text("stop", entry.stop)?.as_deref() {
            Some("tool_use") => Next::Tool,
            Some("end_turn") => Next::Person,
            _ => Next::Unknown,
        },
    })
}

/// The requests of one agent, which may be several chains.
struct Stream<'a> {
    name: &'a str,
    parent: Option<&'a str>,
    block_tokens: NonZeroU32,
}

impl Stream<'_> {
    fn name_of(&self, chain: usize) -> String {
        match chain {
            0 => self.name.to_owned(),
            side => format!("{}/side.{side}", self.name),
        }
    }

    fn emit(&self, context: &mut Context<'_>, requests: Vec<Request>) -> Result<(), TraceError> {
        let chains = match context.options.side_chains {
            SideChains::Split => Chains::of(&requests),
            SideChains::Kept => Chains::one(&requests),
        };
        for (request, &chain) in requests.into_iter().zip(&chains.chain_of) {
            let parent = match (chain, chains.spawner[chain]) {
                (0, _) => self.parent.map(str::to_owned),
                (_, Some(spawner)) => Some(self.name_of(spawner)),
                (_, None) => self.parent.map(|_| self.name.to_owned()),
            };
            let turn = TracedTurn {
                rank: None,
                id: None,
                session: Some(self.name_of(chain)),
                parent,
                input_tokens: request.input_tokens,
                output_tokens: request.output_tokens,
                block_tokens: self.block_tokens,
                blocks: request.blocks,
                scope: Scope::Part(0),
                timing: Timing::Measured {
                    start: request.start,
                    end: request.end,
                    clock: Clock::Replay,
                },
                next: request.next,
            };
            context.emit(request.place, Ok(turn))?;
        }
        Ok(())
    }
}

/// Which chain each request is of, and which one a chain has branched off.
struct Chains {
    /// Chain 0 is that of the first request.
    chain_of: Vec<usize>,
    /// Of each chain: the one whose last prompt its first one had most in common with, if any.
    spawner: Vec<Option<usize>>,
}

impl Chains {
    fn one(requests: &[Request]) -> Self {
        Self {
            chain_of: vec![0; requests.len()],
            spawner: vec![None],
        }
    }

    fn of(requests: &[Request]) -> Self {
        // The last request of each chain.
        let mut tails: Vec<usize> = Vec::new();
        let mut chains = Self {
            chain_of: Vec::with_capacity(requests.len()),
            spawner: Vec::new(),
        };
        for (index, request) in requests.iter().enumerate() {
            let best = best(requests, &tails, index);
            let chain = chain(requests, &tails, index, best).unwrap_or(tails.len());
            match tails.get_mut(chain) {
                // A prompt without blocks says nothing about what comes after it.
                Some(tail) if !request.blocks.is_empty() => *tail = index,
                Some(_) => {}
                None => {
                    tails.push(index);
                    chains.spawner.push(best.map(|(spawner, _)| spawner));
                }
            }
            chains.chain_of.push(chain);
        }
        chains
    }
}

/// The chain whose last prompt has most in common with that of a request, and how many blocks.
fn best(requests: &[Request], tails: &[usize], index: usize) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    for (chain, &tail) in tails.iter().enumerate() {
        let common = common(&requests[index].blocks, &requests[tail].blocks);
        if common > best.map_or(0, |(_, common)| common) {
            best = Some((chain, common));
        }
    }
    best
}

/// The chain that a request continues.
fn chain(
    requests: &[Request],
    tails: &[usize],
    index: usize,
    best: Option<(usize, usize)>,
) -> Option<usize> {
    let request = &requests[index];
    // Nothing to tell chains apart by.
    if request.blocks.is_empty() || tails.iter().all(|&tail| requests[tail].blocks.is_empty()) {
        return (!tails.is_empty()).then_some(0);
    }
    let chains = || tails.iter().map(|&tail| &requests[tail]).enumerate();
    let whole = chains().filter(|(_, tail)| extends(request, tail));
    if let Some((chain, _)) =
        whole.max_by_key(|(chain, tail)| (tail.blocks.len(), usize::MAX - chain))
    {
        return Some(chain);
    }
    let (chain, shared) = best?;
    let tail = &requests[tails[chain]];
    let long_ago = request.start.since(tail.end) > SEAM;
    let follows = follows(request, tail) && !(long_ago && shared * 2 < tail.blocks.len());
    let awaited = || {
        requests[index + 1..]
            .iter()
            .any(|later| follows_better(later, tail, shared))
    };
    (follows && !awaited()).then_some(chain)
}

/// Whether a request may come after another in one chain.
fn follows(request: &Request, tail: &Request) -> bool {
    tail.end <= request.start && tail.model == request.model
}

/// Whether a later request has more in common with `tail` than the `shared` blocks.
fn follows_better(later: &Request, tail: &Request, shared: usize) -> bool {
    follows(later, tail) && common(&later.blocks, &tail.blocks) > shared
}

/// Whether a request begins with the whole prompt of an earlier one that was over by then.
fn extends(request: &Request, tail: &Request) -> bool {
    !tail.blocks.is_empty() && follows(request, tail) && request.blocks.starts_with(&tail.blocks)
}

fn common(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
