//! Rules that are missing for a moment: a file is written in steps, or removed and written anew, or a directory or a
//! domain is empty. A client that has spent a limit finds it spent while the rules are missing, and afterwards.

use std::time::Duration;

use crate::common::{World, over_and_left, stacked, with};
use tollgate_rules::{Code, RuleSettings};

/// The number of clients is that of the bug report, in which all of them were wrongly admitted.
const CLIENTS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

const ONE: &str = "domain: d
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1}
";

const TWO: &str = "  - key: path
    rate_limit: {unit: day, requests_per_unit: 1}
";

const OTHER: &str = "domain: other
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1}
";

fn both() -> String {
    format!("{ONE}{TWO}")
}

/// The number of clients that the rule of this key admits.
#[track_caller]
fn admitted(world: &World, domain: &str, key: &str) -> usize {
    let is_admitted = |client: &&str| world.check(domain, &[&[(key, client)]]).is_allowed();
    CLIENTS.iter().filter(|client| is_admitted(client)).count()
}

/// Rules under which all clients have spent their limits.
#[track_caller]
fn spent(files: &[&str], keys: &[(&str, &str)]) -> World {
    let settings = RuleSettings { default_capacity: Some(64), ..RuleSettings::default() };
    let world = World::with(files[0], settings);
    world.load_files(files);
    for (domain, key) in keys {
        assert_eq!(admitted(&world, domain, key), 8, "{domain} {key}");
        assert_eq!(admitted(&world, domain, key), 0, "{domain} {key}");
    }
    world
}

#[test]
fn a_file_that_is_half_written_keeps_spent_clients_spent() {
    let both = both();
    let world = spent(&[&both], &[("d", "user"), ("d", "path")]);
    // The first half of the file is valid: one rule is unchanged, the other is gone and limits no client.
    world.load_files(&[ONE]);
    assert_eq!(admitted(&world, "d", "user"), 0, "the rule that is there");
    assert_eq!(admitted(&world, "d", "path"), 8, "no rule");
    world.load_files(&[&both]);
    assert_eq!(admitted(&world, "d", "user"), 0);
    assert_eq!(admitted(&world, "d", "path"), 0, "the rule that came back");
}

#[test]
fn a_file_that_is_cut_off_anywhere_gives_no_client_anything_back() {
    let both = both();
    let world = spent(&[&both], &[("d", "user"), ("d", "path")]);
    let mut loaded = 0;
    for end in 0..both.len() {
        loaded += usize::from(world.load(&both[..end]).is_ok());
        world.load(&both).expect("good rules");
        assert_eq!((admitted(&world, "d", "user"), admitted(&world, "d", "path")), (0, 0), "{end}");
    }
    assert!(loaded > 10, "{loaded} halves are good rules");
}

#[test]
fn a_domain_that_becomes_empty_keeps_its_last_good_rules() {
    let cases: [&[&str]; 6] = [
        &[],
        &["domain: d"],
        &["domain: d\ndescriptors: []"],
        // The descriptor is there, but not yet its limit.
        &["domain: d\ndescriptors:\n  - key: user"],
        // The name of the domain is truncated.
        &["domain: x"],
        // The file is removed, and another file of the directory stays.
        &[OTHER],
    ];
    for files in cases {
        let world = spent(&[ONE, OTHER], &[("d", "user"), ("other", "user")]);
        world.load_files(files);
        assert_eq!(admitted(&world, "d", "user"), 0, "{files:?}");
        assert_eq!(admitted(&world, "other", "user"), 0, "{files:?}");
        // The retained rules also survive a second load of the same files.
        world.load_files(files);
        world.load_files(&["domain: y"]);
        assert_eq!(admitted(&world, "d", "user"), 0, "{files:?}");
        world.load_files(&[ONE, OTHER]);
        assert_eq!(admitted(&world, "d", "user"), 0, "{files:?}");
    }
}

#[test]
fn while_a_domain_is_empty_the_rules_of_others_change() {
    let world = spent(&[ONE, OTHER], &[("d", "user"), ("other", "user")]);
    world.load_files(&["domain: d", &OTHER.replace("unit: 1", "unit: 2")]);
    assert_eq!(admitted(&world, "other", "user"), 8, "one more each");
    assert_eq!(admitted(&world, "d", "user"), 0);
    world.load_files(&["domain: d\ndescriptors:\n  - key: new\n    rate_limit: {unlimited: true}"]);
    assert_eq!(
        admitted(&world, "d", "user"),
        8,
        "a rule that says that nothing is limited is believed"
    );
}

/// One rule whose limit refills so slowly that `remaining` shows whether the limit was remembered.
fn slow(unit: &str) -> String {
    format!(
        "domain: d\ndescriptors:\n  - key: user\n    \
         rate_limit: {{unit: {unit}, requests_per_unit: 1, algorithm: gcra, burst: 100}}\n{KEEP}"
    )
}

