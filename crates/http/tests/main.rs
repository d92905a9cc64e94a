//! All tests of this crate that use what is public, as one program, so that they are linked once.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod addresses;
mod advice;
