//! One connection: reads the available input, decides all requests in it, and sends all answers at once.

use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::session::{Pause, Session};
use crate::listen::{FIRST_REQUEST_WITHIN, Io};
use crate::metrics::Protocol;
use crate::service::Service;

/// The time for which a connection may be idle. It is long, because clients keep connections in pools. It has a bound,
/// because nothing else shows that a client has died.
pub(super) const IDLE: Duration = Duration::from_secs(300);

/// The time that a client has to send the rest of a request that it has begun, and also the time that it has to take
/// its answers.
pub(super) const WITHIN: Duration = Duration::from_secs(5);

/// The size of each of a connection's two buffers, while no request or answer needs more.
const BUFFER_BYTES: usize = 16 << 10;

/// Serves until the client leaves, or is too slow, or `stopped` is set. Requests that were read whole have been
/// answered by then.
pub(super) async fn serve(
    io: Io,
    service: &Service,
    password: Option<&[u8]>,
    mut stopped: watch::Receiver<bool>,
) {
    let stopped = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
    let mut connection = RespConnection {
        session: Session::new(service, password, Some(io.peer())),
        io,
        service,
        input: Vec::with_capacity(BUFFER_BYTES),
        output: Vec::with_capacity(BUFFER_BYTES),
        heard: Instant::now(),
        idle: FIRST_REQUEST_WITHIN,
    };
    // Both futures are kept over all waits, so that they are registered with the runtime only once.
    let (mut stopped, mut alarm) = (pin!(stopped), pin!(sleep(FIRST_REQUEST_WITHIN)));
    while connection.wait(stopped.as_mut(), alarm.as_mut()).await {
        match connection.answer().await {
            After::Wait => {}
            After::Close => break,
            // The connection is dropped, which resets it. An orderly close would have to go on reading.
            After::Reset => return,
        }
    }
    // An error means that the client has already left.
    let _ = connection.io.shutdown().await;
}

/// The next step of a connection after the input was answered.
enum After {
    Wait,
    Close,
    /// The client does not take its answers, or is gone.
    Reset,
}

struct RespConnection<'s> {
    io: Io,
    service: &'s Service,
    session: Session<'s>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The time when the last request was complete.
    heard: Instant,
    /// The time within which the next request must begin.
    idle: Duration,
}

impl RespConnection<'_> {
    /// Waits for more input; returns false if the connection has to end instead.
    async fn wait(
        &mut self,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
        mut alarm: Pin<&mut Sleep>,
    ) -> bool {
        if self.input.len() == self.input.capacity() {
            // The buffer stays bounded, because a request is refused as soon as it exceeds the maximum size.
            self.input.reserve(self.input.capacity());
        }
        let end = self.heard + if self.input.is_empty() { self.idle } else { WITHIN };
        if alarm.deadline() > end {
            alarm.as_mut().reset(end);
        }
        loop {
            tokio::select! {
                biased;
                read = self.io.read_buf(&mut self.input) => return read.is_ok_and(|bytes| bytes > 0),
                () = stopped.as_mut() => return false,
                // The alarm may be early, because it may have been set before the last request.
                () = alarm.as_mut() => {
                    if end <= Instant::now() {
                        self.io.time_out();
                        return false;
                    }
                    alarm.as_mut().reset(end);
                }
            }
        }
    }

    /// Answers all requests in the input.
    async fn answer(&mut self) -> After {
        loop {
            let begun = Instant::now();
            let (size, pause) = self.session.decide(&self.input, &mut self.output);
            self.input.drain(..size);
            if size > 0 {
                (self.heard, self.idle) = (begun, IDLE);
            }
            if let Pause::Ask(request) = &pause {
                if let Some(shared) = &self.service.shared {
                    let answer = request.decide(&self.service.maker, shared).await;
                    self.session.answered(request, answer, &mut self.output);
                }
                self.told(begun.elapsed());
                continue;
            }
            self.told(begun.elapsed());
            if !self.send().await {
                return After::Reset;
            }
            match pause {
                Pause::Incomplete => break,
                Pause::End => return After::Close,
                Pause::Full | Pause::Ask(_) => {}
            }
        }
        if self.input.is_empty() {
            self.input.shrink_to(BUFFER_BYTES);
        }
        After::Wait
    }

    fn told(&mut self, took: Duration) {
        let outcomes = self.session.take_outcomes();
        self.service.metrics.requests.answered_many(Protocol::Resp, outcomes, took);
    }

    /// Sends all answers together; returns whether the client has taken them.
    async fn send(&mut self) -> bool {
        if self.output.is_empty() {
            return true;
        }
        let sent = timeout(WITHIN, async {
            self.io.write_all(&self.output).await?;
            self.io.flush().await
        });
        let is_sent = matches!(sent.await, Ok(Ok(())));
        self.output.clear();
        self.output.shrink_to(BUFFER_BYTES);
        is_sent
    }
}
