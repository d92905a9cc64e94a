//! Finds requests in the bytes that a client has sent, and the positions of their words, without copying.
//!
//! A request is an array of bulk strings, or one line of words (an *inline* request, as typed in telnet). All other
//! frames come only from servers. The parsers of libraries read every kind of frame into a tree. The parser of
//! `redis-protocol` 6 is recursive, so 40 kB of `*1\r\n` overflow the 2 MiB stack of a worker. No library's parser
//! reads inline requests. The parser here allocates nothing for a request, and accepts only one level of arrays. It
//! takes a third to a half of the time of `redis-protocol`, and a fifteenth of the time of `redis`, which copies every
//! word.

use std::fmt;
use std::ops::Range;

/// The maximum number of words of a request, its command included. The largest descriptor has 32 entries, and needs 67
/// words.
pub(super) const MAX_WORDS: usize = 128;

/// The maximum size of a request: enough for the largest keys and values that rules accept, and their framing.
pub(super) const MAX_REQUEST_BYTES: usize = 72 << 10;

/// The maximum length of an inline request.
const MAX_INLINE_BYTES: usize = 4 << 10;

/// The maximum length of a line that announces a length: enough for a sign and the digits of 64 bits.
const MAX_LENGTH_LINE: usize = 24;

/// Bytes that are not a request. The connection has to end, because nothing shows where the next request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolError {
    /// The length of an array is not a number, or too large.
    ArrayLength,
    /// The length of a bulk string is not a number, negative, or too large.
    BulkLength,
    /// An array contains something other than a bulk string.
    NoBulk(u8),
    /// A bulk string does not end where its length says.
    BulkEnd,
    TooLarge,
    InlineTooLong,
    /// An inline request contains quotes. This parser does not read quoted words.
    InlineQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::ArrayLength => {
                write!(f, "invalid multibulk length; a request has at most {MAX_WORDS} words")
            }
            Self::BulkLength => {
                write!(f, "invalid bulk length; a request has at most {MAX_REQUEST_BYTES} bytes")
            }
            Self::NoBulk(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::BulkEnd => f.write_str("a bulk string does not end where its length says"),
            Self::TooLarge => write!(f, "a request has at most {MAX_REQUEST_BYTES} bytes"),
            Self::InlineTooLong => {
                write!(f, "too big inline request; it has at most {MAX_INLINE_BYTES} bytes")
            }
            Self::InlineQuotes => {
                f.write_str("an inline request takes no quotes; send an array of bulk strings")
            }
        }
    }
}

/// The positions of a request's words, which are its command and its arguments. The vector is kept with the connection,
/// so that a request allocates nothing.
#[derive(Debug, Default)]
pub(super) struct WordPlaces(Vec<Range<usize>>);

/// The words of a request, one after the other.
#[derive(Clone, Debug)]
pub(super) struct RequestWords<'a> {
    bytes: &'a [u8],
    places: std::slice::Iter<'a, Range<usize>>,
}

impl<'a> Iterator for RequestWords<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.places.next().map(|place| &self.bytes[place.clone()])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl ExactSizeIterator for RequestWords<'_> {}

impl WordPlaces {
    /// The words of the request that `find` has found. `bytes` must be the same bytes as for `find`.
    pub(super) fn words<'a>(&'a self, bytes: &'a [u8]) -> RequestWords<'a> {
        RequestWords { bytes, places: self.0.iter() }
    }

    /// Finds the first request; returns the number of its bytes, or `None` if its end has not arrived yet. A request
    /// may have no words; the caller must skip it.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        self.0.clear();
        let found = match bytes.first() {
            None => return Ok(None),
            Some(b'*') => self.array(bytes)?,
            Some(_) => self.inline(bytes)?,
        };
        let begun = found.unwrap_or(bytes.len());
        if begun > MAX_REQUEST_BYTES { Err(ProtocolError::TooLarge) } else { Ok(found) }
    }

    fn array(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let found = announced(bytes, 1, ProtocolError::ArrayLength)?;
        let Some((length, mut at)) = found else { return Ok(None) };
        // An empty array has no words. An array of negative length, which Redis calls null, is treated as empty.
        let length = usize::try_from(length).unwrap_or(0);
        if length > MAX_WORDS {
            return Err(ProtocolError::ArrayLength);
        }
        for _ in 0..length {
            match bytes.get(at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(&other) => return Err(ProtocolError::NoBulk(other)),
            }
            let found = announced(bytes, at + 1, ProtocolError::BulkLength)?;
            let Some((size, begin)) = found else { return Ok(None) };
            let size = usize::try_from(size).map_err(|_| ProtocolError::BulkLength)?;
            if size > MAX_REQUEST_BYTES {
                return Err(ProtocolError::BulkLength);
            }
            let end = begin + size;
            match bytes.get(end..end + 2) {
                None => return Ok(None),
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::BulkEnd),
            }
            self.0.push(begin..end);
            at = end + 2;
        }
        Ok(Some(at))
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let within = &bytes[..bytes.len().min(MAX_INLINE_BYTES)];
        let Some(end) = within.iter().position(|&byte| byte == b'\n') else {
            let is_too_long = within.len() == MAX_INLINE_BYTES;
            return if is_too_long { Err(ProtocolError::InlineTooLong) } else { Ok(None) };
        };
        let line = &bytes[..end];
        if line.iter().any(|byte| b"\"'".contains(byte)) {
            return Err(ProtocolError::InlineQuotes);
        }
        let mut begin = 0;
        for word in line.split(u8::is_ascii_whitespace) {
            if !word.is_empty() {
                if self.0.len() == MAX_WORDS {
                    return Err(ProtocolError::ArrayLength);
                }
                self.0.push(begin..begin + word.len());
            }
            begin += word.len() + 1;
        }
        Ok(Some(end + 1))
    }
}

