//! The clock of a fleet: what happens next, to whom, and who is told.
//!
//! At one time engines finish their passes first, then caches are heard of, workers come and go, the
//! router's timer runs, clients lose patience, and turns arrive; then engines begin the passes that
//! are due, so a turn that arrives with the end of a pass is part of the next. Between two events
//! nothing is looked at. What the router says is done at once; a hold that it settles goes to its
//! engine in the same moment.
use hashbrown::HashMap;
use warmpath_trace::{Next, Workload};

use super::agenda::{Agenda, Item};
use super::config::{EngineModel, Feed, FleetConfig, Load};
use super::content::{Content, TurnKey};
use super::engines::Engines;
use super::error::FleetError;
use super::faults::Faults;
use super::live::{Live, Scratch, Whereabouts};
use super::machine::{Job, alone_ns};
use super::meter::{Meter, Times};
use super::report::Report;
use super::source::{Pace, Population, Replay, Source};
use super::tidings::Tidings;
use super::{Progress, Watch};
use crate::event::{End, EngineEvent, EventKind, Nanos};
use crate::router::{Answer, CacheChange, Offer, Router, Settled, Usage};
use crate::streak::BlockNews;

/// A run in which so long nothing but outages happened has come to its end.
const NOTHING_MORE: Nanos = 86_400_000_000_000;

/// Steps between two looks of whoever watches: some milliseconds.
const STEPS_A_LOOK: u64 = 4_096;

/// A run under way.
pub(crate) struct Fleet<'a> {
    pub(super) config: &'a FleetConfig,
    pub(super) router: &'a mut dyn Router,
    pub(super) content: Content<'a>,
    source: Source<'a>,
    pub(super) engines: Engines,
    pub(super) agenda: Agenda,
    pub(super) faults: Faults,
    pub(super) tidings: Tidings,
    pub(super) meter: Meter,
    pub(super) live: HashMap<u64, Live>,
    turns: u64,
    pub(super) now: Nanos,
    /// When the router was woken last: it is not woken twice at one time.
    woken: Option<Nanos>,
    pub(super) settled: Vec<Settled>,
    pub(super) scratch: Scratch,
}

impl<'a> Fleet<'a> {
    pub(crate) fn new(
        workload: &'a Workload,
        config: &'a FleetConfig,
        router: &'a mut dyn Router,
    ) -> Result<Self, FleetError> {
        let mut content = Content::new(workload, super::block_tokens(&config.engine))?;
        let mut agenda = Agenda::default();
        let (source, from) = match &config.load {
            Load::Replay => (Source::Replay(Replay::new(workload, Pace::Free)), 0),
            Load::Recorded => (Source::Replay(Replay::new(workload, Pace::Recorded)), 0),
            Load::Population(population) => {
                content.allow_instances();
                let capacity = config.engine.capacity_tokens();
                let mut people =
                    Population::new(workload, population, capacity, config.workers, config.seed)?;
                people.begin(&mut agenda);
                (Source::Population(people), population.warm_up)
            }
        };
        let news = match config.feed {
            Feed::None => BlockNews::Dropped,
            Feed::Events { .. } => BlockNews::Reported,
        };
        Ok(Self {
            engines: Engines::new(config.engines(), news)?,
            faults: Faults::new(config, &mut agenda),
            tidings: Tidings::new(config.feed, config.workers, config.seed),
            meter: Meter::new(from),
            config,
            router,
            content,
            source,
            agenda,
            live: HashMap::new(),
            turns: 0,
            now: 0,
            woken: None,
            settled: Vec::new(),
            scratch: Scratch::default(),
        })
    }

