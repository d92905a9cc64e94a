//! Lingering tables: for how long, in how much memory, and how they are reported.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{World, over_and_left};
use tollgate_rules::{Loss, Problem, RuleCache, RuleSet, RuleSettings, RuleText};

/// Rules of one domain with these descriptors.
fn domain(descriptors: &[String]) -> String {
    format!("domain: d\ndescriptors:\n{}", descriptors.concat())
}

/// A limit of 100 that refills one unit a minute.
fn slow(key: &str, capacity: usize) -> String {
    format!(
        "  - key: {key}\n    capacity: {capacity}\n    \
         rate_limit: {{unit: minute, requests_per_unit: 1, algorithm: gcra, burst: 100}}\n"
    )
}

/// A rule that limits nothing.
fn free(key: &str) -> String {
    format!("  - key: {key}\n    rate_limit: {{unlimited: true}}\n")
}

/// Takes one unit, and returns the units left.
#[track_caller]
fn left(world: &World, key: &str) -> u64 {
    over_and_left(&world.check("d", &[&[(key, "x")]]))[0].1
}

fn load(world: &World, descriptors: &[String]) -> Arc<RuleSet> {
    world.load_files(&[&domain(descriptors)])
}

fn lingering(world: &World) -> (usize, u64, u64) {
    let status = world.maker.cache().status();
    (status.lingering_tables, status.lingering_bytes, status.forgotten)
}

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_stated_time_holds_to_the_nanosecond_whatever_the_window() {
    // Two of the 100 units were spent, and one of them has come back after a minute.
    for (seconds, gone, expected) in [
        (90, Duration::from_secs(90) - NANO, 99),
        (90, Duration::from_secs(90), 100),
        // The time to linger is shorter than the window.
        (1, Duration::from_secs(1) - NANO, 98),
        (1, Duration::from_secs(1), 100),
        (0, Duration::ZERO, 100),
    ] {
        let linger_rules = Some(Duration::from_secs(seconds));
        let settings = RuleSettings { linger_rules, ..RuleSettings::default() };
        let world = World::with(&domain(&[slow("user", 64)]), settings);
        assert_eq!((left(&world, "user"), left(&world, "user")), (99, 98));
        load(&world, &[free("keep")]);
        world.clock.advance(gone);
        load(&world, &[slow("user", 64)]);
        assert_eq!(left(&world, "user") + 1, expected, "{seconds} {gone:?}");
    }
}

#[test]
fn what_lingers_takes_no_memory_beyond_its_time() {
    let world = World::new(&domain(&[slow("user", 64), free("keep")]));
    let bytes = world.rules().table_bytes();
    assert_eq!(lingering(&world), (0, 0, 0));
    assert_eq!(load(&world, &[free("keep")]).lingering(), 1);
    let (tables, kept, forgotten) = lingering(&world);
    assert_eq!((tables, forgotten), (1, 0));
    assert!(kept > bytes && kept < bytes + 4_096, "{kept} for a table of {bytes}");
    world.clock.advance(Duration::from_secs(600) - NANO);
    assert_eq!(load(&world, &[free("keep")]).lingering(), 1);
    world.clock.advance(NANO);
    assert_eq!(load(&world, &[free("keep")]).lingering(), 0);
    assert_eq!(lingering(&world), (0, 0, 0));
}

#[test]
fn a_rule_that_comes_back_takes_its_table_out_of_what_lingers() {
    let world = World::new(&domain(&[slow("user", 64), slow("path", 64)]));
    for n in 0..100 {
        assert_eq!(left(&world, "user"), 99 - n);
        assert_eq!(load(&world, &[slow("path", 64)]).lingering(), 1);
        assert_eq!(load(&world, &[slow("user", 64), slow("path", 64)]).lingering(), 0);
    }
    assert_eq!(lingering(&world), (0, 0, 0));
}

#[test]
fn beyond_the_memory_of_all_tables_the_oldest_is_forgotten_and_told() {
    let bytes = World::new(&domain(&[slow("a", 1_000)])).rules().table_bytes();
    // There is room for three tables and their entries.
    let settings = RuleSettings { max_table_bytes: 3 * bytes + 8_192, ..RuleSettings::default() };
    let world = World::with(&domain(&[slow("a", 1_000)]), settings);
    for (key, next) in [("a", "b"), ("b", "c"), ("c", "d")] {
        assert_eq!(left(&world, key), 99);
        let rules = load(&world, &[slow(next, 1_000)]);
        let forgotten: Vec<String> = rules.forgotten().iter().map(ToString::to_string).collect();
        let oldest = "d.a: gcra 1/m burst 100 is gone, and what was spent under it is forgotten: the tables of the rules \
                      in force leave no room for it";
        assert_eq!(forgotten, if next == "d" { vec![oldest] } else { vec![] });
        let total = rules.table_bytes() + lingering(&world).1;
        assert!(total <= 3 * bytes + 8_192, "{total}");
    }
    assert_eq!((lingering(&world).0, lingering(&world).2), (2, 1));
    // A table that was not forgotten comes back; another one is dropped to make room for it.
    load(&world, &[slow("c", 1_000)]);
    assert_eq!(left(&world, "c"), 98);
    load(&world, &[slow("b", 1_000)]);
    assert_eq!(left(&world, "b"), 98);
    load(&world, &[slow("a", 1_000)]);
    assert_eq!(left(&world, "a"), 99, "forgotten");
}

