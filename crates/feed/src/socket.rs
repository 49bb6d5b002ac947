//! One TCP connection: bytes to and from a [`Peer`], without ever waiting.
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use warmpath_core::Micros;

use crate::pulse::Pulse;
use crate::zmtp::{Parts, Peer, Role};

/// Read at once.
const CHUNK: usize = 256 << 10;
/// What one connection may read before the others have their turn.
const TURN: usize = 1 << 20;
/// A connection that has carried nothing for so long is tried by the system,
const KEEPALIVE: Duration = Duration::from_secs(10);
/// so often,
const PROBE: Duration = Duration::from_secs(5);
/// and so many times; then it is broken.
const PROBES: u32 = 3;
/// What nobody has acknowledged for so long breaks it too.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(25);

/// A connection, made or being made.
pub(crate) struct Socket {
    stream: TcpStream,
    pub(crate) peer: Peer,
    pulse: Pulse,
}

/// What reading has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// There is nothing more for now.
    Drained,
    /// There is more, and others are waiting.
    Unfinished,
}

impl Socket {
    pub(crate) fn connect(
        registry: &Registry,
        now: Micros,
        token: Token,
        address: SocketAddr,
        role: Role,
    ) -> io::Result<Self> {
        Self::of(registry, now, token, TcpStream::connect(address)?, role)
    }

    pub(crate) fn of(
        registry: &Registry,
        now: Micros,
        token: Token,
        mut stream: TcpStream,
        role: Role,
    ) -> io::Result<Self> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        // A system that cannot is no reason not to listen.
        let _ = keep_alive(&stream);
        Ok(Self {
            stream,
            peer: Peer::new(role),
            pulse: Pulse::new(now),
        })
    }

    /// Looks whether the other side is still there.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn beat(&mut self, now: Micros) -> io::Result<()> {
        let beat = self.pulse.tick(now, &mut self.peer);
        beat.map_err(|silence| io::Error::new(ErrorKind::TimedOut, silence))?;
        match self.peer.output().is_empty() {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Sends what there is to send, as far as that goes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        while !self.peer.output().is_empty() {
            match self.stream.write(self.peer.output()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.peer.output().drain(..sent);
                }
                Err(error) if is_for_later(&error) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives what there is, message by message.
    pub(crate) fn read(
        &mut self,
        now: Micros,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(Parts),
    ) -> io::Result<Reading> {
        let mut received = 0;
        while received < TURN {
            // The first ones may have come with the handshake.
            while let Some(parts) = self.peer.next_message() {
                each(parts);
            }
            match self.receive(now, buffer)? {
                0 => return Ok(Reading::Drained),
                length => received += length,
            }
        }
        while let Some(parts) = self.peer.next_message() {
            each(parts);
        }
        Ok(Reading::Unfinished)
    }

    /// Goes on with the handshake, and no further. Returns whether it is done.
    pub(crate) fn shake(&mut self, now: Micros, buffer: &mut Vec<u8>) -> io::Result<bool> {
        self.flush()?;
        while !self.peer.is_open() && self.receive(now, buffer)? > 0 {}
        self.flush()?;
        Ok(self.peer.is_open())
    }

    /// Is known by another token from now on.
    pub(crate) fn rename(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interests = Interest::READABLE | Interest::WRITABLE;
        registry.reregister(&mut self.stream, token, interests)
    }

    /// Receives once. Returns how many bytes: none when there are none for now.
    fn receive(&mut self, now: Micros, buffer: &mut Vec<u8>) -> io::Result<usize> {
        buffer.resize(CHUNK, 0);
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.pulse.heard(now);
                    let taken = self.peer.receive(&buffer[..length]);
                    return taken.map(|()| length).map_err(io::Error::other);
                }
                Err(error) if is_for_later(&error) => return Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let often = TcpKeepalive::new().with_time(KEEPALIVE);
    socket.set_tcp_keepalive(&often.with_interval(PROBE).with_retries(PROBES))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(())
}

/// A connection that is still being made is not ready either.
fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::NotConnected
    )
}