/// Reads the number that begins at `at`, and the position after its line; `None` if the end of the line has not arrived
/// yet.
fn announced(
    bytes: &[u8],
    at: usize,
    error: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let rest = &bytes[at..];
    let within = &rest[..rest.len().min(MAX_LENGTH_LINE)];
    let Some(end) = within.iter().position(|&byte| byte == b'\n') else {
        return if within.len() == MAX_LENGTH_LINE { Err(error) } else { Ok(None) };
    };
    let digits = rest[..end].strip_suffix(b"\r").ok_or(error)?;
    Ok(Some((integer(digits).ok_or(error)?, at + end + 1)))
}

/// A whole number in the form that Redis writes: digits, which may follow a minus.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    // The number is built up as a negative number, because `i64::MIN` has no positive counterpart.
    let least = digits.iter().try_fold(0_i64, |number, &digit| {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        (digit < 10).then_some(())?;
        number.checked_mul(10)?.checked_sub(digit)
    })?;
    if is_negative { Some(least) } else { least.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(bytes: &[u8]) -> Result<Option<(usize, Vec<String>)>, ProtocolError> {
        let mut places = WordPlaces::default();
        let found = places.find(bytes)?;
        let words = || places.words(bytes).map(|word| String::from_utf8_lossy(word).into_owned());
        Ok(found.map(|size| (size, words().collect())))
    }

    #[test]
    fn an_array_of_bulk_strings_is_a_request_once_its_end_is_there() {
        let request = b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$4\r\na\r\nb\r\n";
        for end in 0..request.len() {
            assert_eq!(find(&request[..end]), Ok(None), "{end} bytes");
        }
        let words = ["ECHO", "", "a\r\nb"].map(str::to_owned).to_vec();
        assert_eq!(find(request), Ok(Some((request.len(), words.clone()))));
        let two = [&request[..], b"*1\r\n"].concat();
        assert_eq!(find(&two), Ok(Some((request.len(), words))));
    }

    #[test]
    fn a_line_of_words_is_a_request_too() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(find(b"PING"), Ok(None));
        assert_eq!(find(b"PING\r\n"), Ok(Some((6, words(&["PING"])))));
        assert_eq!(find(b"  ECHO \t x\nPING"), Ok(Some((11, words(&["ECHO", "x"])))));
        assert_eq!(find(b"\r\n"), Ok(Some((2, words(&[])))));
        assert_eq!(find(b"ECHO \"x\"\r\n"), Err(ProtocolError::InlineQuotes));
        assert_eq!(find(&[b'x'; MAX_INLINE_BYTES - 1]), Ok(None));
        assert_eq!(find(&[b'x'; MAX_INLINE_BYTES]), Err(ProtocolError::InlineTooLong));
        let words = "x ".repeat(MAX_WORDS);
        assert!(matches!(find(format!("{words}\r\n").as_bytes()), Ok(Some(_))));
        let more = format!("{words}x\r\n");
        assert_eq!(find(more.as_bytes()), Err(ProtocolError::ArrayLength));
    }

    #[test]
    fn what_is_no_request_says_why() {
        use ProtocolError::{ArrayLength, BulkEnd, BulkLength, NoBulk, TooLarge};
        for (bytes, error) in [
            (&b"*x\r\n"[..], ArrayLength),
            (b"*129\r\n", ArrayLength),
            (b"*9223372036854775808\r\n", ArrayLength),
            (b"*1\n", ArrayLength),
            (b"*000000000000000000000000", ArrayLength),
            (b"*1\r\n$x\r\n", BulkLength),
            (b"*1\r\n$-1\r\n", BulkLength),
            (b"*1\r\n$73729\r\n", BulkLength),
            (b"*1\r\n*1\r\n", NoBulk(b'*')),
            (b"*1\r\n:1\r\n", NoBulk(b':')),
            (b"*1\r\n$1\r\nab\r\n", BulkEnd),
        ] {
            assert_eq!(find(bytes), Err(error), "{}", bytes.escape_ascii());
        }
        for bytes in ["*0\r\n", "*-1\r\n"] {
            assert_eq!(find(bytes.as_bytes()), Ok(Some((bytes.len(), Vec::new()))));
        }
        let half = |size| format!("${size}\r\n{}\r\n", "x".repeat(size));
        let whole = format!("*2\r\n{}{}", half(36_000), half(36_000));
        assert!(matches!(find(whole.as_bytes()), Ok(Some(_))));
        let larger = format!("*2\r\n{}{}", half(36_000), half(37_800));
        assert_eq!(find(larger.as_bytes()), Err(TooLarge));
        assert_eq!(find(&larger.as_bytes()[..MAX_REQUEST_BYTES + 1]), Err(TooLarge));
    }

    #[test]
    fn a_number_is_digits_and_fits_64_bits() {
        for (text, number) in [("0", 0), ("-1", -1), ("007", 7), ("9223372036854775807", i64::MAX)]
        {
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        for text in ["", "-", "+1", "1 ", "1.0", "9223372036854775808", "-9223372036854775809", "x"]
        {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }
}
