//! What stands behind a handle: a scheduler under a lock, and a mailbox for each thread that uses it.
//!
//! A hold that one thread's call settles may belong to another thread. It goes into that thread's
//! mailbox, and that thread is woken through a weak threadsafe function, which keeps no process
//! alive. A handle that goes away (its thread has ended, or nobody refers to it) cancels what it had
//! in flight, so that a lost thread cannot hold room.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use napi::Status;
use napi::bindgen_prelude::Result;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use parking_lot::Mutex;

use warmpath_core::scheduler::{Outcome, Recalled, Scheduler, Settled};
use warmpath_core::{GroupId, Micros, ReservationId, TargetId, WorkerId};
use warmpath_feed::Whose;

use crate::error::{Code, closed, invalid, refused};
use crate::feed::Ear;
use crate::frame::Lists;
use crate::journal::{Act, Journal};
use crate::options::{NewTarget, NewWorker, Options};
use crate::out;
use crate::pool::Pools;

/// Wakes a thread: weak, and one call in the queue is enough.
pub(crate) type Wake = ThreadsafeFunction<(), (), (), Status, false, true, 1>;

/// One scheduler of this process.
pub(crate) struct Shared {
    name: Option<String>,
    state: Mutex<State>,
}

/// What the lock guards.
pub(crate) struct State {
    pub(crate) core: Scheduler,
    pub(crate) lists: Lists,
    pub(crate) settled: Vec<Settled>,
    pub(crate) ear: Ear,
    pub(crate) pools: Pools,
    pub(crate) worker_details: Vec<String>,
    pub(crate) target_details: Vec<String>,
    /// Details that were changed since the start.
    pub(crate) revised: u32,
    mailboxes: HashMap<u32, Mailbox>,
    next_mailbox: u32,
    open_handles: u32,
    /// Whose thread each turn belongs to.
    holders: HashMap<ReservationId, u32>,
    /// The body that was recalled last, for the submit of its turn, and its number.
    recalled: Option<Recalled>,
    ticket: u32,
    /// What it is told, where a trace wants to know.
    pub(crate) journal: Option<Box<Journal>>,
}

struct Mailbox {
    wake: Arc<Wake>,
    pending: VecDeque<Settled>,
}

/// One thread's way to a scheduler.
pub(crate) struct Handle {
    shared: Arc<Shared>,
    mailbox: u32,
    is_open: AtomicBool,
}

/// Named schedulers: every thread's copy of the addon is the same library image.
static NAMED: LazyLock<Mutex<HashMap<String, Arc<Shared>>>> = LazyLock::new(Default::default);

impl Handle {
    /// Opens a scheduler of its own.
    pub(crate) fn open(options: &str, wake: Wake) -> Result<Self, Code> {
        let shared = Shared::new(None, options)?;
        Ok(Self::enter(Arc::new(shared), wake))
    }

    /// Opens or joins the scheduler of that name; the options count only when it is opened.
    pub(crate) fn join(name: String, options: &str, wake: Wake) -> Result<Self, Code> {
        let mut named = NAMED.lock();
        let shared = match named.get(&name) {
            Some(shared) => Arc::clone(shared),
            None => {
                let shared = Arc::new(Shared::new(Some(name.clone()), options)?);
                named.insert(name, Arc::clone(&shared));
                shared
            }
        };
        Ok(Self::enter(shared, wake))
    }

    fn enter(shared: Arc<Shared>, wake: Wake) -> Self {
        let mailbox = {
            let mut state = shared.state.lock();
            state.next_mailbox += 1;
            state.open_handles += 1;
            let mailbox = state.next_mailbox;
            let (wake, pending) = (Arc::new(wake), VecDeque::new());
            state.ear.wakes.lock().insert(mailbox, Arc::clone(&wake));
            state.mailboxes.insert(mailbox, Mailbox { wake, pending });
            mailbox
        };
        Self {
            shared,
            mailbox,
            is_open: true.into(),
        }
    }

    /// Refuses new turns of a closed handle.
    pub(crate) fn check_open(&self) -> Result<(), Code> {
        if self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(closed())
    }

