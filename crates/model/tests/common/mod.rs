//! Helpers that the drivers share.
#![allow(dead_code, reason = "each driver uses a part of it")]
#![allow(unreachable_pub, reason = "each driver includes this module for itself")]

use std::fmt::Debug;

use ahash::RandomState;
use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::*;
use tollgate::Policy;

/// Parses the text of a valid policy.
pub fn policy(text: &str) -> Policy {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Two hashes that place keys alike on every run.
pub fn seeds() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

/// A value made from random bytes, as a fuzzer makes it.
pub fn drawn<T: for<'b> Arbitrary<'b> + Debug>() -> impl Strategy<Value = T> {
    prop::collection::vec(any::<u8>(), 48).prop_map(|bytes| {
        T::arbitrary(&mut Unstructured::new(&bytes)).expect("any bytes stand for something")
    })
}
