//! A hash as a place.

/// Maps a hash evenly to `0..places`: the high half of the product.
#[expect(clippy::cast_possible_truncation, reason = "below `places`, which is a usize")]
#[inline]
pub(crate) fn scale(hash: u64, places: usize) -> usize {
    ((u128::from(hash) * places as u128) >> 64) as usize
}