    /// Runs `f` under the lock. What it settled for this thread is written to `out`, or stays in
    /// the mailbox (and wakes this thread) when `f` failed; other threads are woken.
    pub(crate) fn call<T>(
        &self,
        out: &mut [f64],
        f: impl FnOnce(&mut State, u32) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        let result = f(state, self.mailbox);
        state.deliver(self.mailbox);
        match &result {
            Ok(_) => state.write_out(self.mailbox, out),
            Err(_) => state.wake_if_pending(self.mailbox),
        }
        result
    }

    /// Runs `f` under the lock, for calls that settle nothing.
    pub(crate) fn look<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&self.shared.state.lock())
    }

    /// Runs `f` under the lock, for calls that change something and settle nothing.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.shared.state.lock())
    }

    /// Ends this handle's holds and refuses its new turns; those in flight may still end. The last
    /// handle of a name frees the name.
    pub(crate) fn close(&self, now: Micros, out: &mut [f64]) -> Result<(), Code> {
        if self.is_open.swap(false, Ordering::AcqRel) {
            self.leave_name();
        }
        self.call(out, |state, mailbox| {
            state.cancel_where(now, |state, id, holder| {
                holder == mailbox && state.core.is_held(id)
            });
            Ok(())
        })
    }

    fn leave_name(&self) {
        let mut named = NAMED.lock();
        let is_last = {
            let mut state = self.shared.state.lock();
            state.open_handles -= 1;
            if state.open_handles == 0 {
                state.ear.deafen(Whose::All);
            }
            state.open_handles == 0
        };
        if let Some(name) = self.shared.name.as_ref().filter(|_| is_last) {
            named.remove(name);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_open.swap(false, Ordering::AcqRel) {
            self.leave_name();
        }
        let mut state = self.shared.state.lock();
        let now = state.core.status().now;
        let mailbox = self.mailbox;
        state.cancel_where(now, |_, _, holder| holder == mailbox);
        state.mailboxes.remove(&mailbox);
        state.ear.wakes.lock().remove(&mailbox);
        state.deliver(mailbox);
    }
}

impl Shared {
    fn new(name: Option<String>, text: &str) -> Result<Self, Code> {
        let options = Options::parse(text)?;
        let journal = options.steps.as_ref();
        let journal = journal
            .map(|steps| Journal::open(steps, text))
            .transpose()?;
        let mut state = State::new(options)?;
        state.journal = journal.map(Box::new);
        Ok(Self {
            name,
            state: Mutex::new(state),
        })
    }
}

impl State {
    /// A scheduler with its whole fleet.
    pub(crate) fn new(options: Options) -> Result<Self, Code> {
        let core = options.config().and_then(Scheduler::new);
        let core = core.map_err(|e| refused(&e))?;
        let mut state = Self {
            core,
            lists: Lists::default(),
            settled: Vec::new(),
            ear: Ear::default(),
            pools: Pools::default(),
            worker_details: Vec::new(),
            target_details: Vec::new(),
            revised: 0,
            mailboxes: HashMap::new(),
            next_mailbox: 0,
            open_handles: 0,
            holders: HashMap::new(),
            recalled: None,
            ticket: 0,
            journal: None,
        };
        for group in &options.groups {
            let added = state.core.add_group(Micros::default(), group.options());
            added.map_err(|e| refused(&e))?;
        }
        for target in options.targets {
            state.add_target(target)?;
        }
        let rules = options.continuity.rules();
        state.core.set_base_rules(rules).map_err(|e| refused(&e))?;
        state.add_workers(Micros::default(), options.workers)?;
        for pool in &options.pools {
            state.add_pool(Micros::default(), pool)?;
        }
        Ok(state)
    }
}

/// Finds out whether a scheduler can be opened with these options. Nothing listens, nobody is woken.
pub(crate) fn check(text: &str) -> Result<(), Code> {
    let mut options = Options::parse(text)?;
    for worker in &mut options.workers {
        if let Some(events) = worker.kv_events.take() {
            events.endpoints()?;
        }
    }
    for pool in &mut options.pools {
        pool.endpoint()?;
        pool.events = None;
    }
    State::new(options).map(drop)
}

