//! The version of the format that is written and read.

/// The version of the format. A version reads only its own files. Version 1 had all keys in other shards than now, and
/// version 2 had the keys of a second tier in other shards. Such a file does not show to which shard a key belongs now,
/// so its words cannot be moved. In version 3 the text `sliding-window` meant the exact form. In version 4 tiers had no
/// options for their limits, in version 5 the words of tiers had no surplus, and in version 6 there were two hashers
/// with separate seeds.
pub(super) const VERSION: u32 = 7;
