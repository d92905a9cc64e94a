//! What a sketch is built with: sizes, errors, and what it tells of itself.

use std::time::Duration;

use tollgate::{ManualClock, Quota, SketchError, SketchLimiter, SketchSize, Timestamp};

use super::common::policy;
use super::small;

#[test]
fn sizes_that_cannot_be_are_refused_by_name() {
    for rows in [0, 9, usize::MAX] {
        assert_eq!(SketchSize::new(rows, 10), Err(SketchError::Rows { rows }));
    }
    assert_eq!(SketchSize::new(4, 0), Err(SketchError::ZeroCells));
    let most = isize::MAX.unsigned_abs() / 8;
    assert!(SketchSize::new(1, most).is_ok());
    for (rows, cells_per_row) in [(1, most + 1), (8, most / 8 + 1), (2, usize::MAX)] {
        let error = SketchSize::new(rows, cells_per_row).unwrap_err();
        assert_eq!(error, SketchError::TooLarge { rows, cells_per_row });
    }
    assert_eq!(SketchSize::for_load(0, 1_000), Err(SketchError::ZeroLoad));
    for refused_one_in in [0, 1] {
        let error = SketchSize::for_load(10, refused_one_in).unwrap_err();
        assert_eq!(error, SketchError::Target { refused_one_in });
    }
    for (live_keys, refused_one_in) in [(usize::MAX, 2), (most, 1_000)] {
        let error = SketchSize::for_load(live_keys, refused_one_in).unwrap_err();
        assert_eq!(error, SketchError::LoadTooLarge { live_keys, refused_one_in });
    }
    // The finest target of all is met, too: 8 rows of 256 cells for one key.
    let finest = SketchSize::for_load(1, u64::MAX).unwrap();
    assert_eq!((finest.rows(), finest.cells_per_row()), (8, 256));
}

#[test]
fn the_rows_of_a_load_are_those_of_the_formula() {
    let size = |one_in| {
        let size = SketchSize::for_load(1_000, one_in).unwrap();
        (size.rows(), size.cells_per_row())
    };
    // The least d for which 4^d >= m; w = n * m^(1/d), rounded up.
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
    assert_eq!(error, SketchError::OutOfMemory { bytes: size.bytes() });
}

#[test]
fn windows_from_the_first_request_are_refused() {
    let policy = policy("fixed-window 5/m from-first");
    let error = SketchLimiter::<u64>::new(policy, small(2, 10)).unwrap_err();
    assert_eq!(error, SketchError::FromFirst { policy });
    assert_eq!(
        error.to_string(),
        "a sketch cannot keep the bound of fixed-window 5/m from-first: cells are shared, and those \
         of one key would open their windows at different times; leave out from-first, or use gcra"
    );
}

#[test]
fn errors_say_what_would_be_accepted() {
    let said = |error: Result<SketchSize, SketchError>| error.unwrap_err().to_string();
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
    for error in [said(SketchSize::new(8, usize::MAX)), said(SketchSize::for_load(usize::MAX, 9))] {
        assert!(error.ends_with("need more memory than can be addressed"), "{error}");
    }
    let error = SketchError::OutOfMemory { bytes: 64 }.to_string();
    assert_eq!(
        error,
        "the sketch's 64 bytes could not be allocated; use fewer cells or a smaller load"
    );
}

#[test]
fn a_sketch_tells_its_size_and_the_time_it_decides_at() {
    let clock = ManualClock::new();
    let limiter =
        SketchLimiter::<str>::with_clock(Quota::per_second(5), small(3, 7), clock.clone()).unwrap();
    clock.set(Timestamp::from_millis(1_234));
    assert_eq!(limiter.now(), Timestamp::from_millis(1_234));
    assert_eq!((limiter.rows(), limiter.cells_per_row(), limiter.bytes()), (3, 7, 168));
    let told = format!("{limiter:?}");
    assert!(told.starts_with("SketchLimiter { rows: 3, cells_per_row: 7, "), "{told}");
    // Every verb without a time reads the limiter's own clock.
    assert!(limiter.check("alice", 5).is_allowed() && limiter.entry("alice").is_live());
    assert!(!limiter.entry("alice").peek(1).is_allowed());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.entry("alice").peek(5).is_allowed() && !limiter.entry("alice").is_live());
}
