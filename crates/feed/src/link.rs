//! One publisher: its connections, and what its stream asks for.
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use mio::net::TcpListener;
use mio::{Interest, Registry, Token};

use warmpath_core::Micros;

use crate::newcomers::{self, Newcomers};
use crate::socket::{Reading, Socket};
use crate::stream::{Ask, Stream};
use crate::thread::Subscription;
use crate::zmtp::Role;

const FIRST_RETRY: Micros = Micros::from_millis(100);
const LAST_RETRY: Micros = Micros::from_secs(5);
/// A connection that has lasted so long was worth having, though nothing was told on it.
const LASTING: Micros = Micros::from_secs(1);

const LIVE: usize = 0;
const REPLAY: usize = 1;
const LISTENER: usize = 2;
const NEWCOMERS: usize = 3;
/// Tokens of one subscription: its publisher, its replay socket, its listener, and whoever waits there.
pub(crate) const TOKENS: usize = NEWCOMERS + newcomers::MOST;

/// One subscription and its sockets.
pub(crate) struct Link {
    number: usize,
    pub(crate) wanted: Subscription,
    stream: Stream,
    live: Option<Socket>,
    publisher: Option<Publisher>,
    listener: Option<TcpListener>,
    newcomers: Newcomers,
    replay: Option<Socket>,
    retry_at: Micros,
    retry: Micros,
}

/// Whoever has finished the handshake of the live connection.
#[derive(Clone, Copy)]
struct Publisher {
    since: Micros,
    has_told: bool,
}

impl Publisher {
    fn new(now: Micros) -> Self {
        Self {
            since: now,
            has_told: false,
        }
    }
}

impl Link {
    pub(crate) fn new(number: usize, wanted: Subscription) -> Self {
        let inbox = Arc::clone(&wanted.inbox);
        let contents = wanted.contents.clone();
        let stream = Stream::new(wanted.key, inbox, contents, wanted.replay.is_some());
        Self {
            number,
            wanted,
            stream,
            live: None,
            publisher: None,
            listener: None,
            newcomers: Newcomers::default(),
            replay: None,
            retry_at: Micros(0),
            retry: FIRST_RETRY,
        }
    }

    fn token(&self, kind: usize) -> Token {
        Token(self.number * TOKENS + kind)
    }

    /// Something is ready. Returns what there is more of than one turn could take.
    pub(crate) fn serve(
        &mut self,
        registry: &Registry,
        now: Micros,
        token: Token,
        buffer: &mut Vec<u8>,
    ) -> Option<Token> {
        match token.0 % TOKENS {
            LIVE => self.serve_live(registry, now, buffer).then_some(token),
            REPLAY => self.serve_replay(registry, now, buffer).then_some(token),
            LISTENER => {
                self.accept(registry, now);
                None
            }
            newcomer => match self.newcomers.serve(newcomer - NEWCOMERS, now, buffer)? {
                Ok(socket) => {
                    let more = self.adopt(registry, now, socket, buffer);
                    more.then(|| self.token(LIVE))
                }
                Err(error) => {
                    self.note_refused(&error);
                    None
                }
            },
        }
    }

    fn serve_live(&mut self, registry: &Registry, now: Micros, buffer: &mut Vec<u8>) -> bool {
        let Some(socket) = &mut self.live else {
            return false;
        };
        let (stream, mut asks, mut count) = (&mut self.stream, Vec::new(), 0);
        let publisher = &mut self.publisher;
        let read = socket.flush().and_then(|()| {
            let read = socket.read(now, buffer, |parts| {
                if publisher.is_none() {
                    asks.extend(stream.connected(now));
                }
                publisher.get_or_insert(Publisher::new(now)).has_told = true;
                asks.extend(stream.message(now, &parts));
                count += 1;
            });
            let flushed = socket.flush();
            read.and_then(|reading| flushed.map(|()| reading))
        });
        if socket.peer.is_open() && publisher.is_none() {
            *publisher = Some(Publisher::new(now));
            asks.extend(stream.connected(now));
            count += 1;
        }
        self.answer(registry, now, asks);
        if let Err(error) = &read {
            self.lose(registry, now, error);
            count += 1;
        }
        if count > 0 {
            (self.wanted.wake)();
        }
        matches!(read, Ok(Reading::Unfinished))
    }

    fn serve_replay(&mut self, registry: &Registry, now: Micros, buffer: &mut Vec<u8>) -> bool {
        if !self.stream.has_room() {
            return false;
        }
        let Some(socket) = &mut self.replay else {
            return false;
        };
        let (stream, mut asks) = (&mut self.stream, Vec::new());
        let read = socket.flush().and_then(|()| {
            let read = socket.read(now, buffer, |parts| {
                // What one connection still says after its end belongs to no question.
                if asks.is_empty() {
                    asks.extend(stream.replayed(now, &parts));
                }
            });
            let flushed = socket.flush();
            read.and_then(|reading| flushed.map(|()| reading))
        });
        if let Err(error) = &read
            && asks.is_empty()
        {
            self.note_error(error);
            self.replay = None;
            asks.extend(self.stream.replay_failed(now));
        }
        self.answer(registry, now, asks);
        (self.wanted.wake)();
        matches!(read, Ok(Reading::Unfinished)) && self.replay.is_some()
    }

