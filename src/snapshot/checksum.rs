//! The checksum of a snapshot: CRC-64/XZ.
//!
//! The checksum protects a file against accidents: a torn write, a bad sector, a byte that was lost in a transfer. A
//! CRC of 64 bits detects every accident that changes bits only within 64 adjacent bits, such as a changed byte. It
//! detects any other accident with a probability of 1 - 2^-64. A hash would detect every accident only with this
//! probability. The checksum is not a signature: a process that can write the file can forge it.
//!
//! This CRC is defined in the XZ file format (ECMA-182's polynomial, reflected) and has a known value for a known text,
//! which is tested below. The code has twenty lines, so a dependency would be larger than the code that it would save.

/// The polynomial of ECMA-182, bits reversed.
const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

/// The remainder of each byte after eight steps of division by the polynomial.
const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut rest = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// A checksum of the bytes that were added so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checksum(u64);

impl Checksum {
    pub(super) const fn new() -> Self {
        Self(u64::MAX)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // The division proceeds byte by byte. The table is indexed by the lowest byte of the remainder combined
            // with the next byte.
            self.0 = TABLE[usize::from(self.0.to_le_bytes()[0] ^ byte)] ^ (self.0 >> 8);
        }
    }

    pub(super) fn value(self) -> u64 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(bytes: &[u8]) -> u64 {
        let mut checksum = Checksum::new();
        checksum.add(bytes);
        checksum.value()
    }

    #[test]
    fn the_known_text_has_the_known_checksum() {
        // The check value of CRC-64/XZ in the catalogue of parametrised CRC algorithms.
        assert_eq!(checksum(b"123456789"), 0x995D_C9BB_DF19_39FA);
        assert_eq!(checksum(b""), 0);
    }

    #[test]
    fn it_does_not_matter_where_the_text_is_cut() {
        let mut cut = Checksum::new();
        for part in [&b"12"[..], b"", b"3456", b"789"] {
            cut.add(part);
        }
        assert_eq!(cut.value(), checksum(b"123456789"));
    }
}
