//! The client's side of ZMTP against bytes written out by hand.
use warmpath_feed::{MAX_MESSAGE, Peer, Role, ZmtpError};

/// What libzmq begins with: version 3.1, no security.
fn greeting() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xff, 0x7f, 3, 1);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

fn ready(kind: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend((kind.len() as u32).to_be_bytes());
    body.extend(kind.bytes());
    [&[4, body.len() as u8], body.as_slice()].concat()
}

fn hello(kind: &str) -> Vec<u8> {
    [greeting(), ready(kind)].concat()
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    [&[flags, body.len() as u8], body].concat()
}

fn messages(peer: &mut Peer) -> Vec<Vec<Vec<u8>>> {
    std::iter::from_fn(|| peer.next_message()).collect()
}

#[test]
fn a_subscriber_says_who_it_is_and_what_it_wants() {
    let mut peer = Peer::new(Role::Subscriber);
    peer.subscribe(b"kv@");
    let first = std::mem::take(peer.output());
    assert_eq!(first[..64], greeting());
    let ready = b"\x04\x26\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\0";
    assert_eq!(first[64..], ready[..]);
    assert!(!peer.is_open());
    peer.receive(&hello("PUB")).expect("a publisher");
    assert!(peer.is_open());
    assert_eq!(peer.output().as_slice(), b"\x04\x0d\x09SUBSCRIBEkv@");
}

#[test]
fn a_publisher_of_version_3_0_is_subscribed_to_with_a_message() {
    let mut peer = Peer::new(Role::Subscriber);
    peer.subscribe(b"kv@");
    peer.output().clear();
    let mut bytes = hello("PUB");
    bytes[11] = 0;
    peer.receive(&bytes).expect("a publisher");
    peer.subscribe(b"");
    assert_eq!(peer.output().as_slice(), b"\0\x04\x01kv@\0\x01\x01");
}

#[test]
fn messages_come_in_whatever_pieces_the_bytes_come() {
    let long = vec![7; 300];
    let mut bytes = hello("XPUB");
    bytes.extend(frame(1, b"topic"));
    bytes.extend(frame(1, &5_u64.to_be_bytes()));
    bytes.extend([2]);
    bytes.extend(300_u64.to_be_bytes());
    bytes.extend(&long);
    bytes.extend(frame(0, b""));
    let expected = vec![
        vec![b"topic".to_vec(), 5_u64.to_be_bytes().to_vec(), long],
        vec![vec![]],
    ];
    for size in [1, 2, 3, 7, 64, 65, 1000] {
        let mut peer = Peer::new(Role::Subscriber);
        let mut got = Vec::new();
        for piece in bytes.chunks(size) {
            peer.receive(piece).expect("well-formed");
            got.extend(messages(&mut peer));
        }
        assert_eq!(got, expected, "in pieces of {size}");
    }
}

#[test]
fn a_dealer_asks_when_the_other_side_is_ready() {
    let mut peer = Peer::new(Role::Dealer);
    peer.send(&[b"", &[0; 8]]);
    peer.output().clear();
    peer.receive(&hello("ROUTER")).expect("a router");
    assert_eq!(peer.output().as_slice(), b"\x01\0\0\x08\0\0\0\0\0\0\0\0");
}

#[test]
fn a_ping_is_answered() {
    let mut peer = Peer::new(Role::Subscriber);
    peer.receive(&hello("PUB")).expect("a publisher");
    peer.output().clear();
    peer.receive(&frame(4, b"\x04PING\0\x0aabc"))
        .expect("a ping");
    assert_eq!(peer.output().as_slice(), b"\x04\x08\x04PONGabc");
    peer.receive(&frame(4, b"\x05LATER"))
        .expect("a newer command");
}

#[test]
fn who_pings_without_reading_the_answers_is_left_before_they_fill_the_memory() {
    let mut peer = Peer::new(Role::Subscriber);
    peer.receive(&hello("PUB")).expect("a publisher");
    let ping = frame(4, b"\x04PING\0\x0a0123456789abcdef");
    let mut pings = 0;
    let refused = loop {
        match peer.receive(&ping.repeat(100)) {
            Ok(()) => pings += 100,
            Err(error) => break error,
        }
        assert!(pings < 10_000, "{} bytes wait", peer.output().len());
    };
    assert_eq!(refused, ZmtpError::Deaf);
    assert!(pings >= 100 && peer.output().len() < 20 << 10);
    let mut reader = Peer::new(Role::Subscriber);
    reader.receive(&hello("PUB")).expect("a publisher");
    for _ in 0..10_000 {
        reader.output().clear();
        reader.receive(&ping).expect("whoever reads may ask on");
    }
    let long = frame(4, &[b"\x04PING\0\x0a".as_slice(), &[7; 17]].concat());
    assert_eq!(reader.receive(&long), Err(ZmtpError::Malformed));
}

