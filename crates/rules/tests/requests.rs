//! Requests that say too little or too much, and random requests.

use crate::common::{World, over_and_left};
use tollgate_rules::{Descriptor, Request, RequestError};

const SHOP: &str = "
domain: another
descriptors:
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 10}}
";

#[test]
fn requests_that_say_nothing_or_too_much_are_refused() {
    let world = World::new(SHOP);
    let one = [Descriptor::new(&[("key3", "x")])];
    let error = |request: &Request<'_>| world.ask(request).expect_err("a bad request");
    assert_eq!(error(&Request::new("", &one)), RequestError::EmptyDomain);
    assert_eq!(error(&Request::new("another", &[])), RequestError::NoDescriptors);
    assert!(world.ask(&Request::new("another", &[one[0]; 100])).is_ok());
    for found in [101, 10_000] {
        let expected = RequestError::TooManyDescriptors { found, most: 100 };
        assert_eq!(error(&Request::new("another", &vec![one[0]; found])), expected);
    }
    let entries = vec![("k", "v"); 10_000];
    let descriptors = [Descriptor::new(&entries)];
    let expected = RequestError::TooManyEntries { found: 10_000, most: 32 };
    assert_eq!(error(&Request::new("another", &descriptors)), expected);
    let long = "x".repeat(1 << 20);
    let entries = [("key3", long.as_str())];
    let descriptors = [Descriptor::new(&entries)];
    let found = "another".len() + "key3".len() + (1 << 20);
    let expected = RequestError::TooManyBytes { found, most: 1 << 20 };
    assert_eq!(error(&Request::new("another", &descriptors)), expected);
}

/// Row 129 of the bad inputs: an answer reports only what is left for the key that was asked.
#[test]
fn row_129_values_of_any_bytes_are_values_and_no_two_are_one() {
    let world = World::new(SHOP);
    let similar = ["busy", "busy ", "Busy", "bus"];
    for value in ["", "\0", "\u{1b}[31m", "a\r\nb", "\u{202e}", "*"].into_iter().chain(similar) {
        let left = |answer| over_and_left(&answer);
        assert_eq!(left(world.check("another", &[&[("key3", value)]])), [(false, 9)], "{value:?}");
    }
}