impl State {
    /// Registers a target with its model and remembers its detail.
    pub(crate) fn add_target(&mut self, target: NewTarget) -> Result<u32, Code> {
        let model = target.model.core().map_err(|e| refused(&e))?;
        let added = self.core.add_target(&target.name, GroupId(target.group));
        let id = added.map_err(|e| refused(&e))?;
        self.core.set_model(id, model).map_err(|e| refused(&e))?;
        let scope = target.cache.scope();
        (self.core.set_cache_scope(id, scope)).map_err(|e| refused(&e))?;
        self.target_details.push(target.detail);
        Ok(id.0)
    }

    /// Gives a target another model card and another detail.
    pub(crate) fn revise_target(&mut self, id: TargetId, target: NewTarget) -> Result<(), Code> {
        let model = target.model.core().map_err(|e| refused(&e))?;
        self.core.set_model(id, model).map_err(|e| refused(&e))?;
        if let Some(detail) = self.target_details.get_mut(id.index()) {
            *detail = target.detail;
            self.revised = self.revised.wrapping_add(1);
        }
        Ok(())
    }

    /// Gives a worker another detail.
    pub(crate) fn revise_worker(&mut self, id: WorkerId, detail: String) -> Result<(), Code> {
        self.core.topology().worker(id).map_err(|e| refused(&e))?;
        if let Some(known) = self.worker_details.get_mut(id.index()) {
            *known = detail;
            self.revised = self.revised.wrapping_add(1);
        }
        Ok(())
    }

    /// Grows with every change of the fleet or of a detail.
    pub(crate) fn epoch(&self) -> f64 {
        f64::from(self.core.topology().epoch()) + f64::from(self.revised)
    }

    /// Registers a worker and remembers its detail.
    pub(crate) fn add_worker(&mut self, now: Micros, worker: NewWorker) -> Result<u32, Code> {
        let added = self.add_workers(now, vec![worker])?;
        added.first().copied().ok_or_else(|| invalid("no worker"))
    }

    /// Registers workers, all or, where one is wrong in itself, none; remembers their details.
    fn add_workers(&mut self, now: Micros, workers: Vec<NewWorker>) -> Result<Vec<u32>, Code> {
        for events in workers
            .iter()
            .filter_map(|worker| worker.kv_events.as_ref())
        {
            events.endpoints()?;
        }
        let options = workers.iter().map(NewWorker::options);
        let added = self.core.add_workers(now, options, &mut self.settled);
        let added = added.map_err(|e| refused(&e))?;
        for (&id, worker) in added.iter().zip(workers) {
            self.listen(now, id, worker)?;
        }
        Ok(added.iter().map(|id| id.0).collect())
    }

    /// Puts a worker in the place of another.
    pub(crate) fn replace_worker(
        &mut self,
        now: Micros,
        old: WorkerId,
        worker: NewWorker,
    ) -> Result<u32, Code> {
        if let Some(events) = &worker.kv_events {
            events.endpoints()?;
        }
        let new = self
            .core
            .replace_worker(now, old, worker.options(), &mut self.settled);
        let new = new.map_err(|e| refused(&e))?;
        self.ear.deafen(Whose::Worker(old.0));
        self.listen(now, new, worker)?;
        Ok(new.0)
    }

    /// Remembers a new worker's detail and listens to its events.
    fn listen(&mut self, now: Micros, id: WorkerId, worker: NewWorker) -> Result<(), Code> {
        self.worker_details.push(worker.detail);
        let Some(events) = &worker.kv_events else {
            return Ok(());
        };
        self.ear.listen(now, &mut self.core, id, events)
    }

    /// Keeps what was recalled for the submit that follows. Returns its number.
    pub(crate) fn keep_recalled(&mut self, recalled: Recalled) -> u32 {
        self.ticket = self.ticket.wrapping_add(1);
        self.recalled = Some(recalled);
        self.ticket
    }

