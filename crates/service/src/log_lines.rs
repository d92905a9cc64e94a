//! [`LogLines`]: lines of a log, written by a thread of their own.
//!
//! A log goes to a disk that may be full, or to a pipe that may be closed or whose reader may have stopped. This must
//! neither end nor delay a thread that decides requests. So such a thread only puts the line into a queue, which never
//! waits and never fails. The queue is bounded: a line that finds no room is lost, and so is a line that cannot be
//! written. Lost lines are counted, and the log itself reports them as soon as a line can be written again.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{ServiceTotal, encode_total};

/// The maximum number of bytes of lines that wait: some 8,000 lines of the usual length.
const MAX_WAITING: usize = 1 << 20;

/// The memory in bytes that a waiting line takes besides its text: its entry in the queue, and the allocator's
/// overhead.
const BYTES_OF_AN_ENTRY: usize = 64;

/// The pause before another try if the output would block, as a non-blocking pipe does when it is full.
const PAUSE: Duration = Duration::from_millis(10);

/// The time between two reports of lost lines, while more are lost.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Accepts the lines of a log, and writes them in a thread of its own. Each call of [`Write::write`] takes one whole
/// line with its end. The call never waits and never fails. At most 1 MiB of lines wait: a line that finds no room, or
/// cannot be written, is lost and counted. The next line that can be written is followed by an event at level ERROR,
/// through `tracing`, that says how many were lost. While more lines are lost, another event follows after five
/// seconds, and a last one when no line waits any longer.
///
/// Clones write to the same queue. The thread ends when the last clone is dropped.
///
/// ```
/// use std::io::Write;
/// use std::time::Duration;
/// use tollgate_service::LogLines;
/// let mut log = LogLines::start(std::io::sink())?;
/// log.write_all(b"a line\n")?;
/// assert!(log.flush_within(Duration::from_secs(10)));
/// assert_eq!(log.lost(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogLines {
    lines: Sender<Queued>,
    counts: Arc<LineCounts>,
}

#[derive(Debug, Default)]
struct LineCounts {
    /// The bytes of lines that wait or are being written.
    waiting: AtomicUsize,
    lost: ServiceTotal,
}

#[derive(Debug)]
enum Queued {
    Line(Box<[u8]>),
    /// A request for a flush. The writer drops the sender when all earlier lines are written or lost, which wakes the
    /// caller of the flush.
    Flush(#[expect(dead_code, reason = "its end is what the other side waits for")] SyncSender<()>),
}

fn size(line: &[u8]) -> usize {
    line.len() + BYTES_OF_AN_ENTRY
}

impl LogLines {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, queue) = channel();
        let counts = Arc::<LineCounts>::default();
        let writer = LineWriter { out, counts: Arc::clone(&counts), is_torn: false };
        thread::Builder::new().name("tollgate-log".to_owned()).spawn(move || writer.run(&queue))?;
        Ok(Self { lines, counts })
    }

    /// The number of lines lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.get()
    }

    /// Waits until all lines that are in the queue at the call are written or lost, but at most for the given time.
    /// Returns false if the time has run out first.
    #[expect(
        clippy::must_use_candidate,
        reason = "at the end of a process nothing follows from it"
    )]
    pub fn flush_within(&self, most: Duration) -> bool {
        let (tell, told) = sync_channel::<()>(1);
        // An error means that the thread has ended, so no line is waiting.
        let _ = self.lines.send(Queued::Flush(tell));
        told.recv_timeout(most) == Err(RecvTimeoutError::Disconnected)
    }

    /// The number of lost lines as a metric.
    pub(crate) fn metrics(&self) -> OfLogLines {
        OfLogLines(Arc::clone(&self.counts))
    }
}

impl Write for LogLines {
    /// Puts a line into the queue, or counts it as lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let size = size(line);
        let more = |waiting| {
            let has_room = waiting == 0 || waiting + size <= MAX_WAITING;
            has_room.then_some(waiting + size)
        };
        // Relaxed, for both atomics: each is only a number, and the channel publishes the line.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let has_room = self.counts.waiting.fetch_update(set, fetch, more).is_ok();
        if !has_room || self.lines.send(Queued::Line(line.into())).is_err() {
            self.counts.lost.add(1);
        }
        Ok(line.len())
    }

    /// Does nothing: see [`LogLines::flush_within`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct LineWriter<W> {
    out: W,
    counts: Arc<LineCounts>,
    /// Whether only the first part of a line has been written.
    is_torn: bool,
}

