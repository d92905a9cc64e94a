//! The version of the format that is written and read.

/// The version of the format. A version reads only its own files. In version 1 all keys were in other shards than now,
/// and in version 2 the keys of a second tier were. Such a file does not show to which shard a key belongs now, so its
/// words cannot be moved to that shard. In version 3 the text `sliding-window` meant the exact form. In version 4 tiers
/// had no options for their limits, in version 5 the words of tiers had no surplus, and in version 6 there were two
/// hashers with separate seeds.
pub(super) const VERSION: u32 = 7;
