//! Our index with what a router also keeps of sessions: who is whose child, how far each has got at
//! which worker, and what the sessions of a worker need together.
//!
//! Everything but a turn's beginning and end is the plain index's.
use std::collections::HashMap;

use warmpath_core::ProgramId;
use warmpath_core::prefix::Frontier;
use warmpath_core::session::{Claim, Membership, Phase, Sent, SessionRegistry};

use super::ours::Ours;
use super::{Index, OURS, Prompt, SessionName, Stretch};

pub(super) struct Upkeep {
    ours: Ours,
    sessions: SessionRegistry,
    frontiers: HashMap<ProgramId, Frontier>,
    /// Of the prompt at hand.
    name: String,
    parent: Option<String>,
    running: Option<Membership>,
    left: Vec<ProgramId>,
}

impl Upkeep {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            ours: Ours::new(workers),
            sessions: SessionRegistry::new(usize::MAX),
            frontiers: HashMap::new(),
            name: String::new(),
            parent: None,
            running: None,
            left: Vec::new(),
        }
    }

    /// Chains of sessions that are over need nothing any more.
    fn leave(&mut self) {
        for program in self.left.drain(..) {
            if let Some(frontier) = self.frontiers.remove(&program) {
                self.ours.index.lock().leave(program, frontier);
            }
        }
    }

    /// The turn enters its session, before it is known where it goes.
    fn begin(&mut self) -> Membership {
        let claim = Claim {
            tenant: "",
            session: Some(&self.name),
            parent: self.parent.as_deref(),
        };
        let chain = &self.ours.chain;
        let sent = Sent {
            chain: chain.hashes(),
            tokens: chain.tokens(),
        };
        let known = self.sessions.find(claim, sent.chain);
        self.sessions
            .begin(self.ours.now, known, claim, sent, &mut self.left)
    }
}

impl Index for Upkeep {
    fn name(&self) -> &'static str {
        OURS
    }

    fn ready_find(&mut self, prompt: &Prompt<'_>) {
        self.ours.ready_find(prompt);
        let SessionName { family, member } = prompt.session;
        self.name = format!("session-{family}-{member}");
        self.parent = (member > 0).then(|| format!("session-{family}-0"));
    }

    fn ready_again(&mut self) {
        self.ours.ready_again();
    }

    fn find(&mut self) {
        self.ours.find();
    }

    fn answer(&mut self) -> u64 {
        self.ours.answer()
    }

    fn predict(&mut self, worker: usize) {
        let membership = self.begin();
        self.ours.predict(worker);
        if let Some(program) = membership.program {
            let before = self.frontiers.remove(&program);
            let mut index = self.ours.index.lock();
            let (place, chain) = (self.ours.places[worker], &self.ours.chain);
            let frontier = index.follow(program, place, chain, before);
            self.frontiers.extend(frontier.map(|f| (program, f)));
        }
        self.running = Some(membership);
    }

    fn ready_store(&mut self, worker: usize, stored: &Stretch<'_>) {
        self.ours.ready_store(worker, stored);
    }

    fn ready_remove(&mut self, worker: usize, names: &[u64]) {
        self.ours.ready_remove(worker, names);
    }

    fn ready_clear(&mut self, worker: usize) {
        self.ours.ready_clear(worker);
    }

    fn apply(&mut self) {
        self.ours.apply();
        if let Some(Membership {
            session, program, ..
        }) = self.running.take()
        {
            let (now, phase) = (self.ours.now, Some(Phase::Acting));
            self.sessions
                .end(now, session, program, phase, &mut self.left);
        }
        self.leave();
    }

    fn rest(&mut self) {
        self.ours.rest();
    }
}
