//! Redis' protocol, for any Redis client. Requests may be pipelined. A request may bring its limit along, as with
//! redis-cell and throttlecrab, or ask for the limits of rules.
//!
//! | Command | Answer |
//! |---|---|
//! | `CL.THROTTLE key max_burst count_per_period period [quantity]` | five integers as in redis-cell: 1 if denied, limit (`max_burst` + 1), remaining, seconds until a retry or -1, seconds until the reset |
//! | `THROTTLE key max_burst count_per_period period [quantity]` | five integers as in throttlecrab: 1 if admitted, limit (`max_burst`), remaining, seconds until the reset, seconds until a retry |
//! | `TOLLGATE.CHECK domain cost key value [key value ...]` | as `CL.THROTTLE`, and the name of the limit; numbers that no rule gives are -1 |
//! | `TOLLGATE.PEEK domain cost key value [key value ...]` | the same, but charges nothing |
//! | `PING`, `ECHO`, `HELLO`, `AUTH`, `SELECT 0`, `CLIENT SETNAME`, `CLIENT SETINFO`, `COMMAND`, `INFO`, `QUIT` | as in Redis |
//!
//! # Bounds
//! A request has at most 128 words and 72 KiB. All requests that a read completes are decided, and their answers are
//! sent in one write. When 16 KiB of answers wait, they are sent before further requests are decided. A connection is
//! closed if its client does not take the answers within 5 s, if its first request does not arrive within 30 s, if a
//! request that has begun is not complete within 5 s, or if it is idle for 300 s. At most 10,000 connections are open
//! at a time. The two buffers of a connection have 32 KiB together, and up to 240 KiB while a client sends the largest
//! requests.

mod connection;
mod limit;
mod parse;
mod refusal;
mod reply;
mod session;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::listen::{self, Io, OfListeners, Socket};
use crate::metrics::{MAX_RESP_CONNECTIONS, Protocol};
use crate::service::Service;

/// The state that all connections share.
#[derive(Debug)]
struct RespShared {
    service: Arc<Service>,
    password: Option<Password>,
}

/// The password that a client must send first. Its `Debug` does not print it.
struct Password(String);

impl Password {
    fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Serves until the service stops; then waits for connections to end.
pub(crate) async fn listen(
    socket: Socket,
    shared: OfListeners,
    service: Arc<Service>,
    password: Option<String>,
    grace: Duration,
) {
    let (clients, stopped) = (Arc::clone(&service.clients), shared.stopped.clone());
    let of_resp = Arc::new(RespShared { service, password: password.map(Password) });
    let serve = || {
        let (of_resp, stopped) = (Arc::clone(&of_resp), stopped.clone());
        let permit = Arc::clone(&clients.room).try_acquire_owned();
        move |io: Io| async move {
            match permit {
                // A connection of the reserve may only ask for health and metrics, which this protocol does not have.
                Ok(_permit) if !io.is_reserved() => {
                    let password = of_resp.password.as_ref().map(Password::as_bytes);
                    connection::serve(io, &of_resp.service, password, stopped).await;
                }
                _ => refuse(io, &of_resp.service).await,
            }
        }
    };
    listen::accept(socket, shared, serve).await;
    // All permits are free again when every connection has ended, so taking all of them waits for that.
    let _ = timeout(grace, clients.room.acquire_many(MAX_RESP_CONNECTIONS)).await;
}

async fn refuse(mut io: Io, service: &Service) {
    service.clients.refuse();
    let told = async {
        io.write_all(b"-ERR max number of clients reached\r\n").await?;
        // The connection is shut down and not only dropped: with unread input that would reset it, and the answer could
        // be lost.
        io.shutdown().await
    };
    // The connection is then closed, even if the client has not taken the answer.
    let _ = timeout(connection::WITHIN, told).await;
}

/// The answers to these bytes of a client, and whether its connection would end after them. Works without a connection.
pub(crate) fn offline(service: &Service, mut input: &[u8]) -> (Vec<u8>, bool) {
    let mut session = session::Session::new(service, None, None);
    let mut all = Vec::new();
    loop {
        let mut out = Vec::new();
        let (size, pause) = session.decide(input, &mut out);
        input = &input[size..];
        all.append(&mut out);
        let outcomes = session.take_outcomes();
        service.metrics.requests.answered_many(Protocol::Resp, outcomes, Duration::ZERO);
        match pause {
            session::Pause::Full => {}
            session::Pause::Incomplete => return (all, false),
            session::Pause::Ask(_) | session::Pause::End => return (all, true),
        }
    }
}
