//! Who has connected to us and has not said yet who it is?
//!
//! Anybody may connect to a port. Only a publisher that has finished its handshake takes the place of
//! another one; until then it waits here, not for long, and not with many others.
use std::io;

use warmpath_core::Micros;

use crate::socket::Socket;

/// The most that wait at once: one more ends the wait of the oldest.
pub(crate) const MOST: usize = 8;

/// Connections whose handshake goes on.
#[derive(Default)]
pub(crate) struct Newcomers {
    seats: [Option<Socket>; MOST],
    /// The seat that is taken next, whoever is in it.
    next: usize,
}

impl Newcomers {
    /// The seat of the next one.
    pub(crate) fn next_seat(&mut self) -> usize {
        let free = |seat: &usize| self.seats[*seat].is_none();
        let seat = (self.next..MOST).chain(0..self.next).find(free);
        seat.unwrap_or(self.next)
    }

    /// Gives it that seat.
    pub(crate) fn seat(&mut self, seat: usize, socket: Socket) {
        self.seats[seat] = Some(socket);
        self.next = (seat + 1) % MOST;
    }

    /// Something of this one is ready. Returns it when its handshake is done, or why that has failed.
    pub(crate) fn serve(
        &mut self,
        seat: usize,
        now: Micros,
        buffer: &mut Vec<u8>,
    ) -> Option<io::Result<Socket>> {
        let mut socket = self.seats.get_mut(seat)?.take()?;
        match socket.shake(now, buffer) {
            Ok(true) => Some(Ok(socket)),
            Ok(false) => {
                self.seats[seat] = Some(socket);
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Sends those away whose time is over, and says why.
    pub(crate) fn tick(&mut self, now: Micros) -> Option<io::Error> {
        let mut last = None;
        for seat in &mut self.seats {
            if let Some(Err(error)) = seat.as_mut().map(|socket| socket.beat(now)) {
                (*seat, last) = (None, Some(error));
            }
        }
        last
    }
}
