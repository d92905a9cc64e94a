//! Processes that a test starts, and that end with it.

#![allow(dead_code)] // each test file uses only a part

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The maximum time that a test waits. Even a busy machine does not cause such a long delay.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}

/// Connects as soon as a server listens.
pub(crate) fn connected(address: SocketAddr) -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true).expect("a socket");
                return stream;
            }
            Err(error) => {
                assert!(begun.elapsed() < Duration::from_secs(20), "{address}: {error}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Waits until this is so; otherwise the test fails with `what` it waits for.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it takes too long: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a Redis that keeps nothing, with these arguments too, and waits until it listens at this address.
pub(crate) fn redis_at(address: SocketAddr, more: &[&str]) -> Process {
    let port = address.port().to_string();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]).args(more);
    let redis = command.stdout(Stdio::null()).spawn().map(Process).unwrap_or_else(|error| {
        panic!("this test needs redis-server (apt-get install redis-server): {error}")
    });
    drop(connected(address));
    redis
}
