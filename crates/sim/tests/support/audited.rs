//! A router under audit: each turn comes once, goes once and ends once, and what engines tell adds up.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use warmpath_sim::Nanos;
use warmpath_sim::router::{
    Answer, CacheChange, CacheMessage, Gauges, IndexCost, Offer, Presence, Promise, Router,
    Settled, Usage,
};

/// Where a turn is, as the router has been told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Held,
    Sent,
    Answering,
}

/// Passes everything on and checks that each turn comes once, goes once and ends once.
pub struct Audited<R> {
    pub router: R,
    pub open: HashMap<u64, Stage>,
    now: Nanos,
    cached: u64,
    heard: BTreeMap<u32, Heard>,
}

/// What a worker has told in its present life, by number.
type Heard = BTreeMap<u64, Rc<CacheMessage>>;

impl<R: Router> Audited<R> {
    pub fn new(router: R) -> Self {
        Self {
            router,
            open: HashMap::new(),
            now: 0,
            cached: 0,
            heard: BTreeMap::new(),
        }
    }

    /// Names that the worker has stored and not removed, by all that was heard of it; `None` when
    /// something is missing.
    pub fn told(&self, worker: u32) -> Option<BTreeSet<u64>> {
        let mut names = BTreeSet::new();
        let heard = self.heard.get(&worker).into_iter().flatten();
        for (expected, (sequence, message)) in heard.enumerate() {
            if *sequence != expected as u64 {
                return None;
            }
            for change in &message.changes {
                match change {
                    CacheChange::Stored { names: stored, .. } => names.extend(stored),
                    CacheChange::Removed { names: removed } => {
                        removed.iter().for_each(|name| assert!(names.remove(name)));
                    }
                }
            }
        }
        Some(names)
    }

    fn at(&mut self, now: Nanos) {
        assert!(self.now <= now, "time goes on");
        self.now = now;
    }

    fn settle(&mut self, settled: &[Settled]) {
        for one in settled {
            assert_eq!(self.open.remove(&one.turn), Some(Stage::Held));
            if one.worker.is_some() {
                self.open.insert(one.turn, Stage::Sent);
            }
        }
    }
}

impl<R: Router> Router for Audited<R> {
    fn label(&self) -> String {
        self.router.label()
    }

    fn submit(&mut self, now: Nanos, offer: &Offer<'_>, settled: &mut Vec<Settled>) -> Answer {
        self.at(now);
        assert!(
            settled.is_empty(),
            "what was settled before has been followed"
        );
        let answer = self.router.submit(now, offer, settled);
        let stage = match answer {
            Answer::Go(_) => Some(Stage::Sent),
            Answer::Hold => Some(Stage::Held),
            Answer::Refused => None,
        };
        if let Some(stage) = stage {
            assert_eq!(self.open.insert(offer.turn, stage), None);
        }
        self.settle(settled);
        answer
    }

    fn first_token(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) {
        self.at(now);
        assert_eq!(self.open.insert(turn, Stage::Answering), Some(Stage::Sent));
        let before = settled.len();
        self.router.first_token(now, turn, settled);
        self.settle(&settled[before..]);
    }

    fn complete(&mut self, now: Nanos, turn: u64, usage: &Usage, settled: &mut Vec<Settled>) {
        self.at(now);
        assert_eq!(self.open.remove(&turn), Some(Stage::Answering));
        assert!(usage.cached_tokens < usage.prompt_tokens);
        self.cached += u64::from(usage.cached_tokens);
        let before = settled.len();
        self.router.complete(now, turn, usage, settled);
        self.settle(&settled[before..]);
    }

    fn cancel(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) {
        self.at(now);
        assert!(self.open.remove(&turn).is_some());
        let before = settled.len();
        self.router.cancel(now, turn, settled);
        self.settle(&settled[before..]);
    }

    fn reroute(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) -> Option<u32> {
        self.at(now);
        assert_eq!(self.open.get(&turn), Some(&Stage::Sent));
        let before = settled.len();
        let moved = self.router.reroute(now, turn, settled);
        if moved.is_none() {
            self.open.remove(&turn);
        }
        self.settle(&settled[before..]);
        moved
    }

    fn set_presence(
        &mut self,
        now: Nanos,
        worker: u32,
        presence: Presence,
        settled: &mut Vec<Settled>,
    ) {
        self.at(now);
        if presence == Presence::Down {
            self.heard.remove(&worker);
        }
        let before = settled.len();
        self.router.set_presence(now, worker, presence, settled);
        self.settle(&settled[before..]);
    }

    fn hear(&mut self, now: Nanos, worker: u32, message: &Rc<CacheMessage>) -> Option<u64> {
        self.at(now);
        assert!(!message.changes.is_empty());
        for change in &message.changes {
            if let CacheChange::Stored { names, blocks, .. } = change {
                assert!(!names.is_empty() && names.len() == blocks.len());
            }
        }
        let heard = self.heard.entry(worker).or_default();
        assert_eq!(heard.insert(message.sequence, Rc::clone(message)), None);
        self.router.hear(now, worker, message)
    }

    fn hear_again(
        &mut self,
        now: Nanos,
        worker: u32,
        messages: &[Rc<CacheMessage>],
    ) -> Option<u64> {
        self.at(now);
        let numbered = messages.iter().map(|one| (one.sequence, Rc::clone(one)));
        self.heard.entry(worker).or_default().extend(numbered);
        self.router.hear_again(now, worker, messages)
    }

    fn promised(&self, turn: u64) -> Option<Promise> {
        self.router.promised(turn)
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.router.next_wake()
    }

    fn advance(&mut self, now: Nanos, settled: &mut Vec<Settled>) {
        self.at(now);
        let before = settled.len();
        self.router.advance(now, settled);
        self.settle(&settled[before..]);
    }

    fn gauges(&self) -> Gauges {
        self.router.gauges()
    }

    fn index_cost(&self) -> Option<IndexCost> {
        self.router.index_cost()
    }
}
