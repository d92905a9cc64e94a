//! Inputs as blocks of whole lines: files, standard input, compressed or plain.
//!
//! Blocks are the unit of parallel parsing. They also bound the memory: each thread has one block, whose buffer is
//! reused for the next block, and no text outlives its block.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::unpack::unpacked;
use super::wrapped::unwrap;
use crate::failure::Failure;

/// The size of a block, and so the maximum length of a line. It is so large that reading and handing over a block costs
/// little beside parsing it, and so small that a second core has work in a small file.
const BLOCK_BYTES: usize = 2 << 20;

/// A piece of an input that ends at the end of a line.
#[derive(Debug)]
pub(crate) struct Block {
    /// The index of the block in its input.
    pub(crate) index: usize,
    buffer: Vec<u8>,
    lines: Range<usize>,
}

impl Block {
    /// Takes the lines out of a collector's objects.
    pub(crate) fn unwrap(&mut self) {
        let length = unwrap(&mut self.buffer[self.lines.clone()]);
        self.lines.end = self.lines.start + length;
    }

    /// Returns the lines.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.lines.clone()]
    }
}

/// The state that all inputs of a run share: buffers, progress, and a request to stop.
#[derive(Debug)]
pub(crate) struct Sources {
    spare: Mutex<Vec<Vec<u8>>>,
    progress: ProgressBar,
    stopped: AtomicBool,
}

impl Sources {
    /// Opens every file before the first is read, so that a misspelled name fails at once.
    pub(crate) fn new(files: &[String]) -> Result<Self, Failure> {
        let mut total = Some(0);
        for file in files {
            if file == "-" {
                total = None;
                continue;
            }
            let metadata = std::fs::metadata(file)
                .map_err(|error| Failure::Unreadable { file: file.clone(), error })?;
            total = total.map(|sum| sum + metadata.len());
        }
        Ok(Self {
            spare: Mutex::default(),
            progress: progress(total),
            stopped: AtomicBool::new(false),
        })
    }

    /// Opens one of the inputs.
    pub(crate) fn open(&self, file: &str) -> io::Result<Blocks<'_>> {
        let raw: Box<dyn Read + Send> =
            if file == "-" { Box::new(io::stdin()) } else { Box::new(File::open(file)?) };
        let (reader, packed) = unpacked(self.progress.wrap_read(raw))?;
        self.progress.suspend(|| {
            for packed in packed {
                // If standard error is closed, the text is lost.
                let _ = writeln!(
                    io::stderr(),
                    "note: {file} is {packed}; it is read as the text that it has"
                );
            }
        });
        Ok(Blocks {
            sources: self,
            reader,
            carry: Vec::new(),
            index: 0,
            state: SourceState::Reading,
        })
    }

    /// Returns the buffer of a block, for the next block.
    pub(crate) fn recycle(&self, block: Block) {
        // A buffer is valid even if a thread has panicked while it held the lock.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(block.buffer);
    }

    /// Ends every input after the part that has been read.
    pub(crate) fn stop(&self) {
        // Relaxed: the flag publishes no other data, and a reader may see it late.
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.progress.finish_and_clear();
    }

    /// Returns whether the inputs were stopped before their ends.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) // Relaxed: see `stop`
    }

    fn buffer(&self) -> Vec<u8> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| vec![0; BLOCK_BYTES])
    }
}

/// Makes Ctrl-C end the inputs, so that there is a report of what was read. If the handler cannot be installed, the run
/// still starts, and Ctrl-C ends it without a report.
pub(crate) fn end_by_interrupt(sources: &Arc<Sources>) {
    let shared = Arc::clone(sources);
    let _ = ctrlc::set_handler(move || shared.stop());
}

