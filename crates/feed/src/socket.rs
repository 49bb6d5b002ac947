//! One TCP connection: bytes to and from a [`Peer`], without ever waiting.
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::zmtp::{Parts, Peer, Role};

/// Read at once.
const CHUNK: usize = 256 << 10;
/// What one connection may read before the others have their turn.
const TURN: usize = 1 << 20;

/// A connection, made or being made.
pub(crate) struct Socket {
    stream: TcpStream,
    pub(crate) peer: Peer,
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
        token: Token,
        address: SocketAddr,
        role: Role,
    ) -> io::Result<Self> {
        Self::of(registry, token, TcpStream::connect(address)?, role)
    }

    pub(crate) fn of(
        registry: &Registry,
        token: Token,
        mut stream: TcpStream,
        role: Role,
    ) -> io::Result<Self> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let peer = Peer::new(role);
        Ok(Self { stream, peer })
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
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(Parts),
    ) -> io::Result<Reading> {
        buffer.resize(CHUNK, 0);
        let mut received = 0;
        while received < TURN {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    received += length;
                    let taken = self.peer.receive(&buffer[..length]);
                    taken.map_err(io::Error::other)?;
                    while let Some(parts) = self.peer.next_message() {
                        each(parts);
                    }
                }
                Err(error) if is_for_later(&error) => return Ok(Reading::Drained),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Reading::Unfinished)
    }
}

/// A connection that is still being made is not ready either.
fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::NotConnected
    )
}
