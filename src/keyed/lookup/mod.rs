//! Requests whose key has a word: finding the word, reading it by its quota, and deciding on it or amending it.

pub(in crate::keyed) mod amend;
pub(in crate::keyed) mod hit;
pub(in crate::keyed) mod price;
pub(in crate::keyed) mod slow;
