//! Building a sketch: its sizes, its errors, and the figures that it reports about itself.

use std::time::Duration;

use tollgate::{BuildError, ManualClock, Quota, SketchLimiter, SketchSize, Timestamp};

use super::small;
use crate::common::policy;

fn said(refused: Result<SketchSize, BuildError>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn sizes_that_cannot_be_are_refused_by_name() {
    for rows in [0, 9, usize::MAX] {
        let expected = format!("a sketch cannot have {rows} rows; use 1 to 8");
        assert_eq!(said(SketchSize::new(rows, 10)), expected);
    }
    let most = isize::MAX.unsigned_abs() / 8;
    assert!(SketchSize::new(1, most).is_ok());
    for (rows, cells_per_row) in [(1, most + 1), (8, most / 8 + 1), (2, usize::MAX)] {
        let expected =
            format!("{rows} rows of {cells_per_row} cells need more memory than can be addressed");
        assert_eq!(said(SketchSize::new(rows, cells_per_row)), expected);
    }
    for refused_one_in in [0, 1] {
        let error = said(SketchSize::for_load(10, refused_one_in));
        assert!(
            error.starts_with(&format!("that 1 key in {refused_one_in} may be refused")),
            "{error}"
        );
    }
    for (live_keys, refused_one_in) in [(usize::MAX, 2), (most, 1_000)] {
        let expected = format!(
            "{live_keys} live keys, of which 1 in {refused_one_in} may be refused, need more memory than \
             can be addressed"
        );
        assert_eq!(said(SketchSize::for_load(live_keys, refused_one_in)), expected);
    }
    // Even the strictest target can be met: with 8 rows of 256 cells for one key.
    let finest = SketchSize::for_load(1, u64::MAX).unwrap();
    assert_eq!((finest.rows(), finest.cells_per_row()), (8, 256));
}

#[test]
fn the_rows_of_a_load_are_those_of_the_formula() {
    let size = |one_in| {
        let size = SketchSize::for_load(1_000, one_in).unwrap();
        (size.rows(), size.cells_per_row())
    };
    // These are the formulas: d is the least number for which 4^d >= m, and w = n * m^(1/d), rounded up.
    assert_eq!(size(2), (1, 2_000));
    assert_eq!(size(4), (1, 4_000));
    assert_eq!(size(5), (2, 2_237));
    assert_eq!(size(100), (4, 3_163));
    assert_eq!(size(1_000), (5, 3_982));
    assert_eq!(size(10_000), (7, 3_728));
    assert_eq!(size(16_385), (8, 3_364));
    assert_eq!(size(1_000_000), (8, 5_624));
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let size = small(8, isize::MAX.unsigned_abs() / 64);
    let error = SketchLimiter::<u64>::new(Quota::per_second(5), size).unwrap_err();
    assert_eq!(error, BuildError::OutOfMemory { bytes: size.bytes() });
}

#[test]
fn windows_from_the_first_request_are_refused() {
    let policy = policy("fixed-window 5/m from-first");
    let error = SketchLimiter::<u64>::new(policy, small(2, 10)).unwrap_err();
    assert!(matches!(error, BuildError::Policy(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "a sketch cannot keep the bound of fixed-window 5/m from-first: cells are shared, and those \
         of one key would open their windows at different times; leave out from-first, or use gcra"
    );
}

#[test]
fn errors_say_what_would_be_accepted() {
    assert_eq!(said(SketchSize::new(0, 5)), "a sketch cannot have 0 rows; use 1 to 8");
    assert_eq!(
        said(SketchSize::new(1, 0)),
        "a row of 0 cells has none for a key; it must have at least 1"
    );
    assert_eq!(
        said(SketchSize::for_load(0, 5)),
        "a load of 0 live keys needs no sketch; it must be at least 1"
    );
    assert_eq!(
        said(SketchSize::for_load(5, 1)),
        "that 1 key in 1 may be refused is no target, any sketch would meet it; use at least 2, as in \
         1000 for 0.1 %"
    );
    let error = BuildError::OutOfMemory { bytes: 64 }.to_string();
    assert_eq!(
        error,
        "64 bytes could not be allocated; lower the capacity, a log's limit or a sketch's size"
    );
}

#[test]
fn a_sketch_tells_its_size_and_the_time_it_decides_at() {
    let clock = ManualClock::new();
    let size = small(3, 7);
    let limiter = SketchLimiter::<str>::builder(Quota::per_second(5))
        .clock(clock.clone())
        .build(size)
        .unwrap();
    clock.set(Timestamp::from_millis(1_234));
    assert_eq!(limiter.now(), Timestamp::from_millis(1_234));
    assert_eq!(limiter.size(), size);
    assert_eq!((size.rows(), size.cells_per_row(), size.bytes()), (3, 7, 168));
    let told = format!("{limiter:?}");
    assert!(told.starts_with("SketchLimiter { rows: 3, cells_per_row: 7, "), "{told}");
    // Calls without a time read the limiter's own clock.
    assert!(limiter.check_n("alice", 5).is_allowed() && limiter.entry("alice").is_live());
    assert!(!limiter.entry("alice").peek(1).is_allowed());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.entry("alice").peek(5).is_allowed() && !limiter.entry("alice").is_live());
}