/// A rule that stays, so that the domain is not empty.
const KEEP: &str = "  - key: keep\n    rate_limit: {unlimited: true}\n";

const KEPT: &str = "domain: d\ndescriptors:\n  - key: keep\n    rate_limit: {unlimited: true}\n";

/// The units left of 100 after all were spent, the rule was gone for this long, and one request was made.
fn left_after(unit: &str, gone: Duration, settings: RuleSettings) -> u64 {
    let world = World::with(&slow(unit), settings);
    for _ in 0..100 {
        assert_eq!(world.check("d", &[&[("user", "x")]]).code(), Code::Ok);
    }
    assert_eq!(world.check("d", &[&[("user", "x")]]).code(), Code::OverLimit);
    world.load(KEPT).expect("good rules");
    world.clock.advance(gone);
    world.load(&slow(unit)).expect("good rules");
    over_and_left(&world.check("d", &[&[("user", "x")]]))[0].1
}

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn what_was_spent_lingers_for_ten_minutes_or_the_window_to_the_nanosecond() {
    let left = |unit, gone| left_after(unit, gone, RuleSettings::default());
    let ten = Duration::from_secs(600);
    // One unit refills in a minute, so just before ten minutes nine have refilled. This request takes one of them.
    assert_eq!(left("minute", ten - NANO), 8);
    assert_eq!(left("minute", ten), 99);
    let hour = Duration::from_secs(3_600);
    assert_eq!(left("hour", ten), 0);
    assert_eq!(left("hour", hour - NANO), 0);
    assert_eq!(left("hour", hour), 99);
}

#[test]
fn a_number_that_is_cut_off_loses_nothing() {
    let sized = |capacity: &str| {
        let limit = "rate_limit: {unit: day, requests_per_unit: 1}";
        with(&format!("key: user\n    capacity: {capacity}\n    {limit}"))
    };
    let world = spent(&[&sized("1000")], &[("d", "user")]);
    for cut in ["1", "10", "100", "1000"] {
        world.load(&sized(cut)).expect("good rules");
    }
    assert_eq!(admitted(&world, "d", "user"), 0);
}

#[test]
fn one_of_stacked_limits_that_comes_back_finds_what_was_spent() {
    let (hour, day) = ("unit: hour, requests_per_unit: 9", "unit: day, requests_per_unit: 1");
    let world = spent(&[&stacked(&[hour, day])], &[("d", "user")]);
    world.load(&stacked(&[hour])).expect("good rules");
    assert_eq!(admitted(&world, "d", "user"), 8, "the hour has room");
    // Two equal limits: one takes the table, the other starts empty.
    world.load(&stacked(&[day, hour, day])).expect("good rules");
    assert_eq!(admitted(&world, "d", "user"), 0);
}

#[test]
fn stacked_limits_that_come_back_go_on_each_with_its_own_table() {
    let (hour, day) = ("unit: hour, requests_per_unit: 9", "unit: day, requests_per_unit: 20");
    for [first, second] in [[hour, day], [day, hour]] {
        let rule = format!("{KEPT}  - key: user\n    limits: [{{{first}}}, {{{second}}}]\n");
        let world = World::new(&rule);
        let left = || over_and_left(&world.check("d", &[&[("user", "x")]]))[0].1;
        for n in 1..=9 {
            assert_eq!(left(), 9 - n);
        }
        world.clock.advance(Duration::from_secs(3_600));
        assert_eq!(left(), 8);
        world.load(KEPT).expect("good rules");
        world.load(&rule).expect("good rules");
        assert!(world.rules().changes().is_empty());
        // One unit of the hour's limit is spent, and ten of the day's.
        for n in 2..=9 {
            assert_eq!(left(), 9 - n);
        }
        world.clock.advance(Duration::from_secs(3_600));
        assert_eq!([left(), left(), left()], [1, 0, 0], "{first}");
    }
}

#[test]
fn stacked_limits_that_come_back_with_other_quotas_go_on_each_with_its_own_window() {
    let limits = |hour: u32, day: u32| {
        let [hour, day] = [("hour", hour), ("day", day)]
            .map(|(unit, count)| format!("{{unit: {unit}, requests_per_unit: {count}}}"));
        format!("{KEPT}  - key: user\n    limits: [{day}, {hour}]\n")
    };
    let world = World::new(&limits(9, 20));
    let left = || over_and_left(&world.check("d", &[&[("user", "x")]]))[0].1;
    for n in 1..=9 {
        assert_eq!(left(), 9 - n);
    }
    world.clock.advance(Duration::from_secs(3_600));
    assert_eq!(left(), 8);
    world.load(KEPT).expect("good rules");
    world.load(&limits(10, 21)).expect("good rules");
    // One unit of the hour's limit was spent, and ten of the day's.
    assert_eq!([left(), left()], [8, 7]);
}
