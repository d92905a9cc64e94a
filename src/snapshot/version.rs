//! The version of the format that is written and read.

/// The version of the format. A version reads only its own files. In version 1 all keys were in other shards than now,
/// and in version 2 the keys of a second tier were. Such a file does not show where a key belongs now, so its words
/// cannot be moved. In version 3 the text `sliding-window` alone meant the exact form. In version 4 tiers had no
/// options at their limits, in version 5 their words had no surplus, and in version 6 there were two hashers with seeds
/// of their own.
pub(super) const VERSION: u32 = 7;
