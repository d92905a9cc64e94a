//! The figures in documentation pages that no other test checks. Most of them are in `docs/not-promised.md`.

use crate::common::policy;
use tollgate::{KeyedLimiter, Stats};

fn stats(text: &str) -> Stats {
    KeyedLimiter::<str>::new(policy(text), 1_000_000).unwrap().stats()
}

fn near(value: f64, told: f64) -> bool {
    (value / told - 1.0).abs() < 0.05
}

#[test]
fn tags_have_the_bits_and_the_collisions_that_are_told() {
    let one = stats("gcra 100/s burst 20");
    assert_eq!(one.tag_bits, 36);
    assert!(near(one.collision_probability, 2.85e-10), "{}", one.collision_probability);
    let other = stats("segmented-window 100/m x6");
    assert_eq!(other.tag_bits, 27);
    assert!(near(other.collision_probability, 1.46e-7), "{}", other.collision_probability);
    assert_eq!(stats("fixed-window 100/m").tag_bits, 49);
}

#[test]
fn epochs_last_as_long_as_is_told() {
    assert!(near(stats("gcra 100/s burst 20").epoch.as_secs_f64(), 65.0));
    assert!(near(stats("gcra 100000/s").epoch.as_secs_f64(), 8.0));
}

#[test]
fn a_word_keeps_at_least_the_state_bits_that_are_told() {
    // With 14 state bits the chance of equal bits after a wrap is one in 16,000.
    for text in ["spaced 1/d", "fixed-window 1/s", "gcra 100/s burst 20", "segmented-window 1/d x2"]
    {
        assert!(stats(text).state_bits >= 14, "{text}");
    }
}

#[test]
fn the_policies_that_are_told_to_fit_fit_and_the_others_do_not() {
    let fits = |text: &str| text.parse::<tollgate::Policy>().is_ok();
    assert!(!fits("sliding-window 1000000/s exact") && fits("sliding-window 65535/s exact"));
    assert!(!fits("sliding-window 65536/s exact"));
    assert!(!fits("segmented-window 1000/m x6") && fits("segmented-window 1000/m x3"));
    assert!(!fits("segmented-window 1000/m x4"));
    assert!(fits("gcra 2200000000/s") && !fits("gcra 2300000000/s"));
}

#[test]
fn a_unit_of_one_per_day_comes_at_most_a_tick_early() {
    use tollgate::{ManualClock, Timestamp};
    let wait_secs = |start: u64| {
        let table =
            KeyedLimiter::builder(policy("spaced 1/d")).clock(ManualClock::new()).build(1).unwrap();
        let now = Timestamp::from_secs(start);
        assert!(table.entry("key").at(now).check().is_allowed());
        table.entry("key").at(now).check().into_result().unwrap_err().retry_after_secs().unwrap()
    };
    let earliest = (0..2_000).map(|n| wait_secs(1_000_000 + n * 7)).min();
    // 86,400 s / 4096 is 21.1 s.
    assert_eq!(earliest, Some(86_400 - 21));
}

#[test]
fn unsafe_stands_where_it_is_told_to_and_nowhere_else() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if std::fs::read_to_string(&path).unwrap().contains("unsafe {") {
                found.push(path);
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    sources(&root.join("src"), &mut found);
    found.sort();
    let told = ["src/hash.rs", "src/keyed/memory/shard.rs"];
    assert_eq!(found, told.map(|path| root.join(path)));
    assert!(told.iter().all(|path| include_str!("../SECURITY.md").contains(path)));
}
