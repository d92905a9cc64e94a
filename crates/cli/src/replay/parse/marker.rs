//! [`Marker`]: the text that ends a field, and the search for it.
//!
//! Fields are short, and so are the texts between them. The searches of memchr are made for long texts; with them,
//! searching took half of the time that reading a line took.

/// A text to search for. It is not empty.
#[derive(Clone, Debug)]
pub(super) struct Marker {
    text: Box<[u8]>,
    /// The index of the byte that is searched for, which should be rare in fields.
    anchor: usize,
}

/// The number of bytes that are searched here, eight at a time, before memchr searches the rest.
const NEAR: usize = 32;

impl Marker {
    /// None if the text is empty.
    pub(super) fn new(text: &[u8]) -> Option<Self> {
        let rarity = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'/' | b':' => 2,
            b' ' => 1,
            _ => 0,
        };
        let anchor = (0..text.len()).min_by_key(|&index| rarity(text[index]))?;
        Some(Self { text: text.into(), anchor })
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the index of the marker's first occurrence.
    #[inline]
    pub(super) fn find(&self, within: &[u8]) -> Option<usize> {
        let mut from = self.anchor;
        loop {
            let found = from + find_byte(self.text[self.anchor], within.get(from..)?)?;
            let start = found - self.anchor;
            let there = within.get(start..start + self.text.len())?;
            // Compares byte by byte, because calling a function that compares slices would take longer.
            if self.text.iter().zip(there).all(|(one, other)| one == other) {
                return Some(start);
            }
            from = found + 1;
        }
    }
}

#[inline]
fn find_byte(byte: u8, within: &[u8]) -> Option<usize> {
    // A quote ends a quoted text, which is usually long: memchr is faster there.
    if byte == b'"' {
        return memchr::memchr(byte, within);
    }
    const ONES: u64 = 0x0101_0101_0101_0101;
    let sought = ONES * u64::from(byte);
    let mut from = 0;
    while let Some(word) = within.get(from..from + 8).filter(|_| from < NEAR) {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        // A byte of `differs` is zero where `word` has the sought byte. The subtraction below borrows in such bytes. It
        // may also borrow in a byte above one of them, but the lowest byte that borrows always has the sought byte.
        let differs = word ^ sought;
        let found = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if found != 0 {
            return Some(from + found.trailing_zeros() as usize / 8);
        }
        from += 8;
    }
    memchr::memchr(byte, &within[from..]).map(|index| from + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_found_where_it_first_is() {
        let long = format!("{}] \"x\"] \"", "a]b ".repeat(20));
        for (text, within, expected) in [
            (" [", "- - [x [", Some(3)),
            (" [", "a[ [", Some(2)),
            (" [", "[", None),
            ("] \"", long.as_str(), Some(80)),
            ("\" \"", "a\" b\" \"", Some(4)),
            ("ms", "12ms", Some(2)),
            ("ab", "aab", Some(1)),
            (" ", "", None),
            ("abc", "ab", None),
        ] {
            let marker = Marker::new(text.as_bytes()).expect("it is not empty");
            assert_eq!(marker.find(within.as_bytes()), expected, "{text:?} in {within:?}");
        }
        assert!(Marker::new(b"").is_none());
    }
}
