//! What do the bytes of a ZeroMQ connection say?
//!
//! The client's side of ZMTP 3.1 and 3.0 without security (mechanism NULL), as SUB or as DEALER; no I/O. Bytes go
//! in, messages and bytes to be sent come out. Everything that the other side may choose is bounded
//! before anything is kept: a frame that promises more than [`MAX_MESSAGE`] is refused by its header.
use std::collections::VecDeque;
use std::fmt;

/// The longest message, all parts together, in bytes.
pub const MAX_MESSAGE: usize = 64 << 20;
/// The most parts of a message: publishers send up to five.
const MAX_PARTS: usize = 16;
/// The longest command: they are short.
const MAX_COMMAND: u64 = 4 << 10;
/// The most that a PING asks to be given back, in bytes: what the protocol allows.
const MAX_CONTEXT: usize = 16;
/// Who has so many bytes to read and goes on asking for answers will not read those either.
const MAX_UNREAD: usize = 16 << 10;

const GREETING: usize = 64;
const SIGNATURE_END: usize = 9;
const MAJOR: usize = 10;
const MINOR: usize = 11;
const MECHANISM: std::ops::Range<usize> = 12..32;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What one is to the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of a publisher: receives what it subscribes to.
    Subscriber,
    /// Of a replay socket: asks, and receives any number of answers.
    Dealer,
}

impl Role {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Subscriber => b"SUB",
            Self::Dealer => b"DEALER",
        }
    }

    fn suits(self, other: &[u8]) -> bool {
        match self {
            Self::Subscriber => matches!(other, b"PUB" | b"XPUB"),
            Self::Dealer => matches!(other, b"ROUTER" | b"REP" | b"DEALER"),
        }
    }
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZmtpError {
    /// The other side speaks another protocol.
    Foreign,
    /// It speaks one older than version 3.
    Version,
    /// It wants to be authenticated to.
    Mechanism,
    /// It is a socket that has nothing to say to this one.
    Role,
    /// It promised more than any message has.
    TooLong,
    /// It broke the rules.
    Malformed,
    /// It refused the connection.
    Refused,
    /// It asks for more answers than it reads.
    Deaf,
}

impl fmt::Display for ZmtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "the other side does not speak ZMTP",
            Self::Version => "the other side speaks a ZMTP older than 3",
            Self::Mechanism => "the other side asks for authentication",
            Self::Role => "the other side is no publisher, or no replay socket",
            Self::TooLong => "the other side sends a message that is too long",
            Self::Malformed => "the other side breaks the rules of ZMTP",
            Self::Refused => "the other side refused the connection",
            Self::Deaf => "the other side asks for more answers than it reads",
        })
    }
}

impl std::error::Error for ZmtpError {}

/// The parts of a message.
pub type Parts = Vec<Vec<u8>>;

/// One side of a connection.
#[derive(Debug)]
pub struct Peer {
    role: Role,
    stage: Stage,
    /// Received and not understood yet.
    input: Vec<u8>,
    read: usize,
    parts: Parts,
    held: usize,
    messages: VecDeque<Parts>,
    /// To be sent.
    output: Vec<u8>,
    /// To be sent once the other side is ready.
    waiting: Vec<u8>,
    /// Subscriptions to be sent then: how depends on who it is.
    topics: Vec<Vec<u8>>,
    /// Whether the other side knows the commands of version 3.1.
    is_newer: bool,
    was_asked: bool,
    has_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Ready,
    Open,
}

impl Peer {
    /// A connection that has just been made.
    #[must_use]
    pub fn new(role: Role) -> Self {
        let mut output = vec![0; GREETING];
        (output[0], output[SIGNATURE_END]) = (0xff, 0x7f);
        (output[MAJOR], output[MINOR]) = (3, 1);
        output[MECHANISM][..4].copy_from_slice(b"NULL");
        let mut ready = b"\x05READY".to_vec();
        property(&mut ready, b"Socket-Type", role.name());
        property(&mut ready, b"Identity", b"");
        push_frame(&mut output, COMMAND, &ready);
        Self {
            role,
            stage: Stage::Greeting,
            input: Vec::new(),
            read: 0,
            parts: Vec::new(),
            held: 0,
            messages: VecDeque::new(),
            output,
            waiting: Vec::new(),
            topics: Vec::new(),
            is_newer: false,
            was_asked: false,
            has_answered: false,
        }
    }

    /// Whether the other side has agreed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Asks a publisher for everything whose first part begins with `topic`, at the latest when it has
    /// agreed.
    pub fn subscribe(&mut self, topic: &[u8]) {
        match (self.is_open(), self.is_newer) {
            (false, _) => self.topics.push(topic.to_vec()),
            (true, true) => {
                let wish = [b"\x09SUBSCRIBE", topic].concat();
                push_frame(&mut self.output, COMMAND, &wish);
            }
            (true, false) => self.send(&[&[b"\x01", topic].concat()]),
        }
    }

    /// Asks the other side whether it is there; false when it is not of a version that answers.
    pub(crate) fn ping(&mut self) -> bool {
        let can_ask = self.is_open() && self.is_newer;
        if can_ask {
            self.was_asked = true;
            // It may take its time: no limit of its own.
            push_frame(&mut self.output, COMMAND, b"\x04PING\0\0");
        }
        can_ask
    }

