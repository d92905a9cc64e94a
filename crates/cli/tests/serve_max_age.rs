//! Connections of gRPC with a maximum age: they are told to go, and their requests are answered.
//!
//! The client reads and writes the frames of HTTP/2 itself, so that it sees GOAWAY.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::processes::PATIENCE;
use crate::serving::{self, Serving, address};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// The flags at the end of a request: `END_HEADERS` for its headers, and `END_STREAM` for its data.
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;
const ACKNOWLEDGED: u8 = 1;

struct Frame {
    kind: u8,
    stream: u32,
    payload: Vec<u8>,
}

struct Http2(TcpStream);

impl Http2 {
    /// Opens a connection with a request of stream 1 whose message has not been sent.
    fn asking(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let mut http2 = Self(stream);
        http2.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("it reads");
        http2.send(SETTINGS, 0, 0, &[]);
        let mut block = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
            (":authority", "x"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ] {
            // A literal header that is not indexed, with its name as text.
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).expect("short"));
                block.extend(text.as_bytes());
            }
        }
        http2.send(HEADERS, END_HEADERS, 1, &block);
        http2
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).expect("it reads");
    }

    /// The message of the request, and its end: one descriptor of the example rules.
    fn send_message(&mut self) {
        let field = |number: u8, bytes: &[u8]| {
            [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat()
        };
        let entry = [field(1, b"user"), field(2, b"alice")].concat();
        let message = [field(1, b"shop"), field(2, &field(1, &entry))].concat();
        let prefix = [0, 0, 0, 0, u8::try_from(message.len()).expect("short")];
        self.send(DATA, END_STREAM, 1, &[&prefix[..], &message].concat());
    }

    /// Reads the next frame; returns `None` at the end of the connection. Settings and pings are acknowledged.
    fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        match self.0.read_exact(&mut head) {
            Ok(()) => {}
            Err(error)
                if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset]
                    .contains(&error.kind()) =>
            {
                return None;
            }
            Err(error) => panic!("{error}"),
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("short")];
        self.0.read_exact(&mut payload).expect("a whole frame");
        let (kind, flags) = (head[3], head[4]);
        if [SETTINGS, PING].contains(&kind) && flags & ACKNOWLEDGED == 0 {
            let answer = if kind == PING { payload.clone() } else { Vec::new() };
            self.send(kind, ACKNOWLEDGED, 0, &answer);
        }
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind, stream, payload })
    }

    fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().expect("the connection goes on");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Returns whether the message that answers stream 1 says that the request may pass.
    fn is_allowed(&mut self) -> bool {
        let frame = self.until(DATA);
        // Five bytes precede the message. The first field of the message is the code, and OK has the value 1.
        frame.stream == 1 && frame.payload.get(5..7) == Some(&[8, 1])
    }
}

/// Starts a service with these flags, and returns it and the address of gRPC.
fn serve(flags: &[&str]) -> (Serving, SocketAddr) {
    let (serving, begun) = serving::serve("", flags, &[]);
    let grpc = begun.last().and_then(|line| address(line, "grpc")).expect("its address");
    (serving, grpc)
}

#[test]
fn a_connection_of_the_maximum_age_is_told_to_go_and_its_request_is_answered() {
    let (_serving, grpc) = serve(&["--grpc-max-age", "1"]);
    let mut client = Http2::asking(grpc);
    // The client is told to go before it gets an answer, because its request is not complete yet.
    client.until(GOAWAY);
    client.send_message();
    assert!(client.is_allowed());
    // The connection ends with its last request, and a new connection is served.
    while client.next().is_some() {}
    let mut client = Http2::asking(grpc);
    client.send_message();
    assert!(client.is_allowed());
}

#[test]
fn after_the_grace_a_connection_ends_even_if_a_request_is_in_progress() {
    let (_serving, grpc) = serve(&["--grpc-max-age", "1", "--grpc-max-age-grace", "1"]);
    let mut client = Http2::asking(grpc);
    client.until(GOAWAY);
    // The request never ends by itself.
    while let Some(frame) = client.next() {
        assert!(![HEADERS, DATA].contains(&frame.kind), "it was not asked in full");
    }
}
