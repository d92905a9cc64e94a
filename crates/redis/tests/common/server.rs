//! A redis-server for one test. It uses a free port and no files, and ends with the test.
#![allow(unreachable_pub, reason = "each test file includes this module for itself")]
#![allow(dead_code, reason = "and uses only a part of it")]
#![allow(clippy::unwrap_used, reason = "a test helper fails as loudly as a test")]

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A server, and the arguments with which it is started again.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub port: u16,
    arguments: Vec<String>,
}

/// Ports below those that the system gives to clients (from 32768 on), so that no client of another test takes a port
/// before a server listens on it.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// A port on which no process listens now. A process gets each port only once.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Test processes that run at the same time begin their search at ports far apart.
    let first = std::process::id().wrapping_mul(641);
    loop {
        let nth = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + u16::try_from(nth % u32::try_from(PORTS.len()).unwrap()).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn launch(arguments: &[String]) -> Child {
    Command::new("redis-server")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("these tests need redis-server (apt-get install redis-server): {error}")
        })
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        let (port, directory) = (free_port(), std::env::temp_dir());
        let number = port.to_string();
        let own = [
            ["--port", &number],
            ["--bind", "127.0.0.1"],
            ["--save", ""],
            ["--appendonly", "no"],
            ["--dir", directory.to_str().unwrap()],
        ];
        Self::launched(port, &[&own.concat()[..], arguments].concat())
    }

    /// Starts a sentinel with the settings in a file, and with these arguments.
    pub fn sentinel(file: &std::path::Path, port: u16, arguments: &[&str]) -> Self {
        let own = [file.to_str().unwrap(), "--sentinel"];
        Self::launched(port, &[&own[..], arguments].concat())
    }

    fn launched(port: u16, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let server = Self { child: launch(&arguments), port, arguments };
        server.wait();
        server
    }

    /// The address, with the server's password if it has one.
    pub fn address(&self) -> String {
        let mut arguments = self.arguments.iter().skip_while(|name| *name != "--requirepass");
        let login = arguments.nth(1).map_or(String::new(), |password| format!(":{password}@"));
        format!("redis://{login}127.0.0.1:{}/", self.port)
    }

    /// A plain connection for the test itself.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.address()).unwrap().get_connection().unwrap()
    }

    /// Runs a command given as words.
    pub fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut self.connection()).unwrap()
    }

    /// Runs a command that the server may refuse.
    pub fn try_run(&self, words: &[&str]) -> redis::RedisResult<()> {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut self.connection())
    }

    /// Waits until the server answers.
    pub fn wait(&self) {
        let start = Instant::now();
        loop {
            let client = redis::Client::open(self.address()).unwrap();
            let connection = client.get_connection_with_timeout(Duration::from_secs(1));
            let answers =
                |mut connection| redis::cmd("PING").query::<String>(&mut connection).is_ok();
            if connection.is_ok_and(answers) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed server again, empty and on the same port.
    pub fn restart(&mut self) {
        self.child = launch(&self.arguments);
        self.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
