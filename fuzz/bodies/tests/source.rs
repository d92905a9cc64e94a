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
fn requests_of_one_limit() {
    is_printed_as(pasted!(GcraCase {
        quota: QuotaCase { count: Small(7), period: Odd(1000000007), burst: Some(One) },
        steps: Steps(vec![
            Step { span: Thousandths(500), fine: -1, backward: true, cost: RestAndOne },
            Step { span: To(4102444800000000000), fine: 0, backward: false, cost: AnyCost(3) },
        ])
    }));
    is_printed_as(pasted!(WindowCase {
        shape: Segmented(4),
        limit: Huge(9),
        period: Day,
        steps: Steps(vec![Step { span: ToRetry, fine: 1, backward: false, cost: Whole },])
    }));
}

#[test]
fn requests_of_keys() {
    is_printed_as(pasted!(LayoutCase {
        policy: Gcra(QuotaCase { count: Large(50000000), period: Second, burst: None }),
        start_ns: 1790000000000000000,
        steps: Steps(vec![Step { span: Turns(1), fine: 0, backward: false, cost: Rest },])
    }));
    is_printed_as(pasted!(KeyedCase {
        policy: Window { shape: FromFirst, limit: Medium(300), period: Minutes(90) },
        capacity: 3,
        own_clock: false,
        ops: Steps(vec![
            Crowd { first: 0, keys: 19, cost: Single },
            Back { span: EpochEighths(9), fine: 0 },
            Peek { key: 2, cost: Units(2) },
        ])
    }));
}

#[test]
fn requests_of_a_sketch() {
    is_printed_as(pasted!(SketchCase {
        policy: Window { shape: Strict, limit: Small(3), period: Minute },
        rows: 3,
        cells: 16,
        ops: Steps(vec![Check { key: 7, cost: Rest }, Back { span: Thousandths(300), fine: -1 },])
    }));
}

#[test]
fn snapshots() {
    is_printed_as(pasted!(Whatever(Bytes(b"TOLLGATE\x01"))));
    is_printed_as(pasted!(Changed {
        table: KeyedCase {
            policy: Gcra(QuotaCase { count: One, period: Second, burst: None }),
            capacity: 3,
            own_clock: false,
            ops: Steps(vec![Check { key: 1, cost: Single },])
        },
        keep: Some(300),
        sealed: true,
        edits: Bytes(b"\x01\x00\xff")
    }));
}

#[test]
fn text_and_bytes() {
    is_printed_as(pasted!(TextCase("10/\"fort\\night\"")));
    is_printed_as(pasted!(LogCase(b"\xff\n-\"\x00")));
    is_printed_as(pasted!(HeaderCase(b"ratelimit: \"a\";r=1\n\xff")));
}
