//! The source that a failure prints can be pasted into a test: it is valid Rust for the case that was printed.

use tollgate_fuzz_bodies::source::*;
use tollgate_model::assert_pasted;

#[test]
fn bytes() {
    assert_pasted!(LogCase(b"\xff\n-\"\x00"));
    assert_pasted!(HeaderCase(b"ratelimit: \"a\";r=1\n\xff"));
    assert_pasted!(RlsCase(b"\x02\x00\n\x00"));
    assert_pasted!(JsonCase(b"{\"domain\":\"d\"}"));
    assert_pasted!(YamlCase(b"domain: d\n"));
}
