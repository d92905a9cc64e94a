//! A master, a replica, and a sentinel that promotes it.
#![allow(unreachable_pub, reason = "each test file includes this module for itself")]
#![allow(dead_code, reason = "and uses only a part of it")]
#![allow(clippy::unwrap_used, reason = "a test helper fails as loudly as a test")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;

use super::server::{Server, free_port};

/// The name of the master.
pub const NAME: &str = "main";
/// The longest time of a failover on a busy machine. A sentinel that was held up for two seconds does nothing for half
/// a minute.
const LONGEST_FAILOVER: Duration = Duration::from_secs(90);
/// A server that has not answered for this many milliseconds counts as down. The second value is in force from the
/// moment at which a test kills the master until another master is named, and the first at all other times. The first is
/// longer than any machine stalls, so only a killed server is ever replaced.
const DOWN_AFTER: [&str; 2] = ["60000", "1000"];
/// The passwords of the servers and of the sentinel, in tests with passwords.
pub const PASSWORDS: [&str; 2] = ["served", "watched"];

#[derive(Debug)]
pub struct Sentinel {
    /// When the test begins, the first of them is the master.
    pub servers: [Server; 2],
    sentinel: Server,
    file: PathBuf,
    has_passwords: bool,
}

impl Sentinel {
    pub fn start() -> Self {
        Self::with(false)
    }

    /// Starts servers that need a password, and a sentinel that needs another password.
    pub fn start_with_passwords() -> Self {
        Self::with(true)
    }

    fn with(has_passwords: bool) -> Self {
        let [served, watched] = PASSWORDS;
        let with_login = |more: &[&'static str]| match has_passwords {
            true => [&["--requirepass", served, "--masterauth", served], more].concat(),
            false => more.to_vec(),
        };
        let master = Server::start_with(&with_login(&["--repl-diskless-sync-delay", "0"]));
        let port = master.port.to_string();
        let replica_of = ["--replicaof", "127.0.0.1", &port];
        let replica = Server::start_with(&[&with_login(&[])[..], &replica_of].concat());
        let own = free_port();
        let name = format!("tollgate-sentinel-{}-{own}.conf", std::process::id());
        let file = std::env::temp_dir().join(name);
        let mut text = format!(
            "port {own}\nbind 127.0.0.1\nsentinel monitor {NAME} 127.0.0.1 {port} 1\n\
             sentinel failover-timeout {NAME} 1000\n"
        );
        let mut arguments = Vec::new();
        if has_passwords {
            text += &format!("sentinel auth-pass {NAME} {served}\n");
            arguments = vec!["--requirepass", watched];
        }
        std::fs::write(&file, text).unwrap();
        let sentinel = Server::sentinel(&file, own, &arguments);
        // By default the sentinel asks for replicas every ten seconds. With this setting the sentinel asks ten times a
        // second.
        sentinel.run::<()>(&["SENTINEL", "DEBUG", "info-period", "100"]);
        let sentinel = Self { servers: [master, replica], sentinel, file, has_passwords };
        sentinel.wait_for_replica();
        sentinel
    }

    pub fn address(&self) -> String {
        let at = format!("127.0.0.1:{}/{NAME}/0", self.sentinel.port);
        let [served, watched] = PASSWORDS;
        match self.has_passwords {
            true => format!("redis+sentinel://:{served}@{at}?sentinel_auth=:{watched}"),
            false => format!("redis+sentinel://{at}"),
        }
    }

    /// Waits until there is a replica that can be promoted. From then on, no failover begins until a test kills the
    /// master.
    pub fn wait_for_replica(&self) {
        self.set_down_after(DOWN_AFTER[0]);
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
            assert!(start.elapsed() < LONGEST_FAILOVER, "no replica: {known:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills one of the servers, and lets the sentinel replace it.
    pub fn kill(&mut self, server: usize) {
        self.servers[server].kill();
        self.set_down_after(DOWN_AFTER[1]);
    }

    /// Waits until the sentinel names this server as the master. From then on no failover begins, so a new master that
    /// stalls stays the master.
    pub async fn replaced_by(&self, server: usize) {
        let start = Instant::now();
        while block_in_place(|| self.master_port()) != self.servers[server].port {
            assert!(start.elapsed() < LONGEST_FAILOVER, "no failover");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        block_in_place(|| self.set_down_after(DOWN_AFTER[0]));
    }

    fn set_down_after(&self, milliseconds: &str) {
        let words = ["SENTINEL", "SET", NAME, "down-after-milliseconds", milliseconds];
        self.sentinel.run::<()>(&words);
    }

    /// Waits until the replica has all that the first master has executed by now.
    pub fn has_been_told(&self) {
        let mut connection = self.servers[0].connection();
        // `WAIT` waits only for writes of its own connection. So this connection first makes a write, which comes after
        // all earlier writes of other connections.
        let mut written = redis::cmd("SET");
        written.arg("told").arg(1).exec(&mut connection).unwrap();
        let told: u64 = redis::cmd("WAIT").arg(1).arg(20_000).query(&mut connection).unwrap();
        assert_eq!(told, 1, "the replica does not keep up");
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
