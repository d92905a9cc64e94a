//! Snapshot files that the tests make and change.

use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The offset in the file of the wall clock's reading.
const WALL_AT: usize = 32;

/// The offset in the file of the first word.
pub(crate) const WORDS_AT: usize = 336;

/// A wall time: `seconds` after a fixed time in 2026.
pub(crate) fn wall(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_790_000_000 + seconds)
}

/// CRC-64/XZ, computed bit by bit.
fn checksum(bytes: &[u8]) -> u64 {
    let mut rest = u64::MAX;
    for &byte in bytes {
        rest ^= u64::from(byte);
        for _ in 0..8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ 0xC96C_5795_D787_0F42 } else { rest >> 1 };
        }
    }
    !rest
}

/// Writes both checksums again after another part of the file was changed.
pub(crate) fn seal(file: &mut [u8]) {
    let preamble = WORDS_AT - 8;
    let of_preamble = checksum(&file[..preamble]);
    file[preamble..WORDS_AT].copy_from_slice(&of_preamble.to_le_bytes());
    let end = file.len() - 8;
    let of_all = checksum(&[&file[..preamble], &file[WORDS_AT..end]].concat());
    file[end..].copy_from_slice(&of_all.to_le_bytes());
}

/// The file as it would be if it had been written at this wall time.
pub(crate) fn at_wall(mut file: Vec<u8>, wall: SystemTime) -> Vec<u8> {
    let ns = wall.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    put(&mut file, WALL_AT, ns.try_into().unwrap());
    seal(&mut file);
    file
}

/// Replaces the number at an offset.
pub(crate) fn put(file: &mut [u8], at: usize, number: u64) {
    file[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

/// The number at an offset.
pub(crate) fn get(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap())
}

/// A hash of numbers alone that no update of a library can change: the number times an odd factor.
#[derive(Clone, Copy)]
pub(crate) struct Times(pub(crate) u64);

pub(crate) struct Product {
    factor: u64,
    product: u64,
}

impl BuildHasher for Times {
    type Hasher = Product;

    fn build_hasher(&self) -> Product {
        Product { factor: self.0, product: 0 }
    }
}

impl Hasher for Product {
    fn finish(&self) -> u64 {
        self.product
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.product = number.wrapping_mul(self.factor);
    }
}

pub(crate) const HASHER: Times = Times(0x9e37_79b9_7f4a_7c15);
