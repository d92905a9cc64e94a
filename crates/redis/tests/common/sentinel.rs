//! A master, a replica, and a sentinel that promotes it.
#![allow(unreachable_pub, reason = "each test file includes this module for itself")]
#![allow(dead_code, reason = "and uses only a part of it")]
#![allow(clippy::unwrap_used, reason = "a test helper fails as loudly as a test")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::server::{Server, free_port};

/// How the master is called.
pub const NAME: &str = "main";

#[derive(Debug)]
pub struct Sentinel {
    /// The first is the master at the beginning.
    pub servers: [Server; 2],
    sentinel: Server,
    file: PathBuf,
}

impl Sentinel {
    pub fn start() -> Self {
        let master = Server::start_with(&["--repl-diskless-sync-delay", "0"]);
        let port = master.port.to_string();
        let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]);
        let own = free_port();
        let name = format!("tollgate-sentinel-{}-{own}.conf", std::process::id());
        let file = std::env::temp_dir().join(name);
        let text = format!(
            "port {own}\nbind 127.0.0.1\nsentinel monitor {NAME} 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds {NAME} 200\nsentinel failover-timeout {NAME} 1000\n"
        );
        std::fs::write(&file, text).unwrap();
        let sentinel = Server::sentinel(&file, own);
        // It asks for replicas more often than every ten seconds.
        sentinel.run::<()>(&["SENTINEL", "DEBUG", "info-period", "100"]);
        let sentinel = Self { servers: [master, replica], sentinel, file };
        sentinel.wait_for_replica();
        sentinel
    }

    pub fn address(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/{NAME}/0", self.sentinel.port)
    }

    /// Until there is somebody who can be promoted.
    pub fn wait_for_replica(&self) {
        let start = Instant::now();
        loop {
            let known: Vec<std::collections::HashMap<String, String>> =
                self.sentinel.run(&["SENTINEL", "REPLICAS", NAME]);
            let is_good = known.iter().any(|replica| {
                replica["flags"] == "slave" && replica["master-link-status"] == "ok"
            });
            if is_good {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(40), "no replica: {known:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn master_port(&self) -> u16 {
        let (_, port): (String, u16) =
            self.sentinel.run(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        port
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.sentinel.kill();
        _ = std::fs::remove_file(&self.file);
    }
}