/// Returns the progress bar. It is drawn on standard error, and only on a terminal.
fn progress(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(bytes) => {
            (ProgressBar::new(bytes), "{wide_bar} {binary_bytes}/{binary_total_bytes} {eta}")
        }
        None => (ProgressBar::no_length(), "{spinner} {binary_bytes} read, {binary_bytes_per_sec}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    // The templates are constant; for an invalid one the library's own bar is shown.
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

#[derive(Debug, PartialEq, Eq)]
enum SourceState {
    Reading,
    /// Inside a line that filled a block. The beginning of the line was returned, and its rest is skipped.
    Skipping,
    Ended,
}

/// The blocks of one input, in their order.
pub(crate) struct Blocks<'s> {
    sources: &'s Sources,
    reader: Box<dyn Read + Send>,
    /// The beginning of a line that did not end in the last block.
    carry: Vec<u8>,
    index: usize,
    state: SourceState,
}

impl Iterator for Blocks<'_> {
    type Item = io::Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.state != SourceState::Ended {
            match self.read_block() {
                Ok(Some(block)) => return Some(Ok(block)),
                Ok(None) => {}
                Err(error) => {
                    self.state = SourceState::Ended;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Blocks<'_> {
    /// Reads the next block; returns none if there are no more lines.
    fn read_block(&mut self) -> io::Result<Option<Block>> {
        let mut buffer = self.sources.buffer();
        buffer[..self.carry.len()].copy_from_slice(&self.carry);
        let mut filled = self.carry.len();
        self.carry.clear();
        let skipping = self.state == SourceState::Skipping;
        let mut at_end = false;
        while filled < buffer.len() && !at_end && !self.sources.is_stopped() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => at_end = true,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut lines = 0..filled;
        if skipping {
            // If the long line does not end here either, all of the buffer is skipped.
            lines.start = memchr::memchr(b'\n', &buffer[..filled]).map_or(filled, |end| end + 1);
        }
        if at_end {
            self.state = SourceState::Ended;
        } else {
            match memchr::memrchr(b'\n', &buffer[..filled]) {
                Some(end) => {
                    lines.end = end + 1;
                    self.carry.extend_from_slice(&buffer[lines.end..filled]);
                    self.state = SourceState::Reading;
                }
                None => self.state = SourceState::Skipping,
            }
        }
        if self.sources.is_stopped() {
            self.state = SourceState::Ended; // the rest of the last line is not read
        }
        let block = Block { index: self.index, buffer, lines };
        if block.lines.is_empty() {
            self.sources.recycle(block);
            return Ok(None);
        }
        self.index += 1;
        Ok(Some(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the blocks of an input that arrives in pieces of `piece` bytes.
    fn blocks(input: &[u8], piece: usize) -> Vec<Vec<u8>> {
        struct Pieces<'i>(&'i [u8], usize);
        impl Read for Pieces<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let (now, later) = self.0.split_at(self.0.len().min(self.1).min(buffer.len()));
                buffer[..now.len()].copy_from_slice(now);
                self.0 = later;
                Ok(now.len())
            }
        }
        let sources = Sources::new(&[]).expect("no file, no failure");
        let blocks = Blocks {
            sources: &sources,
            reader: Box::new(Pieces(Vec::leak(input.to_vec()), piece)),
            carry: Vec::new(),
            index: 0,
            state: SourceState::Reading,
        };
        blocks
            .map(|block| {
                let block = block.expect("memory can be read");
                let bytes = block.bytes().to_vec();
                sources.recycle(block);
                bytes
            })
            .collect()
    }

    #[test]
    fn blocks_hold_whole_lines_and_lose_nothing() {
        let line = b"0123456789 0123456789 0123456789\n";
        let input = line.repeat(3 * BLOCK_BYTES / line.len());
        for piece in [1 << 30, 4_093] {
            let blocks = blocks(&input, piece);
            assert!(blocks.len() >= 3);
            assert!(blocks.iter().all(|block| block.len() % line.len() == 0));
            assert!(blocks.concat() == input);
        }
    }

    #[test]
    fn the_last_line_needs_no_newline() {
        assert_eq!(blocks(b"one\ntwo", 2), [b"one\ntwo"]);
        assert_eq!(blocks(b"", 2), [[0; 0]; 0]);
    }

    #[test]
    fn a_line_longer_than_a_block_is_cut_and_what_follows_is_read() {
        for long in [BLOCK_BYTES, 2 * BLOCK_BYTES - 4, 5 * BLOCK_BYTES / 2] {
            let input = [b"a\n", &vec![b'x'; long][..], b"\nb\nc"].concat();
            let blocks = blocks(&input, 70_000);
            let text = blocks.join(&b'\n'); // a cut block has no newline of its own
            let lines: Vec<_> = text.split(|&b| b == b'\n').filter(|l| !l.is_empty()).collect();
            assert_eq!(lines[0], b"a");
            assert!(lines[1].len() <= BLOCK_BYTES && lines[1].iter().all(|&b| b == b'x'));
            assert_eq!(lines[lines.len() - 2..], [b"b", b"c"], "{long}");
        }
    }
}
