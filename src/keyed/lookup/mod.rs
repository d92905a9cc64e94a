//! A key that is there: its word is found, read by its quota, decided on and amended.

pub(in crate::keyed) mod amend;
pub(in crate::keyed) mod hit;
pub(in crate::keyed) mod price;
pub(in crate::keyed) mod slow;
