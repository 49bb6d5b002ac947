//! Is whoever is on the other side of a connection still there?
//!
//! A machine that dies says nothing, and neither does one whose packets nobody carries any more. So a
//! connection has so long for its handshake, and one that has been quiet is asked to answer. Only who has
//! answered before is taken for gone when it does not: for others there is what TCP itself finds out.
//! No I/O and no clock.
use std::fmt;

use warmpath_core::Micros;

use crate::zmtp::Peer;

/// A handshake takes no longer, the connection included.
const HANDSHAKE: Micros = Micros::from_secs(10);
/// Who has said nothing for so long is asked whether it is there.
const QUIET: Micros = Micros::from_secs(5);
/// Who has sent nothing at all for so long after that is gone.
const PATIENCE: Micros = Micros::from_secs(15);

/// What has been heard of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    began: Micros,
    heard: Micros,
    /// When it was asked, while nothing has come since.
    asked: Option<Micros>,
}

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It was never of use.
    Handshake,
    /// It was, and is no more.
    Unanswered,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake => "the other side has not finished the handshake within 10 seconds",
            Self::Unanswered => "the other side does not answer any more",
        })
    }
}

impl std::error::Error for Silence {}

impl Pulse {
    /// A connection that is being made.
    pub(crate) fn new(now: Micros) -> Self {
        Self {
            began: now,
            heard: now,
            asked: None,
        }
    }

    /// Something has come, whatever it was.
    pub(crate) fn heard(&mut self, now: Micros) {
        self.heard = now;
        self.asked = None;
    }

    /// Some time has passed. Asks when it is time to.
    ///
    /// # Errors
    /// When nobody is there.
    pub(crate) fn tick(&mut self, now: Micros, peer: &mut Peer) -> Result<(), Silence> {
        if !peer.is_open() {
            return match now.since(self.began) > HANDSHAKE {
                true => Err(Silence::Handshake),
                false => Ok(()),
            };
        }
        match self.asked {
            Some(asked) if peer.has_answered() && now.since(asked) > PATIENCE => {
                Err(Silence::Unanswered)
            }
            Some(_) => Ok(()),
            None => {
                // The first question finds out whether there are answers.
                let is_due = !peer.was_asked() || now.since(self.heard) > QUIET;
                if is_due && peer.ping() {
                    self.asked = Some(now);
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::Role;

    const PING: &[u8] = b"\x04\x07\x04PING\0\0";
    const PONG: &[u8] = b"\x04\x05\x04PONG";

    fn peer(minor: u8) -> Peer {
        let mut hello = vec![0; 64];
        (hello[0], hello[9], hello[10], hello[11]) = (0xff, 0x7f, 3, minor);
        hello[12..16].copy_from_slice(b"NULL");
        hello.extend(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB");
        let mut peer = Peer::new(Role::Subscriber);
        peer.receive(&hello).expect("a publisher");
        peer.output().clear();
        peer
    }

    fn sent(peer: &mut Peer) -> Vec<u8> {
        std::mem::take(peer.output())
    }

    #[test]
    fn who_answered_once_and_then_falls_silent_is_gone() {
        let (mut peer, mut pulse) = (peer(1), Pulse::new(Micros(0)));
        let at = Micros::from_secs;
        assert_eq!(pulse.tick(at(1), &mut peer), Ok(()));
        assert_eq!(sent(&mut peer), PING, "at once");
        peer.receive(PONG).expect("an answer");
        pulse.heard(at(2));
        assert_eq!(pulse.tick(at(7), &mut peer), Ok(()));
        assert_eq!(sent(&mut peer), b"", "not yet");
        assert_eq!(pulse.tick(at(8), &mut peer), Ok(()));
        assert_eq!(sent(&mut peer), PING);
        assert_eq!(pulse.tick(at(23), &mut peer), Ok(()));
        assert_eq!(sent(&mut peer), b"", "once");
        let mut talking = pulse;
        assert_eq!(pulse.tick(at(24), &mut peer), Err(Silence::Unanswered));
        talking.heard(at(23));
        assert_eq!(talking.tick(at(24), &mut peer), Ok(()), "anything counts");
    }

    #[test]
    fn who_never_answers_is_not_taken_for_gone() {
        for (minor, first) in [(0, b"".as_slice()), (1, PING)] {
            let (mut peer, mut pulse) = (peer(minor), Pulse::new(Micros(0)));
            assert_eq!(pulse.tick(Micros(1), &mut peer), Ok(()));
            assert_eq!(sent(&mut peer), first);
            for second in 1..3_600 {
                assert_eq!(pulse.tick(Micros::from_secs(second), &mut peer), Ok(()));
            }
            assert_eq!(sent(&mut peer), b"", "and not asked again");
        }
    }

    #[test]
    fn a_handshake_has_its_time_whatever_is_said_meanwhile() {
        let (mut peer, mut pulse) = (Peer::new(Role::Subscriber), Pulse::new(Micros(0)));
        pulse.heard(Micros::from_secs(9));
        assert_eq!(pulse.tick(Micros::from_secs(10), &mut peer), Ok(()));
        let late = Micros::from_millis(10_001);
        assert_eq!(pulse.tick(late, &mut peer), Err(Silence::Handshake));
    }
}
