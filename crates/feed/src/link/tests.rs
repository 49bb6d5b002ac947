//! Real sockets, and a clock that goes as fast as it is told.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use warmpath_core::event::{Doubt, FeedNotice};

use super::*;
use crate::endpoint::Endpoint;
use crate::inbox::{Inbox, Parcel};
use crate::reader::Contents;
use crate::status::StreamStatus;
use crate::thread::StreamKey;

const KEY: StreamKey = StreamKey::Rank { worker: 0, rank: 0 };
const SUBSCRIPTION: &[u8] = b"\x04\x0a\x09SUBSCRIBE";
const PING: &[u8] = b"\x04\x07\x04PING\0\0";
const PONG: &[u8] = b"\x04\x05\x04PONG";

struct Bench {
    poll: Poll,
    link: Link,
    now: Micros,
    inbox: Arc<Inbox>,
}

impl Bench {
    fn new(events: &str) -> Self {
        let inbox = Arc::new(Inbox::new());
        let wanted = Subscription {
            key: KEY,
            contents: Contents::Blocks,
            events: Endpoint::parse(events).expect("an endpoint"),
            replay: None,
            topic: String::new(),
            inbox: Arc::clone(&inbox),
            wake: Box::new(|| {}),
        };
        Self {
            poll: Poll::new().expect("a poller"),
            link: Link::new(0, wanted),
            now: Micros(0),
            inbox,
        }
    }

    /// One that connects to this listener.
    fn to(listener: &StdListener) -> Self {
        Self::new(&format!("tcp://{}", listener.local_addr().expect("bound")))
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(16);
        let wait = Some(Duration::from_millis(2));
        self.poll.poll(&mut events, wait).expect("a poll");
        let mut buffer = Vec::new();
        for event in &events {
            let (registry, token) = (self.poll.registry(), event.token());
            let mut more = Some(token);
            while let Some(token) = more {
                more = self.link.serve(registry, self.now, token, &mut buffer);
            }
        }
        self.tick();
    }

    fn tick(&mut self) {
        let registry = self.poll.registry();
        self.link.tick(registry, self.now, &mut Vec::new());
    }

    /// Takes turns, while its clock stands, until something is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.status());
            self.turn();
        }
    }

    fn later(&mut self, seconds: u64) {
        self.now = self.now.plus(Micros::from_secs(seconds));
    }

    fn status(&self) -> StreamStatus {
        self.inbox.status().remove(0).1
    }

    fn notices(&self) -> Vec<FeedNotice> {
        let mut out = Vec::new();
        self.inbox.take(usize::MAX, &mut out);
        let notices = out.into_iter().map(|delivery| match delivery.parcel {
            Parcel::Notice(notice) => notice,
            other => panic!("{other:?}"),
        });
        notices.collect()
    }

    /// Takes turns until the other side has received exactly this.
    fn expect(&mut self, other: &mut StdStream, bytes: &[u8]) {
        other.set_nonblocking(true).expect("a socket");
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut got: Vec<u8> = Vec::new();
        while got.len() < bytes.len() {
            assert!(Instant::now() < deadline, "{got:?}");
            let mut buffer = vec![0; bytes.len() - got.len()];
            match other.read(&mut buffer) {
                Ok(0) => panic!("closed after {got:?}"),
                Ok(length) => got.extend(&buffer[..length]),
                Err(_) => self.turn(),
            }
        }
        assert_eq!(got, bytes);
    }

    /// Takes turns until our greeting, and all else of the handshake, has come to the other side.
    fn greet(&mut self, mut other: StdStream) -> StdStream {
        other.write_all(&hello()).expect("a greeting");
        let mut ours = hello();
        ours.truncate(64);
        ours.extend(b"\x04\x26\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\0");
        ours.extend(SUBSCRIPTION);
        self.expect(&mut other, &ours);
        other
    }
}

fn hello() -> Vec<u8> {
    let mut hello = vec![0; 64];
    (hello[0], hello[9], hello[10], hello[11]) = (0xff, 0x7f, 3, 1);
    hello[12..16].copy_from_slice(b"NULL");
    hello.extend(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB");
    hello
}

fn listener() -> StdListener {
    StdListener::bind("127.0.0.1:0").expect("a port")
}

/// One that engines connect to, and where.
fn bound() -> (Bench, SocketAddr) {
    let address = listener().local_addr().expect("bound");
    let mut bench = Bench::new(&format!("tcp://*:{}", address.port()));
    bench.turn();
    (bench, address)
}

/// Takes turns until the other side has been left.
fn wait_for_end(bench: &mut Bench, other: &mut StdStream) {
    other.set_nonblocking(true).expect("a socket");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "still there");
        match other.read(&mut [0; 1024]) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => bench.turn(),
            Err(_) => return,
        }
    }
}

fn accepted(bench: &mut Bench, listener: &StdListener) -> StdStream {
    listener.set_nonblocking(true).expect("a socket");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "{:?}", bench.status());
        match listener.accept() {
            Ok((stream, _)) => return stream,
            Err(_) => bench.turn(),
        }
    }
}

#[test]
fn who_accepts_and_says_nothing_is_given_up_and_tried_again() {
    let listener = listener();
    let mut bench = Bench::to(&listener);
    let _mute = accepted(&mut bench, &listener);
    bench.later(10);
    bench.turn();
    assert_eq!(bench.status().last_error, None);
    bench.later(1);
    bench.until("the end of it", |b| b.status().last_error.is_some());
    let error = bench.status().last_error.unwrap_or_default();
    assert!(error.contains("handshake within 10 seconds"), "{error}");
    assert!(bench.link.retry > FIRST_RETRY && !bench.status().is_connected);
    bench.later(1);
    let other = accepted(&mut bench, &listener);
    assert!(bench.status().last_error.is_some(), "until there is one");
    let _other = bench.greet(other);
    bench.until("a connection", |b| b.status().is_connected);
    assert_eq!(bench.status().last_error, None);
}

