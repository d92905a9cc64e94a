//! A cluster of three servers, each with a third of the slots.
#![allow(unreachable_pub, reason = "each test file includes this module for itself")]
#![allow(dead_code, reason = "and uses only a part of it")]
#![allow(clippy::unwrap_used, reason = "a test helper fails as loudly as a test")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::server::{Server, free_port};

pub const NODES: usize = 3;
const SLOTS: usize = 16_384;

/// Computes the CRC as the servers do, so that the tests need not ask a server about thousands of keys.
fn crc16(bytes: &[u8]) -> usize {
    let bit = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    let next = |crc: u16, byte: &u8| (0..8).fold(crc ^ u16::from(*byte) << 8, bit);
    bytes.iter().fold(0, next).into()
}

#[derive(Debug)]
pub struct Cluster {
    pub servers: Vec<Server>,
    files: Vec<PathBuf>,
    announced: Option<[u16; NODES]>,
}

impl Cluster {
    pub fn start() -> Self {
        let (mut servers, mut files) = (Vec::new(), Vec::new());
        for n in 0..NODES {
            let bus = free_port().to_string();
            let file = format!("tollgate-cluster-{}-{bus}.conf", std::process::id());
            let settings = [
                ["--cluster-enabled", "yes"],
                ["--cluster-config-file", &file],
                ["--cluster-port", &bus],
                ["--cluster-node-timeout", "15000"],
                ["--cluster-require-full-coverage", "no"],
            ];
            let server = Server::start_with(&settings.concat());
            files.push(std::env::temp_dir().join(file));
            let (first, last) = (SLOTS * n / NODES, SLOTS * (n + 1) / NODES - 1);
            let slots = [first, last].map(|slot| slot.to_string());
            server.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", &slots[0], &slots[1]]);
            server.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
            let others = servers.iter().map(|(server, bus): &(Server, String)| (server.port, bus));
            for (port, bus) in others {
                server.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string(), bus]);
            }
            servers.push((server, bus));
        }
        let servers = servers.into_iter().map(|(server, _)| server).collect();
        let cluster = Self { servers, files, announced: None };
        cluster.wait();
        cluster
    }

    /// Waits until every node knows the node of every slot.
    fn wait(&self) {
        let start = Instant::now();
        let all = format!("cluster_slots_ok:{SLOTS}");
        for server in &self.servers {
            loop {
                let info: String = server.run(&["CLUSTER", "INFO"]);
                if info.contains("cluster_state:ok") && info.contains(&all) {
                    break;
                }
                assert!(start.elapsed() < Duration::from_secs(20), "no cluster: {info}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    pub fn address(&self) -> String {
        let own = || [0, 1, 2].map(|node| self.servers[node].port);
        let hosts = self.announced.unwrap_or_else(own).map(|port| format!("127.0.0.1:{port}"));
        format!("redis+cluster://{}/", hosts.join(","))
    }

    pub fn slot(&self, key: &str) -> usize {
        self.servers[0].run(&["CLUSTER", "KEYSLOT", key])
    }

    /// The node that had a slot when the cluster was started.
    pub fn first_owner(&self, slot: usize) -> usize {
        (0..NODES).find(|n| slot < SLOTS * (n + 1) / NODES).unwrap()
    }

    /// A client whose limits are on the given node.
    pub fn client_on(&self, node: usize) -> String {
        let clients = (0..).map(|n: u32| format!("client{n}"));
        let mut on = clients.filter(|client| self.first_owner(self.slot(client)) == node);
        on.next().unwrap()
    }

    /// Two clients whose limits are in the given slot.
    pub fn two_clients_in(&self, slot: usize) -> [String; 2] {
        let clients = (0..).map(|n: u32| format!("client{n}"));
        let mut within = clients.filter(|client| crc16(client.as_bytes()) % SLOTS == slot);
        let found = [within.next().unwrap(), within.next().unwrap()];
        assert!(found.iter().all(|client| self.slot(client) == slot));
        found
    }

    pub fn client_on_each(&self) -> [String; NODES] {
        [0, 1, 2].map(|node| self.client_on(node))
    }

    /// Makes the nodes announce the ports of proxies to clients instead of their own, and waits until all nodes do so.
    pub fn announce(&mut self, ports: [u16; NODES]) {
        for (server, port) in self.servers.iter().zip(ports) {
            server.run::<()>(&["CONFIG", "SET", "cluster-announce-port", &port.to_string()]);
        }
        let start = Instant::now();
        for server in &self.servers {
            let is_told = |ports: &[u16]| {
                let nodes: String = server.run(&["CLUSTER", "NODES"]);
                ports.iter().all(|port| nodes.contains(&format!("127.0.0.1:{port}@")))
            };
            while !is_told(&ports) {
                assert!(start.elapsed() < Duration::from_secs(20), "the ports are not told");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.announced = Some(ports);
    }

    /// Begins to move a slot: until the move ends, each of its keys is at one of the two nodes.
    pub fn begin_move(&self, slot: usize, [from, to]: [usize; 2]) {
        let id = |node: usize| self.servers[node].run::<String>(&["CLUSTER", "MYID"]);
        let slot = slot.to_string();
        self.servers[to].run::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        self.servers[from].run::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    /// Moves one of the slot's remaining keys. Returns `false` if there is none.
    pub fn move_key(&self, slot: usize, [from, to]: [usize; 2]) -> bool {
        let slot = slot.to_string();
        let keys: Vec<String> = self.servers[from].run(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]);
        let port = self.servers[to].port.to_string();
        for key in &keys {
            // If the key has expired meanwhile, the answer is NOKEY, which is fine.
            let words = ["MIGRATE", "127.0.0.1", &port, key, "0", "2000"];
            self.servers[from].run::<String>(&words);
        }
        !keys.is_empty()
    }

    /// Ends the move: the slot belongs to the other node.
    pub fn end_move(&self, slot: usize, [from, to]: [usize; 2]) {
        while self.move_key(slot, [from, to]) {}
        let id: String = self.servers[to].run(&["CLUSTER", "MYID"]);
        for node in [to, from].into_iter().chain((0..NODES).filter(|n| *n != to && *n != from)) {
            // Since then, a key may have been created at the old owner, which refuses to end the move until that key is
            // moved, too.
            let words = ["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id];
            while self.servers[node].try_run(&words).is_err() {
                self.move_key(slot, [from, to]);
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.servers.clear();
        for file in &self.files {
            _ = std::fs::remove_file(file);
        }
    }
}