    /// Whether it was ever asked that.
    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked
    }

    /// Whether it has ever answered that.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Sends a message, at the latest when the other side has agreed.
    pub fn send(&mut self, parts: &[&[u8]]) {
        let out = match self.is_open() {
            true => &mut self.output,
            false => &mut self.waiting,
        };
        for (index, part) in parts.iter().enumerate() {
            let more = if index + 1 < parts.len() { MORE } else { 0 };
            push_frame(out, more, part);
        }
    }

    /// What is to be sent; the caller takes out what it could send.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The next message that is complete.
    pub fn next_message(&mut self) -> Option<Parts> {
        self.messages.pop_front()
    }

    /// Takes in what was received.
    ///
    /// # Errors
    /// When the connection cannot go on.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), ZmtpError> {
        self.input.extend_from_slice(bytes);
        while self.step()? {}
        self.input.drain(..self.read);
        self.read = 0;
        Ok(())
    }

    /// Understands one more thing of the input; false when it is not all there.
    fn step(&mut self) -> Result<bool, ZmtpError> {
        if self.stage == Stage::Greeting {
            return self.greeting();
        }
        let input = &self.input[self.read..];
        let Some((flags, from, length)) = header(input)? else {
            return Ok(false);
        };
        if !self.is_open() && flags & COMMAND == 0 {
            // Nothing is kept of whoever has not said who it is.
            return Err(ZmtpError::Malformed);
        }
        if self.held.saturating_add(length) > MAX_MESSAGE {
            return Err(ZmtpError::TooLong);
        }
        let Some(body) = input.get(from..from + length) else {
            return Ok(false);
        };
        let body = body.to_vec();
        self.read += from + length;
        match flags & COMMAND != 0 {
            true => self.command(&body)?,
            false => self.part(flags, body)?,
        }
        Ok(true)
    }

    fn greeting(&mut self) -> Result<bool, ZmtpError> {
        let input = &self.input;
        if input.first().is_some_and(|&byte| byte != 0xff)
            || input.get(SIGNATURE_END).is_some_and(|&byte| byte & 1 == 0)
        {
            return Err(ZmtpError::Foreign);
        }
        if input.get(MAJOR).is_some_and(|&major| major < 3) {
            return Err(ZmtpError::Version);
        }
        let Some(mechanism) = input.get(MECHANISM).filter(|_| input.len() >= GREETING) else {
            return Ok(false);
        };
        if mechanism != b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" {
            return Err(ZmtpError::Mechanism);
        }
        self.is_newer = (input[MAJOR], input[MINOR]) >= (3, 1);
        self.read = GREETING;
        self.stage = Stage::Ready;
        Ok(true)
    }

    fn command(&mut self, body: &[u8]) -> Result<(), ZmtpError> {
        let (&length, rest) = body.split_first().ok_or(ZmtpError::Malformed)?;
        let split = rest.split_at_checked(usize::from(length));
        let (name, rest) = split.ok_or(ZmtpError::Malformed)?;
        match name {
            b"READY" if self.stage == Stage::Ready => self.ready(rest),
            b"ERROR" => Err(ZmtpError::Refused),
            b"PING" if rest.len() >= 2 => self.pong(&rest[2..]),
            b"PONG" if self.is_open() => {
                self.has_answered |= self.was_asked;
                Ok(())
            }
            // Newer commands are none of ours.
            _ if self.is_open() => Ok(()),
            _ => Err(ZmtpError::Malformed),
        }
    }

    /// Answers a PING.
    fn pong(&mut self, context: &[u8]) -> Result<(), ZmtpError> {
        if context.len() > MAX_CONTEXT {
            return Err(ZmtpError::Malformed);
        }
        if self.output.len() >= MAX_UNREAD {
            return Err(ZmtpError::Deaf);
        }
        let answer = [b"\x04PONG", context].concat();
        push_frame(&mut self.output, COMMAND, &answer);
        Ok(())
    }

    fn ready(&mut self, properties: &[u8]) -> Result<(), ZmtpError> {
        let mut rest = properties;
        while let Some((name, value, after)) = next_property(rest) {
            if name.eq_ignore_ascii_case(b"Socket-Type") && !self.role.suits(value) {
                return Err(ZmtpError::Role);
            }
            rest = after;
        }
        if !rest.is_empty() {
            return Err(ZmtpError::Malformed);
        }
        self.stage = Stage::Open;
        self.output.append(&mut self.waiting);
        for topic in std::mem::take(&mut self.topics) {
            self.subscribe(&topic);
        }
        Ok(())
    }

    fn part(&mut self, flags: u8, body: Vec<u8>) -> Result<(), ZmtpError> {
        if self.parts.len() == MAX_PARTS {
            return Err(ZmtpError::Malformed);
        }
        self.held += body.len();
        self.parts.push(body);
        if flags & MORE == 0 {
            self.held = 0;
            self.messages.push_back(std::mem::take(&mut self.parts));
        }
        Ok(())
    }
}

/// The flags of the frame that `input` begins with, where its body begins and how long that is.
fn header(input: &[u8]) -> Result<Option<(u8, usize, usize)>, ZmtpError> {
    let Some((&flags, rest)) = input.split_first() else {
        return Ok(None);
    };
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(ZmtpError::Malformed);
    }
    let (from, length) = if flags & LONG != 0 {
        match rest.first_chunk() {
            None => return Ok(None),
            Some(&length) => (9, u64::from_be_bytes(length)),
        }
    } else {
        match rest.first() {
            None => return Ok(None),
            Some(&length) => (2, u64::from(length)),
        }
    };
    if flags & COMMAND != 0 && length > MAX_COMMAND {
        return Err(ZmtpError::TooLong);
    }
    match usize::try_from(length) {
        Ok(length) if length <= MAX_MESSAGE => Ok(Some((flags, from, length))),
        _ => Err(ZmtpError::TooLong),
    }
}

fn push_frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

fn property(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    out.extend((value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

fn next_property(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(length))?;
    let (&length, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(length) as usize)?;
    Some((name, value, rest))
}