/// How long it waits after the live connection has ended.
fn pause(bench: &mut Bench, other: StdStream) -> u64 {
    drop(other);
    bench.until("the end of it", |b| b.link.live.is_none());
    bench.link.retry_at.since(bench.now).0 / 1_000
}

#[test]
fn whoever_greets_and_leaves_is_tried_again_ever_less_often() {
    let listener = listener();
    let mut bench = Bench::to(&listener);
    let greeted = |bench: &mut Bench| {
        bench.now = bench.now.max(bench.link.retry_at);
        let other = accepted(bench, &listener);
        let other = bench.greet(other);
        bench.until("a connection", |b| b.status().is_connected);
        other
    };
    for milliseconds in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        let other = greeted(&mut bench);
        assert_eq!(pause(&mut bench, other), milliseconds);
    }
    // One that stays, and one that tells something.
    let other = greeted(&mut bench);
    bench.later(1);
    assert_eq!(pause(&mut bench, other), 100);
    let other = greeted(&mut bench);
    assert_eq!(pause(&mut bench, other), 200);
    let mut other = greeted(&mut bench);
    let mut message = vec![1, 0, 1, 8];
    message.extend(0_u64.to_be_bytes());
    message.extend([0, 3, 0x92, 0, 0x90]);
    other.write_all(&message).expect("sent");
    bench.until("it", |b| b.status().messages == 1);
    assert_eq!(pause(&mut bench, other), 100);
}

/// A peer that has answered the first of two pings.
fn pinged_twice(listener: &StdListener) -> (Bench, StdStream) {
    let mut bench = Bench::to(listener);
    let other = accepted(&mut bench, listener);
    let mut other = bench.greet(other);
    bench.expect(&mut other, PING);
    other.write_all(PONG).expect("an answer");
    for _ in 0..5 {
        bench.turn();
    }
    bench.later(6);
    bench.expect(&mut other, PING);
    (bench, other)
}

#[test]
fn a_connection_that_nobody_ended_is_found_to_be_dead() {
    let listener = listener();
    let (mut bench, _other) = pinged_twice(&listener);
    assert!(bench.status().is_connected);
    assert_eq!(bench.notices(), []);
    bench.later(16);
    bench.turn();
    let status = bench.status();
    assert_eq!((status.is_connected, status.disconnects), (false, 1));
    let error = status.last_error.unwrap_or_default();
    assert!(error.contains("does not answer"), "{error}");
    let lost = FeedNotice::Suspended(Doubt::Disconnected);
    assert_eq!(bench.notices(), [lost]);
    bench.later(1);
    let again = accepted(&mut bench, &listener);
    let _again = bench.greet(again);
    bench.until("a connection", |b| b.status().is_connected);
}

#[test]
fn an_answer_that_only_waits_to_be_read_counts() {
    let listener = listener();
    let (mut bench, mut other) = pinged_twice(&listener);
    other.write_all(PONG).expect("an answer");
    std::thread::sleep(Duration::from_millis(50));
    bench.later(60);
    bench.tick();
    assert!(bench.status().is_connected, "{:?}", bench.status());
}

#[test]
fn whoever_connects_takes_a_publisher_s_place_only_as_a_publisher() {
    let (mut bench, address) = bound();
    let first = StdStream::connect(address).expect("a listener");
    let mut first = bench.greet(first);
    bench.until("the first", |b| b.status().is_connected);
    let _mute = StdStream::connect(address).expect("a listener");
    let mut other = StdStream::connect(address).expect("a listener");
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    wait_for_end(&mut bench, &mut other);
    let status = bench.status();
    assert_eq!((status.is_connected, status.disconnects), (true, 0));
    assert_eq!((status.last_error, bench.notices()), (None, vec![]));

    let mut second = StdStream::connect(address).expect("a listener");
    let mut message = vec![1, 0, 1, 8];
    message.extend(0_u64.to_be_bytes());
    message.extend([0, 3, 0x92, 0, 0x90]);
    second
        .write_all(&[hello(), message].concat())
        .expect("sent");
    wait_for_end(&mut bench, &mut first);
    bench.until("what came with the handshake", |b| b.status().messages == 1);
    let status = bench.status();
    assert_eq!((status.is_connected, status.disconnects), (true, 1));
    assert_eq!(status.last_error, None);
}

#[test]
fn many_who_connect_and_say_nothing_keep_no_publisher_out() {
    let (mut bench, address) = bound();
    let connect = || StdStream::connect(address).expect("a listener");
    let mut mute: Vec<_> = (0..20).map(|_| connect()).collect();
    for _ in 0..5 {
        bench.turn();
    }
    for early in &mut mute[..20 - newcomers::MOST] {
        wait_for_end(&mut bench, early);
    }
    let publisher = connect();
    let _publisher = bench.greet(publisher);
    bench.until("the publisher", |b| b.status().is_connected);
    bench.later(11);
    for late in &mut mute {
        wait_for_end(&mut bench, late);
    }
    assert_eq!(bench.status().last_error, None, "there is a publisher");
    assert_eq!(bench.status().disconnects, 0);
}
