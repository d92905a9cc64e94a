//! Prepares the bytes of an input before lines are looked for: it undoes compressions, turns UTF-16 into UTF-8, and
//! leaves out the zeros that a rotated log begins with.
//!
//! The kind of a file follows from its first bytes and not from its name.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

const BUFFER_BYTES: usize = 64 << 10;

/// The maximum memory that a file of xz may ask for, in KiB. Files of all levels of the tool xz ask for less.
const XZ_KIB_MOST: u32 = 1 << 20;

/// Formats of packed files that are not unpacked here: their first bytes, the offset of these, the name, and a command
/// that unpacks them.
const REFUSED: [(&[u8], usize, &str, &str); 6] = [
    (b"PK\x03\x04", 0, "an archive of zip", "unzip -p"),
    (b"7z\xBC\xAF\x27\x1C", 0, "an archive of 7-Zip", "7z x -so"),
    (b"\x04\x22\x4D\x18", 0, "compressed with lz4", "lz4cat"),
    (b"\x1F\x9D", 0, "compressed with compress", "zcat"),
    (b"LZIP", 0, "compressed with lzip", "lzip -dc"),
    (b"ustar", 257, "an archive of tar", "tar -xOf"),
];

/// Returns the plain bytes of an input, and the names of all compressions other than gzip that were undone.
pub(super) fn unpacked(
    raw: impl Read + Send + 'static,
) -> io::Result<(Box<dyn Read + Send>, Vec<&'static str>)> {
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, raw);
    let mut told = Vec::new();
    let reader: Box<dyn Read + Send> = match raw.fill_buf()? {
        [0x1F, 0x8B, ..] => Box::new(MultiGzDecoder::new(raw)),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => {
            told.push("compressed with bzip2");
            Box::new(MultiBzDecoder::new(raw))
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => {
            told.push("compressed with xz");
            Box::new(XzReader::new_mem_limit(raw, true, XZ_KIB_MOST))
        }
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => {
            told.push("compressed with zstd");
            Box::new(Frames { raw: Some(raw), frame: None })
        }
        _ => Box::new(raw),
    };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    let start = reader.fill_buf()?;
    let is_it = |(magic, at, ..): &&(&[u8], usize, &str, &str)| {
        start.get(*at..).is_some_and(|rest| rest.starts_with(magic))
    };
    if let Some((_, _, packed, command)) = REFUSED.iter().find(is_it) {
        let text = format!(
            "it is {packed}, which is not read; unpack it, as in {command} FILE | tollgate replay -"
        );
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    let is_big = match start {
        [0xFF, 0xFE, ..] => Some(false),
        [0xFE, 0xFF, ..] => Some(true),
        // UTF-16 without a byte order mark: each of the first characters has a zero beside it.
        [1..=255, 0, 1..=255, 0, 1..=255, 0, ..] => Some(false),
        [0, 1..=255, 0, 1..=255, 0, 1..=255, ..] => Some(true),
        _ => None,
    };
    let plain: Box<dyn Read + Send> = match is_big {
        Some(is_big) => {
            told.push("UTF-16");
            Box::new(Utf16 { reader, is_big, text: Vec::new(), at: 0 })
        }
        None => Box::new(reader),
    };
    Ok((Box::new(WithoutZeros { reader: plain, at_start: true, was_zero: false }), told))
}

/// The frames of a zstd file, one after the other.
struct Frames<R: BufRead> {
    /// None while a frame is read.
    raw: Option<R>,
    frame: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame, if there is one. Skippable frames have no content and are skipped.
    fn begin(&mut self) -> io::Result<bool> {
        while let Some(mut raw) = self.raw.take() {
            let start = raw.fill_buf()?;
            if start.is_empty() {
                self.raw = Some(raw);
                return Ok(false);
            }
            if let [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] = start {
                let mut head = [0; 8];
                raw.read_exact(&mut head)?;
                let [.., a, b, c, d] = head;
                let length = u64::from(u32::from_le_bytes([a, b, c, d]));
                io::copy(&mut raw.by_ref().take(length), &mut io::sink())?;
                self.raw = Some(raw);
                continue;
            }
            let bad = |error| io::Error::new(ErrorKind::InvalidData, format!("zstd: {error}"));
            self.frame = Some(StreamingDecoder::new(raw).map_err(bad)?);
        }
        Ok(self.frame.is_some())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() && self.begin()? {
            let Some(frame) = &mut self.frame else { break };
            let read = frame.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            self.raw = self.frame.take().map(StreamingDecoder::into_inner);
        }
        Ok(0)
    }
}

/// Reads UTF-16 as UTF-8. A byte order mark at the start is kept.
struct Utf16<R> {
    reader: R,
    is_big: bool,
    text: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Utf16<R> {
    fn unit(&mut self) -> io::Result<Option<u16>> {
        let mut unit = [0; 2];
        for byte in &mut unit {
            match self.reader.fill_buf()?.first() {
                Some(&first) => *byte = first,
                None => return Ok(None),
            }
            self.reader.consume(1);
        }
        Ok(Some(if self.is_big { u16::from_be_bytes(unit) } else { u16::from_le_bytes(unit) }))
    }

    /// Decodes the next characters.
    fn fill(&mut self) -> io::Result<()> {
        let mut units = Vec::new();
        while let Some(unit) = self.unit()? {
            units.push(unit);
            // Does not stop between the two halves of a surrogate pair.
            if units.len() >= BUFFER_BYTES / 4 && !(0xD800..0xDC00).contains(&unit) {
                break;
            }
        }
        let text = char::decode_utf16(units);
        let text: String = text.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        (self.text, self.at) = (text.into_bytes(), 0);
        Ok(())
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            self.fill()?;
        }
        let read = (&self.text[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

/// Leaves out zeros at the start of a line. They come from a log that was truncated while a server kept its position in
/// the log: the system fills the gap with zeros. Several zeros within a line, as a failure of the machine leaves them,
/// end the line.
struct WithoutZeros<R> {
    reader: R,
    at_start: bool,
    was_zero: bool,
}

impl<R: Read> Read for WithoutZeros<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.reader.read(buffer)?;
            let Some(&last) = buffer[..read].last() else { return Ok(0) };
            if memchr::memchr(0, &buffer[..read]).is_none() {
                (self.at_start, self.was_zero) = (last == b'\n', false);
                return Ok(read);
            }
            let kept = self.compact(&mut buffer[..read]);
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}

impl<R> WithoutZeros<R> {
    /// Compacts the bytes in place, and returns the number that is left.
    fn compact(&mut self, bytes: &mut [u8]) -> usize {
        let mut kept = 0;
        for at in 0..bytes.len() {
            let mut byte = bytes[at];
            let is_run = self.was_zero || bytes.get(at + 1) == Some(&0);
            self.was_zero = byte == 0;
            if byte == 0 && self.at_start {
                continue;
            }
            if byte == 0 && is_run {
                byte = b'\n';
            }
            bytes[kept] = byte;
            kept += 1;
            self.at_start = byte == b'\n';
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (String, Vec<&'static str>) {
        let (mut reader, told) = unpacked(io::Cursor::new(bytes.to_vec())).expect("it is read");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        (text, told)
    }

    #[test]
    fn zeros_at_the_start_of_a_line_are_no_part_of_it() {
        let zeros = "\0".repeat(3 * BUFFER_BYTES + 1);
        for (text, expected) in [
            (format!("{zeros}a\nb\n"), "a\nb\n"),
            (format!("a\n{zeros}b"), "a\nb"),
            (format!("a{zeros}b\n"), "a\nb\n"),
            ("a\0b\n".to_owned(), "a\0b\n"),
            (zeros.clone(), ""),
        ] {
            assert_eq!(read(text.as_bytes()).0, expected);
        }
    }

    #[test]
    fn utf_16_is_read_in_both_orders_with_a_mark_or_without() {
        let text = "203.0.113.21 \u{e4}\u{1F600}\n".repeat(20_000);
        for mark in ["\u{FEFF}", ""] {
            let units: Vec<u16> = format!("{mark}{text}").encode_utf16().collect();
            let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
            for bytes in [little, big] {
                assert!(read(&bytes) == (format!("{mark}{text}"), vec!["UTF-16"]));
            }
        }
    }

    #[test]
    fn frames_of_zstd_are_read_one_behind_the_other() {
        // The text has two frames of "a\n" without compression, and between them a frame that is to be skipped.
        let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 2, 0x11, 0, 0, b'a', b'\n'];
        let skipped = [0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 9, 9, 9];
        let text = [&frame[..], &skipped, &frame].concat();
        assert_eq!(read(&text), ("a\na\n".to_owned(), vec!["compressed with zstd"]));
    }

    #[test]
    fn what_cannot_be_unpacked_is_named_with_what_can() {
        let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
        for (bytes, told) in [
            (
                &b"PK\x03\x04...."[..],
                "it is an archive of zip, which is not read; unpack it, as in unzip -p FILE |",
            ),
            (
                &tar,
                "it is an archive of tar, which is not read; unpack it, as in tar -xOf FILE | tollgate",
            ),
        ] {
            let error =
                unpacked(io::Cursor::new(bytes.to_vec())).err().map(|error| error.to_string());
            assert!(error.as_deref().is_some_and(|error| error.starts_with(told)), "{error:?}");
        }
    }
}