#[test]
fn tables_may_take_all_the_memory_that_they_are_given_and_not_a_byte_more() {
    let rules = domain(&[slow("a", 1_000), slow("b", 500)]);
    let world = World::new(&rules);
    let bytes = world.rules().table_bytes();
    let with = |most| RuleSettings { max_table_bytes: most, ..RuleSettings::default() };
    let exact = World::with(&rules, with(bytes));
    assert_eq!(exact.rules().table_bytes(), bytes);
    // Loading the same rules keeps the tables, which are counted once.
    exact.load(&rules).expect("good rules");
    let cache = RuleCache::new(with(bytes - 1));
    let errors = cache.load(&[RuleText::new("a.yaml", rules)]).expect_err("a byte too much");
    let problem = Problem::TooMuchMemory { bytes, most: bytes - 1, fitting: None };
    assert_eq!(errors.iter().map(|error| &error.problem).collect::<Vec<_>>(), [&problem]);
    assert!(cache.rules().is_none());
}

#[test]
fn many_small_tables_are_bounded_as_few_large_ones() {
    let settings = RuleSettings { max_table_bytes: 1 << 20, ..RuleSettings::default() };
    let world = World::with(&domain(&[slow("k", 1)]), settings);
    for n in 0..2_000 {
        load(&world, &[slow(&format!("k{n}"), 1)]);
    }
    let (tables, bytes, forgotten) = lingering(&world);
    assert!(bytes <= 1 << 20 && tables as u64 + forgotten == 2_000, "{tables} in {bytes}");
    // A table of one key has one cache line; its structure and its entry take more than that.
    assert!((200..1_500).contains(&tables), "{tables}");
}

#[test]
fn with_allow_empty_nothing_is_taken_for_more_than_it_is() {
    let settings = RuleSettings { allow_empty: true, ..RuleSettings::default() };
    for files in [&[][..], &["domain: d"], &["domain: x"]] {
        let world = World::with(&domain(&[slow("user", 64)]), settings.clone());
        assert_eq!(left(&world, "user"), 99);
        let rules = world.load_files(files);
        assert_eq!((rules.rules().len(), rules.kept_domains().count()), (0, 0), "{files:?}");
        assert!(world.check("d", &[&[("user", "x")]]).is_allowed());
        // The table still lingers.
        load(&world, &[slow("user", 64)]);
        assert_eq!(left(&world, "user"), 98);
    }
}

#[test]
fn a_domain_that_is_kept_is_named_until_it_has_rules_again() {
    let world = World::new(&domain(&[slow("user", 64)]));
    let kept = |rules: &RuleSet| rules.kept_domains().map(str::to_owned).collect::<Vec<_>>();
    let other = of_domain("other", 64);
    assert_eq!(kept(&world.load_files(&[&other])), ["d"]);
    assert_eq!(kept(&world.load_files(&[])), ["d", "other"]);
    assert_eq!(kept(&load(&world, &[free("user")])), ["other"]);
    // A domain without limits has nothing to keep.
    assert_eq!(kept(&world.load_files(&[&other])), [""; 0]);
}

#[test]
fn domains_that_are_kept_and_new_ones_together_are_bounded() {
    let small = domain(&[slow("user", 64)]);
    let world = World::new(&small);
    // 63 files of one MiB, and one that leaves just enough room for the retained domain.
    let large = |n: usize| {
        let rule = format!("domain: large{n}\ndescriptors:\n{}#", slow("user", 1));
        let bytes = if n == 63 { (1 << 20) - small.len() } else { 1 << 20 };
        format!("{rule}{}", "x".repeat(bytes - rule.len()))
    };
    let files: Vec<String> = (0..64).map(large).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(world.load_files(&files).domains().count(), 65);
    let domains = |rules: &RuleSet| (rules.domains().count(), rules.kept_domains().count());
    // First the files take as much as before, and then one byte more. With that byte, the domain that has been gone for
    // longest is given up.
    assert_eq!(domains(&world.load_files(&[&small])), (65, 64));
    let rules = world.load_files(&[&format!("{small}#")]);
    assert_eq!(domains(&rules), (64, 63));
    assert_eq!(rules.dropped_domains().collect::<Vec<_>>(), ["large0"]);
}

