//! A connection over which a test sends one request after the other.

#![allow(dead_code)] // each test file uses only a part

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::processes::{PATIENCE, connected};

pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects as soon as a server listens.
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = connected(address);
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        Self(BufReader::new(stream))
    }

    /// Sends a request such as `POST /v1/check`, and returns the status and the body.
    pub(crate) fn ask(&mut self, head: &str, body: &str) -> (u16, String) {
        let request = format!(
            "{head} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).expect("it reads");
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("an answer in time") > 0, "cut off");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().expect("a status");
            }
            if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().expect("a length");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("an answer in time");
        (status, String::from_utf8(body).expect("text"))
    }
}
