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

/// Starts a Redis with these arguments.
pub(crate) fn redis_server(arguments: &[&str]) -> Process {
    let child = Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn();
    child.map(Process).unwrap_or_else(|error| {
        panic!("this test needs redis-server (apt-get install redis-server): {error}")
    })
}
