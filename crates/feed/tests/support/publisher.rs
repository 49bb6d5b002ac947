//! A publisher and its replay socket, as small as they can be: the other side of ZMTP, written apart.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Messages by their number, shared with whoever adds to them.
pub(crate) type Log = Arc<Mutex<Vec<Vec<u8>>>>;

/// Answers every question with all of `log` from the number asked for on.
pub(crate) fn replay(log: &Log) -> SocketAddr {
    let log = Arc::clone(log);
    serve(move |mut stream| {
        hello(&mut stream, "ROUTER");
        let mut question = [0; 12];
        stream.read_exact(&mut question).expect("a question");
        assert_eq!(question[..4], [1, 0, 0, 8]);
        let from = u64::from_be_bytes(question[4..].try_into().unwrap());
        let log = log.lock().unwrap().clone();
        for (number, payload) in (0_u64..).zip(&log).skip(from as usize) {
            send(
                &mut stream,
                &[b"", b"kv@pod", &number.to_be_bytes(), payload],
            );
        }
        send(&mut stream, &[b"", b"", &[0xff; 8], b""]);
        wait_for_end(&mut stream);
    })
}

/// Publishes all of `log` from number `from` on to whoever subscribes, and what is added later.
pub(crate) fn publish(log: &Log, from: usize) -> SocketAddr {
    let log = Arc::clone(log);
    serve(move |mut stream| {
        hello(&mut stream, "PUB");
        let mut wish = [0; 12];
        stream.read_exact(&mut wish).expect("a subscription");
        assert_eq!(&wish, b"\x04\x0a\x09SUBSCRIBE", "to everything");
        stream.set_nonblocking(true).expect("a socket");
        let mut next = from;
        loop {
            let news: Vec<Vec<u8>> = log.lock().unwrap().get(next..).unwrap_or_default().to_vec();
            for payload in &news {
                stream.set_nonblocking(false).expect("a socket");
                send(
                    &mut stream,
                    &[b"kv@pod", &(next as u64).to_be_bytes(), payload],
                );
                stream.set_nonblocking(true).expect("a socket");
                next += 1;
            }
            match stream.read(&mut [0; 64]) {
                Ok(0) => return,
                _ => thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
    })
}

/// Sends these bytes to whoever connects.
pub(crate) fn babble(bytes: Vec<u8>) -> SocketAddr {
    serve(move |mut stream| {
        let _ = stream.write_all(&bytes);
        wait_for_end(&mut stream);
    })
}

fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let each = Arc::new(each);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let each = Arc::clone(&each);
            thread::spawn(move || each(stream));
        }
    });
    address
}

fn hello(stream: &mut TcpStream, kind: &str) {
    let mut greeting = [0; 64];
    (greeting[0], greeting[9], greeting[10], greeting[11]) = (0xff, 0x7f, 3, 1);
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting).expect("a greeting");
    stream.read_exact(&mut [0; 64]).expect("a greeting");
    let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
    ready.extend((kind.len() as u32).to_be_bytes());
    ready.extend(kind.bytes());
    stream.write_all(&[4, ready.len() as u8]).expect("a header");
    stream.write_all(&ready).expect("a command");
    let mut header = [0; 2];
    stream.read_exact(&mut header).expect("a header");
    assert_eq!(header[0], 4);
    stream
        .read_exact(&mut vec![0; usize::from(header[1])])
        .expect("a command");
}

fn send(stream: &mut TcpStream, parts: &[&[u8]]) {
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        bytes.push(2 | u8::from(index + 1 < parts.len()));
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(*part);
    }
    // Whoever has left does not want it.
    let _ = stream.write_all(&bytes);
}

fn wait_for_end(stream: &mut TcpStream) {
    while stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
}
