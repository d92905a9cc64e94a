//! Tests of [`store`](super).

use std::collections::HashSet;

use super::*;
use crate::hash::Tag;

fn plan(text: &str, shards: usize) -> (Policy, Layout, Option<Spill>) {
    let policy: Policy = text.parse().expect("a policy");
    let layout = Layout::plan(&policy).expect("a layout");
    let spill = Spill::new(policy, &layout, shards).expect("little memory");
    (policy, layout, spill)
}

#[test]
fn a_key_has_the_same_cells_whichever_of_its_shards_is_home() {
    let (_, layout, spill) = plan("gcra 1/s burst 10", 100_000);
    let spill = spill.expect("a spill");
    let mut all = HashSet::new();
    for number in 1..10_000_u64 {
        let tag = Tag::from_bits(number << layout.division.state_bits);
        for [one, other] in [[0, 2], [3, 5], [4_711, 99_999]] {
            let places = spill.places(Identity { first: one, tag }, other, 0);
            assert_eq!(places, spill.places(Identity { first: other, tag }, one, 0));
            let siblings = [one ^ 1, other ^ 1];
            let identity = Identity { first: siblings[0], tag };
            assert_eq!(places, spill.places(identity, siblings[1], 0));
            all.insert(format!("{places:?}"));
        }
    }
    // Each row has 50,000 cells. In one of six such tables, two of the 30,000 keys share both of their cells.
    assert!(all.len() >= 3 * 9_999 - 2, "{}", all.len());
}

#[test]
fn rows_are_filled_evenly() {
    let (_, layout, spill) = plan("gcra 1/s burst 10", 2_048);
    let spill = spill.expect("a spill");
    let mut counts = vec![0_i64; 2_048];
    for number in 0..262_144_u64 {
        let identity = Identity {
            first: 2 * (number % 64) as usize,
            tag: Tag::from_bits((number / 64 + 1) << layout.division.state_bits),
        };
        for &cell in spill.places(identity, 1_000, 0).cells() {
            counts[cell] += 1;
        }
    }
    // A cell has 256 keys on average. In each row chi-square lies within 6 standard deviations of its mean.
    for row in counts.chunks(1_024) {
        let squares: i64 = row.iter().map(|count| (count - 256).pow(2)).sum();
        let (degrees, chi_square) = (1_023.0, squares as f64 / 256.0);
        assert!((chi_square - degrees).abs() < 6.0 * (2.0_f64 * degrees).sqrt(), "{chi_square}");
    }
}

#[test]
fn the_sketch_counts_as_the_table_does_where_it_can() {
    for (text, is_same) in [
        ("gcra 10/m burst 10", true),
        ("gcra 1/d burst 1000", true),
        ("gcra 1000000/s burst 50000", true),
        // One unit takes a nanosecond. The sketch's finest tick is half a nanosecond, since the ticks until 2100 must
        // stay below 2^63.
        ("gcra 1000000000/s burst 50000", false),
        ("fixed-window 100/m", true),
        ("sliding-window 100/m strict", true),
        ("segmented-window 20/m x4", true),
        ("segmented-window 31/m x6", true),
        ("segmented-window 100/m x6", true),
    ] {
        let (_, layout, spill) = plan(text, 2);
        let spill = spill.expect("a spill");
        let SpillWords::One(lens) = spill.words else { panic!("one quota") };
        assert_eq!(lens.kernel == layout.kernel, is_same, "{text}");
    }
    assert!(plan("fixed-window 5/m from-first", 2).2.is_none());
}

#[test]
fn a_mark_only_grows_and_is_seldom_written() {
    let (.., spill) = plan("gcra 1/s burst 10", 1_000);
    let spill = spill.expect("a spill");
    let identity = Identity { first: 700, tag: Tag::from_bits(1 << 40) };
    let mark = spill.mark(identity, 70);
    assert!(std::ptr::eq(mark, spill.mark(Identity { first: 70, ..identity }, 700)));
    assert!(!std::ptr::eq(mark, spill.mark(Identity { first: 700, ..identity }, 701)));
    let read = || mark.load(Ordering::Relaxed);
    note(mark, 1_000, 1_400);
    assert_eq!(read(), 1_500);
    note(mark, 1_100, 1_500);
    assert_eq!(read(), 1_500);
    note(mark, 1_101, 1_501);
    assert_eq!(read(), 1_601);
    note(mark, 0, u64::MAX);
    assert_eq!(read(), u64::MAX);
}

#[test]
fn a_snapshot_has_as_many_words_as_is_said() {
    for shards in [1, 2, 63, 64, 65, 1_000, 100_001] {
        let (.., spill) = plan("gcra 1/s burst 10", shards);
        let spill = spill.expect("a spill");
        assert_eq!(spill.words().count() as u64, Spill::words_of(shards, 1));
        assert_eq!(spill.bytes() as u64, 8 * Spill::words_of(shards, 1));
    }
}
