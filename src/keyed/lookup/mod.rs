//! Requests whose key has a word: the word is found, read in the ticks of its quota, and then charged or amended.

pub(in crate::keyed) mod amend;
pub(in crate::keyed) mod hit;
pub(in crate::keyed) mod price;
pub(in crate::keyed) mod slow;