#[test]
fn whoever_is_no_publisher_is_refused_by_what_it_says() {
    let refused = |bytes: &[u8]| {
        let mut peer = Peer::new(Role::Subscriber);
        peer.receive(bytes).expect_err("refused")
    };
    assert_eq!(
        refused(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ZmtpError::Foreign
    );
    let older = [&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1][..]].concat();
    assert_eq!(refused(&older), ZmtpError::Version);
    let mut curve = greeting();
    curve[12..17].copy_from_slice(b"CURVE");
    assert_eq!(refused(&curve), ZmtpError::Mechanism);
    assert_eq!(refused(&hello("PUSH")), ZmtpError::Role);
    assert_eq!(
        refused(&[hello("PUB"), frame(4, b"\x05ERROR\x02no")].concat()),
        ZmtpError::Refused
    );
    let malformed = [
        [greeting(), frame(0, b"early")].concat(),
        [greeting(), vec![2, 0, 0, 0, 0, 1, 0, 0, 0]].concat(),
        [greeting(), frame(4, b"\x05LATER")].concat(),
        [greeting(), frame(4, b"\xffREADY")].concat(),
        [
            greeting(),
            frame(4, b"\x05READY\x0bSocket-Type\xff\xff\xff\xffPUB"),
        ]
        .concat(),
        [hello("PUB"), frame(0x80, b"")].concat(),
        [hello("PUB"), frame(1, b"part").repeat(17)].concat(),
    ];
    for bytes in malformed {
        assert_eq!(refused(&bytes), ZmtpError::Malformed, "{bytes:?}");
    }
}

/// The header alone is enough: nothing is kept for what is promised.
#[test]
fn a_frame_that_promises_too_much_is_refused_by_its_header() {
    let promise = |flags: u8, length: u64| {
        let mut peer = Peer::new(Role::Subscriber);
        let header = [&[flags][..], &length.to_be_bytes()].concat();
        peer.receive(&[hello("PUB"), header].concat())
    };
    let most = MAX_MESSAGE as u64;
    assert_eq!(promise(2, most), Ok(()));
    assert_eq!(promise(2, most + 1), Err(ZmtpError::TooLong));
    assert_eq!(promise(2, u64::MAX), Err(ZmtpError::TooLong));
    assert_eq!(promise(2, 1 << 62), Err(ZmtpError::TooLong));
    assert_eq!(promise(6, 5_000), Err(ZmtpError::TooLong), "a command");
    let mut peer = Peer::new(Role::Subscriber);
    let rest = [&[2][..], &most.to_be_bytes()].concat();
    let parts = [hello("PUB"), frame(1, b"one"), rest].concat();
    assert_eq!(
        peer.receive(&parts),
        Err(ZmtpError::TooLong),
        "all parts together"
    );
}

/// A short deterministic run over bent bytes: read, or refused, and never worse.
#[test]
fn any_bytes_are_understood_or_refused() {
    let mut bytes = hello("PUB");
    for n in 0..20_u8 {
        bytes.extend(frame(n & 1, &vec![n; usize::from(n) * 3]));
    }
    bytes.extend(frame(0, b"end"));
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize
    };
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bent = bytes.clone();
        for _ in 0..1 + next() % 3 {
            let at = next() % bent.len();
            bent[at] = next() as u8;
        }
        bent.truncate(1 + next() % bent.len());
        let mut peer = Peer::new(Role::Subscriber);
        let (head, tail) = bent.split_at(next() % bent.len());
        let read = peer.receive(head).and_then(|()| peer.receive(tail));
        refused += usize::from(read.is_err());
        let kept: usize = messages(&mut peer).iter().flatten().map(Vec::len).sum();
        assert!(kept <= bent.len());
    }
    assert!((2_000..19_000).contains(&refused), "{refused}");
}