    /// Runs to the end of the workload or of the measurement; `None` when `watch` ends it earlier.
    pub(crate) fn run(mut self, watch: Watch<'_>) -> Result<Option<Report>, FleetError> {
        let (cut, population, drawn) = match (&self.config.load, &self.source) {
            (Load::Population(population), Source::Population(people)) => {
                let cut = population.warm_up.saturating_add(population.measure);
                (
                    Some(cut),
                    Some(people.target() as u64),
                    Some(people.drawn()),
                )
            }
            _ => (None, None, None),
        };
        let mut is_measuring = self.meter.from == 0;
        let mut alive = 0;
        let mut steps = 0u64;
        while let Some(next) = self.next_at() {
            if cut.is_some_and(|cut| next >= cut) {
                break;
            }
            if !is_measuring && next >= self.meter.from {
                is_measuring = true;
                self.settle_all(self.meter.from);
                self.engines.mark();
            }
            if self.engines.next_at().is_some() || self.agenda.turns() > 0 {
                alive = next;
            } else if next > alive.saturating_add(NOTHING_MORE) {
                break;
            }
            self.now = self.now.max(next);
            steps += 1;
            if steps.is_multiple_of(STEPS_A_LOOK) && watch(self.progress()).is_break() {
                return Ok(None);
            }
            self.meter.sample(self.now, &self.engines, &*self.router);
            self.step();
        }
        if let Some(cut) = cut {
            self.settle_all(cut);
        }
        let end = cut.unwrap_or(self.now);
        let mut left: Vec<(u64, Live)> = self.live.drain().collect();
        left.sort_unstable_by_key(|(id, _)| *id);
        for (_, live) in left {
            let is_held = live.at == Whereabouts::Router;
            self.meter.unfinished(end, &live.times, is_held);
        }
        let report = self.meter.report(cut, &mut self.engines, &*self.router);
        Ok(Some(Report {
            seed: self.config.seed,
            population,
            drawn,
            events: self.tidings.counts(),
            ..report
        }))
    }

    fn progress(&self) -> Progress {
        let counts = &self.meter.counts;
        Progress {
            now: self.now,
            arrived: counts.arrived,
        }
    }

    fn next_at(&self) -> Option<Nanos> {
        let wake = self.wake();
        let turns = self.source.next_open();
        // Outages go on for ever; without turns nobody is there to notice.
        let is_over = self.live.is_empty() && turns.is_none() && self.agenda.turns() == 0;
        let agenda = self.agenda.next_at().filter(|_| !is_over);
        let wake = wake.filter(|_| !is_over);
        [self.engines.next_at(), wake, turns, agenda]
            .into_iter()
            .flatten()
            .min()
    }

    fn wake(&self) -> Option<Nanos> {
        let wake = self.router.next_wake()?;
        Some(match self.woken {
            Some(woken) if wake <= woken => woken + 1_000,
            _ => wake,
        })
    }

    /// Everything that happens at this time.
    fn step(&mut self) {
        let now = self.now;
        for worker in 0..self.engines.count() {
            if self.engines.is_due(worker, now) {
                let mut events = std::mem::take(&mut self.scratch.events);
                self.engines
                    .settle(worker, now, &mut self.content, &mut events);
                self.hear(worker, events);
            }
        }
        while self.agenda.is_before_arrivals(now) {
            let item = self.agenda.take_due(now);
            self.happen(item);
        }
        if self.wake().is_some_and(|wake| wake <= now) {
            self.woken = Some(now);
            self.router.advance(now, &mut self.settled);
            self.follow();
        }
        while let Some(key) = self.source.take_open(now) {
            self.arrive(key);
        }
        while let Some(item) = self.agenda.take_due(now) {
            self.happen(Some(item));
        }
        for worker in 0..self.engines.count() {
            if self.engines.is_due(worker, now) {
                let mut events = std::mem::take(&mut self.scratch.events);
                self.engines
                    .settle(worker, now, &mut self.content, &mut events);
                self.engines.begin(worker, &mut self.content, &mut events);
                self.hear(worker, events);
            }
        }
    }

    fn settle_all(&mut self, at: Nanos) {
        self.now = self.now.max(at);
        for worker in 0..self.engines.count() {
            let mut events = std::mem::take(&mut self.scratch.events);
            self.engines
                .settle(worker, at, &mut self.content, &mut events);
            self.hear(worker, events);
        }
    }