impl<W: Write> LineWriter<W> {
    fn run(mut self, queue: &Receiver<Queued>) {
        let (mut told, mut told_at, mut fault) = (0, None::<Instant>, None);
        while let Ok(queued) = queue.recv() {
            let Queued::Line(line) = queued else { continue };
            let written = self.write(&line);
            // Relaxed: as in `LogLines::write`.
            let waiting = self.counts.waiting.fetch_sub(size(&line), Ordering::Relaxed);
            if let Err(error) = written {
                self.counts.lost.add(1);
                fault = Some(error);
                continue;
            }
            let lost = self.counts.lost.get();
            // Each report takes room in the queue. If the reader is too slow, another line is lost for it, so there is
            // a pause between two reports.
            let is_time = told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY);
            if lost > told && (is_time || waiting == size(&line)) {
                (told, told_at) = (lost, Some(Instant::now()));
                // The report goes through the queue, like every other line. If the report itself is lost, the number of
                // lost lines grows, and the next line that is written causes another report.
                tell(lost, fault.take().as_ref());
            }
        }
    }

    /// Writes a whole line, however long it takes.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.write_all(b"\n")?;
            self.is_torn = false;
        }
        self.write_all(line)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.is_torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(error) => return Err(error),
            }
        }
        self.out.flush()
    }
}

fn tell(lost: u64, fault: Option<&io::Error>) {
    let s = if lost == 1 { " was" } else { "s were" };
    match fault {
        Some(error) => tracing::error!("{lost} line{s} lost from this log so far: {error}"),
        None => tracing::error!(
            "{lost} line{s} lost from this log so far: what reads it was slow, and at most {MAX_WAITING} bytes wait"
        ),
    }
}

/// The number of lost lines as a metric.
#[derive(Debug)]
pub(crate) struct OfLogLines(Arc<LineCounts>);

impl Collector for OfLogLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Lines of the log that were lost: they could not be written, or found no room while nothing took them";
        encode_total(&mut encoder, "log_lines_lost", help, self.0.lost.get())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    /// A wait that is longer than any delay on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The result of a write.
    type Outcome = io::Result<usize>;

    type Written = Arc<Mutex<Vec<u8>>>;

    /// An output that answers each write with the next outcome from a channel, and keeps the text that was written.
    struct FakeOut(Receiver<Outcome>, Written);

    impl Write for FakeOut {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.0.recv().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
            self.1.lock().unwrap().extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log() -> (Sender<Outcome>, Written, LogLines) {
        let (answer, answers) = channel();
        let written = Written::default();
        let log = LogLines::start(FakeOut(answers, Arc::clone(&written))).unwrap();
        (answer, written, log)
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_the_next_begins_a_line() {
        let (answer, written, mut log) = log();
        let full = || Err(io::Error::from(ErrorKind::StorageFull));
        // Only a part of the first line is written, nothing of the second, and the whole third after an interruption.
        for outcome in [Ok(3), full(), full(), Err(ErrorKind::Interrupted.into())] {
            answer.send(outcome).unwrap();
        }
        drop(answer);
        for line in ["torn\n", "lost\n", "whole\n"] {
            assert_eq!(log.write(line.as_bytes()).unwrap(), line.len());
        }
        assert!(log.flush_within(PATIENCE));
        assert_eq!(log.lost(), 2);
        assert_eq!(*written.lock().unwrap(), b"tor\nwhole\n");
    }

    #[test]
    fn an_output_that_stands_still_holds_up_no_writer_and_takes_bounded_memory() {
        let (answer, written, mut log) = log();
        let line = [b'x'; 936]; // and its entry: 1,000 bytes
        let held = MAX_WAITING / size(&line);
        for _ in 0..held + 10 {
            log.write_all(&line).unwrap();
        }
        assert_eq!(log.lost(), 10);
        assert!(!log.flush_within(Duration::ZERO));
        drop(answer);
        assert!(log.flush_within(PATIENCE));
        assert_eq!((log.lost(), written.lock().unwrap().len()), (10, held * line.len()));
        // The queue is empty, so it accepts even a line that is longer than the queue's maximum.
        log.write_all(&[b'y'; 2 * MAX_WAITING]).unwrap();
        assert!(log.flush_within(PATIENCE));
        assert_eq!(log.lost(), 10);
    }
}