    fn accept(&mut self, registry: &Registry, now: Micros) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let seat = self.newcomers.next_seat();
            let token = self.token(NEWCOMERS + seat);
            match Socket::of(registry, now, token, stream, Role::Subscriber) {
                Ok(mut socket) => {
                    socket.peer.subscribe(self.wanted.topic.as_bytes());
                    self.newcomers.seat(seat, socket);
                }
                Err(error) => self.note_refused(&error),
            }
        }
    }

    /// A publisher has come by itself.
    fn adopt(
        &mut self,
        registry: &Registry,
        now: Micros,
        mut socket: Socket,
        buffer: &mut Vec<u8>,
    ) -> bool {
        if let Err(error) = socket.rename(registry, self.token(LIVE)) {
            self.note_refused(&error);
            return false;
        }
        if self.live.is_some() {
            let error = io::Error::other("another publisher has taken its place");
            self.lose(registry, now, &error);
        }
        self.live = Some(socket);
        self.serve_live(registry, now, buffer)
    }

    /// Somebody who came was no publisher: of interest while there is none.
    fn note_refused(&self, error: &io::Error) {
        if self.live.is_none() {
            self.note_error(error);
        }
    }

    /// Looks after what no socket tells of. Returns what there is more of than one turn could take.
    pub(crate) fn tick(
        &mut self,
        registry: &Registry,
        now: Micros,
        buffer: &mut Vec<u8>,
    ) -> Option<Token> {
        let asks: Vec<Ask> = self.stream.tick(now).into_iter().collect();
        if !asks.is_empty() {
            self.answer(registry, now, asks);
            (self.wanted.wake)();
        }
        if self.replay.is_some() {
            // It may have been passed over for want of room.
            self.serve_replay(registry, now, buffer);
        }
        let more = self.beat(registry, now, buffer);
        if let Some(error) = self.newcomers.tick(now) {
            self.note_refused(&error);
        }
        if self.live.is_none() && self.listener.is_none() && now >= self.retry_at {
            self.open(registry, now);
        }
        more.then(|| self.token(LIVE))
    }

    /// Gives up a publisher that is not there any more.
    fn beat(&mut self, registry: &Registry, now: Micros, buffer: &mut Vec<u8>) -> bool {
        let beat = |link: &mut Self| link.live.as_mut().map_or(Ok(()), |live| live.beat(now));
        if beat(self).is_ok() {
            return false;
        }
        // If this thread was late itself, the answer waits to be read.
        let more = self.serve_live(registry, now, buffer);
        if let Err(error) = beat(self) {
            self.lose(registry, now, &error);
            (self.wanted.wake)();
            return false;
        }
        more
    }

    fn open(&mut self, registry: &Registry, now: Micros) {
        let opened = match self.wanted.events.is_bound() {
            true => self.listen(registry),
            false => self.connect(registry, now),
        };
        if let Err(error) = opened {
            self.note_error(&error);
            self.retry_later(now);
        }
    }

    fn listen(&mut self, registry: &Registry) -> io::Result<()> {
        let mut listener = TcpListener::bind(self.wanted.events.address()?)?;
        registry.register(&mut listener, self.token(LISTENER), Interest::READABLE)?;
        self.listener = Some(listener);
        Ok(())
    }

    fn connect(&mut self, registry: &Registry, now: Micros) -> io::Result<()> {
        let address = self.wanted.events.address()?;
        let token = self.token(LIVE);
        let mut socket = Socket::connect(registry, now, token, address, Role::Subscriber)?;
        socket.peer.subscribe(self.wanted.topic.as_bytes());
        self.live = Some(socket);
        Ok(())
    }

    /// Does what the stream asks for.
    fn answer(&mut self, registry: &Registry, now: Micros, asks: Vec<Ask>) {
        let mut asks: VecDeque<Ask> = asks.into();
        while let Some(ask) = asks.pop_front() {
            self.replay = None;
            let Ask::Replay(from) = ask else {
                continue;
            };
            match self.ask(registry, now, from) {
                Ok(socket) => self.replay = Some(socket),
                Err(error) => {
                    self.note_error(&error);
                    asks.extend(self.stream.replay_failed(now));
                }
            }
        }
    }

    fn ask(&self, registry: &Registry, now: Micros, from: u64) -> io::Result<Socket> {
        let endpoint = self.wanted.replay.as_ref();
        let address = endpoint.ok_or(io::ErrorKind::NotFound)?.address()?;
        let token = self.token(REPLAY);
        let mut socket = Socket::connect(registry, now, token, address, Role::Dealer)?;
        socket.peer.send(&[b"", &from.to_be_bytes()]);
        Ok(socket)
    }

    /// The publisher is gone, or was never there. One that has told something, or has stayed, is looked
    /// for again at once; whoever greets and leaves is not.
    fn lose(&mut self, registry: &Registry, now: Micros, error: &io::Error) {
        self.note_error(error);
        self.live = None;
        if let Some(publisher) = self.publisher.take() {
            if publisher.has_told || now.since(publisher.since) >= LASTING {
                self.retry = FIRST_RETRY;
            }
            let asks = self.stream.disconnected().into_iter().collect();
            self.answer(registry, now, asks);
        }
        self.retry_later(now);
    }

    fn retry_later(&mut self, now: Micros) {
        self.retry_at = now.plus(self.retry);
        self.retry = self.retry.plus(self.retry).min(LAST_RETRY);
    }

    fn note_error(&self, error: &io::Error) {
        let key = self.wanted.key;
        self.wanted
            .inbox
            .note(key, |status| status.last_error = Some(error.to_string()));
    }
}

#[cfg(test)]
mod tests;