    fn happen(&mut self, item: Option<Item>) {
        match item {
            None => {}
            Some(Item::Deliver(parcel)) => self.tell(&parcel),
            Some(Item::TellAgain { worker, life, from }) => {
                let answer = self.tidings.tell_again(self.now, (worker, life), from);
                self.deliver(answer);
            }
            Some(Item::Die(worker)) => self.die(worker),
            Some(Item::Return(worker)) => self.come_back(worker),
            Some(Item::LosePatience(id)) => self.give_up(id),
            Some(Item::AskAgain(id)) => self.ask_again(id),
            Some(Item::Arrive(key)) => self.arrive(key),
        }
    }

    /// A client sends a turn for the first time.
    fn arrive(&mut self, key: TurnKey) {
        let turn = self.content.workload().turns()[key.turn as usize];
        let (session, next) = match &self.source {
            Source::Replay(_) => (u64::from(turn.session), turn.next),
            Source::Population(people) if people.is_last(key) => (key.instance.into(), Next::End),
            Source::Population(_) => (key.instance.into(), turn.next),
        };
        let sessions = &mut self.meter.sessions;
        let before = sessions.arrive(self.now, session, key.turn, turn.input_tokens);
        self.meter.arrived(self.now);
        self.source.started(self.now, key, &mut self.agenda);
        self.ask(Live {
            key,
            session,
            at: Whereabouts::Router,
            times: Times {
                arrived: self.now,
                asked: self.now,
                first_token: None,
                was_held: false,
            },
            cached: None,
            promise: None,
            is_behind: false,
            before,
            next,
        });
    }

