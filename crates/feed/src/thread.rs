//! The one thread that all sockets live on.
//!
//! It waits for any of them, reads what there is in turns, hands it to the streams, and does what they
//! ask. Connections that fail are tried again, ever less often. Names are looked up by the system's
//! resolver on this thread, so that a resolver that hangs delays the others: write addresses where that
//! matters. The thread ends when its [`Feed`] is dropped.
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use warmpath_core::Micros;

use crate::endpoint::Endpoint;
use crate::inbox::Inbox;
use crate::link::{Link, TOKENS};
use crate::reader::Contents;

/// How often streams are looked at when nothing happens.
const TICK: Duration = Duration::from_millis(50);

const WAKE: Token = Token(usize::MAX);

/// Whose stream it is, in the words of whoever owns the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKey {
    /// An engine's.
    Rank {
        /// The worker.
        worker: u32,
        /// Its data-parallel rank.
        rank: u32,
    },
    /// A shared store's, by a number that no other one has had.
    Pool(u32),
}

/// Whose streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's.
    All,
    /// Those of all ranks of a worker.
    Worker(u32),
    /// A store's.
    Pool(u32),
}

impl Whose {
    fn has(self, key: StreamKey) -> bool {
        match (self, key) {
            (Self::All, _) => true,
            (Self::Worker(whose), StreamKey::Rank { worker, .. }) => whose == worker,
            (Self::Pool(whose), StreamKey::Pool(pool)) => whose == pool,
            _ => false,
        }
    }
}

/// What is to be listened to, and for whom.
pub struct Subscription {
    /// Which stream it is.
    pub key: StreamKey,
    /// What its messages are about.
    pub contents: Contents,
    /// Where its publisher is.
    pub events: Endpoint,
    /// Where what was missed can be had.
    pub replay: Option<Endpoint>,
    /// What the first part of its messages begins with.
    pub topic: String,
    /// Where decoded events go.
    pub inbox: Arc<Inbox>,
    /// Called when something is waiting there. Must not block.
    pub wake: Box<dyn Fn() + Send>,
}

/// A thread that listens to publishers.
pub struct Feed {
    commands: Sender<Command>,
    waker: Waker,
}

enum Command {
    Add(Subscription),
    /// Removes those of this inbox.
    Remove(Arc<Inbox>, Whose),
}

impl Feed {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no room for a thread or its poller.
    pub fn start() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (commands, receiver) = channel();
        let thread = std::thread::Builder::new().name("warmpath-feed".to_owned());
        thread.spawn(move || Thread::new(poll, receiver).run())?;
        Ok(Self { commands, waker })
    }

    /// Listens to a publisher from now on.
    pub fn subscribe(&self, subscription: Subscription) {
        // Its status is there from now on, whenever the thread comes to it.
        subscription.inbox.open(subscription.key);
        self.command(Command::Add(subscription));
    }

    /// Listens no longer for this inbox.
    pub fn unsubscribe(&self, inbox: &Arc<Inbox>, whose: Whose) {
        self.command(Command::Remove(Arc::clone(inbox), whose));
    }

    fn command(&self, command: Command) {
        // The thread only ends when this sender is dropped.
        let _ = self.commands.send(command);
        let _ = self.waker.wake();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let (closed, _) = channel();
        self.commands = closed;
        let _ = self.waker.wake();
    }
}

struct Thread {
    poll: Poll,
    commands: Receiver<Command>,
    began: Instant,
    links: BTreeMap<usize, Link>,
    next: usize,
    buffer: Vec<u8>,
}

impl Thread {
    fn new(poll: Poll, commands: Receiver<Command>) -> Self {
        Self {
            poll,
            commands,
            began: Instant::now(),
            links: BTreeMap::new(),
            next: 0,
            buffer: Vec::new(),
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut unfinished: Vec<Token> = Vec::new();
        loop {
            let wait = if unfinished.is_empty() {
                TICK
            } else {
                Duration::ZERO
            };
            // An interrupted wait is a short one.
            let _ = self.poll.poll(&mut events, Some(wait));
            if self.obey().is_err() {
                return;
            }
            let now = self.now();
            let mut ready = std::mem::take(&mut unfinished);
            ready.extend(events.iter().map(mio::event::Event::token));
            ready.sort_unstable();
            ready.dedup();
            for token in ready {
                if let Some(link) = self.links.get_mut(&(token.0 / TOKENS)) {
                    let registry = self.poll.registry();
                    unfinished.extend(link.serve(registry, now, token, &mut self.buffer));
                }
            }
            for link in self.links.values_mut() {
                unfinished.extend(link.tick(self.poll.registry(), now, &mut self.buffer));
            }
        }
    }

    fn now(&self) -> Micros {
        let micros = self.began.elapsed().as_micros();
        Micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Does what it is told. `Err` when nobody is left to tell anything.
    fn obey(&mut self) -> Result<(), TryRecvError> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Add(wanted)) => {
                    self.links.insert(self.next, Link::new(self.next, wanted));
                    self.next += 1;
                }
                Ok(Command::Remove(inbox, whose)) => self.links.retain(|_, link| {
                    !(Arc::ptr_eq(&link.wanted.inbox, &inbox) && whose.has(link.wanted.key))
                }),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(TryRecvError::Disconnected),
            }
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {}", self.key, self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_that_nobody_has_any_more_ends_its_thread() {
        let feed = Feed::start().expect("a thread");
        let inbox = Arc::new(Inbox::new());
        let weak = Arc::downgrade(&inbox);
        feed.subscribe(Subscription {
            key: StreamKey::Rank { worker: 0, rank: 0 },
            contents: Contents::Blocks,
            events: Endpoint::parse("tcp://127.0.0.1:9").expect("an endpoint"),
            replay: None,
            topic: String::new(),
            inbox,
            wake: Box::new(|| {}),
        });
        let inbox = weak.upgrade().expect("somebody has it");
        assert_eq!(inbox.status().len(), 1, "before the thread has seen it");
        drop((inbox, feed));
        let deadline = Instant::now() + Duration::from_secs(20);
        while weak.strong_count() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(weak.strong_count(), 0);
    }
}