    /// What was recalled under this number, unless another thread has recalled something since.
    pub(crate) fn take_recalled(&mut self, ticket: u32) -> Option<Recalled> {
        self.recalled.take_if(|_| self.ticket == ticket)
    }

    /// Applies what engines have told meanwhile, up to about `weight`.
    pub(crate) fn hear(&mut self, now: Micros, weight: usize) {
        self.ear.hear(now, (&mut self.core, &self.pools), weight);
    }

    /// Keeps what the scheduler is told, where a trace wants to know.
    pub(crate) fn note(&mut self, now: Micros, act: impl FnOnce() -> Act) {
        if let Some(journal) = &mut self.journal {
            journal.note(now, act());
        }
    }

    /// Runs the timers that are due. Whoever calls the core runs them too; what is kept here is a call
    /// that does nothing else.
    pub(crate) fn advance(&mut self, now: Micros) {
        if self.core.next_wake().is_some_and(|wake| wake <= now) {
            self.note(now, || Act::Wake);
        }
        self.core.advance(now, &mut self.settled);
    }

    /// Notes whose thread a turn belongs to.
    pub(crate) fn hold(&mut self, id: ReservationId, mailbox: u32) {
        self.holders.insert(id, mailbox);
    }

    /// The turn has ended.
    pub(crate) fn drop_holder(&mut self, id: ReservationId) {
        self.holders.remove(&id);
    }

    /// Cancels the turns for which `which` holds; their holders are told that it was closed.
    fn cancel_where(&mut self, now: Micros, which: impl Fn(&Self, ReservationId, u32) -> bool) {
        let mut ids: Vec<_> = self
            .holders
            .iter()
            .filter(|&(&id, &holder)| which(self, id, holder))
            .map(|(&id, _)| id)
            .collect();
        ids.sort_unstable();
        for id in ids {
            self.note(now, || Act::Cancel { turn: id.0 });
            self.core.close_turn(now, id, &mut self.settled);
            self.settled.push(Settled {
                reservation: id,
                outcome: Outcome::Closed,
                held: Micros::default(),
            });
        }
    }

    /// Puts what was settled into the mailboxes; wakes the threads other than `own`.
    fn deliver(&mut self, own: u32) {
        for settled in self.settled.drain(..) {
            let id = settled.reservation;
            let Some(&holder) = self.holders.get(&id) else {
                continue;
            };
            if !matches!(settled.outcome, Outcome::Go(_)) {
                self.holders.remove(&id);
            }
            if let Some(mailbox) = self.mailboxes.get_mut(&holder) {
                mailbox.pending.push_back(settled);
                if holder != own {
                    mailbox.wake();
                }
            }
        }
    }

    fn wake_if_pending(&self, own: u32) {
        if let Some(mailbox) = self.mailboxes.get(&own)
            && !mailbox.pending.is_empty()
        {
            mailbox.wake();
        }
    }

    /// Writes the common head and as many settled holds as fit.
    fn write_out(&mut self, own: u32, out: &mut [f64]) {
        let wake = self.core.next_wake().map_or(-1.0, |at| at.0 as f64);
        let epoch = self.epoch();
        let room = (out.len() - out::SETTLED) / out::SETTLED_SLOTS;
        let mut written = 0;
        let mut more = false;
        if let Some(mailbox) = self.mailboxes.get_mut(&own) {
            while written < room
                && let Some(settled) = mailbox.pending.pop_front()
            {
                let at = out::SETTLED + written * out::SETTLED_SLOTS;
                out::settled(&self.core, &settled, &mut out[at..at + out::SETTLED_SLOTS]);
                written += 1;
            }
            more = !mailbox.pending.is_empty();
        }
        out[..4].copy_from_slice(&[wake, epoch, written as f64, f64::from(u8::from(more))]);
    }
}

impl Mailbox {
    fn wake(&self) {
        // A full queue means that a wake-up is on its way; a closing one that the thread is gone,
        // and then its handle cancels what it had.
        let _ = self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}