    /// The turn comes to the router's door, under a number of its own.
    pub(super) fn ask(&mut self, mut live: Live) {
        self.turns += 1;
        let id = self.turns;
        live.at = Whereabouts::Router;
        live.times.asked = self.now;
        self.live.insert(id, live);
        if let Some(patience) = self.faults.patience() {
            let at = self.now.saturating_add(patience);
            self.agenda.add(at, Item::LosePatience(id));
        }
        let workload = self.content.workload();
        let turn = workload.turns()[live.key.turn as usize];
        self.scratch.name(workload, turn.session, live.key.instance);
        let info = &workload.sessions()[turn.session as usize];
        let offer = Offer {
            turn: id,
            session: &self.scratch.session,
            parent: info.parent.map(|_| &*self.scratch.parent),
            blocks: self.content.prompt_ids(live.key),
            prompt_tokens: turn.input_tokens,
            next: live.next,
        };
        let answer = self.router.submit(self.now, &offer, &mut self.settled);
        match answer {
            Answer::Go(worker) => self.place(id, worker),
            Answer::Hold => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.times.was_held = true;
                }
            }
            Answer::Refused => self.refused(id),
        }
        self.follow();
    }

    /// Does what the router's last call has settled.
    pub(super) fn follow(&mut self) {
        while !self.settled.is_empty() {
            for settled in std::mem::take(&mut self.settled) {
                match settled.worker {
                    Some(worker) => self.place(settled.turn, worker),
                    None => self.refused(settled.turn),
                }
            }
        }
    }

    /// The turn goes to an engine; one that is down does not answer.
    pub(super) fn place(&mut self, id: u64, worker: u32) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        live.at = Whereabouts::Worker(worker);
        live.cached = None;
        live.promise = self.router.promised(id);
        live.is_behind = self.tidings.is_behind(worker);
        let live = *live;
        if !self.engines.is_up(worker) {
            self.router.cancel(self.now, id, &mut self.settled);
            self.lose(id);
            return;
        }
        let turn = self.content.workload().turns()[live.key.turn as usize];
        self.scratch.names.clear();
        if let EngineModel::DynamoPoly(_) = self.config.engine {
            let (_, names) = self.content.blocks(live.key);
            self.scratch.names.extend_from_slice(names);
        }
        let mut events = std::mem::take(&mut self.scratch.events);
        let content = &mut self.content;
        let job = Job {
            id,
            key: live.key,
            session: live.session,
            prompt: turn.input_tokens,
            output: turn.output_tokens,
            names: &self.scratch.names,
        };
        let offered = self.engines.offered(worker, &job, content);
        self.meter.placed(self.now, &live.times, offered);
        self.tidings.sent(id, live.key);
        self.engines
            .submit(worker, self.now, &job, content, &mut events);
        self.hear(worker, events);
    }

    /// What an engine reports. Gives the list back, empty.
    pub(super) fn hear(&mut self, worker: u32, mut events: Vec<EngineEvent>) {
        let mut news: Vec<CacheChange> = Vec::new();
        for EngineEvent { at, kind } in events.drain(..) {
            if let EventKind::Stored { .. } | EventKind::Removed { .. } = kind {
                news.extend(self.tidings.read(kind, &mut self.content));
                continue;
            }
            self.send(worker, &mut news);
            match kind {
                EventKind::Admitted { id, cached_tokens } => self.admitted(at, id, cached_tokens),
                EventKind::FirstToken { id } => self.first_token(at, id),
                EventKind::Ended { id, end, produced } => self.ended(worker, id, end, produced),
                _ => {}
            }
        }
        self.send(worker, &mut news);
        if self.scratch.events.capacity() < events.capacity() {
            self.scratch.events = events;
        }
    }

    fn admitted(&mut self, at: Nanos, id: u64, cached: u32) {
        if let Some(live) = self.live.get_mut(&id)
            && live.cached.is_none()
        {
            live.cached = Some(cached);
            let turn = &self.content.workload().turns()[live.key.turn as usize];
            self.meter.admitted(at, turn.input_tokens, cached);
            if let Some(promise) = live.promise {
                self.meter.kept(at, promise, live.is_behind, cached);
            }
        }
    }

    fn first_token(&mut self, at: Nanos, id: u64) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        if live.times.first_token.is_none() {
            live.times.first_token = Some(at);
            self.meter.first_token(at, &live.times);
        }
        self.router.first_token(at, id, &mut self.settled);
        self.follow();
    }

    fn ended(&mut self, worker: u32, id: u64, end: End, produced: u32) {
        self.tidings.left(id);
        if end == End::Cancelled {
            return;
        }
        let Some(live) = self.live.remove(&id) else {
            return;
        };
        let counts = &mut self.meter.counts;
        match end {
            End::Complete => counts.completed += 1,
            End::CacheFull => counts.outgrown += 1,
            End::Rejected | End::Cancelled => {
                counts.rejected += 1;
                self.over(&live);
                self.router.cancel(self.now, id, &mut self.settled);
                self.follow();
                return;
            }
        }
        let turn = self.content.workload().turns()[live.key.turn as usize];
        let repeated = live.before.map_or(0, |before| {
            self.content.common_tokens(before, live.key.turn)
        });
        let alone = alone_ns(&self.config.engine, turn.input_tokens, repeated, produced);
        let context = turn.input_tokens.saturating_add(produced);
        let is_measured = self.now >= self.meter.from;
        let sessions = &mut self.meter.sessions;
        sessions.answer(self.now, live.session, alone, context, is_measured);
        self.meter.answered(self.now, &live.times);
        self.over(&live);
        let usage = Usage {
            prompt_tokens: turn.input_tokens,
            cached_tokens: live.cached.unwrap_or(0).min(turn.input_tokens),
            completion_tokens: produced,
            next: live.next,
        };
        self.router
            .complete(self.now, id, &usage, &mut self.settled);
        if let Some(until) = self.router.keep_until(id) {
            self.engines.lease(worker, live.session, until);
        }
        self.follow();
    }

    /// The turn is over, however it ended: those that wait for it may go on.
    pub(super) fn over(&mut self, live: &Live) {
        self.meter.ended(self.now);
        if self.source.ended(self.now, live.key, &mut self.agenda) {
            self.meter.sessions.finish(self.now, live.session);
        }
    }

    fn refused(&mut self, id: u64) {
        if let Some(live) = self.live.remove(&id) {
            self.meter.counts.refused += 1;
            self.over(&live);
        }
    }
}
