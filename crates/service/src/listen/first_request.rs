//! [`FirstRequest`]: finds out whether a connection of HTTP/2 has begun a request.
//!
//! It skips the frames of a connection until the first HEADERS frame, which begins a request. Before that frame,
//! settings, pings and window updates may come, even from a client that never sends a request. Later frames are not
//! looked at.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// The length of the preface that a client sends before its first frame: `PRI * HTTP/2.0` and so on. RFC 9113, section
/// 3.4.
const PREFACE_BYTES: usize = 24;

/// The size of a frame's head: its length, type, flags and stream. RFC 9113, section 4.1.
const HEAD_BYTES: usize = 9;

/// The type of a frame that begins a request. RFC 9113, section 6.2.
const HEADERS: u8 = 1;

/// The reason why a connection ends before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Late,
    /// The service stops, and there is no request to answer.
    Stopped,
}

/// The progress through the bytes of a connection, until its first request.
pub(super) struct FirstRequest {
    /// Bytes of the preface or of a frame's content that are still to come.
    skip: usize,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    over: Pin<Box<dyn Future<Output = Over> + Send>>,
}

impl fmt::Debug for FirstRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstRequest").field("skip", &self.skip).finish_non_exhaustive()
    }
}

impl FirstRequest {
    pub(super) fn within(most: Duration, mut stopped: watch::Receiver<bool>) -> Self {
        let over = Box::pin(async move {
            tokio::select! {
                () = sleep(most) => Over::Late,
                _ = stopped.wait_for(|stopped| *stopped) => Over::Stopped,
            }
        });
        Self { skip: PREFACE_BYTES, head: [0; HEAD_BYTES], head_bytes: 0, over }
    }

    /// Ready when the connection has to end because its first request has not begun.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Over> {
        self.over.as_mut().poll(context)
    }

    /// Whether the first request begins in these bytes, which continue the bytes of earlier calls.
    pub(super) fn begins_in(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            let Some((first, rest)) = bytes.split_first() else { return false };
            (self.head[self.head_bytes], bytes) = (*first, rest);
            self.head_bytes += 1;
            if self.head_bytes == HEAD_BYTES {
                let [a, b, c, kind, ..] = self.head;
                if kind == HEADERS {
                    return true;
                }
                let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                (self.skip, self.head_bytes) = (length, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, content: usize) -> Vec<u8> {
        let [.., a, b, c] = content.to_be_bytes();
        [&[a, b, c, kind, 0, 0, 0, 0, 0][..], &vec![HEADERS; content]].concat()
    }

    #[tokio::test]
    async fn a_request_begins_with_its_headers_however_the_bytes_are_cut() {
        let (_stop, stopped) = watch::channel(false);
        let (settings, ping, headers) = (frame(4, 18), frame(6, 8), frame(HEADERS, 0));
        let before = [&[HEADERS; PREFACE_BYTES][..], &settings, &frame(4, 0), &ping].concat();
        for cut in 1..before.len() {
            let mut first = FirstRequest::within(Duration::ZERO, stopped.clone());
            assert!(!before.chunks(cut).any(|bytes| first.begins_in(bytes)), "{cut}");
            let (last, rest) = headers.split_last().expect("a frame");
            assert!(!rest.chunks(cut).any(|bytes| first.begins_in(bytes)), "{cut}");
            assert!(first.begins_in(&[*last]));
        }
        let mut first = FirstRequest::within(Duration::ZERO, stopped.clone());
        assert!(first.begins_in(&[&before[..], &headers, &ping].concat()));
    }
}
