//! A proxy between a client and a server. It can delay replies, break connections, or lose a reply.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Debug)]
pub struct Proxy {
    pub port: u16,
    delay_ms: Arc<AtomicU64>,
    refuses: Arc<AtomicBool>,
    loses: Arc<AtomicBool>,
    cuts: watch::Sender<u64>,
}

impl Proxy {
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (delay_ms, refuses) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (cuts, watched) = watch::channel(0);
        let loses = Arc::new(AtomicBool::new(false));
        let (delay, refuse) = (Arc::clone(&delay_ms), Arc::clone(&refuses));
        let lose = Arc::clone(&loses);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if refuse.load(Ordering::Relaxed) {
                    continue; // dropped
                }
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
                    continue;
                };
                _ = client.set_nodelay(true);
                _ = server.set_nodelay(true);
                let ((client_read, client_write), (server_read, server_write)) =
                    (client.into_split(), server.into_split());
                let there = Flow {
                    delay_ms: Arc::default(),
                    loses: Arc::default(),
                    watched: watched.clone(),
                };
                let back =
                    Flow { delay_ms: delay.clone(), loses: lose.clone(), watched: watched.clone() };
                tokio::spawn(pass(client_read, server_write, there));
                tokio::spawn(pass(server_read, client_write, back));
            }
        });
        Self { port, delay_ms, refuses, loses, cuts }
    }

    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Delays every reply by this time.
    pub fn delay(&self, delay: Duration) {
        self.delay_ms.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// Instead of forwarding the next reply, breaks its connection.
    pub fn lose_a_reply(&self) {
        self.loses.store(true, Ordering::Relaxed);
    }

    /// Breaks every connection. If `refuses` is set, accepts no new connections.
    pub fn cut(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

/// How the bytes of one direction are treated.
struct Flow {
    delay_ms: Arc<AtomicU64>,
    loses: Arc<AtomicBool>,
    watched: watch::Receiver<u64>,
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, flow: Flow) {
    let Flow { delay_ms, loses, watched: mut cuts } = flow;
    cuts.mark_unchanged();
    let mut buffer = vec![0; 65_536];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            _ = cuts.changed() => 0,
        };
        if read == 0 {
            return;
        }
        if loses.swap(false, Ordering::Relaxed) {
            return;
        }
        let delay_ms = delay_ms.load(Ordering::Relaxed);
        if delay_ms > 0 {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(delay_ms)) => {}
                _ = cuts.changed() => return,
            }
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