#[test]
fn a_limit_that_is_changed_back_goes_on_with_its_table_and_says_so() {
    let world = World::new(&domain(&[slow("user", 100)]));
    assert_eq!(left(&world, "user"), 99);
    let rules = load(&world, &[slow("user", 200)]);
    assert_eq!(left(&world, "user"), 99);
    assert_eq!(rules.changes()[0].loss(), Some(Loss::Capacity { before: 100, now: 200 }));
    assert_eq!(
        rules.changes()[0].to_string(),
        "d.user: gcra 1/m burst 100 and begins anew: its table was for 100 clients and is for 200 now"
    );
    let rules = load(&world, &[slow("user", 100)]);
    assert_eq!(
        rules.changes()[0].to_string(),
        "d.user: gcra 1/m burst 100 and goes on with what was spent when it was last so: its table was for \
         200 clients and is for 100 now"
    );
    assert!(!rules.changes()[0].is_kept());
    assert_eq!(left(&world, "user"), 98);
}

#[test]
fn a_rule_that_comes_back_with_another_quota_keeps_what_was_spent() {
    let world = World::new(&domain(&[slow("user", 64), free("keep")]));
    assert_eq!((left(&world, "user"), left(&world, "user")), (99, 98));
    load(&world, &[free("keep")]);
    let rules = load(&world, &[slow("user", 64).replace("100", "50")]);
    assert_eq!(
        rules.changes()[0].to_string(),
        "d.user: gcra 1/m burst 100 is now gcra 1/m burst 50; what was spent stays spent"
    );
    assert_eq!(left(&world, "user"), 47);
}

#[test]
fn a_load_that_is_refused_leaves_what_lingers() {
    let world = World::new(&domain(&[slow("user", 64), free("keep")]));
    assert_eq!(left(&world, "user"), 99);
    load(&world, &[free("keep")]);
    // The rule is back, but a later part of the file is bad.
    let bad = format!("{}  - {{key: ''}}\n", domain(&[slow("user", 64)]));
    assert!(world.load(&bad).is_err());
    assert_eq!(lingering(&world).0, 1);
    load(&world, &[slow("user", 64)]);
    assert_eq!(left(&world, "user"), 98);
}

/// The rule file of a domain with one table.
fn of_domain(name: &str, capacity: usize) -> String {
    domain(&[slow("user", capacity)]).replacen("domain: d", &format!("domain: {name}"), 1)
}

#[test]
fn domains_that_are_gone_give_up_the_memory_that_new_rules_need_the_oldest_first_and_no_more() {
    let bytes = World::new(&of_domain("d", 1_000)).rules().table_bytes();
    // Room for three tables.
    let settings = RuleSettings { max_table_bytes: 3 * bytes, ..RuleSettings::default() };
    let world = World::with(&of_domain("d0", 1_000), settings);
    let cache = world.maker.cache();
    let mut dropped = Vec::new();
    for n in 1..20 {
        let rules = world.load_files(&[&of_domain(&format!("d{n}"), 1_000)]);
        dropped.extend(rules.dropped_domains().map(str::to_owned));
        let kept: Vec<String> = rules.kept_domains().map(str::to_owned).collect();
        let newest: Vec<String> = (0..n).rev().take(2).rev().map(|n| format!("d{n}")).collect();
        assert_eq!(kept, newest);
        assert!(rules.table_bytes() <= 3 * bytes);
        // If the counts of dropped domains find no room to linger, they are reported as forgotten.
        assert_eq!(rules.forgotten().len(), rules.dropped_domains().count());
    }
    assert_eq!(dropped, (0..17).map(|n| format!("d{n}")).collect::<Vec<_>>());
    let status = cache.status();
    assert_eq!((status.refused_loads, status.dropped_domains), (0, 17));
    // A new domain may need the room of several tables. No domain is given up if the new rules would not fit even then.
    let refused = cache.load(&[RuleText::new("a.yaml", of_domain("large", 4_000))]);
    assert!(refused.is_err());
    let rules = cache.rules().expect("those before");
    assert_eq!(rules.kept_domains().collect::<Vec<_>>(), ["d17", "d18"]);
    let rules = world.load_files(&[&of_domain("middle", 1_900)]);
    assert_eq!(rules.dropped_domains().collect::<Vec<_>>(), ["d17", "d18"]);
    assert_eq!(rules.kept_domains().collect::<Vec<_>>(), ["d19"]);
}
