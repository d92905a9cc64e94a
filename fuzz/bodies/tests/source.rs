//! What a failure prints can be pasted into a test: it is Rust, and means what was printed.

use std::fmt::Debug;

use tollgate_fuzz_bodies::source::*;

/// A value, and the source it was written as.
macro_rules! pasted {
    ($source:expr) => {
        ($source, stringify!($source))
    };
}

fn is_printed_as<C: Debug>((case, source): (C, &str)) {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(dense(&format!("{case:?}")), dense(source));
}

#[test]
fn bytes() {
    is_printed_as(pasted!(LogCase(b"\xff\n-\"\x00")));
    is_printed_as(pasted!(HeaderCase(b"ratelimit: \"a\";r=1\n\xff")));
    is_printed_as(pasted!(RlsCase(b"\x02\x00\n\x00")));
    is_printed_as(pasted!(JsonCase(b"{\"domain\":\"d\"}")));
    is_printed_as(pasted!(YamlCase(b"domain: d\n")));
}
