//! Which version of the format is written and read.

/// The version of the format. A version reads itself and no other: in version 1 keys lived in other shards, and in
/// version 2 those of a second tier. A file does not tell them apart from these, and its words cannot be moved without
/// their keys. In version 3 the text `sliding-window` without more words was the exact one. In
/// version 4 tiers said nothing of their limits, in version 5 their words had no surplus, and in version 6 there were two
/// hashers with seeds of their own.
pub(super) const VERSION: u32 = 7;
